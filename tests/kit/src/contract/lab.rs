//! The labs in which the contract is checked: an engine, and the means to create images for it.

use std::future::Future;
use std::sync::atomic::{AtomicU16, Ordering};

use delegate_upgrader::container::ContainerId;
use delegate_upgrader::engine::Engine;
use serde_json::{Value, json};

use crate::twin::{Behaviour, OperatorAction, Twin};

pub use super::real::RealLab;

/// An engine, and the means that a test needs around it.
pub trait Lab {
    /// The engine under test.
    type Engine: Engine;

    /// The engine under test.
    fn engine(&self) -> &Self::Engine;

    /// A container name that no other test has.
    fn name(&self, base: &str) -> String;

    /// Creates an image under that reference whose containers behave this way.
    fn image_named(&self, reference: &str, behaviour: Behaviour) -> impl Future<Output = ()>;

    /// Creates an image whose containers behave this way, and returns its reference.
    fn image(&self, behaviour: Behaviour) -> impl Future<Output = String>;

    /// Copies a file with the current time into a container, as Compose does with a config.
    fn copy_in(&self, id: &ContainerId, path: &str) -> impl Future<Output = ()>;

    /// Carries out an operator's action on the host.
    fn by_hand(&self, action: OperatorAction) -> impl Future<Output = Result<(), String>>;

    /// Creates a network, and returns its name.
    fn network(&self) -> impl Future<Output = String>;

    /// The smallest create body for an image.
    fn body(&self, reference: &str) -> Value;

    /// `Binds` with a file of the host.
    fn fragile_binds(&self) -> Value;

    /// Removes that file: containers with these binds can no longer start.
    fn take_away(&self);
}

/// The in-memory engine as a lab.
#[derive(Default)]
pub struct TwinLab {
    twin: Twin,
    serial: AtomicU16,
}

impl TwinLab {
    fn next(&self) -> u16 {
        self.serial.fetch_add(1, Ordering::Relaxed)
    }
}

impl Lab for TwinLab {
    type Engine = Twin;

    fn engine(&self) -> &Twin {
        &self.twin
    }

    fn name(&self, base: &str) -> String {
        format!("contract-{base}")
    }

    async fn image_named(&self, reference: &str, behaviour: Behaviour) {
        let image = self.twin.image(behaviour);
        self.twin.add_image(reference, image);
    }

    async fn image(&self, behaviour: Behaviour) -> String {
        let reference = format!("contract/image-{}:1", self.next());
        self.image_named(&reference, behaviour).await;
        reference
    }

    async fn copy_in(&self, id: &ContainerId, path: &str) {
        self.twin.copy_in(id.as_str(), path);
    }

    async fn by_hand(&self, action: OperatorAction) -> Result<(), String> {
        self.twin.by_hand(action).map_err(|error| error.to_string())
    }

    async fn network(&self) -> String {
        let name = format!("contract-network-{}", self.next());
        self.twin.add_network(&name);
        name
    }

    fn body(&self, reference: &str) -> Value {
        json!({ "Image": reference, "Labels": {}, "Env": [], "HostConfig": {} })
    }

    fn fragile_binds(&self) -> Value {
        json!([])
    }

    fn take_away(&self) {
        self.twin.break_runtime(Some("error mounting: not a directory"));
    }
}
