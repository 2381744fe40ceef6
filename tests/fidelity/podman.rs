//! The known losses of Podman's Docker-compatible API, each with the reason. Any other loss there is a failure.

use std::time::Duration;

use crate::trial::SECOND;

/// The upgrader's words before the differences for which it leaves a delegate unchanged.
const LEFT_ALONE: &str = "the new container's configuration would differ: ";

/// The losses (by the beginning of their paths), and the reasons.
const KNOWN: [(&str, &str); 1] = [(
    "/NetworkSettings/Networks/fid-network/MacAddress",
    "it shows the MAC address in use, and not whether the owner chose it",
)];

const PUBLISHED_BY_IT: &str =
    "where all ports are published it shows those that it chose as if they were asked for: not upgraded";

/// The differences of a new container before its start, for which the old one is kept, and the reasons.
const REFUSED: [(&str, &str); 5] = [
    (
        "/HostConfig/PortBindings/3460/tcp",
        "it lists several addresses of a port in any order: not upgraded where that changed",
    ),
    ("/HostConfig/PortBindings/9102/tcp", PUBLISHED_BY_IT),
    ("/HostConfig/PortBindings/9103/udp", PUBLISHED_BY_IT),
    (
        "/Config/Volumes",
        "it shows volumes of images as binds only, so a new one cannot be told from a mistake: not upgraded",
    ),
    (
        "/HostConfig/Binds",
        "it shows volumes of images as binds only, so a new one cannot be told from a mistake: not upgraded",
    ),
];

/// Rows whose option Podman shows together with another one. It then answers 500 to the create call, as to a fault of its
/// own: the second such answer counts as a refusal.
const SHOWN_WITH_ANOTHER: [(&str, &str); 2] = [
    (
        "ipc host",
        "it shows a size of /dev/shm beside it, and refuses both: not upgraded",
    ),
    (
        "ipc none",
        "it shows a size of /dev/shm beside it, and refuses both: not upgraded",
    ),
];

/// The maximum wait for the upgrade of a row that is known to be refused.
pub(crate) fn longest(title: &str) -> Option<Duration> {
    let is_known = SHOWN_WITH_ANOTHER.iter().any(|(row, _)| *row == title);
    is_known.then_some(Duration::from_secs(30))
}

/// The reason why Podman loses this, if it is known.
pub(crate) fn explain(title: &str, loss: &str) -> Option<Vec<&'static str>> {
    let loss = loss.strip_prefix(SECOND).unwrap_or(loss);
    if loss.contains("reason=\"create_refused\"") {
        let row = SHOWN_WITH_ANOTHER.iter().find(|(row, _)| *row == title);
        return row.map(|(_, why)| vec![*why]);
    }
    let Some((_, rest)) = loss.split_once(LEFT_ALONE) else {
        return Some(vec![reason(&KNOWN, loss)?]);
    };
    let differences = rest.split(" container=").next().unwrap_or(rest);
    let differences = differences.split("; ");
    differences
        .map(|difference| reason(&REFUSED, difference))
        .collect()
}

fn reason(known: &[(&str, &'static str)], loss: &str) -> Option<&'static str> {
    let of_path = |begin: &str| {
        let rest = loss.strip_prefix(begin);
        rest.is_some_and(|rest| rest.starts_with([':', '/']))
    };
    let found = known.iter().find(|(begin, _)| of_path(begin));
    found.map(|(_, why)| *why)
}
