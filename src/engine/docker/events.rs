//! `GET /events`: one JSON document to a line, with all labels of a container in each, and so read line by line.

use chrono::DateTime;
use serde::Deserialize;

use crate::container::ContainerId;
use crate::engine::{EventKind, HostEvent};

/// The changes of containers that an observation shows. An engine takes `health_status` for each health that there is.
pub(super) const WATCHED: &str =
    r#"{"type":["container"],"event":["start","die","pause","unpause","rename","destroy","health_status"]}"#;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Line {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    action: String,
    actor: Actor,
    #[serde(rename = "timeNano")]
    nanoseconds: i64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Actor {
    #[serde(rename = "ID", default)]
    id: String,
    #[serde(default)]
    attributes: Attributes,
}

#[derive(Default, Deserialize)]
struct Attributes {
    #[serde(default)]
    name: String,
    #[serde(default)]
    signal: String,
    /// The container that a network's event is about.
    #[serde(default)]
    container: String,
}

/// The events of an answer that arrives in pieces.
#[derive(Default)]
pub(super) struct Events {
    unread: Vec<u8>,
    events: Vec<HostEvent>,
}

impl Events {
    pub(super) fn read(&mut self, piece: &[u8]) {
        self.unread.extend_from_slice(piece);
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            self.events.extend(event(&line));
        }
    }

    /// Those that were read since the last call.
    pub(super) fn take(&mut self) -> Vec<HostEvent> {
        std::mem::take(&mut self.events)
    }

    pub(super) fn all(mut self) -> Vec<HostEvent> {
        self.events.extend(event(&self.unread));
        self.events
    }
}

/// A line that cannot be read is no event of a container.
fn event(line: &[u8]) -> Option<HostEvent> {
    let line: Line = serde_json::from_slice(line).ok()?;
    let is_container = line.r#type == "container";
    let attributes = line.actor.attributes;
    let (kind, id) = match line.action.as_str() {
        "start" if is_container => (EventKind::Started, line.actor.id),
        "rename" if is_container => (EventKind::Renamed, line.actor.id),
        "kill" if is_container => {
            let signal = attributes.signal;
            (EventKind::Signalled { signal }, line.actor.id)
        }
        "disconnect" if line.r#type == "network" => (EventKind::Disconnected, attributes.container),
        _ => (EventKind::Other, line.actor.id),
    };
    Some(HostEvent {
        at: DateTime::from_timestamp_nanos(line.nanoseconds),
        kind,
        id: ContainerId::new(id),
        name: if is_container {
            attributes.name
        } else {
            String::new()
        },
    })
}
