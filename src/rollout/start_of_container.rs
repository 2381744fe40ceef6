//! The blockers of a container's upgrade: their input.

use std::collections::BTreeMap;

use super::next::At;
use super::pace::MOST_DRAINS;
use super::reason::Reason;
use super::{
    Blocker, BlockerRow, ChosenOrder, Desired, FailureCause, Intent, Member, RunFacts, Start, Surroundings,
};
use crate::container::Role;
use crate::document::NewSettings;

impl At<'_> {
    /// Why no upgrade of a delegate starts now, in the order of the table.
    pub(super) fn blockers(&self) -> Vec<Blocker> {
        match (&self.rollout.serving, &self.rollout.candidate) {
            (Some(serving), None) => self.start(serving).blockers(),
            _ => Vec::new(),
        }
    }

    /// The facts that the list depends on.
    pub(super) fn start(&self, serving: &Member) -> Start<'_> {
        Start {
            own: self,
            desired: self.desired,
            limits: &self.rollout.owner,
            policy: self.policy,
            holds: self.facts.holds.as_ref(),
            run: &self.facts.run,
            expiry: serving.image.expiry(),
            now: self.now,
        }
    }

    /// Whether the settings were changed, if an operator wants another container of these to get other ones.
    fn reconfigured(serving: &Member, replaced: &BTreeMap<String, NewSettings>) -> Reason {
        let wanted = serving.replaces.as_ref().and_then(|id| replaced.get(id.as_str()));
        match serving
            .reconfigured
            .clone()
            .filter(|names| wanted.is_some_and(|it| it.names() == *names))
        {
            Some(settings) => Reason::Reconfigured { settings },
            None => Reason::CreateRefused {
                problem: "someone else has recreated the delegate meanwhile; run the command again"
                    .to_owned(),
            },
        }
    }

    /// Why no further container can be added now. A container that is still up must not run beside a stop-first candidate.
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

/// The container in service has no candidate.
impl Surroundings for At<'_> {
    fn ask(&self, row: BlockerRow) -> Option<Reason> {
        let (rollout, facts, now) = (self.rollout, self.facts, self.now);
        let serving = rollout.serving.as_ref()?;
        let RunFacts { given_up, pull, .. } = &facts.run;
        let kept = match self.desired {
            Desired::Keep(reason) => Some(reason),
            Desired::Image { .. } => None,
        };
        let mut tried = kept.into_iter().chain(given_up).chain(pull);
        match row {
            BlockerRow::LeftAlone => return rollout.owner.left_alone(),
            BlockerRow::InOtherHands if rollout.is_replaced_by_compose(now) => {
                return Some(Reason::ReplacedByCompose);
            }
            BlockerRow::NotRunning if !serving.is_in_use() && !tried.any(Reason::is_failure) => {
                return Some(Reason::not_running(serving));
            }
            _ => {}
        }
        let (reference, id, intent) = self.desired.wanted()?;
        let image = reference.to_string();
        Some(match row {
            BlockerRow::Current if let Intent::Reconfigure(_, all) = intent => {
                (!all.contains_key(serving.id.as_str())).then(|| Self::reconfigured(serving, all))?
            }
            BlockerRow::Current if id == Some(&serving.image_id) => {
                serving.unchanged_reason(reference, intent)
            }
            BlockerRow::Obstacle => Reason::Obstacle(rollout.obstacle(facts)?.clone()),
            BlockerRow::NameTaken => Reason::NameTaken {
                name: rollout.name_conflict()?,
            },
            BlockerRow::NotBeside if let ChosenOrder::Blocked(reason) = &self.order => reason.clone(),
            BlockerRow::RejectedMeanwhile
                if given_up.is_none() && rollout.was_rejected_meanwhile(id, &facts.known_rejections) =>
            {
                let rejection = FailureCause::RejectedByAnother.into();
                Reason::Rejected { image, rejection }
            }
            BlockerRow::CandidateGone if given_up.is_none() && facts.has_created => {
                Reason::CandidateVanished { image }
            }
            BlockerRow::RolledBack if serving.was_rolled_back_from(reference, id) => {
                serving.rolled_back_reason(reference)
            }
            BlockerRow::Quarantined => rollout.quarantine_of(reference, id, facts, now)?,
            BlockerRow::Drains => self.drains(image)?,
            _ => return None,
        })
    }
}
