//! When a reason deserves another log line.

use std::time::Duration;

use super::{Reason, RestartDeferral};

/// Waits for an answer are logged once they last longer than this.
pub(crate) const WORTH_A_WORD: Duration = Duration::from_secs(2);

impl Reason {
    /// Whether to log another line. `last` is the topic of the last line, and is updated if so.
    pub(crate) fn is_news(&self, last: &mut Option<String>) -> bool {
        let topic = self.topic();
        let is_news = topic.is_some() && topic != *last;
        if is_news {
            *last = topic;
        }
        is_news
    }

    /// The reason without details that change by themselves. `None` if it is not worth a line yet.
    fn topic(&self) -> Option<String> {
        Some(match self {
            Self::AwaitingAnswer { waited, .. } if *waited < WORTH_A_WORD => return None,
            // It lasts for seconds, and recurs every minute while the Manager is unreachable.
            Self::RestartDeferred {
                because: RestartDeferral::AskingManager,
                ..
            } => return None,
            Self::AwaitingAnswer { from, .. } => format!("waiting for {from}"),
            Self::Proving { verdict, .. } => format!("proving {verdict}"),
            Self::WaitingForIdle { .. } | Self::Restarting { .. } => self.kind().as_str().to_owned(),
            Self::RestartBackoff { attempt, .. } => format!("restart {attempt}"),
            Self::RestartDeferred { .. } => self.cause().unwrap_or_default().to_owned(),
            Self::Draining { name, .. } => format!("draining {name}"),
            Self::AlertsUnknown { problem, .. } => format!("alerts unknown: {problem}"),
            _ => self.to_string(),
        })
    }
}
