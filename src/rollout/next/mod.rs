//! The decision on one delegate: a pure and total function.
//!
//! `docs/development/rollout.md` has the same tables. Each table is a function from a row to its decision, which is `None` if the
//! row does not apply. Rows are asked in the order of the page, and each assumes that no earlier one applies. To change a rule,
//! change its row.

mod given_up;
mod health;
mod name_is_free;
mod old;
mod proof;
mod restoring;
mod serving;
mod side_by_side;
mod upgrader;

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::circumstances::circumstances;
use super::pace::{self, END_INTERVAL, SOON, STOP_SLACK, WITHOUT_TASKS};
use super::reason::Reason;
use super::{
    Blocker, ChosenOrder, Decided, Decision, Desired, Facts, Member, Policy, Rejection, Rollout, Row, Step,
};
use crate::container::{Role, RunState};
use crate::text::duration::span;

/// Decides what to do next about one delegate. With the decision comes the list of why no upgrade starts now, which is empty while
/// a replacement is in progress or nothing is in service.
pub fn next(
    rollout: &Rollout,
    desired: &Desired,
    policy: &Policy,
    facts: &Facts,
    now: DateTime<Utc>,
) -> (Decided, Vec<Blocker>) {
    let at = At {
        rollout,
        desired,
        policy,
        facts,
        order: rollout.update_order(policy, facts),
        now,
    };
    let blockers = at.blockers();
    (at.decide(&blockers), blockers)
}

/// The input of a decision.
pub(super) struct At<'a> {
    pub(super) rollout: &'a Rollout,
    pub(super) desired: &'a Desired,
    pub(super) policy: &'a Policy,
    pub(super) facts: &'a Facts,
    pub(super) order: ChosenOrder,
    pub(super) now: DateTime<Utc>,
}

impl At<'_> {
    fn decide(&self, blockers: &[Blocker]) -> Decided {
        let (backoffs, now) = (&self.facts.backoffs, self.now);
        if let Some(decided) = self.guards() {
            return backoffs.paced(decided, now);
        }
        let situation = || backoffs.paced(self.situation(blockers), now);
        let beside = self.given_up().chain(self.old_ones());
        let beside = beside.filter_map(|decided| backoffs.paced_beside(decided, self.rollout, now));
        match Decided::earliest(beside) {
            Some(beside) => beside.or(situation),
            None => situation(),
        }
    }

    /// The rows that come before everything else. Health checks may ask for a restart.
    fn guards(&self) -> Option<Decided> {
        let decided = Decided::first(Row::GUARDS, |row| self.guard(row))?;
        Some(match &self.rollout.serving {
            Some(serving) if decided.row == Row::HealthOnly => self.or_restart(serving, decided),
            _ => decided,
        })
    }

    fn guard(&self, row: Row) -> Option<Decision> {
        let rollout = self.rollout;
        Some(match row {
            Row::NotInspected => {
                let problem = rollout.inspect_error.as_ref()?;
                self.facts.backoffs.not_inspected(problem, self.now)
            }
            Row::LeftAlone => Decision::Rest(rollout.owner.left_alone()?),
            Row::HealthOnly if self.policy.health_only && !rollout.is_to_be_served() => {
                let published = self.desired.published();
                Decision::Rest(Reason::HealthOnly { published })
            }
            Row::ComposeReplaces if rollout.is_replaced_by_compose(self.now) => {
                Decision::Rest(Reason::ReplacedByCompose)
            }
            Row::TakeOwnName => self.take_own_name()?,
            _ => return None,
        })
    }

    /// The table for the containers that exist: one in service, a candidate, both or neither.
    fn situation(&self, blockers: &[Blocker]) -> Decided {
        let (serving, candidate) = (&self.rollout.serving, &self.rollout.candidate);
        let first = match (serving, candidate) {
            (Some(serving), None) => self.in_service(serving, blockers),
            (Some(serving), Some(candidate)) => self.side_by_side(serving, candidate),
            (None, Some(candidate)) => self.name_is_free(candidate),
            (None, None) => self.restoring(),
        };
        let first = first.unwrap_or(Decided {
            row: Row::NoContainer,
            decision: Decision::Rest(Reason::NoContainer),
        });
        match (serving, candidate) {
            // A replacement takes precedence over a restart.
            (Some(serving), None) => self.or_restart(serving, first),
            _ => first,
        }
    }

    /// Sends the signal, then waits. If an earlier process has sent it, the engine's own clock runs from that time, so the
    /// container does not get its time twice.
    fn stop(&self, member: &Member) -> Decision {
        // By its name, the current life started after the request to stop, so it needs a new name first.
        if member.role.is_old() && member.lives_anew() && !member.is_between_lives() {
            return Decision::Act(Step::drain(self.rollout, member, self.now));
        }
        let grace = self.grace(member);
        let Some(asked) = member.history.stop_requested_at else {
            return Decision::Act(Step::stop(member, grace));
        };
        let deadline = asked + span(grace);
        // The engine ends it at the deadline, unless the engine has restarted since.
        let overdue = deadline + STOP_SLACK;
        if self.now >= overdue {
            return Decision::Act(Step::stop(member, Duration::ZERO));
        }
        let draining = member.role.is_old().then(|| Reason::draining(member, deadline));
        let reason = draining.unwrap_or_else(|| Reason::stopping(member));
        Decision::wait(reason, pace::next_check(asked, self.now).min(overdue))
    }

    /// How long it has to stop. If it never served, reports no tasks and keeps the delegate out of service: ten seconds.
    fn grace(&self, member: &Member) -> Duration {
        let has_served =
            member.role.is_old() || member.role == Role::Serving || member.history.was_in_service;
        let keeps_out = self.is_stop_first() && self.rollout.is_to_be_served();
        let has_tasks = member.work.is_some_and(|work| work.tasks > 0);
        if keeps_out && !has_served && !has_tasks {
            member.stop_timeout.min(WITHOUT_TASKS)
        } else {
            member.stop_timeout
        }
    }

    fn wait_for_end(&self, other: &Member) -> Decision {
        match self.facts.backoffs.stuck(other) {
            Some(last) => Decision::Rest(last.reason.clone()),
            None => Decision::wait(Reason::stopping(other), self.now + END_INTERVAL),
        }
    }

    /// Waits if a container has just ended: the program that stopped it may start it again.
    fn may_return(&self, member: &Member, grace: TimeDelta) -> Option<Decision> {
        let at = member.life.finished_at.filter(|_| member.has_ended())? + grace;
        let is_recent = !member.has_ended_for(grace, self.now);
        is_recent.then(|| Decision::wait(Reason::returning(member, Some(at)), at))
    }

    /// Removes a container, but not right after its end, since another tool may be about to remove or start it.
    fn remove_after(&self, span: TimeDelta, member: &Member) -> Decision {
        if member.is_created() || member.has_ended_for(span, self.now) {
            return Decision::Act(Step::remove(member));
        }
        let ended = member.life.finished_at.unwrap_or(self.now);
        Decision::wait(Reason::stopping(member), (ended + span).max(self.soon()))
    }

    /// Waits for a removal, unless the engine is stuck in it.
    fn removing(&self, member: &Member) -> Option<Decision> {
        let is_removing = member.state == RunState::Removing && !member.removal_is_stuck(self.now);
        is_removing.then(|| self.wait_for_end(member))
    }

    /// Renames the candidate to record that it failed. If Docker cannot rename it between two lives, it is stopped first. Another
    /// failure with that name is removed, or the next name is taken.
    fn reject(&self, candidate: &Member, rejection: impl Into<Rejection>) -> Decision {
        if let Some(first) = self.before_giving_up(candidate) {
            return first;
        }
        if let Some(holder) = self.rollout.in_the_way_of_failure(&candidate.image_id) {
            let remove = Step::remove(holder);
            if self.facts.backoffs.of(&remove.key()).is_none() {
                return Decision::Act(remove);
            }
        }
        let mut rejection = rejection.into();
        rejection.circumstances = circumstances(self.rollout, self.facts, candidate);
        Decision::Act(Step::reject(self.rollout, candidate, rejection))
    }

    fn withdraw(&self, candidate: &Member, because: Option<Reason>) -> Decision {
        let first = self.before_giving_up(candidate);
        first.unwrap_or_else(|| Decision::Act(Step::withdraw(self.rollout, candidate, because, self.now)))
    }

    /// The step before a candidate is renamed as failed. Docker cannot rename a container between two lives, and may never remove
    /// one that is renamed during its removal. An old container with `--rm` vanishes with its end, so its copy comes first.
    fn before_giving_up(&self, candidate: &Member) -> Option<Decision> {
        let is_leaving = |old: &&Member| old.is_up() && old.vanishes && old.role != Role::Retired;
        let leaving = self.rollout.predecessor_of(candidate).filter(is_leaving);
        match candidate.state {
            RunState::Restarting => Some(self.stop(candidate)),
            RunState::Removing => self.removing(candidate),
            _ if self.rollout.serving.is_some() => None,
            _ => leaving.map(|old| Decision::Act(Step::recreate(old))),
        }
    }

    fn is_stop_first(&self) -> bool {
        self.order == ChosenOrder::StopFirst
    }

    /// Candidates that were given up, if no other container can run beside them.
    pub(super) fn in_the_way(&self) -> impl Iterator<Item = &Member> {
        let given_up = self.rollout.given_up();
        given_up.filter(|other| self.is_stop_first() && other.is_up())
    }

    /// The first candidate that must end before another can start. One that cannot be ended is skipped: the engine reports a
    /// conflict.
    fn keeps_from_starting(&self) -> Option<&Member> {
        self.in_the_way()
            .find(|other| self.facts.backoffs.stuck(other).is_none())
    }

    /// How often a candidate is checked while it proves itself.
    fn proof_interval(&self) -> TimeDelta {
        pace::proof_interval(self.policy.healthy_time)
    }

    /// When to look again at something that others are doing, such as a running check.
    fn soon(&self) -> DateTime<Utc> {
        self.now + SOON
    }
}
