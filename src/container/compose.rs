//! How Docker Compose marks, names and stops its containers.

use chrono::TimeDelta;
use serde_json::{Map, Value};

use super::Inspected;
use crate::text::duration::span;

/// The label with the name of the project. Only Compose is known to copy files into a container before it starts.
pub const PROJECT: &str = "com.docker.compose.project";
/// `True` on the container of a `docker compose run`, which runs another command in the service's environment.
pub const ONE_OFF: &str = "com.docker.compose.oneoff";

/// Compose stops a container within ten seconds, unless the file says otherwise.
const LEAST_GRACE: TimeDelta = TimeDelta::seconds(15);
/// The longest that a removal may follow the container's end.
const LONGEST_GRACE: TimeDelta = TimeDelta::seconds(30);

/// Whether Compose made the container with these labels. It also labels the images that it builds, but without a number.
pub fn made(labels: &Map<String, Value>) -> bool {
    labels.contains_key("com.docker.compose.container-number")
}

/// Whether Compose finds its containers by this label. On a container that it made, the label is never the image's, even if the
/// image has the same: the next image may have another value or none.
pub fn is_label(name: &str) -> bool {
    name.starts_with("com.docker.compose.")
}

/// Whether this is the name that Compose gives, for a moment, to a container that it replaces or to its successor: twelve
/// hexadecimal digits and `_` before the container's own name.
pub fn is_temporary_name(name: &str) -> bool {
    name.split_once('_').is_some_and(|(id, rest)| {
        id.len() == 12 && !rest.is_empty() && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// How long after the end of this container Compose may still remove it: zero if it is not Compose's.
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
