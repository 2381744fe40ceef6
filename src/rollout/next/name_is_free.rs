//! A candidate, but no container with the name: between the two renames of a commit, in a stop-first replacement, or after
//! someone removed the container in service.

use super::proof::Proof;
use super::{At, span};
use crate::container::{Role, RunState};
use crate::rollout::pace::LONG_GRACE;
use crate::rollout::reason::Reason;
use crate::rollout::{Decided, Decision, FailureCause, Member, Row, Step};

impl At<'_> {
    pub(super) fn name_is_free(&self, candidate: &Member) -> Option<Decided> {
        let proof = self.proof(candidate);
        Decided::first(Row::NAME_IS_FREE, |row| self.free(row, candidate, &proof))
    }

    fn free(&self, row: Row, candidate: &Member, proof: &Proof) -> Option<Decision> {
        let rollout = self.rollout;
        // A container that Docker is removing does not come back.
        let old = rollout
            .predecessor_of(candidate)
            .filter(|old| old.state != RunState::Removing);
        let retired = old.filter(|old| old.role == Role::Retired);
        let up = old.filter(|old| old.is_up());
        let is_upgrader = rollout.is_upgrader();
        let is_new = matches!(proof, Proof::Created);
        Some(match row {
            Row::Renamed => self.renamed(rollout.renamed_predecessor()?, candidate),
            Row::OldChanged => {
                let made_of = candidate.fingerprint.as_ref();
                let is_changed = |old: &Member| {
                    candidate.is_created() && candidate.is_successor_of(old) && made_of != Some(&old.settings)
                };
                up.filter(|old| is_changed(old))?;
                self.withdraw(candidate, Some(Reason::settings_changed(rollout)))
            }
            Row::HelperStop => {
                let helper = rollout.helper.as_ref().map(|helper| &helper.id)?;
                let is_helper = is_new && Some(helper) == self.facts.own.as_ref();
                let retired = retired.filter(|retired| is_helper && retired.is_up())?;
                Decision::Act(Step::drain(rollout, retired, self.now))
            }
            Row::FreeStopped if !candidate.life.was_stopped => return None,
            Row::FreeStopped if up.is_none() => Decision::Rest(Reason::not_running(candidate)),
            Row::FreeStopped => self.withdraw(candidate, None),
            Row::RetiredReject => {
                retired?;
                let problem = || format!("{} was never started", candidate.name);
                match proof {
                    Proof::Failed(cause) => self.reject(candidate, cause.clone()),
                    Proof::Created => {
                        self.reject(candidate, FailureCause::StartRefused { problem: problem() })
                    }
                    _ => return None,
                }
            }
            Row::TakeName if retired.is_some() && candidate.works() && !is_upgrader => {
                Decision::Act(Step::promote(rollout, candidate))
            }
            // A running old container is asked to stop only if something can be started afterwards.
            Row::CompanionMissing if is_new => {
                Decision::Rest(Reason::Obstacle(rollout.missing_companion()?.clone()))
            }
            Row::FreeReject => match (proof, old?) {
                // While neither runs, a prune would remove both.
                (Proof::Failed(_), old) if !candidate.is_up() && self.may_start_again(old) => {
                    self.start_again(old)
                }
                (Proof::Failed(cause), _) => self.reject(candidate, cause.clone()),
                _ => return None,
            },
            Row::FreeStop if retired.is_none() && (candidate.is_created() || self.is_stop_first()) => {
                self.stop(up?)
            }
            Row::FreeStart if is_new => match self.keeps_from_starting() {
                Some(other) => self.wait_for_end(other),
                None => Decision::Act(Step::start(candidate)),
            },
            Row::FreePromote if matches!(proof, Proof::Proven) && !is_upgrader => {
                Decision::Act(Step::promote(rollout, candidate))
            }
            Row::Recreate if matches!(proof, Proof::Failed(_)) => self.recreate(candidate),
            Row::FreeProving => {
                if let Proof::NotYet { reason, until } = proof {
                    return Some(Decision::wait(reason.clone(), *until));
                }
                let reason = Reason::proving(candidate, self.policy.healthy_time, self.now);
                Decision::wait(reason, self.soon())
            }
            _ => return None,
        })
    }

    /// The owner renamed the container that the candidate was to replace. If that container may have been asked to stop, since
    /// the candidate starts after it, the candidate takes its place. The process that created the candidate in this run knows
    /// whether it has asked.
    fn renamed(&self, renamed: &Member, candidate: &Member) -> Decision {
        let wait = span(self.policy.idle_wait) + span(renamed.stop_timeout) + LONG_GRACE;
        let was_asked = renamed.history.stop_requested_at.is_some();
        let may_end = self.is_stop_first() && (was_asked || !self.facts.has_created);
        if candidate.is_created() && may_end && self.now - candidate.created_at < wait {
            return self.wait_for_end(renamed);
        }
        self.withdraw(candidate, None)
    }

    /// Recreates the delegate from the only things left: the candidate's settings and the previous image. Compose stops all
    /// containers of a project before it removes them.
    fn recreate(&self, candidate: &Member) -> Decision {
        let first = self.before_giving_up(candidate);
        let first = first.or_else(|| self.may_return(candidate, LONG_GRACE));
        let (from, image) = (candidate.id.clone(), candidate.previous.clone());
        first.unwrap_or(Decision::Act(Step::Recreate { from, image }))
    }
}
