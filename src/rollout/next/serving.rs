//! In service, and no candidate: a replacement may start.

use super::At;
use crate::container::{ImageId, Role};
use crate::image::ImageReference;
use crate::rollout::pace::{END_INTERVAL, GRACE, MOST_DRAINS, PULL_INTERVAL};
use crate::rollout::reason::Reason;
use crate::rollout::start_permission::{Beginning, Holdup};
use crate::rollout::{
    AutoRemove, Decided, Desired, Fact, FailureCause, Intent, Member, Row, Step, UpdateOrder,
};

impl At<'_> {
    /// A replacement takes precedence over a restart.
    pub(super) fn in_service(&self, serving: &Member) -> Decided {
        self.or_restart(serving, self.replace_or_keep(serving))
    }

    fn replace_or_keep(&self, serving: &Member) -> Decided {
        let has_failed = matches!(self.desired, Desired::Keep(reason) if reason.is_failure());
        match self.desired {
            _ if serving.is_copy && serving.is_created() => self.start_copy(serving),
            _ if serving.auto_remove == AutoRemove::ByUpgrader
                && serving.has_ended()
                && self
                    .rollout
                    .old
                    .iter()
                    .all(|old| self.facts.backoffs.stuck(old).is_some()) =>
            {
                self.remove_after(GRACE, Row::AutoRemove, serving)
            }
            _ if !serving.is_in_use() && !has_failed => Row::NotRunning.rest(Reason::not_running(serving)),
            Desired::Keep(reason) => Row::NothingNew.rest(reason.clone()),
            Desired::Image {
                reference,
                id,
                intent,
            } => self.replace(serving, reference, id.as_ref(), *intent),
        }
    }

    /// An old container that it cannot run beside ends first, which the process that asked it to stop may not have done yet.
    fn start_copy(&self, copy: &Member) -> Decided {
        let mut old_ones = self.rollout.old.iter().filter(|_| self.is_stop_first());
        match (self.keeps_from_starting(), old_ones.find(|old| old.is_up())) {
            (Some(other), _) => self.wait_for_end(Row::CopyStart, other),
            (None, Some(old)) => self.stop(Row::CopyStart, old),
            (None, None) => Row::CopyStart.act(Step::start(copy)),
        }
    }

    /// An image is wanted.
    fn replace(
        &self,
        serving: &Member,
        reference: &ImageReference,
        id: Option<&ImageId>,
        intent: Intent,
    ) -> Decided {
        let rollout = self.rollout;
        let image = || reference.to_string();
        let needs_memory = self.order == UpdateOrder::StartFirst && self.facts.free_memory.is_none();
        match (id, rollout.obstacle(self.facts), &self.order) {
            _ if intent == Intent::Upgrade && serving.was_rolled_back_from(reference, id) => {
                Row::RolledBack.rest(serving.rolled_back_reason(reference))
            }
            (Some(id), ..) if *id == serving.image_id => {
                Row::UpToDate.rest(serving.unchanged_reason(reference, intent))
            }
            _ if let Some(wait) = self.has_to_wait_for_drains(reference) => wait,
            (_, Some(obstacle), _) => Row::Obstacle.rest(Reason::Obstacle(obstacle.clone())),
            (None, ..) if self.facts.is_pulling => {
                Row::Pulling.wait(Reason::Pulling { image: image() }, self.now + PULL_INTERVAL)
            }
            _ if let Some(decided) = self.may_not_start(serving, reference, intent) => decided,
            _ if intent == Intent::Upgrade
                && let Some(quarantined) = rollout.quarantine_of(reference, id, self.facts, self.now) =>
            {
                Row::Quarantined.rest(quarantined)
            }
            _ if rollout.was_rejected_meanwhile(id, &self.facts.known_rejections) => Row::RejectedMeanwhile
                .rest(Reason::Rejected {
                    image: image(),
                    rejection: FailureCause::RejectedByAnother.into(),
                }),
            _ if let Some(name) = rollout.name_conflict() => Row::NameTaken.rest(Reason::NameTaken { name }),
            (.., UpdateOrder::Blocked(reason)) => Row::Blocked.rest(reason.clone()),
            _ if self.facts.hidden_obstacle.is_none() => Row::ObstacleUnknown.learn(Fact::HiddenObstacle),
            (None, ..) => Row::Pull.act(Step::pull(reference)),
            _ if needs_memory => self.facts.ask_for_memory(Row::MemoryUnknown, self.now),
            _ if self.facts.has_created => {
                Row::CandidateGone.rest(Reason::CandidateVanished { image: image() })
            }
            (Some(id), ..) => Row::Create.act(Step::Create {
                from: serving.id.clone(),
                reference: reference.clone(),
                image: id.clone(),
                release: rollout.latest_release() + 1,
                intent,
            }),
        }
    }

    /// The row that keeps an upgrade to this image from starting now, if any.
    fn may_not_start(&self, serving: &Member, reference: &ImageReference, intent: Intent) -> Option<Decided> {
        let beginning = Beginning {
            limits: &self.rollout.owner,
            timing: &self.policy.timing,
            holds: self.facts.holds.as_ref(),
            is_plan: self.facts.is_plan,
            expiry: serving.image.expiry(),
            now: self.now,
        };
        Some(match beginning.holdup(reference, intent)? {
            Holdup::Reason(reason) => Row::MayNotStart.rest(reason),
            Holdup::Unread => Row::HoldsUnknown.learn(Fact::Holds),
            Holdup::Unseen(image) => Row::FirstSeen.act(Step::NoteFirstSeen { image }),
        })
    }

    /// The wait where no further container can be added now. What is up must not run beside a stop-first candidate.
    fn has_to_wait_for_drains(&self, reference: &ImageReference) -> Option<Decided> {
        let (rollout, stuck) = (self.rollout, |it: &Member| self.facts.backoffs.stuck(it));
        let in_the_way = self.in_the_way().next().or(rollout.withdrawn.get(MOST_DRAINS));
        if let Some(last) = in_the_way.and_then(stuck) {
            return Some(Row::EnoughDrains.rest(last.reason.clone()));
        }
        let others = rollout
            .old
            .iter()
            .chain(rollout.given_up())
            .chain(&rollout.helper);
        let others: Vec<_> = others.filter(|other| stuck(other).is_none()).collect();
        let drains = others.iter().filter(|other| other.is_up()).count();
        let is_exchanging = others
            .iter()
            .any(|it| matches!(it.role, Role::Retired | Role::Helper { .. }));
        let image = reference.to_string();
        let reason = Reason::AwaitingDrains { image, drains };
        let waits = drains >= MOST_DRAINS || is_exchanging || in_the_way.is_some();
        waits.then(|| Row::EnoughDrains.wait(reason, self.now + self.proof_interval()))
    }

    pub(super) fn wait_for_end(&self, row: Row, other: &Member) -> Decided {
        match self.facts.backoffs.stuck(other) {
            Some(last) => row.rest(last.reason.clone()),
            None => row.wait(Reason::stopping(other), self.now + END_INTERVAL),
        }
    }
}
