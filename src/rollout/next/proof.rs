//! The verdict on a candidate, judged by its own behaviour.

use chrono::{DateTime, TimeDelta, Utc};

use super::{At, span};
use crate::container::RunState;
use crate::rollout::pace::{CRASH_LOOP, GRACE, NAME_DEADLINE};
use crate::rollout::reason::Reason;
use crate::rollout::{FailureCause, Member};

/// The state of a candidate's proof.
pub(super) enum Proof {
    /// It was never started.
    Created,
    /// It has been healthy for long enough.
    Proven,
    /// It may still succeed.
    NotYet { reason: Reason, until: DateTime<Utc> },
    /// It will not succeed.
    Failed(FailureCause),
}

impl At<'_> {
    pub(super) fn proof(&self, candidate: &Member) -> Proof {
        let history = &candidate.history;
        let needed = self.policy.healthy_time;
        let healthy_for = history.healthy_for(self.now).unwrap_or_default();
        let seen = history.seen_since.unwrap_or(self.now);
        let deadline = seen + span(self.policy.healthy_deadline);
        // An open health request is awaited first, and a candidate that is healthy at the deadline may still succeed.
        let is_late = self.now >= deadline && !history.is_awaited && !candidate.works();
        let ending = candidate.end();
        let returns = candidate.has_restart_policy();
        let grace = if returns { GRACE } else { TimeDelta::zero() };
        Proof::Failed(match candidate.state {
            RunState::Created | RunState::Exited | RunState::Dead
                if let Some(problem) = history.starts.for_good.clone() =>
            {
                FailureCause::StartRefused { problem }
            }
            RunState::Created => return Proof::Created,
            // It had enough time to take the upgrader's name: to stay up is not enough.
            RunState::Running
                if self.rollout.is_upgrader()
                    && self.facts.name_free_for >= NAME_DEADLINE
                    && self.now - seen >= span(NAME_DEADLINE) =>
            {
                FailureCause::NameNotTaken {
                    within: NAME_DEADLINE,
                }
            }
            _ if candidate.restarts() >= CRASH_LOOP => FailureCause::CrashLoop {
                restarts: candidate.restarts(),
                ending,
            },
            _ if candidate.is_over_for(grace, self.now) => FailureCause::Exited { ending },
            _ if candidate.works() && healthy_for >= needed => return Proof::Proven,
            _ if is_late => FailureCause::NotHealthyInTime {
                needed,
                within: self.policy.healthy_deadline,
                health: candidate.health.detail.clone(),
            },
            _ => {
                let proven = self.now + span(needed.saturating_sub(healthy_for));
                let latest = deadline.max(self.soon());
                let until = (self.now + self.proof_interval()).min(latest).min(proven);
                let reason = Reason::proving(candidate, needed, self.now);
                return Proof::NotYet { reason, until };
            }
        })
    }
}
