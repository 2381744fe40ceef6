//! The container document: from a container's inspect document to the create body of its successor, and the check that
//! the successor is as intended.
//!
//! Everything here is a pure function over raw JSON, because a typed model drops the fields it does not know. At
//! one version of the API, what inspect shows under `Config`, `HostConfig` and
//! `NetworkSettings.Networks` is what create takes, with few exceptions. Those exceptions are the rules below, each
//! with the fact about the engine that it rests on:
//!
//! | rule | where |
//! |---|---|
//! | defaults of the old image are taken out, so that the new image's apply | `defaults` |
//! | host names the engine made up are left out | `names` |
//! | endpoints keep only what may be set | `networks` |
//! | anonymous volumes come along with their data | `volumes` |
//! | the image and our labels are ours, and nothing that we create has `--rm` | `overrides` |
//! | the helper of an upgrader shares nothing with it that only one can have | `helper` |
//! | a trial shares nothing with the container in service that only one can have, and does nothing | `trial` |
//!
//! Inspect does not show these, so they cannot be kept:
//! - a value the owner gave that is just what the old image says: it is taken for the image's;
//! - a MAC address the owner gave for a network other than the container's first one, which API 1.51 is the last to
//!   show;
//! - from 25 on a MAC address where the network was given by its id: inspect looks it up by the network's name;
//! - what was filled in by the engine when the container was made: `MaskedPaths`, `ReadonlyPaths`, `Ulimits`, `LogConfig`,
//!   `ShmSize`, `Runtime`, `IpcMode`, `CgroupnsMode` are kept as if the owner had set them;
//! - whether a read-only bind (`-v …:ro`) is so with the mounts below it. From 25 on the new one is; one that was asked for
//!   below API 1.44 is not;
//! - with the host's network, whether the host name was given or is the host's own: it is kept;
//! - files that were copied into the container after its creation; those that compose puts there are recognised, and
//!   such a delegate is not upgraded.

mod compare;
mod defaults;
mod dependencies;
mod helper;
mod names;
mod networks;
mod obstacle;
mod overrides;
mod platform;
mod shape;
mod single_instance;
mod trial;
mod unset;
mod volumes;

use std::fmt;

use serde_json::{Map, Value, json};

pub use compare::{Difference, changes, differences, verify};
pub use dependencies::{Dependency, DependencyKind, dependencies, missing_for_create, missing_for_start};
pub use helper::of_helper;
pub use networks::swarm_network;
pub use obstacle::{Obstacle, managed, podman_secret};
pub use overrides::Overrides;
pub(crate) use platform::{image_platform, is_same_image, offered_platforms, platform};
pub use single_instance::{SingleInstance, no_free_port, single_instance_reasons};
pub use trial::{TRIAL_COMMAND, of_trial};
use unset::is_unset;

use crate::container::json::object_at;
use crate::container::{ApiVersion, Inspected};

/// The create call for the successor.
#[derive(Clone, PartialEq)]
pub struct CreateRequest {
    /// The create body. It holds the container's environment, so it is never logged as it is.
    pub body: Value,
    /// The platform the create call must name, `os/architecture[/variant]`: only where the engine's image store
    /// keeps several platforms under one reference, and so would choose the host's own.
    pub platform: Option<String>,
    /// Networks to connect after creation and before start, with the endpoint's settings: below API 1.44, where a
    /// create call takes one endpoint only. The label [`NETWORKS`](crate::container::label::NETWORKS) says the same.
    pub connect: Vec<(String, Value)>,
}

impl fmt::Debug for CreateRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateRequest")
            .field("platform", &self.platform)
            .finish_non_exhaustive()
    }
}

/// The inspect documents of the two images.
#[derive(Clone, Copy)]
pub struct Images<'a> {
    /// The image the container runs, inspected by id: its tag may have moved on.
    pub old: &'a Value,
    /// The image the successor is to run.
    pub new: &'a Value,
}

/// The create call for a container that differs from `old` in its image and the other `overrides` only.
///
/// `api` is the version at which `old` was read and the body will be sent.
///
/// # Errors
/// An [`Obstacle`] where the result could not be faithful.
pub fn create_request(
    old: &Inspected,
    images: Images<'_>,
    overrides: &Overrides<'_>,
    api: ApiVersion,
) -> Result<CreateRequest, Obstacle> {
    check(old, images)?;
    let mut config = old.object("/Config").cloned().unwrap_or_default();
    let mut host_config = old.object("/HostConfig").cloned().unwrap_or_default();
    let no_defaults = Map::new();
    let old_defaults = object_at(images.old, "/Config").unwrap_or(&no_defaults);

    defaults::subtract(&mut config, old_defaults, &host_config);
    names::drop_automatic(&mut config, old);
    volumes::keep_anonymous(&mut host_config, old);
    say_cpus_once(&mut host_config);
    let endpoints = networks::endpoints(&mut config, old, api);
    overrides.apply_to_config(&mut config, old, images.new, &endpoints.connect);
    overrides::without_auto_remove(&mut host_config, old);

    let mut body = config;
    body.insert("HostConfig".to_owned(), Value::Object(host_config));
    if !endpoints.at_create.is_empty() {
        body.insert(
            "NetworkingConfig".to_owned(),
            json!({ "EndpointsConfig": endpoints.at_create }),
        );
    }
    Ok(CreateRequest {
        body: Value::Object(body),
        platform: platform::stored(old),
        connect: endpoints.connect,
    })
}

/// Podman shows `--cpus` also as a period and a quota, and refuses to create a container with all three. On Docker nobody
/// can have set all of them.
fn say_cpus_once(host_config: &mut Map<String, Value>) {
    let fields = ["NanoCpus", "CpuPeriod", "CpuQuota"];
    if !fields.iter().any(|field| is_unset(host_config.get(*field))) {
        host_config.remove("NanoCpus");
    }
}

/// Whether a container of this document can be recreated faithfully from one image to the other.
fn check(old: &Inspected, images: Images<'_>) -> Result<(), Obstacle> {
    shape::check(old, images)?;
    managed(old).or_else(|| podman_secret(old)).map_or(Ok(()), Err)?;
    platform::check(images)
}
