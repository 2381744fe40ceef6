//! `GET /events`: one JSON document to a line, with all labels of a container in each, and so read line by line.

use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::Method;
use serde::Deserialize;

use super::{DockerEngine, MAX_STREAM_BYTES, READ};
use crate::container::ContainerId;
use crate::engine::{EngineError, EventKind, HostEvent};

/// How long one connection reports changes. A proxy or a firewall may drop it without closing it.
const WATCH: Duration = Duration::from_secs(3600);

/// The changes of containers that an observation shows. An engine matches `health_status` as a prefix of all its kinds.
const WATCHED: &str =
    r#"{"type":["container"],"event":["start","die","pause","unpause","rename","destroy","health_status"]}"#;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Line {
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    action: String,
    actor: Actor,
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

impl DockerEngine {
    pub(super) async fn past_events(&self, since: DateTime<Utc>) -> Result<Vec<HostEvent>, EngineError> {
        let session = self.session().await?;
        let http = &self.shared.http;
        let moment =
            |time: DateTime<Utc>| format!("{}.{:09}", time.timestamp(), time.timestamp_subsec_nanos());
        // Without an end, the engine waits for the next event.
        let request = http
            .request(Method::GET, Some(session.info.api), &["events"], READ)
            .query("since", &moment(since))
            .query("until", &moment(Utc::now()));
        let mut events = Events::default();
        let read = http
            .stream(request, MAX_STREAM_BYTES, |chunk| events.read(chunk))
            .await;
        self.track_session(read).await?;
        Ok(events.all())
    }

    pub(super) async fn watch_containers(
        &self,
        mut report: impl FnMut(&ContainerId) + Send,
    ) -> Result<(), EngineError> {
        let session = self.session().await?;
        let http = &self.shared.http;
        let request = http
            .request(Method::GET, Some(session.info.api), &["events"], WATCH)
            .query("filters", WATCHED);
        let mut events = Events::default();
        let take = |chunk: &[u8]| {
            events.read(chunk);
            events.take().iter().for_each(|event| report(&event.id));
        };
        self.track_session(http.follow(request, usize::MAX, take).await)
            .await
    }
}

/// The events of an answer that arrives in pieces.
#[derive(Default)]
struct Events {
    unread: Vec<u8>,
    events: Vec<HostEvent>,
}

impl Events {
    fn read(&mut self, piece: &[u8]) {
        self.unread.extend_from_slice(piece);
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            self.events.extend(event(&line));
        }
    }

    /// Those that were read since the last call.
    fn take(&mut self) -> Vec<HostEvent> {
        std::mem::take(&mut self.events)
    }

    fn all(mut self) -> Vec<HostEvent> {
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
        kind,
        id: ContainerId::new(id),
        name: if is_container {
            attributes.name
        } else {
            String::new()
        },
    })
}
