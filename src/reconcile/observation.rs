//! The observation that each decision starts with, and its time.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;
use tracing::warn;

use super::Reconciler;
use super::questions::Answer;
use super::tracked::Tracked;
use crate::engine::{Engine, EngineError};
use crate::health::HealthEndpoint;
use crate::manager::ImageSource;
use crate::rollout::{Decision, INSPECT, Member, Rollout, UpdateOrder};
use crate::status::planned::Planned;
use crate::text::duration;

/// An observation that is so young shows what is there well enough to say that there is nothing to do.
const YOUNG: Duration = Duration::from_secs(2);

/// An observation that is so young is acted upon again, after a question or a pull, which change none of what it shows.
const FRESH: Duration = Duration::from_millis(500);

/// The delegates, as they were observed.
#[derive(Debug)]
pub(super) struct Observed {
    pub(super) rollouts: Vec<Rollout>,
    /// When the observation started.
    pub(super) now: DateTime<Utc>,
    ended: Instant,
    /// `None` if it is new.
    kept_for: Option<KeptFor>,
}

impl Observed {
    /// A new observation.
    pub(super) fn new(rollouts: Vec<Rollout>, now: DateTime<Utc>) -> Self {
        Self {
            rollouts,
            now,
            ended: Instant::now(),
            kept_for: None,
        }
    }

    /// Whether nothing was decided on it yet.
    pub(super) fn is_new(&self) -> bool {
        self.kept_for.is_none()
    }

    /// Whether it may be acted upon, and does not only show that there is nothing to do.
    pub(super) fn may_act(&self) -> bool {
        self.kept_for != Some(KeptFor::Answer)
    }
}

/// The use that an observation is kept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeptFor {
    /// An answer is awaited: with most there is nothing to do, and no other observation is made for that.
    Answer,
    /// The next decision: what changed is only what is known beside the containers.
    Decision,
}

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Reconciler<E, M, H> {
    pub(super) fn forget_last_run(&mut self) {
        self.memory.forget_attempts();
        self.tracked.values_mut().for_each(Tracked::start_run);
    }

    /// From the next observation on, what has the published image is a delegate.
    pub(super) fn note_published(&mut self, answer: &Answer) {
        let known = &mut self.settings.scope.known_images;
        if let Answer::Published(Ok(image)) = answer
            && !known.contains(image)
        {
            known.push(image.clone());
        }
    }

    /// The rows of a plan for those that are not taken for delegates.
    pub(super) fn planned_not_delegates(&self) -> Vec<Planned> {
        let all = self.observer.not_delegates().iter();
        let rows = all.map(|(rollout, reason)| {
            Planned::new(
                rollout,
                &Decision::Rest(reason.clone()),
                &[],
                &UpdateOrder::StartFirst,
            )
        });
        rows.collect()
    }

    /// Keeps an observation for the answer of the Manager or a registry that is awaited.
    pub(super) fn keep_for_answer(&mut self, observed: Observed) {
        let is_enough = self.run.awaited().is_some() && !self.observer.is_waiting();
        self.recent = is_enough.then_some(Observed {
            kept_for: Some(KeptFor::Answer),
            ..observed
        });
    }

    /// Keeps an observation after a change of memory only: something was learned, or started beside the loop.
    pub(super) fn keep_for_decision(&mut self, observed: Observed) {
        self.recent = Some(Observed {
            kept_for: Some(KeptFor::Decision),
            ..observed
        });
    }

    /// The observation that was kept, once, if it still holds.
    pub(super) fn recent_observation(&mut self) -> Option<Observed> {
        // That notices a jump of the clock, for which its times are wrong.
        self.now();
        let recent = self.recent.take()?;
        let has_services = self.services.managed().next().is_some();
        let is_for_an_answer = self.manager.has_answer() && self.starting.is_none() && !has_services;
        let holds = match recent.kept_for {
            Some(KeptFor::Answer) => is_for_an_answer && recent.ended.elapsed() < YOUNG,
            Some(KeptFor::Decision) => recent.ended.elapsed() < FRESH,
            None => false,
        };
        holds.then_some(recent)
    }

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
        self.recent = None;
        self.memory.shift(by);
        for tracked in self.tracked.values_mut() {
            tracked.backoffs.shift(by);
            if let Some(since) = &mut tracked.name_free_since {
                *since += by;
            }
        }
    }

    /// Observes all delegates, and gives the time at which the observation started: what a slow engine showed first may
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
        let mut rollouts = observer.observe(engine, &settings.scope, memory, now).await?;
        // The only delegates of this host may be those that have not shown yet that they are.
        if rollouts.is_empty() && observer.awaits_first_answer() {
            observer.settled().await;
            rollouts = observer.observe(engine, &settings.scope, memory, now).await?;
        }
        // A task that has ended is its service's matter, and no unhealthy delegate.
        rollouts.retain(|rollout| rollout.owner.task_of.is_none() || rollout.members().any(Member::is_up));
        for serving in rollouts.iter().filter_map(|rollout| rollout.serving.as_ref()) {
            let history = memory.history(&serving.id);
            history.was_in_service = true;
            history.checks.forget_restarts(now, settings.policy.healthy_time);
        }
        manager.note_delegates(&rollouts, services.managed(), &settings.target);
        self.note_inspect_errors(&rollouts, now);
        for rollout in &rollouts {
            self.track(rollout).note_name(rollout, now);
        }
        Ok(rollouts)
    }

    /// A container that cannot be inspected is inspected again after a pause, as after any other error.
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
