//! The standby of an `--rm` delegate (B, E, K), the old one recreated from it (R), and falling back to it (Y).
//!
//! Such a delegate vanishes by stopping, so a copy that does not is created before anything is done to it. The copy
//! takes its place should the replacement fail, and after an engine's restart, which removes the original too.

use super::{At, RESTART_DELAY, successor_unhealthy};
use crate::container::RunState;
use crate::rollout::Row::{
    B1, B2, B3, B4, B5, B6, B7, B8, B9, B10, E1, E2, E3, E4, K1, K2, K3, R1, R2, R3, R4, R5, Y1, Y2, Y3, Y4,
    Y5, Y6, Y7, Y8,
};
use crate::rollout::reason::Reason;
use crate::rollout::{Decided, Member, Step};

impl At<'_> {
    /// In service, and a standby, which is needed as long as there is something to fall back from.
    pub(super) fn in_service_with_standby(&self, serving: &Member, standby: &Member) -> Decided {
        let replaced = serving.replaces == standby.replaces;
        let restored = serving.is_successor_of(standby);
        let lost = self.lost_after_commit(serving, None);
        let mut old_ones = self.rollout.draining.iter();
        match lost {
            _ if standby.is_successor_of(serving) => match self.in_service(serving) {
                decided if decided.decision.is_rest() => B1.see(self.remove_copy(standby)),
                decided => decided,
            },
            _ if !replaced && !restored => B2.see(self.remove_copy(standby)),
            _ if old_ones.any(|old| !old.removal_is_stuck(self.now)) => B3.see(self.in_service(serving)),
            // An engine may never get done with a removal, as when the container ended while it was renamed.
            _ if serving.removal_is_stuck(self.now) && !standby.is_up() => {
                B4.see(self.start_standby(standby))
            }
            _ if serving.state == RunState::Removing => B5.see(self.wait_for_removal(serving)),
            _ if serving.works() => {
                match self.rollout.outdated_image(serving, standby).filter(|_| replaced) {
                    Some(id) => B6.act(Step::RemoveImage { id }),
                    None => B7.see(self.remove_copy(standby)),
                }
            }
            Some(failure) if replaced => B8.see(self.fail(serving, failure)),
            // It runs as it did before: the standby could only bring back the same once more.
            Some(_) if serving.is_up() => B9.see(self.remove_copy(standby)),
            _ => B10.wait(successor_unhealthy(serving), self.now + self.proof_interval()),
        }
    }

    /// What is missing before a delegate that vanishes by stopping may be replaced.
    pub(super) fn ensure_standby(&self, serving: &Member) -> Option<Decided> {
        Some(match &self.rollout.standby {
            _ if !serving.auto_remove => return None,
            Some(own) if own.is_successor_of(serving) && own.is_created() => return None,
            Some(own) if own.is_successor_of(serving) => E1.see(self.remove_copy(own)),
            Some(other) if serving.works() => E2.see(self.remove_copy(other)),
            Some(_) => E3.wait(successor_unhealthy(serving), self.now + self.proof_interval()),
            None => E4.act(Step::CreateStandby {
                from: serving.id.clone(),
            }),
        })
    }

    /// A standby, or the helper of an upgrader.
    pub(super) fn remove_copy(&self, copy: &Member) -> Decided {
        match copy.state {
            RunState::Removing => K1.see(self.wait_for_removal(copy)),
            _ if copy.is_up() => K2.see(self.stop(copy)),
            _ => K3.act(Step::remove(copy)),
        }
    }

    /// The old one, created once more from its standby. It was proven long ago.
    pub(super) fn recreated(&self, candidate: &Member) -> Decided {
        // Somebody changed it, or the copy, since it was created.
        let is_useless = candidate.history.start_refused.is_some() || candidate.history.outdated.is_some();
        match candidate.state {
            RunState::Created if is_useless => R1.act(Step::remove(candidate)),
            RunState::Created => R2.act(Step::start(candidate)),
            RunState::Running | RunState::Paused => R3.act(Step::promote(self.rollout, candidate)),
            RunState::Exited | RunState::Dead => R4.act(Step::remove(candidate)),
            RunState::Restarting | RunState::Removing | RunState::Other(_) => {
                R5.see(self.wait_for_removal(candidate))
            }
        }
    }

    /// Nobody else is left. The delegate is created once more with `--rm`, as it was; where that came to nothing, the
    /// copy serves.
    pub(super) fn falling_back(&self, standby: &Member) -> Decided {
        let mut given_up = self.rollout.failed.iter().chain(&self.rollout.withdrawn);
        let still_up = given_up.find(|other| other.is_up() && self.is_stop_first());
        let vanished = self.rollout.vanished_candidate(&standby.image_id);
        let is_taken = self.rollout.name_conflict.is_some();
        let was_tried = vanished.is_some() || standby.history.recreate_refused || is_taken;
        match still_up {
            _ if self.rollout.renamed_predecessor.is_some() => Y1.see(self.remove_copy(standby)),
            Some(other) => Y2.see(self.wait_for_removal(other)),
            // It will end, and no policy would bring it back: only a new life is certain.
            None if standby.is_up() && standby.history.stop_requested_at.is_some() => {
                Y3.see(self.stop(standby))
            }
            None if let Some(until) = self.may_have_collided(standby) => {
                let name = standby.name.clone();
                Y4.wait(Reason::Stopping { name }, until)
            }
            None if standby.is_up() => Y5.act(Step::restore(self.rollout, standby)),
            None if standby.is_created() && !was_tried => Y6.act(Step::Recreate {
                from: standby.id.clone(),
            }),
            None => self.start_standby(standby),
        }
    }

    fn start_standby(&self, standby: &Member) -> Decided {
        let name = standby.name.clone();
        match standby.finished_at.map(|finished| finished + RESTART_DELAY) {
            Some(until) if until > self.now => Y7.wait(Reason::Stopping { name }, until),
            _ => Y8.act(Step::start(standby)),
        }
    }
}
