//! Removes the values from a container's configuration that its image provided.
//!
//! This inverts `merge` in the engine's `daemon/commit.go`, which is the same from 20.10 to 29:
//! - `User`, `WorkingDir`, `StopSignal`: the image's value if the owner set none;
//! - `Env`, `Labels`: the image's value for every name that the owner did not set;
//! - `ExposedPorts`, `Volumes`: the union of both;
//! - `Entrypoint`, `Cmd`: the image's command only if the owner set neither, and the image's entry point only if the owner's
//!   is `null`; afterwards, an entry point of one empty string becomes `null`;
//! - `Healthcheck`: field by field.

use serde_json::{Map, Value};

use super::unset::{is_unset, same_or_unset};
use crate::container::{DELEGATE_NAME_VARIABLE, compose};

/// The fields that have the image's value if the owner set none.
pub(super) const SCALARS: [&str; 4] = ["User", "WorkingDir", "StopSignal", "ArgsEscaped"];

/// Keeps in `config` only what the owner set. `image` is the `Config` of the image that it was merged with.
pub(super) fn subtract(
    config: &mut Map<String, Value>,
    image: &Map<String, Value>,
    host_config: &Map<String, Value>,
) {
    for field in SCALARS {
        if same_or_unset(config.get(field), image.get(field)) {
            config.remove(field);
        }
    }
    env(config, image);
    labels(config, image);
    // Keep published ports exposed: `-p` exposes a port whether or not the image does, and the engine publishes only exposed
    // ports.
    keys(config, image, "ExposedPorts", |port| is_bound(host_config, port));
    // This is not about the data of these volumes, which `volumes` carries over by name.
    keys(config, image, "Volumes", |_| false);
    command(config, image);
    healthcheck(config, image);
}

/// Whether a container's entries for one name in its environment come from its image.
///
/// If the owner set no environment at all, the engine takes all entries of the image, and otherwise the first entry of each
/// name. An empty list means that there is no such entry.
pub(super) fn env_is_default(container: &[&str], image: &[&str]) -> bool {
    container == image || (!image.is_empty() && image.get(..1) == Some(container))
}

/// The same, except for the variable that makes a container a delegate, since the next image may lack it.
pub(super) fn env_is_of_image(name: &str, container: &[&str], image: &[&str]) -> bool {
    name != DELEGATE_NAME_VARIABLE && env_is_default(container, image)
}

/// Returns the entries of an environment with this name, in order.
pub(super) fn env_entries<'a>(config: &'a Map<String, Value>, name: &str) -> Vec<&'a str> {
    env_of(config).filter(|entry| env_name(entry) == name).collect()
}

/// Returns all entries of an environment.
pub(super) fn env_of(config: &Map<String, Value>) -> impl Iterator<Item = &str> {
    config
        .get("Env")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// Returns the name in `NAME=value`. An entry without a value consists of the name only.
pub(super) fn env_name(entry: &str) -> &str {
    entry.split_once('=').map_or(entry, |(name, _)| name)
}

fn env(config: &mut Map<String, Value>, image: &Map<String, Value>) {
    let kept: Vec<Value> = env_of(config)
        .filter(|entry| {
            let name = env_name(entry);
            !env_is_of_image(name, &env_entries(config, name), &env_entries(image, name))
        })
        .map(Value::from)
        .collect();
    if let Some(Value::Array(entries)) = config.get_mut("Env") {
        *entries = kept;
    }
}

fn labels(config: &mut Map<String, Value>, image: &Map<String, Value>) {
    if let (Some(Value::Object(labels)), Some(Value::Object(defaults))) =
        (config.get_mut("Labels"), image.get("Labels"))
    {
        let is_composed = compose::made(labels);
        labels.retain(|name, value| {
            defaults.get(name) != Some(value) || (is_composed && compose::is_label(name))
        });
    }
}

/// Removes the keys that the image also has, except those that must be kept.
fn keys(
    config: &mut Map<String, Value>,
    image: &Map<String, Value>,
    field: &str,
    is_kept: impl Fn(&str) -> bool,
) {
    if let (Some(Value::Object(keys)), Some(Value::Object(defaults))) =
        (config.get_mut(field), image.get(field))
    {
        keys.retain(|key, _| !defaults.contains_key(key) || is_kept(key));
    }
}

/// Whether the owner bound this port.
pub(super) fn is_bound(host_config: &Map<String, Value>, port: &str) -> bool {
    host_config
        .get("PortBindings")
        .and_then(Value::as_object)
        .is_some_and(|bindings| bindings.contains_key(port))
}

/// Whether the owner set the entry point and the command. One that the owner did not set comes from the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) own_entrypoint: bool,
    pub(super) own_command: bool,
}

impl Command {
    /// Determines it from a merged configuration.
    ///
    /// If the owner set an entry point, the image's command does not apply, unless that entry point is an empty list. An
    /// owner who repeats the image's entry point without a command differs from an owner who sets nothing by the missing
    /// command. If the image has no command either, the only difference is an empty list instead of `null`, and it shows
    /// only on engines that report `null` in image documents.
    pub(super) fn of(config: &Map<String, Value>, image: &Map<String, Value>) -> Self {
        let (entrypoint, command) = (given(config, "Entrypoint"), given(config, "Cmd"));
        let (image_entrypoint, image_command) = (entrypoint_of_image(image), given(image, "Cmd"));
        let command_is_default = same_or_unset(command, image_command);
        let own = |own_entrypoint, own_command| Self {
            own_entrypoint,
            own_command,
        };
        match entrypoint {
            // The owner cleared the entry point with `[""]` (which needs a command), or the container never had one.
            None if !is_unset(image_entrypoint) => own(true, true),
            Some(_) if entrypoint != image_entrypoint => {
                own(true, !is_unset(entrypoint) || !command_is_default)
            }
            Some(_) if !is_unset(entrypoint) && is_unset(command) => {
                let repeated =
                    !command_is_default || (command.is_some() && image.get("Cmd") == Some(&Value::Null));
                own(repeated, repeated)
            }
            _ => own(false, !command_is_default),
        }
    }
}

/// Returns the entry point that a container gets from its image. One empty string becomes `null` here as well: with
/// `ENTRYPOINT [""]`, an image clears the entry point of its base image.
pub(super) fn entrypoint_of_image(image: &Map<String, Value>) -> Option<&Value> {
    let is_cleared = |entrypoint: &&Value| entrypoint.as_array().is_some_and(|words| *words == [""]);
    given(image, "Entrypoint").filter(|entrypoint| !is_cleared(entrypoint))
}

/// Returns a field's value. `null` counts as no value, but an empty list as a value.
fn given<'a>(config: &'a Map<String, Value>, field: &str) -> Option<&'a Value> {
    config.get(field).filter(|value| !value.is_null())
}

fn command(config: &mut Map<String, Value>, image: &Map<String, Value>) {
    let origin = Command::of(config, image);
    if !origin.own_entrypoint {
        config.insert("Entrypoint".to_owned(), Value::Null);
    } else if given(config, "Entrypoint").is_none() {
        config.insert("Entrypoint".to_owned(), Value::from(vec![""]));
    }
    if !origin.own_command {
        config.insert("Cmd".to_owned(), Value::Null);
    }
}

/// Treats unknown fields as merged in the same way: the engine added such a field in API 1.44.
fn healthcheck(config: &mut Map<String, Value>, image: &Map<String, Value>) {
    if let (Some(slot), Some(Value::Object(defaults))) =
        (config.get_mut("Healthcheck"), image.get("Healthcheck"))
        && let Value::Object(check) = slot
    {
        check.retain(|field, value| !same_or_unset(Some(value), defaults.get(field)));
        if check.is_empty() {
            *slot = Value::Null;
        }
    }
}
