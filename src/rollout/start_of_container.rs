//! The blockers of a container's upgrade: their input.

use chrono::{DateTime, Utc};

use super::next::At;
use super::pace::MOST_DRAINS;
use super::reason::Reason;
use super::{
    Blocker, BlockerRow, Desired, Facts, FailureCause, Intent, Member, Policy, Rollout, RunFacts, Start,
    Surroundings, UpdateOrder,
};
use crate::container::{ImageId, Role};
use crate::image::ImageReference;

/// Why no upgrade of a delegate starts now, in the order of the table. Empty if a replacement is in progress or nothing is in
/// service.
pub fn blockers(
    rollout: &Rollout,
    desired: &Desired,
    policy: &Policy,
    facts: &Facts,
    now: DateTime<Utc>,
) -> Vec<Blocker> {
    let at = At::new(rollout, desired, policy, facts, now);
    match (&rollout.serving, &rollout.candidate) {
        (Some(serving), None) => InService { at: &at, serving }.start().blockers(),
        _ => Vec::new(),
    }
}

/// A container in service without a candidate.
pub(super) struct InService<'a> {
    pub(super) at: &'a At<'a>,
    pub(super) serving: &'a Member,
}

impl InService<'_> {
    /// The facts that the list depends on.
    pub(super) fn start(&self) -> Start<'_> {
        let At {
            rollout,
            desired,
            policy,
            facts,
            now,
            ..
        } = self.at;
        Start {
            own: self,
            desired,
            limits: &rollout.owner,
            policy,
            holds: facts.holds.as_ref(),
            run: &facts.run,
            expiry: self.serving.image.expiry(),
            now: *now,
        }
    }

    /// The wanted image.
    pub(super) fn wanted(&self) -> Option<(&ImageReference, Option<&ImageId>, Intent)> {
        match self.at.desired {
            Desired::Image {
                reference,
                id,
                intent,
            } => Some((reference, id.as_ref(), *intent)),
            Desired::Keep(_) => None,
        }
    }

    /// Why no further container can be added now. A container that is still up must not run beside a stop-first candidate.
    fn drains(&self, image: String) -> Option<Reason> {
        let (rollout, stuck) = (self.at.rollout, |it: &Member| self.at.facts.backoffs.stuck(it));
        let in_the_way = self.at.in_the_way().next().or(rollout.withdrawn.get(MOST_DRAINS));
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

impl Surroundings for InService<'_> {
    fn ask(&self, row: BlockerRow) -> Option<Reason> {
        let At {
            rollout, facts, now, ..
        } = self.at;
        let RunFacts { given_up, pull, .. } = &facts.run;
        match row {
            BlockerRow::LeftAlone => return rollout.left_alone(),
            BlockerRow::InOtherHands => {
                let is_replaced = rollout.is_replaced_by_compose(*now);
                return is_replaced.then_some(Reason::ReplacedByCompose);
            }
            BlockerRow::NotRunning => {
                let kept = match self.at.desired {
                    Desired::Keep(reason) => Some(reason),
                    Desired::Image { .. } => None,
                };
                let mut found = kept.into_iter().chain(given_up).chain(pull);
                let is_idle = !self.serving.is_in_use() && !found.any(Reason::is_failure);
                return is_idle.then(|| Reason::not_running(self.serving));
            }
            _ => {}
        }
        let (reference, id, intent) = self.wanted()?;
        let image = reference.to_string();
        let holds = match row {
            BlockerRow::Current => id == Some(&self.serving.image_id),
            BlockerRow::RejectedMeanwhile => {
                given_up.is_none() && rollout.was_rejected_meanwhile(id, &facts.known_rejections)
            }
            BlockerRow::CandidateGone => given_up.is_none() && facts.has_created,
            BlockerRow::RolledBack => self.serving.was_rolled_back_from(reference, id),
            _ => true,
        };
        Some(match row {
            _ if !holds => return None,
            BlockerRow::Current => self.serving.unchanged_reason(reference, intent),
            BlockerRow::Obstacle => Reason::Obstacle(rollout.obstacle(facts)?.clone()),
            BlockerRow::NameTaken => Reason::NameTaken {
                name: rollout.name_conflict()?,
            },
            BlockerRow::NotBeside => match &self.at.order {
                UpdateOrder::Blocked(reason) => reason.clone(),
                _ => return None,
            },
            BlockerRow::RejectedMeanwhile => {
                let rejection = FailureCause::RejectedByAnother.into();
                Reason::Rejected { image, rejection }
            }
            BlockerRow::CandidateGone => Reason::CandidateVanished { image },
            BlockerRow::RolledBack => self.serving.rolled_back_reason(reference),
            BlockerRow::Quarantined => rollout.quarantine_of(reference, id, facts, *now)?,
            BlockerRow::Drains => self.drains(image)?,
            _ => return None,
        })
    }
}
