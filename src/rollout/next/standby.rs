//! `--rm` delegates: they vanish by stopping, so a copy that does not is made before anything is done to them. It comes
//! back in their place should the replacement fail, and after an engine's restart, which removes them too.

use chrono::TimeDelta;

use super::proof::refusal;
use super::stopping::waiting;
use super::{At, Proof, is_left, remove, start};
use crate::container::RunState;
use crate::rollout::reason::Reason;
use crate::rollout::{Decision, Member, Step};

/// How long a standby that ended is left alone before it is started again.
const REST: TimeDelta = TimeDelta::seconds(10);

impl At<'_> {
    /// What is missing before a delegate that vanishes by stopping may be replaced.
    pub(super) fn stand_by(&self, serving: &Member) -> Option<Decision> {
        if !serving.auto_remove {
            return None;
        }
        match &self.rollout.standby {
            Some(standby) if standby.is_successor_of(serving) => {
                (!standby.is_created()).then(|| self.take_away(standby))
            }
            Some(standby) if serving.is_up() && serving.health.is_healthy() => Some(self.take_away(standby)),
            Some(_) => Some(Decision::Wait {
                reason: Reason::SuccessorUnhealthy {
                    verdict: serving.health.to_string(),
                },
                until: self.now + self.proof_interval(),
            }),
            None => Some(Decision::Act(Step::CreateStandby {
                from: serving.id.clone(),
            })),
        }
    }

    /// A copy of one that will vanish, where somebody has removed the one that there was: a `docker container prune`
    /// takes whatever does not run. Behind one in service, that one may need a copy of its own by now.
    pub(super) fn copy_of(&self, old: &Member) -> Option<Decision> {
        let wanted = old.auto_remove && old.is_up() && self.rollout.standby.is_none();
        (wanted && self.rollout.serving.is_none())
            .then(|| Decision::Act(Step::CreateStandby { from: old.id.clone() }))
    }

    /// Whether a copy of this one stands by.
    pub(super) fn has_standby(&self, old: &Member) -> bool {
        let standby = self.rollout.standby.as_ref();
        standby.is_some_and(|standby| standby.is_successor_of(old))
    }

    /// A standby, its delegate in service, and nothing more to do there.
    pub(super) fn standby_behind(&self, serving: &Member) -> Option<Decision> {
        let standby = self.rollout.standby.as_ref()?;
        let restored = serving.is_successor_of(standby);
        let replaced = serving.replaces == standby.replaces;
        let works = serving.is_up() && serving.health.is_healthy();
        // Its delegate was not touched after all, or is another one by now.
        if !restored && !replaced {
            return Some(self.take_away(standby));
        }
        if !self.rollout.draining.is_empty() {
            return None;
        }
        if serving.state == RunState::Removing {
            return Some(self.stand_in(serving, standby));
        }
        if works {
            // The old one has vanished, and with it what its container could tell.
            let outdated = self.outdated_image(serving, standby).filter(|_| replaced);
            return Some(outdated.map_or_else(
                || self.take_away(standby),
                |id| Decision::Act(Step::RemoveImage { id }),
            ));
        }
        if replaced && let Some(cause) = self.lost_after_commit(serving, None) {
            return Some(self.give_up(serving, cause));
        }
        let reason = Reason::SuccessorUnhealthy {
            verdict: serving.health.to_string(),
        };
        // It runs as it did before, and is ill: the standby could only bring back the same once more.
        if serving.is_up() && self.lost_after_commit(serving, None).is_some() {
            return Some(self.take_away(standby));
        }
        Some(Decision::Wait {
            reason,
            until: self.now + self.proof_interval(),
        })
    }

    /// The engine may stay in the middle of a removal, as when it ended while it was renamed; and the name is not free.
    fn stand_in(&self, vanishing: &Member, standby: &Member) -> Decision {
        match self.until_gone(vanishing) {
            Decision::Rest(_) if !standby.is_up() => self.start_after_a_rest(standby),
            step => step,
        }
    }

    /// The old one has vanished, as it had to; its successor is what there is, and the standby.
    pub(super) fn take_over_from_standby(&self, candidate: &Member) -> Decision {
        if self.is_marked(candidate) {
            return self.withdraw(candidate, None);
        }
        if candidate.is_created() {
            return match refusal(candidate) {
                Some(cause) => self.give_up(candidate, cause),
                None => start(candidate),
            };
        }
        match self.prove(candidate) {
            Proof::Proven => self.promote(candidate),
            other => self.unproven(candidate, other),
        }
    }

    /// The old one, created again from its standby. It has proven itself long ago.
    pub(super) fn reinstate(&self, candidate: &Member) -> Decision {
        match candidate.state {
            RunState::Created if refusal(candidate).is_some() => remove(candidate),
            RunState::Created => start(candidate),
            RunState::Running | RunState::Paused => self.promote(candidate),
            RunState::Exited | RunState::Dead => remove(candidate),
            RunState::Restarting | RunState::Removing | RunState::Other(_) => self.until_gone(candidate),
        }
    }

    /// Nobody else is left. It is created again with `--rm`, as it was; where that came to nothing, the copy serves.
    pub(super) fn restore_from(&self, standby: &Member) -> Decision {
        let mut given_up = self.rollout.failed.iter().chain(&self.rollout.withdrawn);
        if self.is_stop_first()
            && let Some(other) = given_up.find(|other| other.is_up())
        {
            return self.until_gone(other);
        }
        if standby.is_up() {
            return Decision::Act(Step::Restore {
                id: standby.id.clone(),
                to: self.rollout.name.clone(),
            });
        }
        let mut gone = self.rollout.vanished.iter();
        let tried = gone.any(|gone| gone.image == standby.image_id);
        if standby.is_created() && !tried {
            return Decision::Act(Step::Recreate {
                from: standby.id.clone(),
            });
        }
        self.start_after_a_rest(standby)
    }

    fn start_after_a_rest(&self, standby: &Member) -> Decision {
        match standby.finished_at.map(|finished| finished + REST) {
            Some(until) if until > self.now => Decision::Wait {
                reason: Reason::Stopping {
                    name: standby.name.clone(),
                },
                until,
            },
            _ => start(standby),
        }
    }

    fn take_away(&self, standby: &Member) -> Decision {
        if is_left(standby) {
            return remove(standby);
        }
        if standby.state == RunState::Removing {
            return self.until_gone(standby);
        }
        let mut pending = None;
        self.stop(standby, &mut pending)
            .unwrap_or_else(|| waiting(pending, self.now))
    }
}
