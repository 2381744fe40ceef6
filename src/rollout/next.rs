//! The step function: from what is observed to the one step to take. Pure and total.
//!
//! The order of the questions: rejected containers that still run; old ones that drain behind a successor in service;
//! then what the two or three containers of the rollout are to each other. `docs/development/rollout.md` has the
//! states as a table.

mod proof;
mod stopping;

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use proof::{Proof, committed, refusal};
use stopping::{Pending, policy_off, waiting};

use super::{Approach, Member, Policy, Rollout, Step, Wish};
use crate::delegate::{ImageId, Role};
use crate::engine::RunState;
use crate::image::ImageReference;
use crate::reason::Reason;

/// Decides the next step of a rollout.
pub fn next(rollout: &Rollout, wish: &Wish, policy: &Policy, now: DateTime<Utc>) -> Step {
    if policy.health_only {
        return Step::Rest(Reason::HealthOnly {
            published: wished(wish),
        });
    }
    if rollout.opted_out {
        return Step::Rest(Reason::OptedOut);
    }
    let decision = Decision {
        rollout,
        wish,
        policy,
        now,
    };
    let mut wait = None;
    if let Some(step) = decision.withdraw_rejected(&mut wait) {
        return step;
    }
    if let Some(serving) = &rollout.serving
        && let Some(step) = decision.drain_behind(serving, &mut wait)
    {
        return step;
    }
    let step = match (&rollout.serving, &rollout.candidate, rollout.draining.last()) {
        (Some(serving), None, _) => decision.begin(serving),
        (Some(serving), Some(candidate), _) => decision.beside(serving, candidate),
        (None, Some(candidate), Some(old)) => {
            let old = rollout
                .draining
                .iter()
                .find(|old| candidate.replaces.as_ref() == Some(&old.id))
                .unwrap_or(old);
            decision.take_over(old, candidate)
        }
        (None, Some(candidate), None) => decision.alone(candidate),
        (None, None, Some(last)) => {
            let given_up = |old: &&Member| {
                let mut rejected = rollout.failed.iter();
                rejected.any(|rejected| rejected.replaces.as_ref() == Some(&old.id))
            };
            decision.restore(rollout.draining.iter().rev().find(given_up).unwrap_or(last))
        }
        (None, None, None) => Step::Rest(Reason::Gone),
    };
    merge(step, wait)
}

fn wished(wish: &Wish) -> Option<String> {
    match wish {
        Wish::Image { reference, .. } => Some(reference.to_string()),
        Wish::Settle(Reason::AwaitingSchedule { published }) => published.clone(),
        Wish::Settle(_) => None,
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
    wish: &'a Wish,
    policy: &'a Policy,
    now: DateTime<Utc>,
}

impl Decision<'_> {
    /// In service, and nothing in flight.
    fn begin(&self, serving: &Member) -> Step {
        if !is_in_use(serving) {
            return Step::Rest(match self.wish {
                Wish::Settle(reason) if reason.is_failure() => reason.clone(),
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
                .find(|rejected| rejected.created_at < serving.created_at && is_left(rejected))
        {
            return remove(rejected);
        }
        let (reference, id) = match self.wish {
            Wish::Settle(reason) => return Step::Rest(reason.clone()),
            Wish::Image { reference, id } => (reference, id),
        };
        let Some(image) = id else {
            return match self.rollout.approach(self.policy) {
                Approach::Neither(reason) => Step::Rest(reason),
                _ => Step::Pull {
                    reference: reference.clone(),
                },
            };
        };
        if *image == serving.image_id {
            let same = serving.runs(reference);
            let image = reference.to_string();
            return Step::Rest(if same {
                Reason::UpToDate { image }
            } else {
                Reason::SameImage { image }
            });
        }
        if let Some(reason) = self.in_the_way(reference, image) {
            return Step::Rest(reason);
        }
        Step::Create {
            from: serving.id.clone(),
            reference: reference.clone(),
            image: image.clone(),
            release: serving.release + 1,
        }
    }

    fn in_the_way(&self, reference: &ImageReference, image: &ImageId) -> Option<Reason> {
        if let Some(name) = &self.rollout.foreign {
            return Some(Reason::NameTaken { name: name.clone() });
        }
        if let Some(reason) = self
            .last_rejection(image)
            .and_then(|(rejected, _)| rejected.quarantine(self.now))
        {
            return Some(reason);
        }
        if self.rollout.vanished.as_ref() == Some(image) {
            return Some(Reason::CandidateVanished {
                image: reference.to_string(),
            });
        }
        match self.rollout.approach(self.policy) {
            Approach::Neither(reason) => Some(reason),
            Approach::StartFirst | Approach::StopFirst => None,
        }
    }

    /// One in service, a candidate beside it.
    fn beside(&self, serving: &Member, candidate: &Member) -> Step {
        if candidate.replaces.as_ref() != Some(&serving.id) || !self.is_wanted(candidate) {
            return self.withdraw(candidate);
        }
        match &candidate.state {
            // Its owner stopped it before anything was started in its place.
            RunState::Created if !is_in_use(serving) && serving.watch.told_to_stop.is_none() => {
                remove(candidate)
            }
            RunState::Created => match (refusal(candidate), self.rollout.approach(self.policy)) {
                (Some(cause), _) => self.reject(candidate, cause),
                (None, Approach::StartFirst) => start(candidate),
                (None, Approach::StopFirst) => self.give_up_name(serving),
                (None, Approach::Neither(_)) => remove(candidate),
            },
            _ => match self.prove(candidate) {
                Proof::Proven => self.give_up_name(serving),
                Proof::NotYet(step) => step,
                Proof::Failed(cause) => self.reject(candidate, cause),
            },
        }
    }

    /// One that keeps crashing is stopped first. It has no process then, and its policy stays: until it has the new
    /// name, nobody else would know the true one.
    fn give_up_name(&self, serving: &Member) -> Step {
        if is_between_lives(serving) && serving.watch.told_to_stop.is_none() {
            return Step::Stop {
                id: serving.id.clone(),
                name: serving.name.clone(),
                grace: serving.stop_timeout,
            };
        }
        self.retire(serving)
    }

    /// Whether the candidate has the image that is asked for now. Without a word on it, what was begun is finished.
    fn is_wanted(&self, candidate: &Member) -> bool {
        match self.wish {
            Wish::Image { id: Some(id), .. } => *id == candidate.image_id,
            Wish::Image { reference, id: None } => candidate.runs(reference),
            Wish::Settle(Reason::UpToDate { .. } | Reason::SameImage { .. }) => false,
            Wish::Settle(_) => true,
        }
    }

    /// The name is free: between the two halves of a commit, or in a stop-first replacement.
    fn take_over(&self, old: &Member, candidate: &Member) -> Step {
        if candidate.is_created() {
            if let Some(cause) = refusal(candidate) {
                return self.reject(candidate, cause);
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
            Proof::NotYet(step) => step,
            Proof::Failed(cause) => self.reject(candidate, cause),
        }
    }

    /// A candidate, and nobody else: whatever it is worth, it is all there is.
    fn alone(&self, candidate: &Member) -> Step {
        let rest = candidate
            .finished_at
            .map(|finished| finished + TimeDelta::seconds(10));
        if let Some(until) = rest.filter(|until| candidate.has_ended() && *until > self.now) {
            let reason = Reason::SuccessorUnhealthy {
                verdict: candidate.health.to_string(),
            };
            return Step::Wait { reason, until };
        }
        if candidate.is_created() || candidate.has_ended() {
            return match refusal(candidate) {
                Some(cause) => Step::Rest(Reason::Rejected {
                    image: candidate.image.clone(),
                    cause,
                }),
                None => start(candidate),
            };
        }
        match self.prove(candidate) {
            Proof::Proven => self.promote(candidate),
            Proof::NotYet(step) => step,
            Proof::Failed(_) => Step::Wait {
                reason: Reason::SuccessorUnhealthy {
                    verdict: candidate.health.to_string(),
                },
                until: self.now + self.proof_interval(),
            },
        }
    }

    /// No successor: the old one comes back, from itself.
    fn restore(&self, old: &Member) -> Step {
        let mut pending = None;
        if !old.is_up()
            && let Some(rejected) = (self.rollout.failed.iter())
                .find(|rejected| rejected.is_up() && rejected.started_at > old.finished_at)
        {
            // Started only when the old one had stopped: the two may not live at once.
            return self.until_gone(rejected);
        }
        let twin = self
            .rollout
            .failed
            .iter()
            .rev()
            .find(|rejected| rejected.replaces.as_ref() == Some(&old.id));
        let policy = twin
            .and_then(|twin| twin.predecessor_policy.as_ref())
            .or(old.watch.policy_before.as_ref());
        let set_policy = || {
            policy
                .filter(|policy| old.restart_is_off() && **policy != old.restart_policy)
                .map(|policy| Step::SetRestartPolicy {
                    id: old.id.clone(),
                    name: old.name.clone(),
                    policy: policy.clone(),
                })
        };
        // By the engine's own clock: the life that the rollout ended began before the candidate was made. Somebody
        // may have removed that one, and then the old one's name tells, to the second, when it was retired.
        let begun = match (twin, old.role) {
            (Some(twin), _) => Some(twin.created_at),
            (None, Role::Draining { since }) => Some(timestamp(since + 1)),
            (None, _) => None,
        };
        let restarted = old.watch.told_to_stop.is_none()
            && (old.watch.came_back || begun.is_some_and(|begun| old.started_at > Some(begun)));
        let take_back = || Step::Restore {
            id: old.id.clone(),
            to: self.rollout.name.clone(),
        };
        if old.is_up() {
            if old.restart_is_off() && !restarted && can_come_back(old) {
                // It may have been told to stop, and then it will: only a new life brings it back.
                return match self.drain(old, &mut pending) {
                    Some(step) => step,
                    None => waiting(pending, self.now),
                };
            }
            return set_policy().unwrap_or_else(take_back);
        }
        if old.state == RunState::Removing {
            return self.until_gone(old);
        }
        // One that was started again and ended by itself has its old life back; its policy decides on the next.
        set_policy().unwrap_or_else(|| if restarted { take_back() } else { start(old) })
    }

    /// The name tells the second; where another one has it already, the next.
    fn retire(&self, old: &Member) -> Step {
        Step::Retire {
            id: old.id.clone(),
            to: self.draining_name(),
        }
    }

    fn draining_name(&self) -> String {
        let mut since = self.now.timestamp();
        let taken = |since| {
            self.rollout
                .draining
                .iter()
                .any(|other| other.role == Role::Draining { since })
        };
        while taken(since) {
            since += 1;
        }
        Role::Draining { since }.name(&self.rollout.name)
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
