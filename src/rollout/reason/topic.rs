//! When a reason is worth another line in the log.

use std::time::Duration;

use super::{HeldBack, Reason};

/// An answer that takes longer is worth a word.
pub(crate) const WORTH_A_WORD: Duration = Duration::from_secs(2);

impl Reason {
    /// The reason without what changes by itself: with the same topic it is not logged again. `None` where it is not logged
    /// yet.
    pub(crate) fn topic(&self) -> Option<String> {
        Some(match self {
            Self::AwaitingAnswer { waited, .. } if *waited < WORTH_A_WORD => return None,
            // It lasts for seconds, and comes again every minute while the Manager is unreachable.
            Self::RestartHeldBack {
                because: HeldBack::AskingManager,
                ..
            } => return None,
            Self::AwaitingAnswer { from, .. } => format!("waiting for {from}"),
            Self::Proving { verdict, .. } => format!("proving {verdict}"),
            Self::WaitingForIdle { .. } | Self::Restarting { .. } => self.kind().as_str().to_owned(),
            Self::RestartBackoff { attempt, .. } => format!("restart {attempt}"),
            Self::RestartHeldBack { .. } => self.cause().unwrap_or_default().to_owned(),
            Self::Draining { name, .. } => format!("draining {name}"),
            _ => self.to_string(),
        })
    }
}
