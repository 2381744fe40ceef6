//! The facts that a decision needs beside the containers: known ones, and how the others are found out.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use tracing::warn;

use super::Reconciler;
use super::concurrency::{crowd_of, soaking};
use crate::config::UpdateOrder;
use crate::container::compose;
use crate::container::json::has_configuration;
use crate::document::Obstacle;
use crate::engine::{Engine, EngineError};
use crate::health::{HealthEndpoint, HealthStatus};
use crate::host::hold::READ_HOLDS;
use crate::image::manager_reference;
use crate::manager::{ImageSource, Query};
use crate::rollout::{
    ChosenOrder, Desired, Fact, Facts, Failure, Member, Policy, Reach, Rollout, RunFacts, image_of,
};

/// The failed action if the obstacles are unknown.
const LOOK_FOR_OBSTACLES: &str = "find out whether it can be recreated as it is";

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Reconciler<E, M, H> {
    /// The image that one delegate should run, and the known facts. A candidate that the run gave up keeps its image.
    pub(super) fn known(&self, rollout: &Rollout, all: &[Rollout], now: DateTime<Utc>) -> (Desired, Facts) {
        let desired = self.core.run.desired(rollout);
        let facts = self.facts(rollout, all, &desired, now);
        match facts
            .run
            .keeps_candidate(&desired)
            .filter(|_| rollout.candidate.is_some())
        {
            Some(reason) => (Desired::Keep(reason), facts),
            None => (desired, facts),
        }
    }

    fn facts(&self, rollout: &Rollout, all: &[Rollout], desired: &Desired, now: DateTime<Utc>) -> Facts {
        let (tracked, timing) = (self.tracked.get(&rollout.name), &self.settings.policy.timing);
        let delegates = all.iter().filter(|rollout| !rollout.is_upgrader());
        let in_use = delegates.filter_map(|rollout| rollout.serving.as_ref());
        let in_use = in_use.filter(|serving| serving.is_in_use());
        let is_unhealthy = |serving: &&Member| serving.health.status == HealthStatus::Unhealthy;
        Facts {
            is_plan: false,
            delegates: in_use.clone().count(),
            unhealthy_delegates: in_use.filter(is_unhealthy).count(),
            backoffs: tracked
                .map(|tracked| tracked.backoffs.clone())
                .unwrap_or_default(),
            is_pulling: matches!(
                desired, Desired::Image { reference, .. } if self.pulls.is_in_progress(reference)
            ),
            free_memory: tracked.and_then(|tracked| tracked.free_memory.clone()),
            crowd: tracked.map_or(0, |tracked| crowd_of(rollout, all, &tracked.crowd, now)),
            no_free_port: self.memory.no_free_port(&rollout.name),
            hidden_obstacle: tracked.and_then(|tracked| tracked.hidden_obstacle(rollout)),
            known_rejections: self.core.run.known_rejections(rollout),
            holds: self
                .core
                .run
                .target_identity(rollout)
                .and_then(|image| self.holds.of(&rollout.name, &image)),
            holds_are_old: !self.holds.are_fresh(),
            run: RunFacts {
                recreated: tracked.and_then(|tracked| tracked.recreations.reason(rollout)),
                unsettled: tracked.and_then(|tracked| tracked.unsettled(rollout)),
                next_run: self.core.next_run,
                soaking: soaking(rollout, all, desired, timing.soak, now),
                alerts: self.core.alerts.held(desired, timing, now),
                ..self.core.run.facts(rollout, desired, all)
            },
            has_created: self.core.run.created.contains(&rollout.name),
            own: self
                .settings
                .scope
                .own_id
                .clone()
                .filter(|_| rollout.is_upgrader()),
            name_free_for: tracked
                .and_then(|tracked| (now - tracked.name_free_since?).to_std().ok())
                .unwrap_or_default(),
            // The upgrader's readiness does not depend on the Manager.
            manager: if rollout.is_upgrader() {
                Some(Reach::Reachable)
            } else {
                self.core.manager.reach(now)
            },
            manager_problem: self.core.manager.problem().filter(|_| !rollout.is_upgrader()),
        }
    }

    /// Reads the engine's records if they are unknown or have changed. If the engine does not report changes, reads them only
    /// while a delegate waits for another image. They are only displayed and recorded; no replacement starts because of them.
    pub(super) async fn keep_holds(&mut self, rollouts: &[Rollout]) {
        if self.observer.takes_changed_records() {
            self.holds.note_change();
        }
        let is_told = self.observer.is_told();
        let is_due = !self.settings.policy.health_only && self.holds.are_due(is_told);
        let waits = |rollout: &Rollout| {
            rollout.candidate.is_none() && matches!(self.core.run.desired(rollout), Desired::Image { .. })
        };
        if is_due && (is_told || rollouts.iter().any(waits)) {
            let _ = self.read_holds().await;
        }
        if let Some(pauses) = self.holds.pauses() {
            let now = self.now();
            let services: Vec<&str> = self.services.managed().map(|it| it.name.as_str()).collect();
            let is_own =
                |name: &str| services.contains(&name) || rollouts.iter().any(|rollout| rollout.name == name);
            self.core.ledger.observe_pauses(&pauses, is_own, now).await;
        }
    }

    /// Reads the holds from the engine's records.
    pub(super) async fn read_holds(&mut self) -> Result<(), EngineError> {
        let has_wave = self.settings.policy.timing.wave.is_some();
        self.holds.read(self.engine.as_ref(), has_wave).await
    }

    /// How one delegate is replaced, as far as is known.
    pub(super) fn update_order(&self, rollout: &Rollout) -> ChosenOrder {
        let tracked = self.tracked.get(&rollout.name);
        let facts = Facts {
            free_memory: tracked.and_then(|tracked| tracked.free_memory.clone()),
            no_free_port: self.memory.no_free_port(&rollout.name),
            ..Facts::default()
        };
        rollout.update_order(&self.policy(rollout), &facts)
    }

    /// The operator's policy for one delegate. Settings for replacing delegates do not apply to the upgrader.
    pub(super) fn policy(&self, rollout: &Rollout) -> Cow<'_, Policy> {
        let policy = &self.settings.policy;
        match rollout.owner.healthy_deadline {
            _ if rollout.is_upgrader() => Cow::Owned(Policy {
                update_order: UpdateOrder::Auto,
                restarts_unhealthy: false,
                ..policy.clone()
            }),
            // It must stay healthy for that long.
            Some(deadline) if deadline > policy.healthy_time => Cow::Owned(Policy {
                healthy_deadline: deadline,
                ..policy.clone()
            }),
            _ => Cow::Borrowed(policy),
        }
    }

    /// Finds out a fact that a decision about one delegate needs, given all delegates.
    pub(super) async fn learn(&mut self, rollout: &Rollout, all: &[Rollout], fact: Fact, now: DateTime<Utc>) {
        match (fact, &rollout.serving) {
            (Fact::FreeMemory, Some(serving)) => self.learn_free_memory(rollout, serving, all, now).await,
            (Fact::HiddenObstacle, Some(serving)) => self.learn_hidden_obstacle(rollout, serving).await,
            (Fact::ManagerReachable { image }, _) => {
                self.core.manager.ask_whether_reachable(Query {
                    workload: rollout.workload.clone(),
                    image: manager_reference(&image, &self.core.target),
                });
            }
            (Fact::Holds, _) => {
                if let Err(error) = self.read_holds().await {
                    let now = self.now();
                    self.note_failed_question(rollout, &Fact::Holds, READ_HOLDS, error, now);
                }
            }
            (Fact::Health { container }, _) => self.memory.history(&container).checks.is_due = true,
            (Fact::FreeMemory | Fact::HiddenObstacle, None) => {}
        }
    }

    /// No container document shows whether files were copied into it, or whether its image, whose defaults tell its owner's
    /// settings apart, still exists. So the engine is asked before it is replaced.
    async fn learn_hidden_obstacle(&mut self, rollout: &Rollout, serving: &Member) {
        let engine = self.engine.as_ref();
        let hidden = async {
            let container = engine.inspect(&serving.id).await?;
            match image_of(engine, &container).await {
                Ok(image) if !has_configuration(&image) => {
                    return Ok(Some(Obstacle::ImageUnknown { which: "old image" }));
                }
                Err(Failure::ImageRemoved(reference)) if !self.core.run.cannot_pull(&reference) => {
                    return Err(Failure::ImageRemoved(reference));
                }
                Err(Failure::ImageRemoved(_) | Failure::Engine(EngineError::NotFound(_))) => {
                    let image = serving.image.to_string();
                    return Ok(Some(Obstacle::ImageRemoved { image }));
                }
                // A socket proxy that refuses this call also refuses to recreate a container, and that step reports it.
                Err(Failure::Engine(error)) if error.is_not_permitted() => {}
                Err(failure) => return Err(failure),
                Ok(_) => {}
            }
            let files = match container.label(compose::PROJECT) {
                None => Ok(Vec::new()),
                Some(_) => engine.copied_files(&serving.id).await,
            };
            let files = match files {
                Err(EngineError::Malformed(problem)) => return Ok(Some(Obstacle::FilesUnknown { problem })),
                files => files?,
            };
            let copied = files.into_iter().next();
            Ok(copied.map(|path| Obstacle::CopiedFile { path }))
        };
        let answer = match hidden.await {
            Ok(obstacle) => obstacle.map_or(Ok(()), Err),
            Err(Failure::Engine(error)) if error.is_not_permitted() => {
                let (container, workload) = (&rollout.name, &rollout.workload);
                warn!(container, workload, %error, "not allowed to check for copied files; assuming there are none");
                Ok(())
            }
            // Nothing is changed until it is known.
            Err(failure) => {
                let now = self.now();
                self.note_failed_question(rollout, &Fact::HiddenObstacle, LOOK_FOR_OBSTACLES, failure, now);
                return;
            }
        };
        let tracked = self.track(rollout);
        tracked.backoffs.forget(Fact::HiddenObstacle.kind());
        tracked.hidden_obstacle = Some((serving.id.clone(), answer));
    }
}
