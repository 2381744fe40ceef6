//! The container document: from a container's inspect document to the create body of its successor.
//!
//! Everything here is a pure function over raw JSON, because a typed model drops the fields it does not know. At
//! the engine's own newest API version, what inspect shows under `Config`, `HostConfig` and
//! `NetworkSettings.Networks` is what create takes, with few exceptions. Those exceptions are the rules below, each
//! with the fact about the engine that it rests on:
//!
//! | rule | where |
//! |---|---|
//! | what the old image gave is taken out, so that the new image's defaults apply | `defaults` |
//! | host names the engine made up are left out | [`successor`] |
//! | endpoints keep only what may be set | `networks` |
//! | anonymous volumes come along with their data | `volumes` |
//!
//! What inspect cannot tell, and so nobody can keep:
//! - a value the owner gave that is just what the old image says: it is taken for the image's;
//! - a MAC address the owner gave for a network other than the container's first one. From API 1.52 that of the first
//!   one is not shown either; the engine port adds it as `Config.MacAddress` from an inspect at 1.51;
//! - whether an address in a network of Swarm was asked for: it is taken for one that Swarm chose;
//! - from 25 on a MAC address where the network was given by its id: inspect looks it up by the network's name;
//! - what was filled in by the engine when the container was made: `MaskedPaths`, `ReadonlyPaths`, `Ulimits`, `LogConfig`,
//!   `ShmSize`, `Runtime`, `IpcMode`, `CgroupnsMode` are kept as if the owner had set them;
//! - whether a read-only bind (`-v …:ro`) is so with the mounts below it. From 25 on the new one is; one that was asked for
//!   below API 1.44 is not;
//! - with the host's network, whether the host name was given or is the host's own: it is kept;
//! - files that were copied into the container after its creation; those that compose puts there are recognised, and
//!   such a delegate is left alone.

mod compare;
mod defaults;
mod dependencies;
mod networks;
mod single_instance;
mod volumes;

use std::fmt;

use serde_json::{Map, Value, json};

pub use compare::{Difference, differences};
pub use dependencies::{Dependency, dependencies};
pub use networks::network_of_swarm;
pub use single_instance::{SingleInstance, single_instance_reasons};

use crate::container::ApiVersion;
use crate::container::{ContainerId, label};

/// What a create call for the successor needs.
#[derive(Clone, PartialEq)]
pub struct CreateRequest {
    /// The create body. It holds the container's environment, so it is never logged as it is.
    pub body: Value,
    /// The platform the create call must name, `os/architecture[/variant]`: only where the engine's image store
    /// keeps several platforms under one reference, and so would choose the host's own.
    pub platform: Option<String>,
    /// Networks to connect after creation and before start, with the endpoint's settings: below API 1.44, where a
    /// create call takes one endpoint only.
    pub connect: Vec<(String, Value)>,
}

impl fmt::Debug for CreateRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let networks: Vec<_> = self.connect.iter().map(|(network, _)| network).collect();
        f.debug_struct("Successor")
            .field("platform", &self.platform)
            .field("connect", &networks)
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

/// Why a container cannot be recreated faithfully by us.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// Something else creates and replaces this container.
    #[error("it is managed by {manager} (label {label}), which has to upgrade it")]
    Managed {
        /// Who.
        manager: &'static str,
        /// The label that says so.
        label: &'static str,
    },
    /// Another container has something of it, which its successor cannot give.
    #[error("{}", tied(.what, .container))]
    HasDependent {
        /// The other container's name.
        container: String,
        /// `network`, `pid`, `ipc`, `volumes` or `link`.
        what: &'static str,
    },
    /// It has something of another container that is gone or does not run: nothing can be started with it.
    #[error("{}", adrift(.what, .container))]
    DependencyMissing {
        /// The other container, as the document names it.
        container: String,
        /// `network`, `pid`, `ipc`, `volumes` or `link`.
        what: &'static str,
    },
    /// No engine can rename a container that runs in a network of Swarm (seen on 20.10, and the same code is in 29.7), so
    /// nothing could take its name.
    #[error(
        "it is in the network {network} of Swarm, where Docker cannot rename a container that runs: make it anew with the \
         image, or in a network of this host"
    )]
    SwarmNetwork {
        /// The network.
        network: String,
    },
    /// A file was put into it before it was started, as compose does with a config whose content is in its own file.
    #[error(
        "the file {path} was copied into it before it was started, as compose does with inline configs and secrets, and \
         a successor would lack it: upgrade it with compose, or mount the file"
    )]
    CopiedFile {
        /// Where it is in the container.
        path: String,
    },
    /// The new image is built for another platform.
    #[error("its image is built for {old}, the new one for {new}")]
    OtherPlatform {
        /// The platform it runs, `os/architecture`.
        old: String,
        /// The platform of the new image.
        new: String,
    },
    /// A document is not what the engine's API promises.
    #[error("the {document} document is not understood: {path} must be {expected}")]
    Malformed {
        /// `container`, `old image` or `new image`.
        document: &'static str,
        /// Where, as a JSON pointer.
        path: &'static str,
        /// What was expected there.
        expected: &'static str,
    },
}

fn tied(what: &str, container: &str) -> String {
    if what == dependencies::LINK {
        format!("the container {container} is linked to it, and could not be started again")
    } else {
        format!("the container {container} has its {what}, and would be cut off")
    }
}

fn adrift(what: &str, container: &str) -> String {
    if what == dependencies::VOLUMES {
        format!("it has the volumes of the container {container}, which is gone, so no new one could be made")
    } else if what == dependencies::LINK {
        format!(
            "it is linked to the container {container}, which does not run, so neither it nor a new one could be started"
        )
    } else {
        format!(
            "it lives in the {what} namespace of the container {container}, which does not run, so neither it nor a new one \
             could be started"
        )
    }
}

impl Obstacle {
    /// One word for metrics and logs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Managed { .. } => "managed",
            Self::HasDependent { .. } => "tied",
            Self::DependencyMissing { .. } => "adrift",
            Self::SwarmNetwork { .. } => "swarm-network",
            Self::CopiedFile { .. } => "copied-file",
            Self::OtherPlatform { .. } => "other-platform",
            Self::Malformed { .. } => "malformed",
        }
    }
}

/// Labels by which other managers mark containers that they create and replace themselves.
///
/// Compose is not among them: it accepts a container that was recreated with its labels.
const MANAGERS: [(&str, &str); 8] = [
    ("com.docker.swarm.task.id", "Docker Swarm"),
    ("com.docker.swarm.service.id", "Docker Swarm"),
    ("io.kubernetes.pod.uid", "Kubernetes"),
    ("com.amazonaws.ecs.task-arn", "Amazon ECS"),
    ("com.hashicorp.nomad.alloc_id", "Nomad"),
    ("io.balena.service-id", "the balena supervisor"),
    ("io.rancher.container.uuid", "Rancher"),
    ("PODMAN_SYSTEMD_UNIT", "systemd"),
];

/// The create body of a container that differs from `inspect` in its image only.
///
/// `reference` is the new image as the owner would write it, `labels` are our own of this release; those of the
/// release before are dropped. `api` is the engine's own newest version, at which `inspect` was read and the body
/// will be sent.
///
/// # Errors
/// An [`Obstacle`] where the result could not be faithful.
pub fn successor(
    inspect: &Value,
    images: Images<'_>,
    reference: &str,
    labels: &[(&str, String)],
    api: ApiVersion,
) -> Result<CreateRequest, Obstacle> {
    check("container", inspect, &CONTAINER)?;
    check("old image", images.old, &IMAGE)?;
    check("new image", images.new, &IMAGE)?;
    managed(inspect)?;
    same_platform(images)?;

    let mut config = map(inspect, "/Config").cloned().unwrap_or_default();
    let mut host_config = map(inspect, "/HostConfig").cloned().unwrap_or_default();
    let no_defaults = Map::new();
    let old_defaults = map(images.old, "/Config").unwrap_or(&no_defaults);

    defaults::subtract(&mut config, old_defaults, &host_config);
    config.insert("Image".to_owned(), Value::from(reference));
    set_labels(&mut config, labels, map(images.new, "/Config/Labels"));
    drop_automatic_names(&mut config, inspect);
    volumes::keep_anonymous(&mut host_config, inspect);

    let endpoints = networks::endpoints(&mut config, inspect, api);
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
        platform: stored_platform(inspect),
        connect: endpoints.connect,
    })
}

/// An image that was committed from a container we made has that one's labels. Those of ours would be the successor's
/// too, unless it has them itself: empty, which is none.
fn set_labels(
    config: &mut Map<String, Value>,
    labels: &[(&str, String)],
    of_image: Option<&Map<String, Value>>,
) {
    let slot = config.entry("Labels").or_insert(Value::Null);
    if slot.is_null() {
        *slot = Value::Object(Map::new());
    }
    if let Value::Object(all) = slot {
        all.retain(|name, _| !label::OURS.contains(&name.as_str()));
        let is_on_image = |name: &&str| of_image.is_some_and(|labels| labels.contains_key(*name));
        for name in label::OURS.into_iter().filter(is_on_image) {
            all.insert(name.to_owned(), Value::from(""));
        }
        for (name, value) in labels {
            all.insert((*name).to_owned(), Value::from(value.as_str()));
        }
    }
}

/// Leaves out host names that the engine made up, and those it would refuse.
///
/// Without a host name a container gets the first twelve digits of its own id. In another container's network it
/// shows that container's names, and giving any is a conflict; in the host's UTS namespace too.
fn drop_automatic_names(config: &mut Map<String, Value>, inspect: &Value) {
    let borrowed = text(inspect, "/HostConfig/NetworkMode").starts_with("container:");
    if borrowed || text(inspect, "/HostConfig/UTSMode") == "host" || has_automatic_hostname(inspect) {
        config.remove("Hostname");
    }
    if borrowed {
        config.remove("Domainname");
    }
    let own = automatic_hostname_variable(inspect);
    if let Some(Value::Array(env)) = config.get_mut("Env") {
        env.retain(|entry| *entry != own);
    }
}

/// Podman writes the host name that it made up into the environment too. No owner can have given it.
fn automatic_hostname_variable(inspect: &Value) -> Value {
    Value::from(format!("HOSTNAME={}", short_id(inspect)))
}

fn has_automatic_hostname(inspect: &Value) -> bool {
    text(inspect, "/Config/Hostname") == short_id(inspect)
}

fn managed(inspect: &Value) -> Result<(), Obstacle> {
    let labels = map(inspect, "/Config/Labels");
    MANAGERS
        .iter()
        .find(|(label, _)| labels.is_some_and(|labels| labels.contains_key(*label)))
        .map_or(Ok(()), |(label, manager)| {
            Err(Obstacle::Managed { manager, label })
        })
}

fn same_platform(images: Images<'_>) -> Result<(), Obstacle> {
    match (image_platform(images.old), image_platform(images.new)) {
        (Some(old), Some(new)) if old != new => Err(Obstacle::OtherPlatform { old, new }),
        _ => Ok(()),
    }
}

/// `os/architecture` of an image, in Docker's words. The variant is left out: images often do not say it.
pub(crate) fn image_platform(image: &Value) -> Option<String> {
    platform(text(image, "/Os"), text(image, "/Architecture"))
}

/// `os/architecture` in Docker's words; `None` where one of the two is empty.
pub(crate) fn platform(os: &str, architecture: &str) -> Option<String> {
    let architecture = match architecture {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    (!os.is_empty() && !architecture.is_empty()).then(|| format!("{os}/{architecture}"))
}

/// The platform of the container's manifest. Only stores that keep several platforms show one (API 1.48).
fn stored_platform(inspect: &Value) -> Option<String> {
    let platform = inspect.pointer("/ImageManifestDescriptor/platform")?;
    let os = platform.get("os")?.as_str()?;
    let architecture = platform.get("architecture")?.as_str()?;
    Some(match platform.get("variant").and_then(Value::as_str) {
        Some(variant) if !variant.is_empty() => format!("{os}/{architecture}/{variant}"),
        _ => format!("{os}/{architecture}"),
    })
}

/// What a part of a document may be; `null` and absence are allowed except where a value is needed.
#[derive(Clone, Copy)]
enum Shape {
    Id,
    Needed,
    Object,
    Array,
    Strings,
    Text,
}

impl Shape {
    fn fits(self, value: Option<&Value>) -> bool {
        let value = value.filter(|value| !value.is_null());
        match self {
            Self::Id => value.and_then(Value::as_str).is_some_and(|id| !id.is_empty()),
            Self::Needed => value.is_some_and(Value::is_object),
            Self::Object => value.is_none_or(Value::is_object),
            Self::Array => value.is_none_or(Value::is_array),
            Self::Text => value.is_none_or(Value::is_string),
            Self::Strings => value.is_none_or(|value| {
                value
                    .as_array()
                    .is_some_and(|entries| entries.iter().all(Value::is_string))
            }),
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Self::Id => "an id",
            Self::Needed | Self::Object => "an object",
            Self::Array => "a list",
            Self::Text => "a string",
            Self::Strings => "a list of strings",
        }
    }
}

const CONTAINER: [(&str, Shape); 18] = [
    ("/Id", Shape::Id),
    ("/Config", Shape::Needed),
    ("/Config/Env", Shape::Strings),
    ("/Config/Labels", Shape::Object),
    ("/Config/ExposedPorts", Shape::Object),
    ("/Config/Volumes", Shape::Object),
    ("/Config/Entrypoint", Shape::Strings),
    ("/Config/Cmd", Shape::Strings),
    ("/Config/Healthcheck", Shape::Object),
    ("/Config/Hostname", Shape::Text),
    ("/Config/MacAddress", Shape::Text),
    ("/HostConfig", Shape::Needed),
    ("/HostConfig/NetworkMode", Shape::Text),
    ("/HostConfig/PortBindings", Shape::Object),
    ("/HostConfig/Binds", Shape::Strings),
    ("/HostConfig/Mounts", Shape::Array),
    ("/NetworkSettings/Networks", Shape::Object),
    ("/Mounts", Shape::Array),
];

const IMAGE: [(&str, Shape); 9] = [
    ("", Shape::Needed),
    ("/Config", Shape::Object),
    ("/Config/Env", Shape::Strings),
    ("/Config/Labels", Shape::Object),
    ("/Config/ExposedPorts", Shape::Object),
    ("/Config/Volumes", Shape::Object),
    ("/Config/Entrypoint", Shape::Strings),
    ("/Config/Cmd", Shape::Strings),
    ("/Config/Healthcheck", Shape::Object),
];

fn check(
    document: &'static str,
    value: &Value,
    shapes: &'static [(&'static str, Shape)],
) -> Result<(), Obstacle> {
    for (path, shape) in shapes {
        if !shape.fits(value.pointer(path)) {
            return Err(Obstacle::Malformed {
                document,
                path,
                expected: shape.describe(),
            });
        }
    }
    Ok(())
}

/// The string at a JSON pointer, empty where there is none.
fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn map<'a>(value: &'a Value, pointer: &str) -> Option<&'a Map<String, Value>> {
    value.pointer(pointer).and_then(Value::as_object)
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// The container's id as the engine shortens it for host names and aliases.
fn short_id(inspect: &Value) -> String {
    ContainerId::new(text(inspect, "/Id")).short().to_owned()
}

/// What Go, and so the engine, takes for "not set": null, an empty string, list or object, zero, false.
fn is_unset(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null | Value::Bool(false)) => true,
        Some(Value::Bool(true)) => false,
        Some(Value::Number(number)) => number.as_f64() == Some(0.0),
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(entries)) => entries.is_empty(),
        Some(Value::Object(fields)) => fields.is_empty(),
    }
}

/// Equal to the engine's eyes where "not set" has several spellings.
fn same_or_unset(a: Option<&Value>, b: Option<&Value>) -> bool {
    a == b || (is_unset(a) && is_unset(b))
}
