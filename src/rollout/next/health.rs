//! An unhealthy delegate, where such delegates are restarted.

use chrono::{DateTime, Utc};

use super::{At, span};
use crate::container::{Role, RunState};
use crate::rollout::checks::FAILED_CHECKS;
use crate::rollout::pace::{self, FRESH, RESTART_DELAY};
use crate::rollout::reason::Reason;
use crate::rollout::{Decided, Decision, Fact, HeldBack, Member, Row, Step};

impl At<'_> {
    /// This decision, unless the delegate is being restarted, or would be left unhealthy and is to be restarted.
    pub(super) fn or_restart(&self, serving: &Member, decided: Decided) -> Decided {
        let restart = self.finish_restart(serving).or_else(|| match &decided.decision {
            Decision::Rest(reason) => self.restart_unhealthy(serving, reason),
            _ => None,
        });
        restart.unwrap_or(decided)
    }

    /// A restart that this process asked for ends before anything else begins. `None` if there is none, or no more.
    fn finish_restart(&self, serving: &Member) -> Option<Decided> {
        let restart = serving.history.checks.restart.as_ref()?;
        let until = restart.asked_at + span(restart.grace);
        let end = until + RESTART_DELAY;
        let is_over_for_long = |ended: DateTime<Utc>| ended <= end && ended + RESTART_DELAY <= self.now;
        Some(match serving.state {
            _ if restart.life != serving.life.started_at => return None,
            RunState::Exited if serving.life.finished_at.is_some_and(is_over_for_long) => {
                Row::RestartInProgress.act(Step::start(serving))
            }
            RunState::Running | RunState::Exited if self.now <= end => {
                let reason = Reason::restarting(serving, until);
                Row::RestartInProgress.wait(reason, pace::next_check(restart.asked_at, self.now))
            }
            _ => return None,
        })
    }

    /// A delegate that is left as it is, for this reason, and does not work. `None` if nothing is to be done about that.
    fn restart_unhealthy(&self, serving: &Member, reason: &Reason) -> Option<Decided> {
        let checks = &serving.history.checks;
        let has_failed =
            serving.state == RunState::Running && !serving.works() && checks.failed >= FAILED_CHECKS;
        let is_other = |it: &Member| !matches!(it.role, Role::Serving | Role::Failed { .. });
        let is_in_progress = |it: &Member| is_other(it) && self.facts.backoffs.stuck(it).is_none();
        let is_touched = self.rollout.members().any(is_in_progress) || self.keeps_from_starting().is_some();
        let may_be_replaced = matches!(
            reason,
            Reason::WaitingForReplica { .. }
                | Reason::WaitingForOthers { .. }
                | Reason::AwaitingAnswer { .. }
        );
        if !self.policy.restarts_unhealthy || !has_failed || is_touched || may_be_replaced {
            return None;
        }
        let held_back = |because| Reason::restart_held_back(serving, because);
        let started = serving.life.started_at;
        let allowed = started.map(|started| started + checks.pause(span(self.policy.healthy_deadline)));
        let is_fresh = self.facts.is_plan || checks.last_at.is_some_and(|at| self.now - at < FRESH);
        let row = Row::RestartHeldBack;
        Some(match HeldBack::by_the_host(self.rollout, self.facts) {
            _ if let Some(until) = allowed.filter(|allowed| *allowed > self.now) => {
                Row::RestartBackoff.rest(Reason::restart_backoff(serving, until))
            }
            _ if let Some(problem) = checks.refused.clone() => {
                Row::RestartRefused.rest(held_back(HeldBack::Refused { problem }))
            }
            Some(because @ HeldBack::AskingManager) => row.wait(held_back(because), self.soon()),
            Some(because) => row.rest(held_back(because)),
            None if self.facts.manager.is_none()
                && let Ok(image) = serving.image.reference() =>
            {
                row.learn(Fact::ManagerReachable { image: image.clone() })
            }
            None if is_fresh => Row::Restart.act(Step::restart(serving)),
            None if checks.is_due => row.wait(held_back(HeldBack::CheckingAgain), self.soon()),
            None => row.learn(Fact::Health {
                container: serving.id.clone(),
            }),
        })
    }
}
