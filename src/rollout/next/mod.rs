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

use super::{
    Decision, Desired, Fact, Facts, FailureCause, INSPECT, Intent, Member, Policy, Rollout, Step, UpdateOrder,
};
use crate::container::RunState;
use crate::container::{ImageId, Role};
use crate::document::Obstacle;
use crate::image::ImageReference;
use crate::rollout::reason::Reason;

/// Decides the next step of a rollout.
pub fn next(
    rollout: &Rollout,
    desired: &Desired,
    policy: &Policy,
    facts: &Facts,
    now: DateTime<Utc>,
) -> Decision {
    if let Some(decision) = unavailable(rollout, facts, now) {
        return decision;
    }
    if policy.health_only {
        return Decision::Rest(Reason::HealthOnly {
            published: desired_image(desired),
        });
    }
    if rollout.opted_out {
        return Decision::Rest(Reason::OptedOut);
    }
    let at = At {
        rollout,
        desired,
        policy,
        facts,
        now,
    };
    let mut wait = None;
    if let Some(step) = at.put_away(&mut wait) {
        return step;
    }
    if let Some(serving) = &rollout.serving
        && let Some(step) = at.drain_behind(serving, &mut wait)
    {
        return step;
    }
    let step = match (&rollout.serving, &rollout.candidate) {
        (Some(serving), None) => at.in_service(serving),
        (Some(serving), Some(candidate)) => at.beside(serving, candidate),
        (None, Some(candidate)) => at.without_serving(candidate),
        (None, None) => at.bring_back(),
    };
    match merge(step, wait) {
        Decision::Rest(reason) if !reason.is_failure() => Decision::Rest(at.left_behind().unwrap_or(reason)),
        step => step,
    }
}

/// What failed a moment ago is tried again later, and where a container cannot be inspected its state is not known.
fn unavailable(rollout: &Rollout, facts: &Facts, now: DateTime<Utc>) -> Option<Decision> {
    let is_unread = rollout.inspect_error.is_some();
    if let Some(backoff) = facts
        .backoff
        .as_ref()
        .filter(|backoff| backoff.retry_at > now || is_unread)
    {
        let reason = backoff.reason.clone();
        // What does not get better is no longer waited for, only tried again when there is something else to do.
        return Some(if backoff.is_hopeless() {
            Decision::Rest(reason)
        } else {
            Decision::Wait {
                reason,
                until: backoff.retry_at,
            }
        });
    }
    let problem = rollout.inspect_error.as_ref()?;
    Some(Decision::Wait {
        reason: Reason::EngineError {
            step: INSPECT.to_owned(),
            problem: problem.clone(),
        },
        until: now + TimeDelta::seconds(1),
    })
}

/// What else than it runs is wished for; or why nobody knows.
fn desired_image(desired: &Desired) -> Result<Option<String>, String> {
    match desired {
        Desired::Image { reference, .. } => Ok(Some(reference.to_string())),
        Desired::Keep(Reason::AwaitingSchedule { published }) => Ok(published.clone()),
        Desired::Keep(Reason::HeldBack { image, .. } | Reason::NotPinned { image }) => {
            Ok(Some(image.clone()))
        }
        Desired::Keep(reason) if reason.is_failure() => Err(reason.to_string()),
        Desired::Keep(_) => Ok(None),
    }
}

/// What goes on beside must be looked at in time, whatever else there is to wait for.
fn merge(step: Decision, pending: Pending) -> Decision {
    match (step, pending) {
        (Decision::Rest(reason), Some((pending, until))) => {
            let reason = if reason.is_failure() { reason } else { pending };
            Decision::Wait { reason, until }
        }
        (Decision::Wait { reason, until }, Some((_, sooner))) => Decision::Wait {
            reason,
            until: until.min(sooner),
        },
        (step, _) => step,
    }
}

fn span(duration: Duration) -> TimeDelta {
    TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX / 4)
}

struct At<'a> {
    rollout: &'a Rollout,
    desired: &'a Desired,
    policy: &'a Policy,
    facts: &'a Facts,
    now: DateTime<Utc>,
}

impl At<'_> {
    /// In service, without a candidate. A standby is needed as long as there is something to fall back from.
    fn in_service(&self, serving: &Member) -> Decision {
        let own = |standby: &Member| standby.is_successor_of(serving);
        if !self.rollout.standby.as_ref().is_none_or(own)
            && let Some(step) = self.standby_behind(serving)
        {
            return step;
        }
        match self.begin(serving) {
            rest @ Decision::Rest(_) => self.standby_behind(serving).unwrap_or(rest),
            step => step,
        }
    }

    /// In service, and nothing in flight.
    fn begin(&self, serving: &Member) -> Decision {
        if !is_in_use(serving) {
            return Decision::Rest(match self.desired {
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
            Desired::Keep(reason) => return Decision::Rest(self.kept(reason)),
            Desired::Image {
                reference,
                id,
                intent,
            } => (reference, id, *intent),
        };
        if intent == Intent::Upgrade && serving.was_rolled_back_from(reference, id.as_ref()) {
            return Decision::Rest(serving.rolled_back_reason(reference));
        }
        if let (Some(obstacle), false) = (self.obstacle(), id.as_ref() == Some(&serving.image_id)) {
            return Decision::Rest(Reason::Obstacle(obstacle.clone()));
        }
        let Some(image) = id else {
            return match self.update_order() {
                UpdateOrder::Blocked(reason) => Decision::Rest(reason),
                _ if self.facts.is_pulling => self.pull(reference),
                _ if self.facts.copied_files.is_none() => Decision::Learn(Fact::CopiedFiles),
                _ => self.pull(reference),
            };
        };
        if *image == serving.image_id
            && intent == Intent::Rollback
            && let Some(left) = &serving.rolled_back_from
        {
            return Decision::Rest(Reason::RolledBack {
                image: left.reference.clone(),
                to: serving.image.clone(),
            });
        }
        if *image == serving.image_id {
            let same = serving.runs(reference);
            let image = reference.to_string();
            return Decision::Rest(if same {
                Reason::UpToDate { image }
            } else {
                Reason::SameImage { image }
            });
        }
        if let Some(step) = self.in_the_way(serving, reference, image, intent) {
            return step;
        }
        match self.stand_by(serving) {
            None | Some(Decision::Act(Step::CreateStandby { .. })) if self.facts.copied_files.is_none() => {
                return Decision::Learn(Fact::CopiedFiles);
            }
            None | Some(Decision::Act(Step::CreateStandby { .. })) if self.lacks_memory_fact() => {
                return Decision::Learn(Fact::FreeMemory);
            }
            None => {}
            Some(decision) => return decision,
        }
        Decision::Act(Step::Create {
            from: serving.id.clone(),
            reference: reference.clone(),
            image: image.clone(),
            release: serving.release + 1,
            intent,
        })
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
    ) -> Option<Decision> {
        if let Some(name) = &self.rollout.name_conflict {
            return Some(Decision::Rest(Reason::NameTaken { name: name.clone() }));
        }
        if let Some(vanished) = self.rollout.vanished.iter().find(|gone| gone.image == *image) {
            let cause = FailureCause::Vanished {
                image: reference.to_string(),
                problem: vanished.cause.clone(),
            };
            let last = self.last_rejection(image);
            if vanished.auto_remove && last.is_none_or(|(mark, _)| mark.quarantine(self.now).is_none()) {
                let release = serving.release + 1;
                return Some(self.mark(image, &reference.to_string(), &serving.id, release, cause, None));
            }
            return Some(Decision::Rest(Reason::CandidateVanished { cause }));
        }
        if intent == Intent::Upgrade
            && let Some(reason) = self
                .last_rejection(image)
                .and_then(|(rejected, _)| rejected.quarantine(self.now))
        {
            return Some(Decision::Rest(reason));
        }
        match self.update_order() {
            UpdateOrder::Blocked(reason) => Some(Decision::Rest(reason)),
            UpdateOrder::StartFirst | UpdateOrder::StopFirst => None,
        }
    }

    /// One in service, a candidate beside it.
    fn beside(&self, serving: &Member, candidate: &Member) -> Decision {
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
            RunState::Created => match (refusal(candidate), self.update_order()) {
                (Some(cause), _) => self.give_up(candidate, cause),
                (None, UpdateOrder::StartFirst) if self.lacks_memory_fact() => {
                    Decision::Learn(Fact::FreeMemory)
                }
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
    fn give_up_name(&self, serving: &Member) -> Decision {
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
    pub(super) fn give_back(&self, serving: &Member, candidate: &Member) -> Option<Decision> {
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
        self.update_order() == UpdateOrder::StopFirst
    }

    fn update_order(&self) -> UpdateOrder {
        self.rollout.update_order(self.policy, self.facts)
    }

    fn obstacle(&self) -> Option<&Obstacle> {
        let copied = self.facts.copied_files.as_ref();
        let copied = copied.and_then(|copied| copied.as_ref().err());
        self.rollout.obstacle.as_ref().or(copied)
    }

    /// Whether the host's free memory has to be known before a second container is made or started.
    fn lacks_memory_fact(&self) -> bool {
        self.facts.free_memory.is_none() && self.update_order() == UpdateOrder::StartFirst
    }

    /// Why nothing new is begun. One that waits for a replica which has come to rest is halted.
    fn kept(&self, reason: &Reason) -> Reason {
        match (reason, &self.facts.stalled_replica) {
            (Reason::WaitingForReplica { name }, Some(because)) => Reason::Halted {
                name: name.clone(),
                because: because.clone(),
            },
            _ => reason.clone(),
        }
    }

    /// Pulls run beside everything else.
    fn pull(&self, reference: &ImageReference) -> Decision {
        if self.facts.is_pulling {
            return Decision::Wait {
                reason: Reason::Pulling {
                    image: reference.to_string(),
                },
                until: self.now + TimeDelta::milliseconds(500),
            };
        }
        Decision::Act(Step::Pull {
            reference: reference.clone(),
        })
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
    fn without_serving(&self, candidate: &Member) -> Decision {
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
    fn take_over(&self, old: &Member, candidate: &Member) -> Decision {
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
    fn give_up(&self, candidate: &Member, cause: FailureCause) -> Decision {
        let patience = span(self.policy.healthy_deadline);
        self.unproven(candidate, verdict(candidate, cause, self.now - patience))
    }

    /// What becomes of a candidate with an old one to go back to.
    fn unproven(&self, candidate: &Member, proof: Proof) -> Decision {
        match proof {
            Proof::NotYet(step) => step,
            Proof::Failed(cause) => self.reject(candidate, cause),
            Proof::Inconclusive { cause, common_cause } => {
                let because = Reason::Inconclusive {
                    image: candidate.image.clone(),
                    cause,
                    common_cause,
                };
                self.withdraw(candidate, Some(because))
            }
            Proof::Proven => self.until_gone(candidate),
        }
    }

    /// The name tells the second; where another one has it already, the next. By a clock that was set back it would be
    /// older than the life that ends here.
    fn retire(&self, old: &Member) -> Decision {
        let begun = old.started_at.map_or(0, |started| started.timestamp() + 1);
        let since = self.now.timestamp().max(begun);
        Decision::Act(Step::Retire {
            id: old.id.clone(),
            to: self.dated(since, |since| Role::Draining { since }),
        })
    }

    /// That second's name, or that of the next one that is free.
    fn dated(&self, mut since: i64, role: impl Fn(i64) -> Role) -> String {
        while self.rollout.members().any(|other| other.role == role(since)) {
            since += 1;
        }
        role(since).name(&self.rollout.name)
    }

    fn promote(&self, candidate: &Member) -> Decision {
        Decision::Act(Step::Promote {
            id: candidate.id.clone(),
            to: self.rollout.name.clone(),
        })
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

fn start(member: &Member) -> Decision {
    Decision::Act(Step::Start {
        id: member.id.clone(),
        name: member.name.clone(),
    })
}

fn remove(member: &Member) -> Decision {
    Decision::Act(Step::Remove {
        id: member.id.clone(),
        name: member.name.clone(),
    })
}
