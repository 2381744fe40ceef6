//! This process's memory of a container: hints, which a restart of the process loses.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};

use super::Checks;
use super::pace::{MAX_OBSERVATION_GAP, MAX_WATCHED, MAX_WATCHED_IN_SERVICE, START_ATTEMPTS};
use crate::container::{ContainerId, ImageId};
use crate::document::SingleInstance;
use crate::health::{Health, Work};

/// This process's memory of one container, mostly of its current life.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// Since when this process has seen it running. Time during which it was not watching does not count.
    pub seen_since: Option<DateTime<Utc>>,
    /// Since when it has been healthy at every observation.
    pub healthy_since: Option<DateTime<Utc>>,
    /// Since when no observation has shown it healthy.
    pub unhealthy_since: Option<DateTime<Utc>>,
    /// When this process asked it to stop.
    pub stop_requested_at: Option<DateTime<Utc>>,
    /// Whether this process ever asked it to stop, in any life: an engine that restarts it at that moment stops the next one.
    pub was_asked_to_stop: bool,
    /// The starts that the engine refused.
    pub starts: RefusedStarts,
    /// Whether it differs from the container that it replaces only in its image, or in which settings, once they were compared.
    pub comparison: Option<Result<(), String>>,
    /// Whether the engine can start such a container, or why not, once that was tried.
    pub trial: Option<Result<(), String>>,
    /// The highest restart count seen; the engine resets it when a container is stopped.
    pub max_restart_count: u64,
    /// Whether this process ever saw it in service.
    pub was_in_service: bool,
    /// The results of its health checks.
    pub checks: Checks,
    /// The last verdict of a probe, however old.
    pub last_health: Option<Health>,
    /// Whether a health request is still unanswered.
    pub is_awaited: bool,
    /// When it last answered the question for its work.
    asked_for_work: Option<DateTime<Utc>>,
    /// The work that it last reported, and when.
    work: Option<(DateTime<Utc>, Work)>,
    last_observation: Option<DateTime<Utc>>,
    /// The end of the last observation, whether or not that said anything about it.
    last_look: Option<DateTime<Utc>>,
    /// How long this process has not looked since the container became unhealthy.
    unwatched_ill: TimeDelta,
}

/// The day on which an image was released, if its document shows it.
pub type Release = Option<NaiveDate>;

/// The starts of a container that the engine refused.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RefusedStarts {
    /// How many there were in a row.
    pub count: u32,
    /// Why the engine can never start it.
    pub for_good: Option<String>,
}

impl RefusedStarts {
    /// Notes another one. What may pass counts for good once it did not.
    pub(super) fn note(&mut self, problem: String, may_pass: bool) {
        self.count += 1;
        if !may_pass || self.count >= START_ATTEMPTS {
            self.for_good = Some(problem);
        }
    }
}

/// When a container was seen. An observation takes time (a minute if a call hangs) and shows the state at some moment within it.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The end of the observation: later changes are new.
    pub from: DateTime<Utc>,
    /// The start of the observation: whatever lasts is known to have lasted until then.
    pub until: DateTime<Utc>,
}

impl From<DateTime<Utc>> for Seen {
    /// Seen at exactly this moment.
    fn from(moment: DateTime<Utc>) -> Self {
        Self {
            from: moment,
            until: moment,
        }
    }
}

/// The origin of an observation's verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// The container was checked just now.
    Done,
    /// The engine repeats a known HEALTHCHECK result, or one of unknown age.
    Repeated,
    /// It was checked so recently that it was not checked again.
    Recent,
    /// It has not answered yet, so the observation says nothing about it.
    Awaited,
}

impl History {
    /// The verdict on its current life, if it was given within `age` before `now`.
    pub fn recent_health(&self, now: DateTime<Utc>, age: Duration) -> Option<&Health> {
        let at = self.checks.last_at.filter(|_| !self.checks.is_due)?;
        let is_recent = (now - at).to_std().is_ok_and(|elapsed| elapsed < age);
        self.verdict().filter(|_| is_recent)
    }

    /// The verdict on its current life, however old. A pause does not count once the container runs again.
    pub fn verdict(&self) -> Option<&Health> {
        self.last_health
            .as_ref()
            .filter(|_| self.checks.last_at.is_some())
    }

    /// Notes an answer about its work. One without a number of tasks keeps the last number.
    pub fn note_work(&mut self, now: DateTime<Utc>, answer: Option<Work>) {
        self.asked_for_work = Some(now);
        self.work = answer.map(|work| (now, work)).or(self.work);
    }

    /// Whether it has answered the question for its work so recently that it need not be asked again.
    pub fn has_told_work(&self, now: DateTime<Utc>, age: Duration) -> bool {
        let elapsed = |asked: DateTime<Utc>| (now - asked).to_std().unwrap_or_default();
        self.asked_for_work.is_some_and(|asked| elapsed(asked) < age)
    }

    /// The work that it last reported, unless that is too old.
    pub fn known_work(&self, now: DateTime<Utc>, age: Duration) -> Option<Work> {
        let (at, work) = self.work?;
        ((now - at).to_std().unwrap_or_default() <= age).then_some(work)
    }

    /// Shifts all times by the amount that the clock jumped.
    fn shift(&mut self, by: TimeDelta) {
        let moments = [
            &mut self.seen_since,
            &mut self.healthy_since,
            &mut self.unhealthy_since,
            &mut self.stop_requested_at,
            &mut self.last_observation,
            &mut self.last_look,
            &mut self.asked_for_work,
        ];
        let of_work = self.work.iter_mut().map(|(at, _)| at);
        for moment in moments.into_iter().flatten().chain(of_work) {
            *moment += by;
        }
        self.checks.shift(by);
    }

    /// How long every observation has shown it healthy. Setting the clock after the last one adds nothing.
    pub fn healthy_for(&self, now: DateTime<Utc>) -> Option<Duration> {
        let vouched = self.last_observation.map_or(now, |last| last.min(now));
        let since = self.healthy_since?;
        Some((vouched - since).to_std().unwrap_or_default())
    }

    /// How long no observation has shown it healthy, without the time when this process did not look.
    pub fn unhealthy_for(&self, now: DateTime<Utc>) -> Option<TimeDelta> {
        Some(now - self.unhealthy_since? - self.unwatched_ill)
    }

    /// Notes the life that the engine shows. What is known of an earlier one does not count for another.
    pub fn note_life(&mut self, started_at: Option<DateTime<Utc>>, restart_count: u64) {
        if self.checks.note_life(started_at) {
            (self.healthy_since, self.unhealthy_since) = (None, None);
            (self.asked_for_work, self.work) = (None, None);
            self.stop_requested_at = None;
            // A life that the restart policy started does not reset the container's deadline.
            if restart_count <= self.max_restart_count {
                self.seen_since = None;
            }
        }
        self.max_restart_count = self.max_restart_count.max(restart_count);
    }

    /// Records one observation of the life that was noted.
    pub fn record(&mut self, seen: impl Into<Seen>, verdict: &Health, check: Check) {
        let Seen { from, until } = seen.into();
        let elapsed = from - self.last_look.replace(from).unwrap_or(from);
        if let Some(since) = &mut self.seen_since {
            *since += (elapsed - MAX_WATCHED).max(TimeDelta::zero());
        }
        self.unwatched_ill += (elapsed - MAX_WATCHED_IN_SERVICE).max(TimeDelta::zero());
        let blinked = self.last_observation.is_some_and(|last| {
            (until - last)
                .to_std()
                .map_or(true, |elapsed| elapsed > MAX_OBSERVATION_GAP)
        });
        if blinked {
            (self.healthy_since, self.unhealthy_since) = (None, None);
        }
        if self.checks.life.is_some() {
            self.seen_since.get_or_insert(from);
        }
        self.is_awaited = check == Check::Awaited;
        if self.is_awaited {
            return;
        }
        self.last_observation = Some(until);
        if verdict.is_healthy() {
            self.healthy_since.get_or_insert(from);
            self.unhealthy_since = None;
        } else {
            if self.unhealthy_since.is_none() {
                (self.unhealthy_since, self.unwatched_ill) = (Some(from), TimeDelta::zero());
            }
            self.healthy_since = None;
        }
        if matches!(check, Check::Done | Check::Repeated) {
            let is_new = check == Check::Done;
            self.checks.note(until, verdict, is_new);
            self.checks.is_due &= !is_new;
            self.last_health = Some(verdict.clone());
        }
    }
}

/// Everything this process remembers between observations. Losing it costs time, never a container.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    histories: HashMap<ContainerId, History>,
    /// Images whose removal was tried; it is not tried twice.
    pub(crate) discarded: HashSet<ImageId>,
    /// The engine's error when it had no free port for a second container, by delegate name.
    no_free_port: HashMap<String, String>,
    /// When each image was released. The engine is asked once.
    pub(crate) releases: HashMap<ImageId, Release>,
}

impl Memory {
    /// The memory of a container.
    pub fn history(&mut self, id: &ContainerId) -> &mut History {
        self.histories.entry(id.clone()).or_default()
    }

    /// Shifts all times by the amount that the clock jumped.
    pub fn shift(&mut self, by: TimeDelta) {
        for history in self.histories.values_mut() {
            history.shift(by);
        }
    }

    /// Forgets containers that are gone.
    pub fn keep(&mut self, exists: impl Fn(&ContainerId) -> bool) {
        self.histories.retain(|id, _| exists(id));
    }

    /// Notes that a second container of this delegate could not start because all ports that it may publish are taken.
    pub fn note_no_free_port(&mut self, name: &str, problem: String) {
        self.no_free_port.insert(name.to_owned(), problem);
    }

    /// Why a second container of this delegate cannot start in this run, from the last attempt.
    pub fn no_free_port(&self, name: &str) -> Option<SingleInstance> {
        let problem = self.no_free_port.get(name)?.clone();
        Some(SingleInstance::NoFreePort { problem })
    }

    /// Forgets the attempts of the last run: a new run may try again.
    pub fn forget_attempts(&mut self) {
        self.no_free_port.clear();
        for history in self.histories.values_mut() {
            history.checks.refused = None;
        }
    }
}
