//! The list of blockers of a container: what it depends on.

use chrono::{DateTime, Utc};

use super::next::At;
use super::pace::MOST_DRAINS;
use super::reason::Reason;
use super::{Blocker, Desired, Facts, FailureCause, Member, Policy, Rollout, RunFacts, Start, UpdateOrder};
use crate::container::Role;

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
    /// The facts that the list depends on.
    pub(super) fn start(&self, serving: &Member) -> Start<'_> {
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
        let in_the_way = self.in_the_way().next().or(rollout.withdrawn.get(MOST_DRAINS));
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
}
