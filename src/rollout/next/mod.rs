//! The step function: from what is observed to the one step to take. Pure and total.
//!
//! The order of the questions: rejected and withdrawn containers that still run; old ones that drain behind a successor
//! in service; then what the two or three containers of the rollout are to each other. `docs/development/rollout.md`
//! has the states as a table.

mod alone;
mod proof;
mod restoring;
mod standby;
mod stopping;

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use proof::{Proof, committed, refusal, verdict};
use stopping::{Pending, policy_off, set_policy, waiting};

use super::{Desired, Intent, Member, Policy, Rollout, Step, UpdateOrder};
use crate::container::RunState;
use crate::container::{ImageId, Role};
use crate::image::ImageReference;
use crate::rollout::reason::Reason;

/// Decides the next step of a rollout.
pub fn next(rollout: &Rollout, desired: &Desired, policy: &Policy, now: DateTime<Utc>) -> Step {
    if policy.health_only {
        return Step::Rest(Reason::HealthOnly {
            published: desired_image(desired),
        });
    }
    if rollout.opted_out {
        return Step::Rest(Reason::OptedOut);
    }
    let decision = Decision {
        rollout,
        desired,
        policy,
        now,
    };
    let mut wait = None;
    if let Some(step) = decision.put_away(&mut wait) {
        return step;
    }
    if let Some(serving) = &rollout.serving
        && let Some(step) = decision.drain_behind(serving, &mut wait)
    {
        return step;
    }
    let step = match (&rollout.serving, &rollout.candidate) {
        (Some(serving), None) => decision.in_service(serving),
        (Some(serving), Some(candidate)) => decision.beside(serving, candidate),
        (None, Some(candidate)) => decision.without_serving(candidate),
        (None, None) => decision.bring_back(),
    };
    match merge(step, wait) {
        Step::Rest(reason) if !reason.is_failure() => Step::Rest(decision.left_behind().unwrap_or(reason)),
        step => step,
    }
}

/// What else than it runs is wished for; or why nobody knows.
fn desired_image(desired: &Desired) -> Result<Option<String>, String> {
    match desired {
        Desired::Image { reference, .. } => Ok(Some(reference.to_string())),
        Desired::Keep(Reason::AwaitingSchedule { published }) => Ok(published.clone()),
        Desired::Keep(Reason::HeldBack { image, .. } | Reason::NotPinned { image }) => {
            Ok(Some(image.clone()))
        }
        Desired::Keep(Reason::Unpublished(error)) => Err(error.to_string()),
        Desired::Keep(reason) if reason.is_failure() => Err(reason.to_string()),
        Desired::Keep(_) => Ok(None),
    }
}

/// What goes on beside must be looked at in time, whatever else there is to wait for.
fn merge(step: Step, pending: Pending) -> Step {
    match (step, pending) {
        (Step::Rest(reason), Some((pending, until))) => {
            let reason = if reason.is_failure() { reason } else { pending };
            Step::Wait { reason, until }
        }
        (Step::Wait { reason, until }, Some((_, sooner))) => Step::Wait {
            reason,
            until: until.min(sooner),
        },
        (step, _) => step,
    }
}

fn span(duration: Duration) -> TimeDelta {
    TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX / 4)
}

struct Decision<'a> {
    rollout: &'a Rollout,
    desired: &'a Desired,
    policy: &'a Policy,
    now: DateTime<Utc>,
}

impl Decision<'_> {
    /// In service, without a candidate. A standby is needed as long as there is something to fall back from.
    fn in_service(&self, serving: &Member) -> Step {
        let own = |standby: &Member| standby.is_successor_of(serving);
        if !self.rollout.standby.as_ref().is_none_or(own)
            && let Some(step) = self.standby_behind(serving)
        {
            return step;
        }
        match self.begin(serving) {
            rest @ (Step::Rest(_) | Step::Wait { .. }) => self.standby_behind(serving).unwrap_or(rest),
            step => step,
        }
    }

    /// In service, and nothing in flight.
    fn begin(&self, serving: &Member) -> Step {
        if !is_in_use(serving) {
            return Step::Rest(match self.desired {
                Desired::Keep(reason) if reason.is_failure() => reason.clone(),
                _ => Reason::NotRunning {
                    state: serving.state.as_str().to_owned(),
                },
            });
        }
        if serving.health.is_healthy()
            && let Some(rejected) = self
                .rollout
                .failed
                .iter()
                .find(|rejected| self.is_superseded(rejected, serving) && is_left(rejected))
        {
            return remove(rejected);
        }
        let (reference, id, intent) = match self.desired {
            Desired::Keep(reason) => return Step::Rest(reason.clone()),
            Desired::Image {
                reference,
                id,
                intent,
            } => (reference, id, *intent),
        };
        if intent == Intent::Upgrade && serving.was_rolled_back_from(reference, id.as_ref()) {
            return Step::Rest(serving.rolled_back_reason(reference));
        }
        if let (Some(obstacle), false) = (&self.rollout.obstacle, id.as_ref() == Some(&serving.image_id)) {
            return Step::Rest(Reason::Obstacle(obstacle.clone()));
        }
        let Some(image) = id else {
            return match self.rollout.update_order(self.policy) {
                UpdateOrder::Blocked(reason) => Step::Rest(reason),
                _ => Step::Pull {
                    reference: reference.clone(),
                },
            };
        };
        if *image == serving.image_id
            && intent == Intent::Rollback
            && let Some(left) = &serving.rolled_back_from
        {
            return Step::Rest(Reason::RolledBack {
                image: left.reference.clone(),
                to: serving.image.clone(),
            });
        }
        if *image == serving.image_id {
            let same = serving.runs(reference);
            let image = reference.to_string();
            return Step::Rest(if same {
                Reason::UpToDate { image }
            } else {
                Reason::SameImage { image }
            });
        }
        if let Some(step) = self.in_the_way(serving, reference, image, intent) {
            return step;
        }
        if let Some(step) = self.stand_by(serving) {
            return step;
        }
        Step::Create {
            from: serving.id.clone(),
            reference: reference.clone(),
            image: image.clone(),
            release: serving.release + 1,
            intent,
        }
    }

    /// Whether a later release than the rejected one has proven itself. What was brought back is no later one, and
    /// what has the image that was rejected may yet be rejected again, as long as there is an old one to go back to.
    fn is_superseded(&self, rejected: &Member, serving: &Member) -> bool {
        let may_fail_again = rejected.image_id == serving.image_id && !self.rollout.draining.is_empty();
        rejected.created_at < serving.created_at && rejected.release <= serving.release && !may_fail_again
    }

    fn in_the_way(
        &self,
        serving: &Member,
        reference: &ImageReference,
        image: &ImageId,
        intent: Intent,
    ) -> Option<Step> {
        if let Some(name) = &self.rollout.name_conflict {
            return Some(Step::Rest(Reason::NameTaken { name: name.clone() }));
        }
        if let Some(vanished) = self.rollout.vanished.iter().find(|gone| gone.image == *image) {
            let reason = Reason::CandidateVanished {
                image: reference.to_string(),
                because: vanished.cause.clone(),
            };
            let last = self.last_rejection(image);
            if vanished.auto_remove && last.is_none_or(|(mark, _)| mark.quarantine(self.now).is_none()) {
                let cause = reason.to_string();
                let release = serving.release + 1;
                return Some(self.mark(image, &reference.to_string(), &serving.id, release, cause));
            }
            return Some(Step::Rest(reason));
        }
        if intent == Intent::Upgrade
            && let Some(reason) = self
                .last_rejection(image)
                .and_then(|(rejected, _)| rejected.quarantine(self.now))
        {
            return Some(Step::Rest(reason));
        }
        match self.rollout.update_order(self.policy) {
            UpdateOrder::Blocked(reason) => Some(Step::Rest(reason)),
            UpdateOrder::StartFirst | UpdateOrder::StopFirst => None,
        }
    }

    /// One in service, a candidate beside it.
    fn beside(&self, serving: &Member, candidate: &Member) -> Step {
        if !candidate.is_successor_of(serving) || !self.is_wanted(candidate) || self.is_marked(candidate) {
            return self
                .give_back(serving, candidate)
                .unwrap_or_else(|| self.withdraw(candidate, None));
        }
        match &candidate.state {
            RunState::Created if self.is_stop_first() && stopped_by_us(serving, candidate) => {
                self.retire(serving)
            }
            // Its owner stopped it before anything was started in its place.
            RunState::Created if !is_in_use(serving) => remove(candidate),
            RunState::Created => match (refusal(candidate), self.rollout.update_order(self.policy)) {
                (Some(cause), _) => self.give_up(candidate, cause),
                (None, UpdateOrder::StartFirst) => start(candidate),
                (None, UpdateOrder::StopFirst) => self.give_up_name(serving),
                (None, UpdateOrder::Blocked(_)) => remove(candidate),
            },
            _ => match self.prove(candidate) {
                Proof::Proven => self.give_up_name(serving),
                Proof::NotYet(step) => step,
                failed => self
                    .give_back(serving, candidate)
                    .unwrap_or_else(|| self.unproven(candidate, failed)),
            },
        }
    }

    /// One that keeps crashing cannot be renamed between two lives, and is stopped first: its policy goes, which its
    /// candidate's label remembers. One that vanishes by stopping needs its standby by now.
    fn give_up_name(&self, serving: &Member) -> Step {
        if let Some(step) = self.stand_by(serving) {
            return step;
        }
        if is_between_lives(serving) {
            let mut pending = None;
            return self
                .stop(serving, &mut pending)
                .unwrap_or_else(|| waiting(pending, self.now));
        }
        self.retire(serving)
    }

    /// The policy that a crashing one lost when it was about to be retired, before the candidate that remembers it
    /// goes. Another process may have withdrawn that one meanwhile.
    pub(super) fn give_back(&self, serving: &Member, candidate: &Member) -> Option<Step> {
        let policy = candidate.predecessor_policy.as_ref()?;
        let untouched = candidate.is_created() && self.is_stop_first();
        let withdrawn = matches!(candidate.role, Role::Withdrawn { .. });
        let by_us = serving.has_ended() || serving.history.original_policy.is_some();
        let lost = (untouched || withdrawn || by_us)
            && candidate.is_successor_of(serving)
            && serving.restart_is_off()
            && policy != "no";
        if !lost {
            return None;
        }
        // What it takes to come back is a life, and only then the policy that would tell it apart from one that its
        // owner stopped.
        Some(if serving.has_ended() {
            self.retire(serving)
        } else {
            set_policy(serving, policy)
        })
    }

    fn is_stop_first(&self) -> bool {
        self.rollout.update_order(self.policy) == UpdateOrder::StopFirst
    }

    /// Whether the candidate has the image that is asked for now. Without a word on it, what was begun is finished.
    fn is_wanted(&self, candidate: &Member) -> bool {
        match self.desired {
            // Another process goes back from it.
            Desired::Image { reference, id, .. }
                if candidate.was_rolled_back_from(reference, id.as_ref()) =>
            {
                true
            }
            Desired::Image { id: Some(id), .. } => *id == candidate.image_id,
            Desired::Image {
                reference, id: None, ..
            } => candidate.runs(reference),
            Desired::Keep(Reason::UpToDate { .. } | Reason::SameImage { .. }) => {
                candidate.rolled_back_from.is_some()
            }
            Desired::Keep(_) => true,
        }
    }

    /// A candidate, and nobody has the name.
    fn without_serving(&self, candidate: &Member) -> Step {
        let old_ones = &self.rollout.draining;
        let old = old_ones
            .iter()
            .find(|old| candidate.is_successor_of(old))
            .or(old_ones.last());
        match (&self.rollout.standby, old) {
            (Some(standby), _) if candidate.is_successor_of(standby) => self.reinstate(candidate),
            (_, Some(old)) => self.take_over(old, candidate),
            (Some(_), None) => self.take_over_from_standby(candidate),
            (None, None) if self.rollout.predecessor_was_renamed => self.withdraw(candidate, None),
            (None, None) => self.alone(candidate),
        }
    }

    /// The name is free: between the two halves of a commit, or in a stop-first replacement.
    fn take_over(&self, old: &Member, candidate: &Member) -> Step {
        if self.is_marked(candidate) {
            return self.withdraw(candidate, None);
        }
        if candidate.is_created() {
            if let Some(cause) = refusal(candidate) {
                return self.give_up(candidate, cause);
            }
            if !old.is_up() {
                // Stopped by somebody else, it would come back when the engine restarts.
                return if old.restart_is_off() {
                    start(candidate)
                } else {
                    policy_off(old)
                };
            }
            let mut pending = None;
            return match self.drain(old, &mut pending) {
                Some(step) => step,
                None => waiting(pending, self.now),
            };
        }
        if committed(old, candidate) {
            return self.promote(candidate);
        }
        match self.prove(candidate) {
            Proof::Proven => self.promote(candidate),
            other => self.unproven(candidate, other),
        }
    }

    /// A candidate that the engine would not start, or a successor that failed after the commit, is rejected unless
    /// something from outside was in its way.
    fn give_up(&self, candidate: &Member, cause: String) -> Step {
        let patience = span(self.policy.healthy_deadline);
        self.unproven(candidate, verdict(candidate, cause, self.now - patience))
    }

    /// What becomes of a candidate with an old one to go back to.
    fn unproven(&self, candidate: &Member, proof: Proof) -> Step {
        match proof {
            Proof::NotYet(step) => step,
            Proof::Failed(cause) => self.reject(candidate, cause),
            Proof::Inconclusive(cause) => {
                let because = Reason::Inconclusive {
                    image: candidate.image.clone(),
                    cause,
                };
                self.withdraw(candidate, Some(because))
            }
            Proof::Proven => self.until_gone(candidate),
        }
    }

    /// The name tells the second; where another one has it already, the next. By a clock that was set back it would be
    /// older than the life that ends here.
    fn retire(&self, old: &Member) -> Step {
        let begun = old.started_at.map_or(0, |started| started.timestamp() + 1);
        let since = self.now.timestamp().max(begun);
        Step::Retire {
            id: old.id.clone(),
            to: self.dated(since, |since| Role::Draining { since }),
        }
    }

    /// That second's name, or that of the next one that is free.
    fn dated(&self, mut since: i64, role: impl Fn(i64) -> Role) -> String {
        while self.rollout.members().any(|other| other.role == role(since)) {
            since += 1;
        }
        role(since).name(&self.rollout.name)
    }

    fn promote(&self, candidate: &Member) -> Step {
        Step::Promote {
            id: candidate.id.clone(),
            to: self.rollout.name.clone(),
        }
    }
}

/// Whether it has ended and is left for us to remove: what the engine is taking away needs no help.
fn is_left(member: &Member) -> bool {
    !member.is_up() && member.state != RunState::Removing
}

/// Whether the old one is left once it has stopped. One that was started with `--rm` vanishes, told by now or not.
fn can_come_back(old: &Member) -> bool {
    !old.auto_remove && old.state != RunState::Removing
}

/// Only what its owner lets run is replaced.
fn is_in_use(serving: &Member) -> bool {
    matches!(serving.state, RunState::Running | RunState::Restarting)
}

/// Whether it has no process at the moment, but will have one again. Then it has no network that the engine could
/// rename with it, and the engine refuses: it has to be stopped first.
fn is_between_lives(member: &Member) -> bool {
    member.state == RunState::Restarting
}

/// Whether it was stopped between two lives, to be retired: that takes its policy off, which a `docker stop` does not.
fn stopped_by_us(serving: &Member, candidate: &Member) -> bool {
    serving.has_ended()
        && serving.restart_is_off()
        && candidate
            .predecessor_policy
            .as_ref()
            .is_some_and(|policy| policy != "no")
}

fn timestamp(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, 0).unwrap_or_default()
}

fn start(member: &Member) -> Step {
    Step::Start {
        id: member.id.clone(),
        name: member.name.clone(),
    }
}

fn remove(member: &Member) -> Step {
    Step::Remove {
        id: member.id.clone(),
        name: member.name.clone(),
    }
}
