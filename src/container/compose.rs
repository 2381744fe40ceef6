//! How Docker Compose labels, names and stops its containers.

use chrono::TimeDelta;
use serde_json::{Map, Value};

use super::Inspected;
use crate::text::duration::span;

/// The label with the project's name. Compose is the only tool known to copy files into a container before it starts.
pub const PROJECT: &str = "com.docker.compose.project";
/// `True` on a container of `docker compose run`, which runs a different command in the service's environment.
pub const ONE_OFF: &str = "com.docker.compose.oneoff";

/// The shortest grace period. By default, Compose stops a container within ten seconds.
const LEAST_GRACE: TimeDelta = TimeDelta::seconds(15);
/// The longest time between a container's end and its removal.
const LONGEST_GRACE: TimeDelta = TimeDelta::seconds(30);

/// Whether Compose made the container with these labels. Images that it builds have labels of Compose, but no number.
pub fn made(labels: &Map<String, Value>) -> bool {
    labels.contains_key("com.docker.compose.container-number")
}

/// Whether Compose uses this label to find its containers. On a container that Compose made, such a label never counts as
/// the image's, even if the image has the same one: the next image may have a different value or none.
pub fn is_label(name: &str) -> bool {
    name.starts_with("com.docker.compose.")
}

/// Whether this is a temporary name from Compose for a container that it replaces, or for the successor: twelve hexadecimal
/// digits and `_` before the container's own name.
pub fn is_temporary_name(name: &str) -> bool {
    name.split_once('_').is_some_and(|(id, rest)| {
        id.len() == 12 && !rest.is_empty() && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// Returns how long after this container's end Compose may still remove it. Zero if Compose did not make it.
pub fn grace(container: &Inspected) -> TimeDelta {
    if container.label(PROJECT).is_none() {
        return TimeDelta::zero();
    }
    let own = span(container.stop_timeout().unwrap_or_default()) + TimeDelta::seconds(5);
    own.clamp(LEAST_GRACE, LONGEST_GRACE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_temporary_names() {
        assert!(is_temporary_name("0123456789ab_team-delegate-1"));
        for name in [
            "team-delegate-1",
            "0123456789ab_",
            "0123456789aB_d",
            "0123456789abc_d",
            "_d",
        ] {
            assert!(!is_temporary_name(name), "{name}");
        }
    }
}
