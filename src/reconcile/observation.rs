//! The observation that each decision starts with, and its time.

use chrono::{DateTime, TimeDelta, Utc};
use tracing::warn;

use super::Reconciler;
use crate::engine::{Engine, EngineError};
use crate::health::HealthEndpoint;
use crate::manager::ImageSource;
use crate::reconcile::common_cause::note_unhealthy_peers;
use crate::rollout::{Backoff, INSPECT, Rollout};
use crate::text::duration;

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Reconciler<E, M, H> {
    /// The time. Where the system clock jumped, what is remembered is moved along.
    pub(super) fn now(&mut self) -> DateTime<Utc> {
        let (now, jump) = self.timekeeper.now();
        if let Some(jump) = jump {
            self.shift(jump);
        }
        now
    }

    fn shift(&mut self, by: TimeDelta) {
        let direction = if by < TimeDelta::zero() { "back" } else { "forward" };
        let jump = duration::text(by.abs().to_std().unwrap_or_default());
        warn!("system clock jumped {direction} by {jump}; timers adjusted");
        self.memory.shift(by);
        for tracked in self.tracked.values_mut() {
            if let Some(backoff) = &mut tracked.backoff {
                backoff.retry_at += by;
            }
        }
    }

    /// Observes all delegates; gives the time at which the observation began, too: what a slow engine showed first may
    /// have changed by its end, and no deadline is over by then. It is repeated where the clock jumped meanwhile, since
    /// its times would be on both sides of the jump.
    pub(super) async fn observe(&mut self) -> Result<(Vec<Rollout>, DateTime<Utc>), EngineError> {
        loop {
            let before = self.now();
            let rollouts = self.observe_at(before).await?;
            match self.timekeeper.now().1 {
                None => return Ok((rollouts, before)),
                Some(jump) => self.shift(jump),
            }
        }
    }

    async fn observe_at(&mut self, now: DateTime<Utc>) -> Result<Vec<Rollout>, EngineError> {
        let Self {
            engine,
            observer,
            settings,
            memory,
            manager,
            holds,
            services,
            ..
        } = self;
        holds.note_observation();
        let observed = observer.observe(engine, &settings.scope, memory, now);
        let mut rollouts = match observed.await {
            Ok(rollouts) => rollouts,
            Err(error) => {
                // An engine that restarts comes back without its `--rm` containers. They have not failed.
                memory.excuse_candidates();
                memory.doubt_answers();
                return Err(error);
            }
        };
        let patience = TimeDelta::from_std(settings.policy.healthy_deadline).unwrap_or(TimeDelta::MAX);
        for serving in rollouts.iter().filter_map(|rollout| rollout.serving.as_ref()) {
            let checks = &mut memory.history(&serving.id).checks;
            checks.forget_restarts(now, settings.policy.healthy_time);
        }
        note_unhealthy_peers(&mut rollouts, memory, patience, now);
        manager.note_delegates(&rollouts, services.managed(), &settings.target);
        self.note_inspect_errors(&rollouts, now);
        Ok(rollouts)
    }

    /// A container that cannot be inspected is inspected again after a pause, as after any other error.
    fn note_inspect_errors(&mut self, rollouts: &[Rollout], now: DateTime<Utc>) {
        for rollout in rollouts {
            let tracked = self.track(rollout);
            let backoff = tracked.backoff.as_ref();
            match &rollout.inspect_error {
                Some(problem) if backoff.is_none_or(|backoff| backoff.retry_at <= now) => {
                    let problem = problem.clone();
                    self.backoff(rollout, INSPECT, problem, now);
                }
                None if backoff.is_some_and(Backoff::is_inspect_error) => tracked.backoff = None,
                _ => {}
            }
        }
    }
}
