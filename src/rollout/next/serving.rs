//! In service (S): nothing is in progress, and a replacement may begin.

use chrono::{DateTime, TimeDelta, Utc};

use super::At;
use crate::container::ImageId;
use crate::image::ImageReference;
use crate::rollout::Row::{
    S1, S2, S3, S4, S5, S6, S7, S8, S9, S10, S11, S12, S13, S14, S15, S16, S17, S18, S19, S20, S21, S22,
};
use crate::rollout::reason::Reason;
use crate::rollout::{Decided, Desired, Fact, Intent, Member, Step, UpdateOrder, Vanished};

impl At<'_> {
    /// In service, without a candidate.
    pub(super) fn in_service(&self, serving: &Member) -> Decided {
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
            (_, _, Some(obstacle), _) => S8.rest(Reason::Obstacle(obstacle.clone())),
            (None, .., UpdateOrder::Blocked(reason)) => S9.rest(reason.clone()),
            (None, ..) if self.facts.is_pulling => S10.wait(pulling(reference), self.soon()),
            (None, ..) if self.facts.copied_files.is_none() => S11.learn(Fact::CopiedFiles),
            (None, Some(rejected), ..) => S12.rest(rejected),
            (None, ..) => S13.act(Step::pull(reference)),
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
        match (
            name_conflict,
            self.rollout.vanished_attempt(),
            vanished,
            quarantine,
            &self.order,
        ) {
            (Some(name), ..) => S14.rest(Reason::NameTaken { name: name.clone() }),
            (_, Some((attempt, cause)), ..) => {
                let image = attempt.image.to_string();
                S15.rest(Reason::CandidateVanished { image, cause })
            }
            (.., Some(cause), _, _) => S16.rest(Reason::CandidateVanished { image, cause }),
            (.., Some(quarantined), _) if intent == Intent::Upgrade => S17.rest(quarantined),
            (.., UpdateOrder::Blocked(reason)) => S18.rest(reason.clone()),
            _ if self.facts.copied_files.is_none() => S19.learn(Fact::CopiedFiles),
            (.., UpdateOrder::StartFirst) if self.facts.free_memory.is_none() => S20.learn(Fact::FreeMemory),
            _ => match self.ensure_standby(serving) {
                Some(standby) => S21.see(standby),
                None => S22.act(Step::Create {
                    from: serving.id.clone(),
                    reference: reference.clone(),
                    image: id.clone(),
                    release: serving.release + 1,
                    intent,
                }),
            },
        }
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
