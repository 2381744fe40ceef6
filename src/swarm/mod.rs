//! Swarm services that are delegates: read from the documents of a manager, and updated by their specs.
//!
//! `read` makes a [`Managed`] of the documents, `spec` makes the next spec of the present one; both are pure. `execute`
//! takes the steps.

mod execute;
mod read;
mod spec;

pub use execute::execute;
pub use read::read;
pub use spec::{Defaults, warnings, with_image, with_record};

use serde_json::Value;

use crate::managed::Managed;

/// A service, and the documents that it was read from.
#[derive(Clone, Debug)]
pub struct Service {
    /// What it says.
    pub managed: Managed,
    /// As the engine wrote it, without defaults.
    pub document: Value,
}

impl Service {
    /// The version that an update has to name.
    pub fn version(&self) -> u64 {
        self.document
            .pointer("/Version/Index")
            .and_then(Value::as_u64)
            .unwrap_or_default()
    }
}
