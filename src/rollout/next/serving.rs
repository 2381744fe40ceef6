//! A container in service without a candidate: a replacement may start.

use super::At;
use crate::image::is_mutable_tag;
use crate::rollout::pace::{GRACE, PULL_INTERVAL};
use crate::rollout::reason::{Reason, ReasonKind};
use crate::rollout::{Blocker, BlockerKind, ChosenOrder, Decided, Decision, Fact, Member, Row, Step};

impl At<'_> {
    pub(super) fn in_service(&self, serving: &Member, blockers: &[Blocker]) -> Option<Decided> {
        Decided::first(Row::IN_SERVICE, |row| self.keep_or_start(row, serving, blockers))
    }

    fn keep_or_start(&self, row: Row, serving: &Member, blockers: &[Blocker]) -> Option<Decision> {
        let (facts, start) = (self.facts, self.start(serving));
        let wanted = self.desired.wanted();
        let unpulled = wanted.filter(|(_, id, _)| id.is_none());
        // Only the id shows whether a moving tag still refers to the failed image.
        let may_have_moved = |it: &Blocker| {
            let is_unknown_tag = unpulled.is_some_and(|(tag, ..)| is_mutable_tag(tag));
            is_unknown_tag && it.reason.kind() == ReasonKind::Quarantined
        };
        let is_free = blockers.is_empty() || !facts.is_plan && blockers.iter().all(may_have_moved);
        let unseen = start.unseen().filter(|_| !facts.is_plan);
        let is_drain = |it: &&Blocker| it.reason.kind() == ReasonKind::AwaitingDrains;
        Some(match row {
            Row::CopyStart if serving.is_copy && serving.is_created() => self.start_copy(serving),
            Row::AutoRemove => {
                let is_stuck = |old: &Member| facts.backoffs.stuck(old).is_some();
                let is_over = serving.emulates_auto_remove
                    && serving.has_ended()
                    && self.rollout.old.iter().all(is_stuck);
                is_over.then(|| self.remove_after(GRACE, serving))?
            }
            Row::Pulling if facts.is_pulling => {
                let image = unpulled?.0.to_string();
                Decision::wait(Reason::Pulling { image }, self.now + PULL_INTERVAL)
            }
            Row::HoldsUnknown if serving.is_in_use() => {
                wanted.filter(|(.., intent)| !intent.is_requested())?;
                let is_next = is_free && unseen.is_none() && facts.hidden_obstacle.is_some();
                let depends = match facts.holds {
                    None => is_free || start.is_staged(),
                    Some(_) => facts.holds_are_old && is_next,
                };
                depends.then_some(Decision::Learn(Fact::Holds))?
            }
            Row::FirstSeen => {
                let image = unseen?.to_owned();
                Decision::Act(Step::NoteFirstSeen { image })
            }
            Row::ObstacleUnknown if wanted.is_some() && facts.hidden_obstacle.is_none() => {
                let passes = |it: &Blocker| {
                    matches!(it.kind, BlockerKind::Time | BlockerKind::Turn) || may_have_moved(it)
                };
                let depends = blockers.iter().all(passes);
                depends.then_some(Decision::Learn(Fact::HiddenObstacle))?
            }
            Row::EnoughDrains => {
                let drains = blockers.first().filter(is_drain)?;
                Decision::wait(drains.reason.clone(), self.now + self.proof_interval())
            }
            Row::Blocked if !is_free => Decision::Rest(blockers.first()?.reason.clone()),
            Row::Pull => {
                let reference = unpulled?.0.clone();
                Decision::Act(Step::Pull { reference })
            }
            Row::MemoryUnknown if self.order == ChosenOrder::StartFirst && facts.free_memory.is_none() => {
                facts.ask_for_memory(self.now)
            }
            Row::Create => {
                let (reference, id, intent) = wanted?;
                Decision::Act(Step::Create {
                    from: serving.id.clone(),
                    reference: reference.clone(),
                    image: id?.clone(),
                    release: self.rollout.latest_release() + 1,
                    intent: intent.clone(),
                })
            }
            _ => return None,
        })
    }

    /// Starts a copy once any old container that it cannot run beside has ended, and asks that one to stop if necessary.
    fn start_copy(&self, copy: &Member) -> Decision {
        let mut old_ones = self.rollout.old.iter().filter(|_| self.is_stop_first());
        match (self.keeps_from_starting(), old_ones.find(|old| old.is_up())) {
            (Some(other), _) => self.wait_for_end(other),
            (None, Some(old)) => self.stop(old),
            (None, None) => Decision::Act(Step::start(copy)),
        }
    }
}
