//! Whether a candidate is proven, and what becomes of one that failed.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::{At, is_between_lives, is_left, remove, span, timestamp};
use crate::container::RunState;
use crate::container::{ContainerId, ImageId, Role};
use crate::rollout::reason::Reason;
use crate::rollout::{Decision, Fact, FailureCause, Member, Reach, Step};

/// Restarts after which a candidate counts as crashing rather than as slow.
const CRASH_LOOP: u64 = 3;
/// How long a stop and a start that belong together may be apart.
const RESTART: Duration = Duration::from_secs(10);

/// The verdict on a candidate.
pub(super) enum Proof {
    Proven,
    NotYet(Decision),
    Failed(FailureCause),
    /// Something from outside kept it from being healthy: no verdict on its image.
    Inconclusive {
        cause: FailureCause,
        common_cause: String,
    },
}

impl At<'_> {
    pub(super) fn prove(&self, candidate: &Member) -> Proof {
        let restarts = restarts(candidate);
        if keeps_crashing(candidate) {
            return Proof::Failed(FailureCause::CrashLoop {
                restarts,
                ending: candidate.ending.clone(),
            });
        }
        if candidate.has_ended() && !self.may_be_restarting(candidate) {
            let cause = FailureCause::Exited {
                ending: candidate.ending.clone(),
            };
            let patience = span(self.policy.healthy_deadline);
            return verdict(candidate, cause, self.now - patience);
        }
        let needed = self.policy.healthy_time;
        let healthy_for = candidate.history.healthy_for(self.now);
        if healthy_for.is_some_and(|healthy_for| healthy_for >= needed) {
            return Proof::Proven;
        }
        // Extended once where something from outside was in the way.
        let seen = candidate.history.seen_since.unwrap_or(self.now);
        let first = seen + span(self.policy.healthy_deadline);
        let extended = has_common_cause_since(candidate, seen);
        let deadline = if extended {
            first + span(self.policy.healthy_deadline)
        } else {
            first
        };
        if self.now >= deadline {
            let cause = FailureCause::NotHealthyInTime {
                needed,
                within: (deadline - seen).to_std().unwrap_or_default(),
                health: candidate.health.detail.clone(),
            };
            return verdict(candidate, cause, first);
        }
        let healthy_for = healthy_for.unwrap_or_default();
        let proven = self.now + span(needed.saturating_sub(healthy_for));
        Proof::NotYet(Decision::Wait {
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
    ///
    /// An `--rm` candidate vanishes by stopping: a container of its image that is never started stands for it.
    pub(super) fn reject(&self, candidate: &Member, cause: FailureCause) -> Decision {
        if candidate.auto_remove {
            if self.is_marked(candidate) {
                return self.withdraw(candidate, None);
            }
            let replaces = candidate.replaces.as_ref().unwrap_or(&candidate.id);
            let (id, image) = (&candidate.image_id, &candidate.image);
            return self.mark(id, image, replaces, candidate.release, cause, Some(candidate));
        }
        let mut pending = None;
        if is_between_lives(candidate)
            && let Some(step) = self.stop(candidate, &mut pending)
        {
            return step;
        }
        match self.failed_name(&candidate.image_id) {
            Err(holder) => remove(holder),
            Ok(to) => self
                .confirm(Some(candidate), &candidate.image, &cause)
                .unwrap_or_else(|| {
                    Decision::Act(Step::Reject {
                        id: candidate.id.clone(),
                        to,
                        image: candidate.image.clone(),
                        cause,
                    })
                }),
        }
    }

    /// The name for the next rejection of this image, or who has to go to free it.
    fn failed_name(&self, image: &ImageId) -> Result<String, &Member> {
        let mut attempt = self
            .last_rejection(image)
            .map_or(1, |(_, attempt)| attempt.saturating_add(1));
        while let Some(holder) = self
            .rollout
            .failed
            .iter()
            .find(|rejected| rejected.role == Role::Failed { attempt })
        {
            if is_left(holder) {
                return Err(holder);
            }
            attempt = attempt.saturating_add(1);
        }
        Ok(Role::Failed { attempt }.name(&self.rollout.name))
    }

    /// The mark of a rejected `--rm` candidate, which may be gone by now.
    pub(super) fn mark(
        &self,
        id: &ImageId,
        image: &str,
        replaces: &ContainerId,
        release: u64,
        cause: FailureCause,
        candidate: Option<&Member>,
    ) -> Decision {
        match self.failed_name(id) {
            Err(holder) => remove(holder),
            Ok(to) => self.confirm(candidate, image, &cause).unwrap_or_else(|| {
                Decision::Act(Step::CreateQuarantineMarker {
                    id: id.clone(),
                    image: image.to_owned(),
                    to,
                    cause,
                    replaces: replaces.clone(),
                    release,
                })
            }),
        }
    }

    /// What has to be known before one is rejected: without the Manager no delegate is healthy. One that was never
    /// started needs no Manager to fail.
    fn confirm(&self, candidate: Option<&Member>, image: &str, cause: &FailureCause) -> Option<Decision> {
        if candidate.is_some_and(|candidate| candidate.started_at.is_none()) {
            return None;
        }
        let reference = image.parse().ok()?;
        match &self.facts.manager {
            Some(Reach::Reachable) => None,
            None => Some(Decision::Learn(Fact::ManagerReachable { image: reference })),
            Some(Reach::Asking) => Some(Decision::Wait {
                reason: Reason::Confirming {
                    image: image.to_owned(),
                    cause: cause.clone(),
                },
                until: self.now + TimeDelta::milliseconds(500),
            }),
            Some(Reach::Unreachable(problem)) => {
                let common_cause = problem.clone();
                Some(match candidate {
                    Some(candidate) => Decision::Learn(Fact::CommonCause {
                        container: candidate.id.clone(),
                        cause: common_cause,
                    }),
                    // It has vanished already.
                    None => Decision::Rest(Reason::Inconclusive {
                        image: image.to_owned(),
                        cause: cause.clone(),
                        common_cause,
                    }),
                })
            }
        }
    }

    /// Whether an `--rm` candidate was rejected, whatever it looks like now.
    pub(super) fn is_marked(&self, candidate: &Member) -> bool {
        let marks = |failed: &Member| {
            failed.image_id == candidate.image_id
                && failed.replaces == candidate.replaces
                && failed.created_at >= candidate.created_at
        };
        candidate.auto_remove && self.rollout.failed.iter().any(marks)
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

fn restarts(candidate: &Member) -> u64 {
    candidate.restart_count.max(candidate.history.max_restart_count)
}

fn keeps_crashing(candidate: &Member) -> bool {
    restarts(candidate).saturating_sub(candidate.history.excused_restarts) >= CRASH_LOOP
}

/// Whether one that is too late is healthy all the same.
pub(super) fn may_still_be_proven(candidate: &Member) -> bool {
    candidate.health.is_healthy() && !keeps_crashing(candidate)
}

/// A failure counts against the image unless something from outside was in the way since then.
pub(super) fn verdict(candidate: &Member, cause: FailureCause, since: DateTime<Utc>) -> Proof {
    match &candidate.history.common_cause {
        Some((at, outside)) if *at >= since => Proof::Inconclusive {
            cause,
            common_cause: outside.clone(),
        },
        _ => Proof::Failed(cause),
    }
}

pub(super) fn has_common_cause_since(member: &Member, since: DateTime<Utc>) -> bool {
    let common_cause = member.history.common_cause.as_ref();
    common_cause.is_some_and(|(at, _)| *at >= since)
}

pub(super) fn refusal(candidate: &Member) -> Option<FailureCause> {
    let problem = candidate.history.start_refused.clone()?;
    Some(FailureCause::StartRefused { problem })
}
