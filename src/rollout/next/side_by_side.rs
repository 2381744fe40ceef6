//! One in service, a candidate beside it.

use chrono::{DateTime, Utc};

use super::proof::Proof;
use super::{At, span};
use crate::container::{Role, RunState};
use crate::rollout::pace::{END_INTERVAL, IDLE_INTERVAL, LONG_GRACE};
use crate::rollout::reason::Reason;
use crate::rollout::{Comparison, Decided, FailureCause, Member, Row, Step, UpdateOrder};

impl At<'_> {
    pub(super) fn side_by_side(&self, serving: &Member, candidate: &Member) -> Decided {
        let rollout = self.rollout;
        let proof = self.proof(candidate);
        let made_of = candidate.fingerprint.as_ref();
        let is_changed = made_of.is_some_and(|made_of| *made_of != serving.settings);
        let is_created = candidate.is_created();
        let is_down = !serving.is_in_use();
        let changed = || Some(Reason::settings_changed(rollout));
        let is_stopped = serving.has_been_down_for(LONG_GRACE, self.now);
        let is_proven_upgrader = rollout.is_upgrader() && matches!(proof, Proof::Proven);
        match (proof, &self.order) {
            (proof, _)
                if serving.is_copy
                    && (serving.is_successor_of(candidate)
                        || matches!(proof, Proof::Failed(_)) && !candidate.is_successor_of(serving)) =>
            {
                let ending = candidate.end();
                let cause = match proof {
                    Proof::Failed(cause) => cause,
                    _ => FailureCause::Exited { ending },
                };
                self.reject(Row::MadeFromCandidate, candidate, cause)
            }
            // Its owner recreated the container in service.
            _ if !candidate.is_successor_of(serving) => self.withdraw(
                Row::Unwanted,
                candidate,
                changed().filter(|_| self.facts.has_created),
            ),
            // It was stopped for the candidate: from now on its name says so.
            _ if serving.has_ended() && candidate.role == Role::Next => {
                Row::NextDraining.act(Step::drain(rollout, serving, self.now))
            }
            _ if !self.is_wanted(candidate) => {
                let image = candidate.image.to_string();
                let vanished = Some(Reason::CandidateVanished { image });
                self.withdraw(
                    Row::Unwanted,
                    candidate,
                    vanished.filter(|_| candidate.life.was_stopped),
                )
            }
            _ if is_changed => self.withdraw(Row::ServingChanged, candidate, changed()),
            _ if is_down && !is_stopped => {
                Row::ServingDown.wait(Reason::interrupted(serving), self.now + END_INTERVAL)
            }
            _ if is_down && !is_proven_upgrader => {
                self.withdraw(Row::ServingDown, candidate, Some(Reason::not_running(serving)))
            }
            (Proof::Failed(cause), _) => self.reject(Row::CandidateReject, candidate, cause),
            _ if is_created && candidate.history.comparison == Comparison::Pending => {
                Row::Prepare.act(Step::prepare(candidate))
            }
            _ if is_created && let Comparison::Different(differences) = &candidate.history.comparison => {
                let differences = differences.clone();
                let because = Reason::ConfigurationMismatch { differences };
                self.withdraw(Row::Different, candidate, Some(because))
            }
            (Proof::Created, UpdateOrder::StartFirst) if self.facts.free_memory.is_none() => {
                self.facts.ask_for_memory(Row::MemoryUnknown, self.now)
            }
            (Proof::Created, UpdateOrder::StartFirst) => Row::CandidateStart.act(Step::start(candidate)),
            (Proof::Created, _) if let Some((tasks, until)) = self.tasks_to_wait_for(serving, candidate) => {
                Row::WaitForIdle.wait(Reason::WaitingForIdle { tasks, until }, self.now + IDLE_INTERVAL)
            }
            (Proof::Created | Proof::Proven, _) if serving.is_between_lives() => match candidate.role {
                Role::Next => self.stop(Row::BetweenLives, serving),
                _ => Row::BetweenLives.act(Step::announce(rollout, candidate)),
            },
            (Proof::Created, _) if rollout.is_upgrader() => self.with_helper(serving, candidate),
            (Proof::Created, _) if let Some(decided) = self.try_start(candidate) => decided,
            (Proof::Created, _) => Row::NameDraining.act(Step::drain(rollout, serving, self.now)),
            (Proof::Proven, _) => Row::NameRetired.act(Step::retire(rollout, serving)),
            (Proof::NotYet { reason, until }, _) => Row::Proving.wait(reason, until),
        }
    }

    /// Before the only one at work is asked to stop, Docker shows that another one can start.
    fn try_start(&self, candidate: &Member) -> Option<Decided> {
        Some(match candidate.history.trial.clone() {
            Some(Ok(())) => return None,
            Some(Err(problem)) => {
                self.withdraw(Row::TryStart, candidate, Some(Reason::StartRefused { problem }))
            }
            None => Row::TryStart.act(Step::try_start(self.rollout, candidate, self.now)),
        })
    }

    /// The tasks of the container in service, and until when its candidate waits for their end. A stop-first replacement keeps
    /// it from taking new ones until the candidate works, so the gap is as long as what it still has to finish. The
    /// wait starts with the candidate, which a restart of this process does not change.
    fn tasks_to_wait_for(&self, serving: &Member, candidate: &Member) -> Option<(u64, DateTime<Utc>)> {
        let tasks = serving.work.filter(|_| serving.state == RunState::Running)?.tasks;
        let until = candidate.created_at + span(self.policy.idle_wait);
        (tasks > 0 && self.now < until).then_some((tasks, until))
    }

    /// Whether the candidate has an image that is wanted and that no other process has rejected meanwhile, and could be
    /// started, and nobody stopped it.
    fn is_wanted(&self, candidate: &Member) -> bool {
        let mut failed = self.rollout.failed.iter();
        let was_rejected = failed
            .any(|other| other.image_id == candidate.image_id && other.created_at > candidate.created_at);
        let is_blocked = matches!(self.order, UpdateOrder::Blocked(_));
        let cannot_start =
            candidate.is_created() && (is_blocked || self.rollout.missing_companion().is_some());
        self.desired.wants(candidate) && !was_rejected && !cannot_start && !candidate.life.was_stopped
    }
}
