//! Facts that a decision needs beside the containers: what is known of them, and how they are learned.

use std::borrow::Cow;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use futures_util::FutureExt as _;
use futures_util::future::select_all;
use tracing::warn;

use super::Reconciler;
use crate::config::Strategy;
use crate::container::{COMPOSE_PROJECT, RunState};
use crate::document::{Obstacle, SingleInstance};
use crate::engine::{Engine, EngineError};
use crate::health::{HealthEndpoint, HealthStatus};
use crate::host::hold::READ_HOLDS;
use crate::image::manager_reference;
use crate::manager::{ImageSource, Query};
use crate::rollout::{Decision, Desired, Fact, Facts, Member, Policy, Reach, Rollout, UpdateOrder, next};

/// The failed action, where the obstacles are unknown.
const LOOK_FOR_OBSTACLES: &str = "find out whether it can be recreated as it is";

/// The most samples that are taken at once.
const MAX_SAMPLES: usize = 10;

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Reconciler<E, M, H> {
    /// The known facts about one delegate.
    pub(super) fn facts(
        &self,
        rollout: &Rollout,
        all: &[Rollout],
        desired: &Desired,
        now: DateTime<Utc>,
    ) -> Facts {
        let tracked = self.tracked.get(&rollout.name);
        let delegates = all.iter().filter(|rollout| !rollout.is_upgrader());
        let in_use = delegates.filter_map(|rollout| rollout.serving.as_ref());
        let in_use = in_use.filter(|serving| serving.is_in_use());
        let is_unhealthy = |serving: &&Member| serving.health.status == HealthStatus::Unhealthy;
        Facts {
            is_plan: false,
            delegates: in_use.clone().count(),
            unhealthy_delegates: in_use.filter(is_unhealthy).count(),
            backoff: tracked.and_then(|tracked| tracked.backoff.clone()),
            is_pulling: matches!(
                desired, Desired::Image { reference, .. } if self.pulls.is_in_progress(reference)
            ),
            free_memory: tracked.and_then(|tracked| tracked.free_memory.clone()),
            no_free_port: self.memory.no_free_port(&rollout.name),
            hidden_obstacle: tracked.and_then(|tracked| tracked.hidden_obstacle(rollout)),
            known_rejections: self.run.known_rejections(rollout),
            holds: self
                .run
                .target_identity(rollout)
                .and_then(|image| self.holds.of(&rollout.name, &image)),
            has_created: self.run.has_created(rollout),
            own: self
                .settings
                .scope
                .own_id
                .clone()
                .filter(|_| rollout.is_upgrader()),
            name_free_for: tracked
                .and_then(|tracked| (now - tracked.name_free_since?).to_std().ok())
                .unwrap_or_default(),
            // Whether the upgrader is ready does not hang on the Manager.
            manager: if rollout.is_upgrader() {
                Some(Reach::Reachable)
            } else {
                self.manager.reach(now)
            },
            manager_problem: self.manager.problem().filter(|_| !rollout.is_upgrader()),
        }
    }

    /// Reads what the engine remembers that holds replacements back.
    pub(super) async fn read_holds(&mut self) -> Result<(), EngineError> {
        let has_wave = self.settings.policy.timing.wave.is_some();
        self.holds.read(self.engine.as_ref(), has_wave).await
    }

    /// How one delegate is replaced, as far as is known.
    pub(super) fn update_order(&self, rollout: &Rollout) -> UpdateOrder {
        let tracked = self.tracked.get(&rollout.name);
        let facts = Facts {
            free_memory: tracked.and_then(|tracked| tracked.free_memory.clone()),
            no_free_port: self.memory.no_free_port(&rollout.name),
            ..Facts::default()
        };
        rollout.update_order(&self.policy(rollout), &facts)
    }

    /// The operator's policy for one delegate. The settings of how delegates are replaced are not about the upgrader.
    pub(super) fn policy(&self, rollout: &Rollout) -> Cow<'_, Policy> {
        let policy = &self.settings.policy;
        match rollout.owner.healthy_deadline {
            _ if rollout.is_upgrader() => Cow::Owned(Policy {
                strategy: Strategy::Auto,
                restarts_unhealthy: false,
                ..policy.clone()
            }),
            // It has to be healthy for that long.
            Some(deadline) if deadline > policy.healthy_time => Cow::Owned(Policy {
                healthy_deadline: deadline,
                ..policy.clone()
            }),
            _ => Cow::Borrowed(policy),
        }
    }

    /// Learns a fact that a decision about one delegate, of all there are, needs.
    pub(super) async fn learn(&mut self, rollout: &Rollout, all: &[Rollout], fact: Fact, now: DateTime<Utc>) {
        match (fact, &rollout.serving) {
            (Fact::FreeMemory, Some(serving)) => self.learn_free_memory(rollout, serving, all, now).await,
            (Fact::HiddenObstacle, Some(serving)) => self.learn_hidden_obstacle(rollout, serving).await,
            (Fact::ManagerReachable { image }, _) => {
                self.manager.ask_whether_reachable(Query {
                    workload: rollout.workload.clone(),
                    image: manager_reference(&image, &self.settings.target),
                });
            }
            (Fact::Holds, _) => {
                if let Err(error) = self.read_holds().await {
                    let now = self.now();
                    self.backoff(rollout, READ_HOLDS, error.to_string(), now);
                }
            }
            (Fact::Health { container }, _) => self.memory.history(&container).checks.is_due = true,
            (Fact::FreeMemory | Fact::HiddenObstacle, None) => {}
        }
    }

    /// The answer holds until the replacement is over.
    async fn learn_free_memory(
        &mut self,
        rollout: &Rollout,
        serving: &Member,
        all: &[Rollout],
        now: DateTime<Utc>,
    ) {
        let available = Arc::clone(&self.settings.scope.free_memory);
        let is_known = available().is_none() || self.track(rollout).memory_use.is_some();
        if needs_sample(serving) && !is_known {
            self.sample_memory(rollout, all, now).await;
        }
        let tracked = self.track(rollout);
        let needed = serving.memory_limit.or(tracked.memory_use);
        // An unknown use forbids no second one. Others have started since the samples were taken.
        let answer = match (needed, available()) {
            (Some(needed), Some(available)) if is_running(serving) && needed > available => {
                Err(SingleInstance::TooLittleMemory { needed, available })
            }
            _ => Ok(()),
        };
        tracked.free_memory = Some(answer);
    }

    /// Where a container has no limit, the engine samples its present use, which takes a second: those of all delegates that
    /// are asked about next are taken at once.
    async fn sample_memory(&mut self, first: &Rollout, all: &[Rollout], now: DateTime<Utc>) {
        let is_next = |rollout: &&Rollout| {
            if rollout.name == first.name {
                return false;
            }
            let desired = self.run.desired(rollout, all);
            let mut facts = self.facts(rollout, all, &desired, now);
            facts.hidden_obstacle.get_or_insert(Ok(()));
            let decided = next(rollout, &desired, &self.policy(rollout), &facts, now);
            matches!(decided.decision, Decision::Learn(Fact::FreeMemory))
        };
        let mut samples = Vec::new();
        for rollout in std::iter::once(first).chain(all.iter().filter(is_next)) {
            let serving = rollout.serving.as_ref();
            if let Some(serving) = serving.filter(|serving| needs_sample(serving)) {
                let engine = Arc::clone(&self.engine);
                let (name, id) = (rollout.name.clone(), serving.id.clone());
                samples.push(async move { (name, engine.memory_usage(&id).await.unwrap_or(0)) }.boxed());
            }
        }
        // The others are asked about later.
        samples.truncate(MAX_SAMPLES);
        while !samples.is_empty() {
            let ((name, sample), _, rest) = select_all(samples).await;
            if let Some(tracked) = self.tracked.get_mut(&name) {
                tracked.memory_use = Some(sample);
            }
            samples = rest;
        }
    }

    /// No container document says whether files were copied into it, nor whether its image is still there, by whose
    /// defaults its owner's settings are recognized. So the engine is asked before it is replaced.
    async fn learn_hidden_obstacle(&mut self, rollout: &Rollout, serving: &Member) {
        let engine = self.engine.as_ref();
        let hidden = async {
            match engine.inspect_image(serving.image_id.as_str()).await {
                Err(EngineError::NotFound(_)) => {
                    let image = serving.image.to_string();
                    return Ok(Some(Obstacle::ImageRemoved { image }));
                }
                // Where a socket proxy refuses the call, it refuses to recreate a container, too: that step reports it.
                Err(error) if !error.is_not_permitted() => return Err(error),
                _ => {}
            }
            let container = engine.inspect(&serving.id).await?;
            let files = match container.label(COMPOSE_PROJECT) {
                Some(_) => engine.copied_files(&serving.id).await?,
                None => Vec::new(),
            };
            let copied = files.into_iter().next();
            Ok(copied.map(|path| Obstacle::CopiedFile { path }))
        };
        let answer = match hidden.await {
            Ok(obstacle) => obstacle.map_or(Ok(()), Err),
            Err(error) if error.is_not_permitted() => {
                let (container, workload) = (&rollout.name, &rollout.workload);
                warn!(container, workload, %error, "not allowed to check for copied files; assuming there are none");
                Ok(())
            }
            // Nothing is changed before it is known.
            Err(error) => {
                let now = self.now();
                self.backoff(rollout, LOOK_FOR_OBSTACLES, error.to_string(), now);
                return;
            }
        };
        let tracked = self.track(rollout);
        tracked.backoff = None;
        tracked.hidden_obstacle = Some((serving.id.clone(), answer));
    }

    /// Where no replacement is in progress, the answers are old by the next one.
    pub(super) fn forget_answers(&mut self, rollouts: &[Rollout]) {
        for rollout in rollouts.iter().filter(|rollout| !rollout.is_in_progress()) {
            self.track(rollout).forget_memory();
        }
    }
}

fn is_running(serving: &Member) -> bool {
    serving.state == RunState::Running
}

/// Whether only the engine can say how much memory another container like this one takes.
fn needs_sample(serving: &Member) -> bool {
    is_running(serving) && serving.memory_limit.is_none()
}
