//! Why a candidate fails.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::Member;
use crate::text::duration;

/// What was wrong with a candidate, or with a successor that had taken over already.
#[derive(Clone, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum FailureCause {
    /// It crashed again and again.
    CrashLoop {
        /// How often the engine restarted it.
        restarts: u64,
        /// How its last life ended.
        ending: String,
    },
    /// It ended before it was proven.
    Exited {
        /// How.
        ending: String,
    },
    /// It was not healthy for long enough, in the time it had for that.
    NotHealthyInTime {
        /// For how long it has to be healthy without a break.
        needed: Duration,
        /// The time it had, extended or not.
        within: Duration,
        /// What its last health check saw.
        health: String,
    },
    /// The engine would not start it.
    StartRefused {
        /// The engine's words.
        problem: String,
    },
    /// It ended after it had taken over.
    EndedAfterCommit {
        /// How.
        ending: String,
    },
    /// It lost its health after it had taken over.
    UnhealthyAfterCommit {
        /// For how long it has not been healthy.
        lasting: Duration,
        /// What its last health check saw.
        health: String,
    },
    /// It vanished before it was proven, and this program did not remove it.
    Vanished {
        /// Its image's reference.
        image: String,
        /// Why it could not be started, where that is known.
        problem: Option<String>,
    },
}

impl FailureCause {
    /// The word for this kind of cause, in snake case: the label `cause`.
    pub fn kind(&self) -> &'static str {
        self.into()
    }
}

/// What was wrong, and whether something else than the image was to blame.
pub(super) struct CandidateFailure {
    pub(super) cause: FailureCause,
    pub(super) common_cause: Option<String>,
}

impl CandidateFailure {
    /// A failure counts against the image unless a common cause was seen since then.
    pub(super) fn of(member: &Member, cause: FailureCause, since: DateTime<Utc>) -> Self {
        let common_cause = member.history.common_cause.as_ref();
        let common_cause = common_cause.filter(|(at, _)| *at >= since);
        Self {
            cause,
            common_cause: common_cause.map(|(_, common_cause)| common_cause.clone()),
        }
    }
}

impl fmt::Display for FailureCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CrashLoop { restarts, ending } => {
                write!(f, "it keeps crashing: restarted {restarts} times, {ending}")
            }
            Self::Exited { ending } => write!(f, "{ending} before it had proven itself"),
            Self::NotHealthyInTime {
                needed,
                within,
                health,
            } => write!(
                f,
                "not healthy for {} without a break within {}: {health}",
                duration::text(*needed),
                duration::text(*within)
            ),
            Self::StartRefused { problem }
            | Self::Vanished {
                problem: Some(problem),
                ..
            } => write!(f, "it could not be started: {problem}"),
            Self::EndedAfterCommit { ending } => write!(f, "{ending} after it had taken over"),
            Self::UnhealthyAfterCommit { lasting, health } => write!(
                f,
                "not healthy for {} after it had taken over: {health}",
                duration::text(*lasting)
            ),
            Self::Vanished { problem: None, .. } => f.write_str(
                "it disappeared before it had proven itself: someone removed it, or it ran with --rm and stopped",
            ),
        }
    }
}
