//! The log of the calls to the twin, and the faults that a test injects.

use std::time::Duration;

use delegate_upgrader::container::ContainerId;
use delegate_upgrader::engine::EngineError;

/// One call of the `Engine` trait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number, from 0.
    pub index: usize,
    /// Its time after the twin's beginning.
    pub at: Duration,
    /// Which client made it: see [`Twin::client`](super::Twin::client).
    pub client: usize,
    /// The container it is about, if there is one.
    pub id: Option<ContainerId>,
    /// Which call.
    pub operation: Operation,
    /// The name of the container it was about at that time, or else the id, image or name given.
    pub subject: String,
    /// Its other argument: a new name, a policy, a grace.
    pub detail: String,
    /// The caller's result; `None` while it waits, and forever if it went away.
    pub outcome: Option<Result<(), EngineError>>,
}

impl Call {
    /// Whether it can change anything on the host.
    pub fn is_write(&self) -> bool {
        self.operation.is_write()
    }
}

/// The calls of the `Engine` trait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    Info,
    Storage,
    Identity,
    Volumes,
    CreateVolume,
    RemoveVolume,
    Containers,
    Inspect,
    InspectImage,
    Pull,
    Create,
    Connect,
    Start,
    Stop,
    Restart,
    Rename,
    SetRestartPolicy,
    CreateExec,
    StartExec,
    ExecExitCode,
    Logs,
    MemoryUsage,
    CopiedFiles,
    Watch,
    Remove,
    RemoveImage,
    Distribution,
}

impl Operation {
    /// Whether it can change anything on the host.
    pub fn is_write(self) -> bool {
        !matches!(
            self,
            Self::Info
                | Self::Storage
                | Self::Identity
                | Self::Volumes
                | Self::Containers
                | Self::Inspect
                | Self::InspectImage
                | Self::ExecExitCode
                | Self::Logs
                | Self::MemoryUsage
                | Self::CopiedFiles
                | Self::Watch
                | Self::Distribution
        )
    }
}

/// A fault of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// It has no effect and the caller sees an error.
    ErrBefore,
    /// It has its effect and the caller sees an error.
    ErrAfter,
    /// It has no effect and the caller waits until its timeout, as the real client does: a minute.
    Hang,
    /// It has its effect and the caller waits until its timeout.
    HangAfter,
    /// The engine answers with this status, and does nothing.
    Refuse(u16),
    /// The engine answers with this status and these words, and does nothing.
    RefuseWith(u16, &'static str),
    /// The engine reports success, and does nothing; only for calls whose answer is just their success.
    Ignore,
    /// The engine's answer is too long to be read.
    TooMuch,
    /// It arrives twice in a row, as after a proxy's retry, and the caller gets the second answer.
    Twice,
    /// No fault, but the call takes this much longer; half of it before its effect.
    Slow(Duration),
}

/// The timeout of the real client, and so the longest time that a call can hang.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(60);

/// Chooses a fault for each call.
pub(super) type FaultHook = Box<dyn FnMut(&Call) -> Fault + Send>;
