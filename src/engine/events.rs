//! What an engine tells of what happened on its host.

use crate::container::ContainerId;

/// One event, of a container, an image, a network or anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostEvent {
    /// What happened.
    pub kind: EventKind,
    /// The container that it happened to, or the id of something else.
    pub id: ContainerId,
    /// The container's name at that time; empty where it is the event of something else.
    pub name: String,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A container was started, by request or by its restart policy.
    Started,
    /// Somebody had a signal sent to a container: by a stop, a kill, a restart, or a removal by force. What an engine does
    /// to its containers when it ends is not told, since its memory ends with it.
    Signalled {
        /// The number or name of the signal.
        signal: String,
    },
    /// A container got another name.
    Renamed,
    /// A container was disconnected from a network, as at its end, or after a start that was refused: an engine connects
    /// it before it starts its process. The event has no container's name.
    Disconnected,
    /// Anything else.
    Other,
}
