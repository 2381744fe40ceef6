//! The look that each decision begins with, and the time it was made at.

use std::collections::HashSet;

use chrono::{DateTime, TimeDelta, Utc};
use tracing::warn;

use super::{Backoff, INSPECT, Reconciler};
use crate::container::ContainerId;
use crate::engine::{Engine, EngineError};
use crate::health::HealthEndpoint;
use crate::image::manager_reference;
use crate::manager::ImageSource;
use crate::observe::observe;
use crate::reconcile::common_cause::note_unhealthy_peers;
use crate::rollout::Rollout;

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Reconciler<E, M, H> {
    /// The time. What is remembered is moved along where the clock was set.
    pub(super) fn now(&mut self) -> DateTime<Utc> {
        let (now, jump) = self.timekeeper.now();
        if let Some(jump) = jump {
            self.shift(jump);
        }
        now
    }

    fn shift(&mut self, by: TimeDelta) {
        warn!("the clock was set by {} s", by.num_seconds());
        self.memory.shift(by);
        for backoff in self.backoffs.values_mut() {
            backoff.until += by;
        }
    }

    /// What there is, and at what time. A clock that is set meanwhile makes it nobody's time.
    pub(super) async fn observe(&mut self) -> Result<(Vec<Rollout>, DateTime<Utc>), EngineError> {
        loop {
            let before = self.now();
            let rollouts = self.observe_at(before).await?;
            let (now, jump) = self.timekeeper.now();
            match jump {
                None => return Ok((rollouts, now)),
                Some(jump) => self.shift(jump),
            }
        }
    }

    async fn observe_at(&mut self, now: DateTime<Utc>) -> Result<Vec<Rollout>, EngineError> {
        let Self {
            engine,
            endpoint,
            settings,
            identities,
            memory,
            cramped,
            copied,
            queries,
            ..
        } = self;
        let observed = observe(
            engine.as_ref(),
            endpoint,
            &settings.scope,
            identities,
            memory,
            now,
        );
        let mut rollouts = match observed.await {
            Ok(rollouts) => rollouts,
            Err(error) => {
                // It may come back without its `--rm` containers, and that is no fault of theirs.
                memory.forget_created();
                return Err(error);
            }
        };
        let patience = TimeDelta::from_std(settings.policy.healthy_deadline).unwrap_or(TimeDelta::MAX);
        note_unhealthy_peers(&mut rollouts, memory, patience, now);
        for rollout in rollouts
            .iter_mut()
            .filter(|rollout| rollout.single_instance.is_none())
        {
            rollout.single_instance = cramped.get(&rollout.name).cloned().flatten();
        }
        let serving = |rollout: &Rollout| Some(rollout.serving.as_ref()?.id.clone());
        let ids: HashSet<ContainerId> = rollouts.iter().filter_map(serving).collect();
        copied.retain(|id, _| ids.contains(id));
        for rollout in rollouts.iter_mut().filter(|rollout| rollout.obstacle.is_none()) {
            let id = serving(rollout);
            rollout.obstacle = id.and_then(|id| copied.get(&id)?.clone());
        }
        // In the middle of a replacement, too: a delegate is there all the time, whoever is in service.
        queries.clear();
        for rollout in rollouts.iter().filter(|rollout| !rollout.opted_out) {
            if let Some(Ok(image)) = rollout.representative().map(|member| member.image.parse()) {
                let known = manager_reference(&image, &settings.target);
                queries.entry(rollout.delegate.clone()).or_insert(known);
            }
        }
        self.note_unread(&rollouts, now);
        Ok(rollouts)
    }

    /// What cannot be looked at is looked at again, later each time, as after any other error.
    pub(super) fn note_unread(&mut self, rollouts: &[Rollout], now: DateTime<Utc>) {
        for rollout in rollouts {
            let backoff = self.backoffs.get(&rollout.name);
            match &rollout.inspect_error {
                Some(problem) if backoff.is_none_or(|backoff| backoff.until <= now) => {
                    self.backoff(rollout, INSPECT, problem.clone(), now);
                }
                None if backoff.is_some_and(Backoff::is_inspect_error) => {
                    self.backoffs.remove(&rollout.name);
                }
                _ => {}
            }
        }
    }
}
