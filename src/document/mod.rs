//! Turns a container's inspect document into the create body of its successor, and checks that the successor is as intended.
//!
//! Everything here is a pure function over raw JSON, because a typed model drops unknown fields. With one API version, a
//! create call accepts what inspect shows under `Config`, `HostConfig` and `NetworkSettings.Networks`, with few exceptions.
//! The rules below handle those exceptions, and each module states the fact about the engine that its rule depends on:
//!
//! | rule | module |
//! |---|---|
//! | defaults of the old image are removed, so that the new image's apply | `defaults` |
//! | host names that the engine generated are removed | `names` |
//! | endpoints keep only the fields that a client may set | `networks` |
//! | anonymous volumes are kept with their data | `volumes` |
//! | a change of settings replaces nothing but what it names | `new_settings` |
//! | the image and our labels are ours, and nothing that we create has `--rm` | `overrides` |
//! | the helper of an upgrader shares nothing with it that only one container can have | `helper` |
//! | a trial shares nothing with the running container that only one can have, and does nothing | `trial` |
//!
//! Inspect does not show the following, so it cannot be kept:
//! - a value from the owner that equals the old image's value: it counts as the image's;
//! - a MAC address that the owner set for a network other than the container's first one; API 1.51 is the last version to
//!   show it;
//! - since 25, a MAC address if the network was given by id: inspect looks it up by the network's name;
//! - values that the engine filled in at creation: `MaskedPaths`, `ReadonlyPaths`, `Ulimits`, `LogConfig`, `ShmSize`,
//!   `Runtime`, `IpcMode`, `CgroupnsMode` are kept as if the owner had set them;
//! - whether a read-only bind (`-v …:ro`) also covers the mounts below it. Since 25 the new one does; one that was created
//!   below API 1.44 does not;
//! - in the host's network, whether the host name was given or is the host's own: it is kept;
//! - files that were copied into the container after its creation. Files that Compose copies are recognised, and a delegate
//!   with such files is not upgraded.

mod compare;
mod defaults;
mod dependencies;
mod helper;
mod names;
mod networks;
mod new_settings;
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
pub use dependencies::{Dependency, dependencies, missing_dependency};
pub use helper::of_helper;
pub use networks::swarm_network;
pub use new_settings::{IDENTITY, MemoryLimit, NewSettings, of_former};
pub use obstacle::{DependencyKind, Obstacle, managed, podman_secret};
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
    /// The create body. It contains the container's environment, so it is never logged unchanged.
    pub body: Value,
    /// The platform for the create call, `os/architecture[/variant]`. Set only if the engine's image store keeps several
    /// platforms under one reference, and would otherwise choose the host's own.
    pub platform: Option<String>,
    /// The networks to connect between creation and start, with the endpoints' settings. Used below API 1.44, where a create
    /// call accepts only one endpoint. The label [`NETWORKS`](crate::container::label::NETWORKS) has the same content.
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
    /// The image that the container runs, inspected by id, since its tag may point to another image by now.
    pub old: &'a Value,
    /// The image that the successor will run.
    pub new: &'a Value,
}

/// Makes the create call for a container that differs from `old` only in its image and the other `overrides`.
///
/// `api` is the API version with which `old` was read and the body will be sent.
///
/// # Errors
/// An [`Obstacle`] if the result could not be faithful.
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
    if old.auto_remove() {
        // If Docker removed the container, there would be no evidence and no container to restore.
        host_config.insert("AutoRemove".to_owned(), Value::from(false));
    }

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

/// Podman also shows `--cpus` as a period and a quota, but refuses to create a container with all three. On Docker, no
/// container can have all three.
fn say_cpus_once(host_config: &mut Map<String, Value>) {
    let fields = ["NanoCpus", "CpuPeriod", "CpuQuota"];
    if !fields.iter().any(|field| is_unset(host_config.get(*field))) {
        host_config.remove("NanoCpus");
    }
}

/// Checks whether a container with this document can be recreated faithfully with the new image.
fn check(old: &Inspected, images: Images<'_>) -> Result<(), Obstacle> {
    shape::check(old, images)?;
    managed(old).or_else(|| podman_secret(old)).map_or(Ok(()), Err)?;
    platform::check(images)
}
