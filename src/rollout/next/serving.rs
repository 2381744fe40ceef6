//! In service, and no candidate: a replacement may start.

use chrono::{DateTime, TimeDelta, Utc};

use super::{At, GRACE};
use crate::container::{ImageId, Role};
use crate::image::{ImageReference, is_mutable_tag};
use crate::rollout::reason::{Reason, ReasonKind};
use crate::rollout::{
    AutoRemove, Blocker, Decided, Desired, Fact, Facts, FailureCause, Intent, Member, Policy, Rollout, Row,
    RunFacts, Start, Step, UpdateOrder,
};

/// So many other containers of a delegate finish their tasks at a time: each takes as much of the host as the one in
/// service.
const MOST_DRAINS: usize = 2;

/// How often to show how far a pull has come. Its end wakes the loop, and to observe takes time that the engine needs for it.
const PULL_INTERVAL: TimeDelta = TimeDelta::seconds(2);

/// Why no upgrade of a delegate starts now, in the order of the table. Where a replacement is in progress, or nothing is in
/// service, the list is empty.
pub fn blockers(
    rollout: &Rollout,
    desired: &Desired,
    policy: &Policy,
    facts: &Facts,
    now: DateTime<Utc>,
) -> Vec<Blocker> {
    let at = At {
        rollout,
        desired,
        policy,
        facts,
        order: rollout.update_order(policy, facts),
        now,
    };
    match (&rollout.serving, &rollout.candidate) {
        (Some(serving), None) => at.start(serving).blockers(),
        _ => Vec::new(),
    }
}

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
            _ if !is_free && let Some(blocked) = self.blocked(&blockers) => blocked,
            _ if holds_count && self.facts.holds_are_old => Row::HoldsUnknown.learn(Fact::Holds),
            _ if self.facts.hidden_obstacle.is_none() => Row::ObstacleUnknown.learn(Fact::HiddenObstacle),
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

    /// The facts that the list depends on.
    fn start(&self, serving: &Member) -> Start<'_> {
        let (rollout, facts) = (self.rollout, self.facts);
        let wanted = match self.desired {
            Desired::Image {
                reference,
                id,
                intent,
            } => Some((reference, id.as_ref(), *intent)),
            Desired::Keep(_) => None,
        };
        let when = |holds: bool, reason: Reason| holds.then_some(reason);
        let RunFacts { given_up, pull, .. } = &facts.run;
        let kept = match self.desired {
            Desired::Keep(reason) => Some(reason),
            Desired::Image { .. } => None,
        };
        let has_failed = [kept, given_up.as_ref(), pull.as_ref()]
            .into_iter()
            .flatten()
            .any(Reason::is_failure);
        let image = wanted
            .map(|(reference, ..)| reference.to_string())
            .unwrap_or_default();
        Start {
            desired: self.desired,
            left_alone: rollout.left_alone(),
            health_only: self.policy.health_only,
            in_other_hands: when(
                rollout.is_replaced_by_compose(self.now),
                Reason::ReplacedByCompose,
            ),
            not_running: when(!serving.is_in_use() && !has_failed, Reason::not_running(serving)),
            current: wanted.and_then(|(reference, id, intent)| {
                (id == Some(&serving.image_id)).then(|| serving.unchanged_reason(reference, intent))
            }),
            obstacle: wanted.and(rollout.obstacle(facts)).cloned().map(Reason::Obstacle),
            name_taken: wanted
                .and_then(|_| rollout.name_conflict())
                .map(|name| Reason::NameTaken { name }),
            not_beside: match &self.order {
                UpdateOrder::Blocked(reason) => wanted.map(|_| reason.clone()),
                _ => None,
            },
            rejected_meanwhile: wanted.filter(|_| given_up.is_none()).and_then(|(_, id, _)| {
                let reason = Reason::Rejected {
                    image: image.clone(),
                    rejection: FailureCause::RejectedByAnother.into(),
                };
                when(
                    rollout.was_rejected_meanwhile(id, &facts.known_rejections),
                    reason,
                )
            }),
            candidate_gone: when(
                wanted.is_some() && facts.has_created && given_up.is_none(),
                Reason::CandidateVanished { image: image.clone() },
            ),
            rolled_back: wanted.and_then(|(reference, id, _)| {
                when(
                    serving.was_rolled_back_from(reference, id),
                    serving.rolled_back_reason(reference),
                )
            }),
            quarantined: wanted
                .and_then(|(reference, id, _)| rollout.quarantine_of(reference, id, facts, self.now)),
            drains: wanted.and_then(|_| self.drains(image)),
            limits: &rollout.owner,
            timing: &self.policy.timing,
            holds: facts.holds.as_ref(),
            run: &facts.run,
            expiry: serving.image.expiry(),
            now: self.now,
        }
    }

    /// Why no further container can be added now. What is up must not run beside a stop-first candidate.
    fn drains(&self, image: String) -> Option<Reason> {
        let (rollout, stuck) = (self.rollout, |it: &Member| self.facts.backoffs.stuck(it));
        let in_the_way = self.in_the_way().or(rollout.withdrawn.get(MOST_DRAINS));
        if let Some(last) = in_the_way.and_then(stuck) {
            return Some(last.reason.clone());
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
        let waits = drains >= MOST_DRAINS || is_exchanging || in_the_way.is_some();
        waits.then_some(Reason::AwaitingDrains { image, drains })
    }

    pub(super) fn wait_for_end(&self, row: Row, other: &Member) -> Decided {
        match self.facts.backoffs.stuck(other) {
            Some(last) => row.rest(last.reason.clone()),
            None => row.wait(Reason::stopping(other), self.now + TimeDelta::seconds(1)),
        }
    }
}
