//! Finds the changes of a container since its candidate was made from it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::volumes;
use super::{Difference, deep, keys, normalise};
use crate::container::Inspected;

/// The most changes to list. Usually there is only one.
const MOST: usize = 3;

/// Describes the settings of a container that have changed since the candidate was made from it, with old and new values.
/// Empty if nothing has changed that the candidate also shows.
pub fn changes(old: &Inspected, candidate: &Inspected) -> String {
    let host_config = |container: &Inspected| container.object("/HostConfig").cloned().unwrap_or_default();
    let (mut before, mut now) = (host_config(candidate), host_config(old));
    volumes::keep_anonymous(&mut now, old);
    normalise::host_configs(&mut before, &mut now);
    // No candidate has `--rm`, and a network may be written in several ways.
    for field in ["AutoRemove", "NetworkMode"] {
        before.remove(field);
        now.remove(field);
    }
    let mut found = Vec::new();
    let [before, now] = [before, now].map(Value::Object);
    deep("/HostConfig", Some(&before), Some(&now), &mut found);
    let networks = [candidate, old].map(|container| container.object("/NetworkSettings/Networks"));
    let has = |side: usize, name: &str| networks[side].is_some_and(|networks| networks.contains_key(name));
    let names: BTreeSet<&str> = keys([networks[0], networks[1], None]);
    for name in names.into_iter().filter(|name| has(0, name) != has(1, name)) {
        let [before, now] = [0, 1].map(|side| Value::Bool(has(side, name)));
        found.push(Difference::new(
            format!("/NetworkSettings/Networks/{name}"),
            Some(&before),
            Some(&now),
        ));
    }
    let shown: Vec<String> = found.iter().take(MOST).map(Difference::as_change).collect();
    shown.join("; ")
}
