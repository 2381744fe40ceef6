//! An unhealthy delegate (H), where such delegates are restarted.

use chrono::{DateTime, TimeDelta, Utc};

use super::{At, span};
use crate::container::RunState;
use crate::document::Obstacle;
use crate::rollout::Row::{H1, H2, H3, H4, H5, H6, H7, H8, H9, H10, H11, H12, H13, H14};
use crate::rollout::checks::FAILED_CHECKS;
use crate::rollout::reason::Reason;
use crate::rollout::{Decided, Fact, HeldBack, Member, Reach, Step, StoppedBy};

/// A restart needs a check that is not older.
const FRESH: TimeDelta = TimeDelta::seconds(5);
/// An engine has so long for the start after the stop.
const RESTART_DELAY: TimeDelta = TimeDelta::seconds(10);

impl At<'_> {
    /// A restart that this process asked for ends before anything else begins. `None` where there is none, or no more.
    pub(super) fn finish_restart(&self, serving: &Member) -> Option<Decided> {
        let restart = serving.history.checks.restart.as_ref()?;
        let until = restart.asked_at + span(restart.grace);
        let end = until + RESTART_DELAY;
        let is_over_for_long = |ended: DateTime<Utc>| ended <= end && ended + RESTART_DELAY <= self.now;
        Some(match serving.state {
            _ if restart.life != serving.started_at => return None,
            RunState::Exited if serving.finished_at.is_some_and(is_over_for_long) => {
                H1.act(Step::start(serving))
            }
            RunState::Running | RunState::Exited if self.now <= end => {
                let reason = Reason::Restarting {
                    name: serving.name.clone(),
                    tasks: serving.work.map(|work| work.tasks),
                    until,
                };
                H2.wait(reason, self.next_check(serving, restart.asked_at))
            }
            _ => return None,
        })
    }

    /// A delegate that is left as it is, for this reason, and does not work. `None` where nothing is to be done about that.
    pub(super) fn restart_unhealthy(&self, serving: &Member, reason: &Reason) -> Option<Decided> {
        let checks = &serving.history.checks;
        let has_failed = serving.state == RunState::Running && !serving.works();
        // Somebody started it beside one that was given up and still finishes its tasks, where two cannot live at once.
        let is_beside_another = self.is_stop_first() && self.rollout.given_up().any(Member::is_up);
        let is_touched =
            self.rollout.is_in_progress() || serving.history.stop_requested_at.is_some() || is_beside_another;
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
        let held_back = |because| Reason::RestartHeldBack {
            failures: checks.failed,
            verdict: serving.health.detail.clone(),
            because,
        };
        let allowed = serving
            .started_at
            .map(|started| started + checks.pause(span(self.policy.healthy_deadline)));
        let question = serving.image.reference().ok();
        let stopped_by = serving.stopped_by(self.now);
        Some(match (&self.rollout.obstacle, &self.facts.manager, question) {
            _ if let Some(until) = allowed.filter(|allowed| *allowed > self.now) => {
                H3.rest(Reason::RestartBackoff {
                    failures: checks.failed,
                    verdict: serving.health.detail.clone(),
                    attempt: checks.restarts.saturating_add(1),
                    until,
                })
            }
            _ if let Some(problem) = checks.refused.clone() => {
                H4.rest(held_back(HeldBack::Refused { problem }))
            }
            (Some(obstacle), ..) if !matches!(obstacle, Obstacle::SwarmNetwork { .. }) => {
                H5.rest(held_back(HeldBack::Obstacle(obstacle.clone())))
            }
            _ if let Some(because) = self.most_are_unhealthy() => H6.rest(held_back(because)),
            (_, None, Some(image)) => H7.learn(Fact::ManagerReachable { image: image.clone() }),
            (_, Some(Reach::Asking), _) => H8.wait(held_back(HeldBack::AskingManager), self.soon()),
            (_, Some(Reach::Unreachable(problem)), _) => {
                let problem = problem.clone();
                H9.rest(held_back(HeldBack::ManagerUnreachable { problem }))
            }
            _ if stopped_by.is_none() && !self.facts.is_plan => H10.learn(Fact::StoppedBy {
                container: serving.id.clone(),
            }),
            _ if stopped_by == Some(StoppedBy::Somebody) => H11.rest(held_back(HeldBack::AskedToStop)),
            // It may have recovered since it was checked, which is long ago where other delegates keep this process busy.
            _ if self.facts.is_plan || checks.last_at.is_some_and(|at| self.now - at < FRESH) => {
                H12.act(Step::restart(serving))
            }
            _ if serving.history.is_check_due => H14.wait(held_back(HeldBack::CheckingAgain), self.soon()),
            _ => H13.learn(Fact::Health {
                container: serving.id.clone(),
            }),
        })
    }

    /// Where most delegates are unhealthy, they have a cause in common. One alone is not most of them.
    fn most_are_unhealthy(&self) -> Option<HeldBack> {
        let (unhealthy, all) = (self.facts.unhealthy_delegates, self.facts.delegates);
        (unhealthy >= 2 && 2 * unhealthy > all).then_some(HeldBack::MostUnhealthy { unhealthy, all })
    }
}
