//! In service (S): nothing is in progress, and a replacement may begin.

use chrono::{DateTime, TimeDelta, Utc};

use super::At;
use super::proof::Candidate;
use crate::container::ImageId;
use crate::image::ImageReference;
use crate::rollout::Row::{
    S1, S2, S3, S4, S5, S6, S7, S8, S9, S10, S11, S12, S13, S14, S15, S16, S17, S18, S19, S20, S21, S22, S23,
    S24,
};
use crate::rollout::reason::Reason;
use crate::rollout::{
    Decided, Decision, Desired, Fact, FailureCause, Intent, Member, Step, UpdateOrder, Vanished,
};

/// So many other containers of a delegate finish their tasks at a time: each takes as much of the host as the one in
/// service.
const MOST_DRAINS: usize = 2;

impl At<'_> {
    /// In service, without a candidate. A replacement goes before a restart.
    pub(super) fn in_service(&self, serving: &Member) -> Decided {
        if let Some(restart) = self.finish_restart(serving) {
            return restart;
        }
        let decided = self.replace_or_keep(serving);
        let restart = match &decided.decision {
            Decision::Rest(reason) => self.restart_unhealthy(serving, reason),
            _ => None,
        };
        restart.unwrap_or(decided)
    }

    fn replace_or_keep(&self, serving: &Member) -> Decided {
        match (
            self.desired,
            self.rollout.superseded_by(serving),
            &self.facts.stalled_replica,
        ) {
            (Desired::Keep(reason), ..) if !serving.is_in_use() && reason.is_failure() => {
                S1.rest(reason.clone())
            }
            _ if !serving.is_in_use() => S2.rest(Reason::NotRunning {
                state: serving.state.as_str().to_owned(),
            }),
            (_, Some(rejected), _) => S3.act(Step::remove(rejected)),
            (Desired::Keep(Reason::WaitingForReplica { name }), _, Some(because)) => {
                S4.rest(Reason::Halted {
                    name: name.clone(),
                    because: because.clone(),
                })
            }
            (Desired::Keep(reason), ..) => S5.rest(reason.clone()),
            (
                Desired::Image {
                    reference,
                    id,
                    intent,
                },
                ..,
            ) => self.replace(serving, reference, id.as_ref(), *intent),
        }
    }

    /// An image is desired.
    fn replace(
        &self,
        serving: &Member,
        reference: &ImageReference,
        id: Option<&ImageId>,
        intent: Intent,
    ) -> Decided {
        let rejected = self.rollout.quarantine_of(reference, self.now);
        let rejected = rejected.filter(|_| self.facts.is_plan);
        match (id, rejected, self.rollout.obstacle(self.facts), &self.order) {
            _ if intent == Intent::Upgrade && serving.was_rolled_back_from(reference, id) => {
                S6.rest(serving.rolled_back_reason(reference))
            }
            (Some(id), ..) if *id == serving.image_id => S7.rest(serving.unchanged_reason(reference, intent)),
            _ if let Some(reason) = self.has_to_wait_for_drains(serving, reference) => {
                S8.wait(reason, self.now + self.proof_interval())
            }
            (_, _, Some(obstacle), _) => S9.rest(Reason::Obstacle(obstacle.clone())),
            (None, ..) if self.facts.is_pulling => S11.wait(pulling(reference), self.pull_is_due()),
            _ if let Some(decided) = self.may_not_begin(serving, reference, intent) => decided,
            (None, .., UpdateOrder::Blocked(reason)) => S10.rest(reason.clone()),
            (None, ..) if self.facts.hidden_obstacle.is_none() => S12.learn(Fact::HiddenObstacle),
            (None, Some(rejected), ..) => S13.rest(rejected),
            (None, ..) => S14.act(Step::pull(reference)),
            (Some(id), ..) => self.create(serving, reference, id, intent),
        }
    }

    /// The desired image is here, and is not the one that runs.
    fn create(&self, serving: &Member, reference: &ImageReference, id: &ImageId, intent: Intent) -> Decided {
        let image = reference.to_string();
        let name_conflict = self.rollout.name_conflict.as_ref();
        let vanished = self.rollout.vanished_candidate(id).map(Vanished::failure);
        let last = self.rollout.last_rejection(id);
        let quarantine = last.and_then(|(last, _)| last.quarantine(self.now));
        let just_now = last.filter(|(last, _)| !self.facts.known_rejections.contains(&last.id));
        match (
            name_conflict,
            self.rollout.vanished_attempt(),
            vanished,
            quarantine,
            &self.order,
        ) {
            (Some(name), ..) => S15.rest(Reason::NameTaken { name: name.clone() }),
            _ if let Some((rejected, _)) = just_now => S16.rest(Reason::Rejected {
                image,
                cause: self.cause_of(rejected),
            }),
            (_, Some((attempt, cause)), ..) => {
                let image = attempt.image.to_string();
                S17.rest(Reason::CandidateVanished { image, cause })
            }
            (.., Some(cause), _, _) => S18.rest(Reason::CandidateVanished { image, cause }),
            (.., Some(quarantined), _) if intent == Intent::Upgrade => S19.rest(quarantined),
            (.., UpdateOrder::Blocked(reason)) => S20.rest(reason.clone()),
            _ if self.facts.hidden_obstacle.is_none() => S21.learn(Fact::HiddenObstacle),
            (.., UpdateOrder::StartFirst) if self.facts.free_memory.is_none() => S22.learn(Fact::FreeMemory),
            _ => match self.ensure_standby(serving) {
                Some(standby) => S23.see(standby),
                None => S24.act(Step::Create {
                    from: serving.id.clone(),
                    reference: reference.clone(),
                    image: id.clone(),
                    release: serving.release + 1,
                    intent,
                }),
            },
        }
    }

    /// Why a candidate was rejected, as far as this process can know if another one did it.
    fn cause_of(&self, rejected: &Member) -> FailureCause {
        match self.prove(rejected, true) {
            (_, Candidate::Refused(failure) | Candidate::Failed(failure)) => failure.cause,
            _ => FailureCause::RejectedByAnother,
        }
    }

    /// Why no further container can be added now, if so. What still ends must not run beside a stop-first candidate.
    ///
    /// The one in service is to end itself where this process asked it to, while it drained: then somebody gave it another
    /// name, and removed the one that it made way for.
    fn has_to_wait_for_drains(&self, serving: &Member, reference: &ImageReference) -> Option<Reason> {
        let asked = serving.history.stop_requested_at;
        if asked.is_some_and(|asked| !self.is_overdue(serving, asked)) {
            let name = serving.name.clone();
            return Some(Reason::Stopping { name });
        }
        let asked = self.rollout.draining.iter();
        let asked = asked.filter(|old| old.history.stop_requested_at.is_some());
        let mut ending = self.rollout.given_up().chain(asked);
        let has_ending = ending.any(Member::is_up) || self.rollout.ending_elsewhere > 0;
        let waits = self.drains() >= MOST_DRAINS || self.is_stop_first() && has_ending;
        waits.then(|| Reason::AwaitingDrains {
            image: reference.to_string(),
            drains: self.drains(),
        })
    }

    /// How many of its containers finish their tasks.
    fn drains(&self) -> usize {
        let draining = self.rollout.draining.iter();
        draining
            .chain(self.rollout.given_up())
            .filter(|other| other.is_up())
            .count()
            + self.rollout.ending_elsewhere
    }

    /// When to show again how far a pull has come, whose end wakes the loop. Observing takes time that the engine needs for it.
    pub(super) fn pull_is_due(&self) -> DateTime<Utc> {
        self.now + TimeDelta::seconds(2)
    }

    /// When to check on another task.
    pub(super) fn soon(&self) -> DateTime<Utc> {
        self.now + TimeDelta::milliseconds(500)
    }
}

pub(super) fn pulling(reference: &ImageReference) -> Reason {
    Reason::Pulling {
        image: reference.to_string(),
    }
}
