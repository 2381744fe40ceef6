//! Why a candidate is rejected.

use std::fmt;
use std::time::Duration;

use crate::text::duration;

/// The failure of a candidate, or of a successor in service, with how its last life ended, or its last health check.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs, reason = "the sentence of each says what it is")]
pub enum FailureCause {
    #[error("it keeps crashing: restarted {restarts} times, {ending}")]
    CrashLoop { restarts: u64, ending: String },
    #[error("{ending} before it had proven itself")]
    Exited { ending: String },
    #[error("not healthy for {} without a break within {}: {health}", duration::text(*needed), duration::text(*within))]
    NotHealthyInTime {
        needed: Duration,
        within: Duration,
        health: String,
    },
    #[error("Docker could not start it: {problem}")]
    StartRefused { problem: String },
    #[error("{ending} after it had taken over")]
    EndedAfterCommit { ending: String },
    #[error("not healthy for {} after it had taken over: {health}", duration::text(*lasting))]
    UnhealthyAfterCommit { lasting: Duration, health: String },
    /// For an upgrader that cannot run twice at once.
    #[error("the helper, an upgrader with this image that was to replace the old one, failed: {ending}")]
    HelperFailed { ending: String },
    /// For an upgrader: to stay up is not enough.
    #[error("it did not take the upgrader's name within {}, so it is not an upgrader that works here", duration::text(*within))]
    NameNotTaken { within: Duration },
    /// For a workload of an orchestrator, in whose words the problem is.
    #[error("{problem}")]
    RolloutFailed { problem: String },
    /// Only the process that rejected it knows.
    #[error("another delegate-upgrader rejected it; its log has the cause")]
    RejectedByAnother,
}

impl FailureCause {
    /// The word for this kind of cause, in snake case: the label `cause`.
    pub fn kind(&self) -> &'static str {
        self.into()
    }
}

/// Why a candidate is rejected, and other known problems at that time. Those decide nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The candidate's own failure.
    pub cause: FailureCause,
    /// Other problems at that time.
    pub circumstances: Vec<String>,
}

impl From<FailureCause> for Rejection {
    fn from(cause: FailureCause) -> Self {
        let circumstances = Vec::new();
        Self { cause, circumstances }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cause)?;
        for (index, circumstance) in self.circumstances.iter().enumerate() {
            let before = if index == 0 { " (at that time, " } else { ", and " };
            write!(f, "{before}{circumstance}")?;
        }
        if self.circumstances.is_empty() {
            Ok(())
        } else {
            f.write_str(")")
        }
    }
}
