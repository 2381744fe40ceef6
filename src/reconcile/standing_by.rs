//! Two instances of an upgrader that replaces itself: one watches until it is its turn to take over.

use chrono::{DateTime, TimeDelta, Utc};
use tracing::{info, warn};

use super::Reconciler;
use crate::engine::Engine;
use crate::health::HealthEndpoint;
use crate::manager::ImageSource;
use crate::observe::Turn;
use crate::reconcile::upgrade_run::UpgradeRun;
use crate::rollout::reason::Reason;
use crate::rollout::{Decision, Intent, Rollout};
use crate::status::report::Report;

/// How soon an upgrader on standby notices that the other one is gone.
const INTERVAL: TimeDelta = TimeDelta::seconds(2);

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Reconciler<E, M, H> {
    /// The report of an upgrader on standby, which also does its part of the exchange; `None` if it is this upgrader's turn.
    ///
    /// Earlier questions and answers do not count when it takes over: the run only reports, and the schedule starts the next one.
    pub(super) async fn stand_by(&mut self, rollouts: &[Rollout], now: DateTime<Utc>) -> Option<Report> {
        let (name, interval) = match self.observer.turn().clone() {
            Turn::Acts => {
                if std::mem::take(&mut self.stood_by) {
                    info!("this upgrader acts on this host from now on");
                }
                return None;
            }
            Turn::Exchanges { name } => (name, self.exchange(rollouts, now).await),
            Turn::StandsBy { behind, says_ready } => {
                if let Some(name) = says_ready {
                    self.say_ready(&name).await;
                }
                (behind, INTERVAL)
            }
        };
        self.stood_by = true;
        self.core.starting = Some(Intent::Report);
        self.core.run = UpgradeRun::default();
        // An answer that nobody takes would wake the loop at once, again and again.
        while self.core.next_answer(now).is_some() {}
        let mut report = Report::new(now);
        report.check_by(now + interval);
        let reason = Reason::StandingBy { name };
        for rollout in rollouts {
            self.report(&mut report, rollout, (&reason, None), &[]);
        }
        report.delegates.sort_by(|a, b| a.container.cmp(&b.container));
        Some(report)
    }

    /// Continues the upgrader's own exchange, and returns when to look again.
    async fn exchange(&mut self, rollouts: &[Rollout], now: DateTime<Utc>) -> TimeDelta {
        for rollout in rollouts.iter().filter(|rollout| rollout.is_upgrader()) {
            let (decided, _) = self.answer(rollout, rollouts, false, now);
            self.log_decision(rollout, &decided);
            match decided.decision {
                Decision::Act(step) => {
                    self.apply(rollout, &step, now).await;
                    return TimeDelta::zero();
                }
                Decision::Wait { until, .. } => return (until - now).clamp(TimeDelta::zero(), INTERVAL),
                Decision::Learn(_) | Decision::Rest(_) => {}
            }
        }
        INTERVAL
    }

    /// Renames the helper once it has observed the host. This also proves that it can write to the engine, so only then does the
    /// old upgrader trust it. A failure is retried.
    async fn say_ready(&self, name: &str) {
        let Some(own) = &self.settings.scope.own_id else {
            return;
        };
        match self.engine.rename(own, name).await {
            Ok(()) => info!(container = name, "this helper is ready to make the exchange"),
            Err(error) => warn!(container = name, %error, "this helper cannot say that it is ready"),
        }
    }
}
