//! Restarts of unhealthy delegates, if enabled.

use chrono::{DateTime, Utc};

use super::{At, span};
use crate::container::{Role, RunState};
use crate::rollout::pace::{self, FAILED_CHECKS, FRESH, RESTART_DELAY};
use crate::rollout::reason::Reason;
use crate::rollout::{Decided, Decision, Fact, Member, RestartDeferral, Row, Step};

impl At<'_> {
    /// This decision, unless the delegate is being restarted, or the decision would leave it unhealthy and a restart is due.
    pub(super) fn or_restart(&self, serving: &Member, decided: Decided) -> Decided {
        let is_left_so = match &decided.decision {
            Decision::Rest(reason) => self.is_left_unhealthy(serving, reason),
            _ => false,
        };
        let restart = Decided::first(Row::UNHEALTHY, |row| match row {
            Row::RestartInProgress => self.finish_restart(serving),
            row => self.restart(row, serving).filter(|_| is_left_so),
        });
        restart.unwrap_or(decided)
    }

    /// Before anything else starts, completes a restart that this process requested. `None` if there is none.
    fn finish_restart(&self, serving: &Member) -> Option<Decision> {
        let restart = serving.history.checks.restart.as_ref()?;
        let until = restart.asked_at + span(restart.grace);
        let end = until + RESTART_DELAY;
        let is_over_for_long = |ended: DateTime<Utc>| ended <= end && ended + RESTART_DELAY <= self.now;
        Some(match serving.state {
            RunState::Exited if serving.life.finished_at.is_some_and(is_over_for_long) => {
                Decision::Act(Step::start(serving))
            }
            RunState::Running | RunState::Exited if self.now <= end => Decision::wait(
                Reason::restarting(serving, until),
                pace::next_check(restart.asked_at, self.now),
            ),
            _ => return None,
        })
    }

    /// Whether this reason leaves the delegate alone although it does not work and nothing else is about to happen to it.
    fn is_left_unhealthy(&self, serving: &Member, reason: &Reason) -> bool {
        let has_failed = serving.state == RunState::Running
            && !serving.works()
            && serving.history.checks.failed >= FAILED_CHECKS;
        let is_other = |it: &Member| !matches!(it.role, Role::Serving | Role::Failed { .. });
        let is_in_progress = |it: &Member| is_other(it) && self.facts.backoffs.stuck(it).is_none();
        let is_touched = self.rollout.members().any(is_in_progress) || self.keeps_from_starting().is_some();
        let may_be_replaced = matches!(
            reason,
            Reason::WaitingForReplica { .. }
                | Reason::WaitingForOthers { .. }
                | Reason::AwaitingAnswer { .. }
        );
        self.policy.restarts_unhealthy && has_failed && !is_touched && !may_be_replaced
    }

    fn restart(&self, row: Row, serving: &Member) -> Option<Decision> {
        let checks = &serving.history.checks;
        let deferred = |because| Reason::restart_deferred(serving, because);
        let is_fresh = self.facts.is_plan || checks.last_at.is_some_and(|at| self.now - at < FRESH);
        Some(match row {
            Row::RestartBackoff => {
                let until = serving.life.started_at? + checks.pause(span(self.policy.healthy_deadline));
                (until > self.now).then(|| Decision::Rest(Reason::restart_backoff(serving, until)))?
            }
            Row::RestartRefused => {
                let problem = checks.refused.clone()?;
                Decision::Rest(deferred(RestartDeferral::Refused { problem }))
            }
            Row::RestartDeferred => match RestartDeferral::by_the_host(self.rollout, self.facts) {
                Some(because @ RestartDeferral::AskingManager) => {
                    Decision::wait(deferred(because), self.soon())
                }
                Some(because) => Decision::Rest(deferred(because)),
                None if self.facts.manager.is_none()
                    && let Ok(image) = serving.image.reference() =>
                {
                    Decision::Learn(Fact::ManagerReachable { image: image.clone() })
                }
                None if is_fresh => return None,
                None if checks.is_due => {
                    Decision::wait(deferred(RestartDeferral::CheckingAgain), self.soon())
                }
                None => Decision::Learn(Fact::Health {
                    container: serving.id.clone(),
                }),
            },
            Row::Restart => Decision::Act(Step::restart(serving)),
            _ => return None,
        })
    }
}
