//! In service, and no candidate: a replacement may start.

use super::At;
use crate::container::ImageId;
use crate::image::{ImageReference, is_mutable_tag};
use crate::rollout::pace::{END_INTERVAL, GRACE, PULL_INTERVAL};
use crate::rollout::reason::{Reason, ReasonKind};
use crate::rollout::{
    AutoRemove, Blocker, BlockerKind, Decided, Desired, Fact, Intent, Member, Row, Step, UpdateOrder,
};

impl At<'_> {
    /// A replacement takes precedence over a restart.
    pub(super) fn in_service(&self, serving: &Member) -> Decided {
        self.or_restart(serving, self.replace_or_keep(serving))
    }

    fn replace_or_keep(&self, serving: &Member) -> Decided {
        let is_stuck = |old: &Member| self.facts.backoffs.stuck(old).is_some();
        match self.desired {
            _ if serving.is_copy && serving.is_created() => self.start_copy(serving),
            _ if serving.auto_remove == AutoRemove::ByUpgrader
                && serving.has_ended()
                && self.rollout.old.iter().all(is_stuck) =>
            {
                self.remove_after(GRACE, Row::AutoRemove, serving)
            }
            Desired::Image {
                reference, id: None, ..
            } if self.facts.is_pulling => {
                let image = reference.to_string();
                Row::Pulling.wait(Reason::Pulling { image }, self.now + PULL_INTERVAL)
            }
            Desired::Image {
                reference,
                id,
                intent,
            } => self.replace(serving, reference, id.as_ref(), *intent),
            Desired::Keep(reason) => {
                let blocked = self.blocked(&self.start(serving).blockers());
                blocked.unwrap_or_else(|| Row::Blocked.rest(reason.clone()))
            }
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
        let start = self.start(serving);
        let blockers = start.blockers();
        let needs_memory = self.order == UpdateOrder::StartFirst && self.facts.free_memory.is_none();
        let holds_count = intent == Intent::Upgrade && serving.is_in_use();
        // Only its id tells whether a tag that moves still stands for the image that failed.
        let may_have_moved = |it: &Blocker| {
            it.reason.kind() == ReasonKind::Quarantined && id.is_none() && is_mutable_tag(reference)
        };
        let passes =
            |it: &Blocker| matches!(it.kind, BlockerKind::Time | BlockerKind::Turn) || may_have_moved(it);
        let is_free = blockers.iter().all(may_have_moved) && (blockers.is_empty() || !self.facts.is_plan);
        match id {
            _ if holds_count && self.facts.holds.is_none() && (is_free || start.is_staged()) => {
                Row::HoldsUnknown.learn(Fact::Holds)
            }
            _ if !self.facts.is_plan
                && let Some(image) = start.unseen() =>
            {
                Row::FirstSeen.act(Step::NoteFirstSeen {
                    image: image.to_owned(),
                })
            }
            _ if self.facts.hidden_obstacle.is_none() && blockers.iter().all(passes) => {
                Row::ObstacleUnknown.learn(Fact::HiddenObstacle)
            }
            _ if !is_free && let Some(blocked) = self.blocked(&blockers) => blocked,
            _ if holds_count && self.facts.holds_are_old => Row::HoldsUnknown.learn(Fact::Holds),
            None => Row::Pull.act(Step::pull(reference)),
            _ if needs_memory => self.facts.ask_for_memory(Row::MemoryUnknown, self.now),
            Some(id) => Row::Create.act(Step::Create {
                from: serving.id.clone(),
                reference: reference.clone(),
                image: id.clone(),
                release: self.rollout.latest_release() + 1,
                intent,
            }),
        }
    }

    /// The rest, or the wait for a drain, that the list asks for.
    fn blocked(&self, blockers: &[Blocker]) -> Option<Decided> {
        let reason = blockers.first()?.reason.clone();
        Some(match reason.kind() {
            ReasonKind::AwaitingDrains => Row::EnoughDrains.wait(reason, self.now + self.proof_interval()),
            _ => Row::Blocked.rest(reason),
        })
    }

    pub(super) fn wait_for_end(&self, row: Row, other: &Member) -> Decided {
        match self.facts.backoffs.stuck(other) {
            Some(last) => row.rest(last.reason.clone()),
            None => row.wait(Reason::stopping(other), self.now + END_INTERVAL),
        }
    }
}
