//! The observation on which each decision is based, and its time.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;
use tracing::warn;

use super::Reconciler;
use super::controller::Core;
use super::subject::Subject;
use super::tracked::Tracked;
use crate::engine::{Engine, EngineError};
use crate::health::HealthEndpoint;
use crate::manager::ImageSource;
use crate::observe::released;
use crate::rollout::{INSPECT, Member, Rollout};
use crate::text::duration;

/// An observation this recent is good enough to say that there is nothing to do.
const YOUNG: Duration = Duration::from_secs(2);

/// An observation this recent may be acted on again after a question or a pull, which change nothing that it shows.
const FRESH: Duration = Duration::from_millis(500);

/// The delegates of a host as observed.
#[derive(Debug)]
pub struct Observed {
    pub(crate) rollouts: Vec<Rollout>,
    /// When the observation started.
    pub(crate) now: DateTime<Utc>,
    ended: Instant,
    /// Whether nothing has been decided on it yet.
    pub(super) is_new: bool,
    /// Whether it may be acted on, rather than only show that there is nothing to do.
    pub(super) may_act: bool,
}

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Reconciler<E, M, H> {
    pub(super) fn forget_last_run(&mut self) {
        self.memory.forget_attempts();
        self.tracked.values_mut().for_each(Tracked::start_run);
    }

    /// Keeps an observation until an awaited answer of the Manager or a registry: usually it leaves nothing to do, and does not
    /// deserve another observation.
    pub(super) fn keep_for_answer(&mut self, observed: Observed) {
        let is_enough = self.core.run.awaited().is_some() && !self.observer.is_waiting();
        self.recent = is_enough.then_some(Observed {
            is_new: false,
            may_act: false,
            ..observed
        });
    }

    /// Keeps an observation for the next decision, after a change in memory only: a fact was found out, or something started in
    /// the background.
    pub(super) fn keep_for_decision(&mut self, observed: Observed) {
        self.recent = Some(Observed {
            is_new: false,
            ..observed
        });
    }

    /// The kept observation, once, if it is still valid.
    pub(super) fn recent_observation(&mut self) -> Option<Observed> {
        // This notices a jump of the clock, which invalidates the observation's times.
        self.now();
        let recent = self.recent.take()?;
        let has_services = self.services.managed().next().is_some();
        let is_for_an_answer =
            self.core.manager.questions.has_answer() && self.core.starting.is_none() && !has_services;
        let holds = if recent.may_act {
            recent.ended.elapsed() < FRESH
        } else {
            is_for_an_answer && recent.ended.elapsed() < YOUNG
        };
        holds.then_some(recent)
    }

    /// The time. If the system clock jumped, the times in memory are shifted along.
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
        self.recent = None;
        self.memory.shift(by);
        for tracked in self.tracked.values_mut() {
            tracked.backoffs.shift(by);
            if let Some(since) = &mut tracked.name_free_since {
                *since += by;
            }
        }
    }

    /// Observes all delegates, and returns when the observation started: with a slow engine, the first things seen may have
    /// changed by its end, so no deadline counts as over by then. Repeated if the clock jumped meanwhile, since its times would
    /// be on both sides of the jump.
    pub(super) async fn observe_all(&mut self) -> Result<Observed, EngineError> {
        loop {
            let before = self.now();
            let rollouts = self.observe_at(before).await?;
            match self.timekeeper.now().1 {
                None => {
                    return Ok(Observed {
                        rollouts,
                        now: before,
                        ended: Instant::now(),
                        is_new: true,
                        may_act: true,
                    });
                }
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
            core,
            holds,
            services,
            ..
        } = self;
        holds.note_observation();
        let mut rollouts = observer.observe(engine, &settings.scope, memory, now).await?;
        // The only delegates of this host may not have shown yet that they are delegates.
        if rollouts.is_empty() && observer.awaits_first_answer() {
            observer.settled().await;
            rollouts = observer.observe(engine, &settings.scope, memory, now).await?;
        }
        // An ended task is its service's matter, not an unhealthy delegate.
        rollouts.retain(|rollout| rollout.owner.task_of.is_none() || rollout.members().any(Member::is_up));
        for serving in rollouts.iter().filter_map(|rollout| rollout.serving.as_ref()) {
            let history = memory.history(&serving.id);
            history.was_in_service = true;
            history.checks.forget_restarts(now, settings.policy.healthy_time);
        }
        // A proxy for health checks alone need not permit this call.
        let asked = rollouts.iter_mut().filter(|rollout| !rollout.is_upgrader());
        for serving in asked.filter_map(|rollout| rollout.serving.as_mut()) {
            let id = &serving.image_id;
            if !memory.releases.contains_key(id) && !settings.policy.health_only {
                let release = released(engine.as_ref(), &serving.image, id.as_str(), &core.target).await;
                memory.releases.insert(id.clone(), release);
            }
            let release = memory.releases.get(id).copied().flatten();
            serving.image.note_release(release);
        }
        let Core { manager, target, .. } = core;
        let services = services.managed().map(Subject::from);
        manager.note_delegates(rollouts.iter().map(Subject::from).chain(services), target);
        self.note_inspect_errors(&rollouts, now);
        for rollout in &rollouts {
            self.track(rollout).note_name(rollout, now);
        }
        Ok(rollouts)
    }

    /// Inspects a container again after a pause if that failed, as after any other error.
    fn note_inspect_errors(&mut self, rollouts: &[Rollout], now: DateTime<Utc>) {
        for rollout in rollouts {
            let backoffs = &mut self.track(rollout).backoffs;
            match &rollout.inspect_error {
                None => backoffs.forget(INSPECT),
                Some(_) if backoffs.of(INSPECT).is_some_and(|last| last.retry_at > now) => {}
                Some(problem) => {
                    let (problem, is_beside) = (Some(problem.clone()), false);
                    self.note_attempt(rollout, INSPECT, INSPECT.to_owned(), problem, is_beside, now);
                }
            }
        }
    }
}
