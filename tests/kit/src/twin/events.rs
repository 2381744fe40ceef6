//! The events of the twin: what happened to containers, when, and who caused it.

use chrono::{DateTime, Utc};
use delegate_upgrader::container::ContainerId;
use delegate_upgrader::engine::{EventKind, HostEvent};

use super::container::At;
use super::state::State;

/// So many events an engine remembers.
const REMEMBERED: usize = 256;

/// Something that happened on the host, by command or by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub at: At,
    pub id: String,
    /// Its name at that time.
    pub name: String,
    /// The id of its image.
    pub image: String,
    pub what: Happened,
    pub cause: Cause,
}

/// What caused an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// Its process, its restart policy, or the deadline of a stop.
    #[default]
    Itself,
    /// The call of that index.
    Call(usize),
    /// The engine, as it went away or came back.
    Engine,
    /// An operator.
    OperatorAction,
}

/// What happened to a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happened {
    Created,
    Started,
    /// Its start was refused, after it had been connected to its networks.
    NotStarted,
    /// Its stop signal arrived for the first time in this life.
    Signalled,
    /// Another signal was sent to it by request: a further stop, or a kill.
    SignalledAgain,
    Exited {
        code: i64,
    },
    Renamed {
        from: String,
    },
    Removed,
}

impl State {
    /// The events that the engine still remembers, since then. It forgets them when it ends.
    pub(super) fn told(&self, since: DateTime<Utc>) -> Vec<HostEvent> {
        let events = self.events.get(self.forgotten_events..).unwrap_or_default();
        let last = events.len().saturating_sub(REMEMBERED);
        let events = events[last..].iter();
        let since = events.filter(|event| self.wall(event.at) >= since);
        let told = since.flat_map(|event| {
            let kinds = match &event.what {
                Happened::Started => vec![EventKind::Started],
                Happened::NotStarted => vec![EventKind::Disconnected],
                Happened::Signalled | Happened::SignalledAgain => vec![EventKind::Signalled {
                    signal: "15".to_owned(),
                }],
                Happened::Renamed { .. } => vec![EventKind::Renamed],
                Happened::Exited { .. } => vec![EventKind::Other, EventKind::Disconnected],
                Happened::Created | Happened::Removed => vec![EventKind::Other],
            };
            kinds.into_iter().map(|kind| HostEvent {
                id: ContainerId::new(event.id.clone()),
                name: if kind == EventKind::Disconnected {
                    String::new()
                } else {
                    event.name.clone()
                },
                kind,
            })
        });
        told.collect()
    }
}
