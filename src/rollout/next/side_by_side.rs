//! A container in service with a candidate beside it.

use chrono::{DateTime, Utc};

use super::proof::Proof;
use super::{At, span};
use crate::container::{Role, RunState};
use crate::rollout::pace::{END_INTERVAL, IDLE_INTERVAL, LONG_GRACE};
use crate::rollout::reason::Reason;
use crate::rollout::{ChosenOrder, Decided, Decision, FailureCause, Member, Row, Step};

impl At<'_> {
    pub(super) fn side_by_side(&self, serving: &Member, candidate: &Member) -> Option<Decided> {
        let proof = self.proof(candidate);
        Decided::first(Row::SIDE_BY_SIDE, |row| {
            self.beside(row, serving, candidate, &proof)
        })
    }

    fn beside(&self, row: Row, serving: &Member, candidate: &Member, proof: &Proof) -> Option<Decision> {
        let rollout = self.rollout;
        let is_successor = candidate.is_successor_of(serving);
        let is_created = candidate.is_created();
        let is_upgrader = rollout.is_upgrader();
        let (is_new, is_proven) = (matches!(proof, Proof::Created), matches!(proof, Proof::Proven));
        let is_start_first = self.order == ChosenOrder::StartFirst;
        let changed = || Some(Reason::settings_changed(rollout));
        Some(match row {
            Row::MadeFromCandidate if serving.is_copy => {
                let is_source = serving.is_successor_of(candidate);
                let ending = candidate.end();
                self.reject(
                    candidate,
                    match proof {
                        Proof::Failed(cause) if is_source || !is_successor => cause.clone(),
                        _ if is_source => FailureCause::Exited { ending },
                        _ => return None,
                    },
                )
            }
            // It was stopped for the candidate; now its name records that.
            Row::NextDraining if is_successor && serving.has_ended() && candidate.role == Role::Next => {
                Decision::Act(Step::drain(rollout, serving, self.now))
            }
            // Its owner recreated the container in service.
            Row::Unwanted if !is_successor => {
                self.withdraw(candidate, changed().filter(|_| self.facts.has_created))
            }
            Row::Unwanted if !self.is_wanted(candidate) => {
                let image = candidate.image.to_string();
                let vanished = candidate.life.was_stopped;
                self.withdraw(candidate, vanished.then_some(Reason::CandidateVanished { image }))
            }
            Row::ServingChanged => {
                let made_of = candidate.fingerprint.as_ref()?;
                let is_changed = *made_of != serving.settings;
                is_changed.then(|| self.withdraw(candidate, changed()))?
            }
            Row::ServingDown if serving.is_in_use() => return None,
            Row::ServingDown if !serving.has_been_down_for(LONG_GRACE, self.now) => {
                Decision::wait(Reason::interrupted(serving), self.now + END_INTERVAL)
            }
            Row::ServingDown if !(is_upgrader && is_proven) => {
                self.withdraw(candidate, Some(Reason::not_running(serving)))
            }
            Row::CandidateReject => match proof {
                Proof::Failed(cause) => self.reject(candidate, cause.clone()),
                _ => return None,
            },
            Row::FormerKeep if is_created && rollout.former_of(candidate).is_none() => {
                let keep = Step::keep(serving, candidate.reconfigured.as_ref()?);
                // Without them, only the way back is lost, unless a copy of the old container may be needed.
                let is_tried = self.facts.backoffs.of(&keep.key()).is_some();
                (!is_tried || serving.vanishes).then_some(Decision::Act(keep))?
            }
            Row::Prepare if is_created && candidate.history.comparison.is_none() => {
                Decision::Act(Step::prepare(candidate))
            }
            Row::Different if is_created => match &candidate.history.comparison {
                Some(Err(differences)) => {
                    let differences = differences.clone();
                    self.withdraw(candidate, Some(Reason::ConfigurationMismatch { differences }))
                }
                _ => return None,
            },
            Row::CandidateStart if is_new && is_start_first => match self.facts.free_memory {
                None => self.facts.ask_for_memory(self.now),
                Some(_) => Decision::Act(Step::start(candidate)),
            },
            Row::WaitForIdle if is_new => {
                let (tasks, until) = self.tasks_to_wait_for(serving, candidate)?;
                Decision::wait(Reason::WaitingForIdle { tasks, until }, self.now + IDLE_INTERVAL)
            }
            Row::BetweenLives if (is_new || is_proven) && serving.is_between_lives() => {
                match candidate.role {
                    Role::Next => self.stop(serving),
                    _ => Decision::Act(Step::announce(rollout, candidate)),
                }
            }
            Row::HelperCreate if is_new && is_upgrader && rollout.helper.is_none() => {
                Decision::Act(Step::CreateHelper {
                    from: serving.id.clone(),
                    image: candidate.image.to_string(),
                })
            }
            Row::HelperStart if is_new && is_upgrader => {
                self.prove_helper(rollout.helper.as_ref()?, candidate)?
            }
            Row::TryStart if is_new && !is_upgrader => self.try_start(candidate)?,
            Row::NameDraining if is_new && !is_upgrader => {
                Decision::Act(Step::drain(rollout, serving, self.now))
            }
            Row::NameRetired if is_new || is_proven => Decision::Act(Step::retire(rollout, serving)),
            Row::Proving => match proof {
                Proof::NotYet { reason, until } => Decision::wait(reason.clone(), *until),
                _ => return None,
            },
            _ => return None,
        })
    }

    /// Tests that Docker can start another container before the only working one is asked to stop.
    fn try_start(&self, candidate: &Member) -> Option<Decision> {
        Some(match candidate.history.trial.clone() {
            Some(Ok(())) => return None,
            Some(Err(problem)) => self.withdraw(candidate, Some(Reason::StartRefused { problem })),
            None => Decision::Act(Step::try_start(self.rollout, candidate, self.now)),
        })
    }

    /// The tasks of the container in service, and how long its candidate waits for them. A stop-first replacement keeps it from
    /// taking new tasks until the candidate works, so the gap lasts as long as the remaining ones. The wait starts with the
    /// candidate, so a restart of this process does not extend it.
    fn tasks_to_wait_for(&self, serving: &Member, candidate: &Member) -> Option<(u64, DateTime<Utc>)> {
        let tasks = serving.work.filter(|_| serving.state == RunState::Running)?.tasks;
        let until = candidate.created_at + span(self.policy.idle_wait);
        (tasks > 0 && self.now < until).then_some((tasks, until))
    }

    /// Whether the candidate's image is wanted and not rejected meanwhile, and it could be started and was not stopped.
    fn is_wanted(&self, candidate: &Member) -> bool {
        let mut failed = self.rollout.failed.iter();
        let was_rejected = failed
            .any(|other| other.image_id == candidate.image_id && other.created_at > candidate.created_at);
        let is_blocked = matches!(self.order, ChosenOrder::Blocked(_));
        let cannot_start =
            candidate.is_created() && (is_blocked || self.rollout.missing_companion().is_some());
        self.desired.wants(candidate) && !was_rejected && !cannot_start && !candidate.life.was_stopped
    }
}
