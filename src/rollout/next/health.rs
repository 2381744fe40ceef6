//! An unhealthy delegate, where such delegates are restarted.

use chrono::{DateTime, TimeDelta, Utc};

use super::{At, span};
use crate::container::{Role, RunState};
use crate::rollout::checks::FAILED_CHECKS;
use crate::rollout::reason::Reason;
use crate::rollout::{Decided, Decision, Fact, HeldBack, Member, Row, Step};

/// A restart needs a check that is not older.
const FRESH: TimeDelta = TimeDelta::seconds(5);
/// An engine has so long for the start after the stop.
const RESTART_DELAY: TimeDelta = TimeDelta::seconds(10);

impl At<'_> {
    /// This decision, unless the delegate is being restarted, or would be left unhealthy and is to be restarted.
    pub(super) fn or_restart(&self, serving: &Member, decided: Decided) -> Decided {
        let restart = self.finish_restart(serving).or_else(|| match &decided.decision {
            Decision::Rest(reason) => self.restart_unhealthy(serving, reason),
            _ => None,
        });
        restart.unwrap_or(decided)
    }

    /// A restart that this process asked for ends before anything else begins. `None` where there is none, or no more.
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
                let reason = Reason::Restarting {
                    name: serving.name.clone(),
                    tasks: serving.work.map(|work| work.tasks),
                    until,
                };
                Row::RestartInProgress.wait(reason, self.next_check(restart.asked_at))
            }
            _ => return None,
        })
    }

    /// A delegate that is left as it is, for this reason, and does not work. `None` where nothing is to be done about that.
    fn restart_unhealthy(&self, serving: &Member, reason: &Reason) -> Option<Decided> {
        let checks = &serving.history.checks;
        let has_failed = serving.state == RunState::Running && !serving.works();
        let is_other = |it: &Member| !matches!(it.role, Role::Serving | Role::Failed { .. });
        let is_in_progress = |it: &Member| is_other(it) && self.facts.backoffs.stuck(it).is_none();
        let is_touched = self.rollout.members().any(is_in_progress) || self.in_the_way().is_some();
        let may_be_replaced = matches!(
            reason,
            Reason::WaitingForReplica { .. }
                | Reason::WaitingForOthers { .. }
                | Reason::AwaitingAnswer { .. }
        );
        if !self.policy.restarts_unhealthy
            || !has_failed
            || checks.failed < FAILED_CHECKS
            || is_touched
            || may_be_replaced
        {
            return None;
        }
        let (failures, verdict) = (checks.failed, || serving.health.detail.clone());
        let held_back = |because| Reason::RestartHeldBack {
            failures,
            verdict: verdict(),
            because,
        };
        let started = serving.life.started_at;
        let allowed = started.map(|started| started + checks.pause(span(self.policy.healthy_deadline)));
        let is_fresh = self.facts.is_plan || checks.last_at.is_some_and(|at| self.now - at < FRESH);
        let row = Row::RestartHeldBack;
        Some(match HeldBack::by_the_host(self.rollout, self.facts) {
            _ if let Some(until) = allowed.filter(|allowed| *allowed > self.now) => {
                Row::RestartBackoff.rest(Reason::RestartBackoff {
                    failures,
                    verdict: verdict(),
                    attempt: checks.restarts.saturating_add(1),
                    until,
                })
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
            // It may have recovered since it was checked, which is long ago where other delegates keep this process busy.
            None if is_fresh => Row::Restart.act(Step::restart(serving)),
            None if checks.is_due => row.wait(held_back(HeldBack::CheckingAgain), self.soon()),
            None => row.learn(Fact::Health {
                container: serving.id.clone(),
            }),
        })
    }
}
