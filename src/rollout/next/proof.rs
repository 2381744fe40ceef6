//! Whether a candidate is proven, and what becomes of one that failed.

use std::time::Duration;

use chrono::TimeDelta;

use super::{Decision, is_between_lives, is_left, remove, span, timestamp};
use crate::delegate::{ImageId, Role};
use crate::engine::RunState;
use crate::reason::Reason;
use crate::rollout::{Member, Step};

/// Restarts after which a candidate counts as crashing rather than as slow.
const CRASH_LOOP: u64 = 3;
/// How long a stop and a start that belong together may be apart.
const RESTART: Duration = Duration::from_secs(10);

/// The verdict on a candidate.
pub(super) enum Proof {
    Proven,
    NotYet(Step),
    Failed(String),
}

impl Decision<'_> {
    pub(super) fn prove(&self, candidate: &Member) -> Proof {
        let restarts = candidate.restart_count.max(candidate.watch.most_restarts);
        if restarts >= CRASH_LOOP {
            return Proof::Failed(format!(
                "it keeps crashing: restarted {restarts} times, {}",
                candidate.ending
            ));
        }
        if candidate.has_ended() && !self.may_be_restarting(candidate) {
            return Proof::Failed(format!("{} before it had proven itself", candidate.ending));
        }
        let needed = self.policy.healthy_time;
        let healthy_for = candidate
            .watch
            .healthy_since
            .map(|since| (self.now - since).to_std().unwrap_or_default());
        if healthy_for.is_some_and(|healthy_for| healthy_for >= needed) {
            return Proof::Proven;
        }
        let deadline = candidate.watch.seen_since.unwrap_or(self.now) + span(self.policy.healthy_deadline);
        if self.now >= deadline {
            return Proof::Failed(format!(
                "not healthy for {} s without a break within {} s: {}",
                needed.as_secs(),
                self.policy.healthy_deadline.as_secs(),
                candidate.health.cause
            ));
        }
        let healthy_for = healthy_for.unwrap_or_default();
        let proven = self.now + span(needed.saturating_sub(healthy_for));
        Proof::NotYet(Step::Wait {
            reason: Reason::Proving {
                healthy_for,
                needed,
                verdict: candidate.health.to_string(),
            },
            until: (self.now + self.proof_interval()).min(deadline).min(proven),
        })
    }

    /// One with a restart policy that is seen ended may be between its stop and its start: an engine that restarts, or
    /// a person's `docker restart`.
    pub(super) fn may_be_restarting(&self, member: &Member) -> bool {
        let ended = member
            .finished_at
            .is_some_and(|finished| self.now - finished < span(RESTART));
        member.has_ended() && ended && !member.restart_is_off()
    }

    pub(super) fn proof_interval(&self) -> TimeDelta {
        (span(self.policy.healthy_time) / 6).clamp(TimeDelta::milliseconds(250), TimeDelta::seconds(5))
    }

    /// The rejected one's new name counts the attempts of its image. A name that is taken by an older rejection is
    /// freed first.
    pub(super) fn reject(&self, candidate: &Member, cause: String) -> Step {
        let mut pending = None;
        if is_between_lives(candidate)
            && let Some(step) = self.stop(candidate, &mut pending)
        {
            return step;
        }
        let mut attempt = self
            .last_rejection(&candidate.image_id)
            .map_or(1, |(_, attempt)| attempt.saturating_add(1));
        while let Some(holder) = self
            .rollout
            .failed
            .iter()
            .find(|rejected| rejected.role == Role::Failed { attempt })
        {
            if is_left(holder) {
                return remove(holder);
            }
            attempt = attempt.saturating_add(1);
        }
        Step::Reject {
            id: candidate.id.clone(),
            to: Role::Failed { attempt }.name(&self.rollout.name),
            image: candidate.image.clone(),
            cause,
        }
    }

    pub(super) fn last_rejection(&self, image: &ImageId) -> Option<(&Member, u32)> {
        self.rollout
            .failed
            .iter()
            .rev()
            .find_map(|rejected| match rejected.role {
                Role::Failed { attempt } if rejected.image_id == *image => Some((rejected, attempt)),
                _ => None,
            })
    }
}

/// Whether the candidate had proven itself before the old one gave up the name: it was running by then, and still
/// lives that life. In a stop-first replacement it starts later, and after a reboot it has to prove itself again.
pub(super) fn committed(old: &Member, candidate: &Member) -> bool {
    let Role::Draining { since } = old.role else {
        return false;
    };
    candidate.state == RunState::Running
        && old.is_up()
        && candidate
            .started_at
            .is_some_and(|started| started < timestamp(since))
}

pub(super) fn refusal(candidate: &Member) -> Option<String> {
    candidate
        .watch
        .start_refused
        .as_ref()
        .or(candidate.start_error.as_ref())
        .map(|error| format!("it could not be started: {error}"))
}
