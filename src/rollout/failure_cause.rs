//! Why a candidate fails.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::Member;
use crate::text::duration;

/// What was wrong with a candidate, or with a successor that had taken over already. `ending` is how its last life
/// ended, and `health` what its last health check saw, in words.
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
        /// The time it had, extended or not.
        within: Duration,
        health: String,
    },
    #[error("it could not be started: {problem}")]
    StartRefused { problem: String },
    #[error("{ending} after it had taken over")]
    EndedAfterCommit { ending: String },
    #[error("not healthy for {} after it had taken over: {health}", duration::text(*lasting))]
    UnhealthyAfterCommit { lasting: Duration, health: String },
    #[error("delegates with another image became unhealthy with it, for the second time: {peer}")]
    HarmsOthers { peer: String },
    /// Of an upgrader of which two cannot run at once.
    #[error("the helper, an upgrader with this image that was to replace the old one, failed: {cause}")]
    HelperFailed { cause: Box<FailureCause> },
    /// Only the process that rejected it knows.
    #[error("another delegate-upgrader rejected it; its log has the cause")]
    RejectedByAnother,
    /// It is gone, and this program did not remove it.
    #[error("{}", vanished(.problem.as_deref()))]
    Vanished {
        /// Why it could not be started, where that is known.
        problem: Option<String>,
    },
}

fn vanished(problem: Option<&str>) -> String {
    problem.map_or_else(
        || {
            "it disappeared before it had proven itself: someone removed it, or it ran with --rm and stopped"
                .to_owned()
        },
        |problem| format!("it could not be started: {problem}"),
    )
}

impl FailureCause {
    /// Whether the Manager may be to blame. What could not be started needs no Manager to fail.
    pub(super) fn may_be_the_manager(&self) -> bool {
        !matches!(
            self,
            Self::StartRefused { .. } | Self::HelperFailed { .. } | Self::Vanished { problem: Some(_) }
        )
    }

    /// Whether it is an end that somebody else may have brought about.
    pub(super) fn may_be_by_hand(&self) -> bool {
        matches!(
            self,
            Self::Exited { .. } | Self::EndedAfterCommit { .. } | Self::Vanished { problem: None }
        )
    }

    /// The word for this kind of cause, in snake case: the label `cause`.
    pub fn kind(&self) -> &'static str {
        self.into()
    }
}

/// What else than its image kept a candidate from being healthy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommonCause {
    /// What it was, in words.
    pub what: String,
    /// Whether it was that a delegate with another image did no better, and since when.
    pub peer: Option<UnhealthyPeer>,
}

/// Since when a delegate with another image did no better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnhealthyPeer {
    /// Before the candidate was started.
    Before,
    /// Since the candidate was started.
    WithIt,
}

impl From<&str> for CommonCause {
    fn from(what: &str) -> Self {
        Self::from(what.to_owned())
    }
}

impl From<String> for CommonCause {
    fn from(what: String) -> Self {
        Self { what, peer: None }
    }
}

impl std::fmt::Display for CommonCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

/// What was wrong, and whether something else than the image was to blame.
pub(super) struct CandidateFailure {
    pub(super) cause: FailureCause,
    pub(super) common_cause: Option<CommonCause>,
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
