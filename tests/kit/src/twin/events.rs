//! The events of the twin's containers, with their times and causes.

use super::container::At;

/// An event on the host, by command or by itself.
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

/// The cause of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// Its process, its restart policy, or the deadline of a stop.
    #[default]
    Itself,
    /// The call of that index.
    Call(usize),
    /// The engine, when it went away or came back.
    Engine,
    /// An operator.
    OperatorAction,
}

/// The event of a container.
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
