//! What this process has seen of a container: hints that a restart may lose.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::{Checks, CommonCause, Member, Stopper, Vanished, WorkSeen};
use crate::container::{ContainerId, ImageId, Role};
use crate::document::SingleInstance;
use crate::health::Health;

/// Two observations further apart than this do not vouch for the time between them.
const MAX_OBSERVATION_GAP: Duration = Duration::from_secs(120);

/// So many candidates of one delegate may be outdated in a run: nobody changes a delegate that often.
const OUTDATED_LIMIT: u32 = 3;

/// What this process has seen of one container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// Since when this process has seen it started, restarts included.
    pub seen_since: Option<DateTime<Utc>>,
    /// Since when it has been healthy at every observation.
    pub healthy_since: Option<DateTime<Utc>>,
    /// Since when it has not been healthy at any observation.
    pub unhealthy_since: Option<DateTime<Utc>>,
    /// When this process asked it to stop.
    pub stop_requested_at: Option<DateTime<Utc>>,
    /// Whether a request of this process that it stop failed, and may have reached it all the same.
    pub stop_may_have_arrived: bool,
    /// Whether it lives again after this process asked it to stop.
    pub restarted_since_stop: bool,
    /// Whether this process has started it again.
    pub restarted_by_us: bool,
    /// Its restart policy before this process took it off.
    pub original_policy: Option<String>,
    /// Whether this process gave it its policy back, to start it: then nothing else shows any more that it has drained.
    pub policy_returned: bool,
    /// Whether it had ended, and still had the delegate's name, at the last observation.
    pub ended_in_service: bool,
    /// The most restarts the engine has counted; it forgets them when a container is stopped.
    pub max_restart_count: u64,
    /// Why the engine would not start it, for good.
    pub start_refused: Option<String>,
    /// How it differs from what it is to replace, where somebody changed one of the two after it was created.
    pub outdated: Option<String>,
    /// The settings that it had when its candidate was compared with it.
    pub compared_settings: Option<u64>,
    /// The settings that the original had when this copy of it was made.
    pub copied_settings: Option<u64>,
    /// Whether the engine would not create the container anew that it is the copy of.
    pub recreate_refused: bool,
    /// How often the engine failed to start it, in a way that may pass.
    pub failed_starts: u32,
    /// Who stopped it or asked it to stop, where the engine was asked for that.
    pub stopper: Option<Stopper>,
    /// The last time a common cause kept delegates from being healthy, and which. Its failure then
    /// says nothing about its image.
    pub common_cause: Option<(DateTime<Utc>, CommonCause)>,
    /// The restarts that were counted by then.
    pub excused_restarts: u64,
    /// The work that it reported.
    pub work: WorkSeen,
    /// What its health checks have found.
    pub checks: Checks,
    /// Whether it is checked at the next observation, however recently that was done.
    pub is_check_due: bool,
    /// How often a new life gave it time anew.
    restarts_by_hand: u32,
    /// The second in its name, where it gave up the delegate's.
    retired: Option<i64>,
    last_observation: Option<DateTime<Utc>>,
    restart_count: u64,
    started_at: Option<DateTime<Utc>>,
    verdict: Option<Verdict>,
}

/// So often a candidate that somebody restarts has all its time again.
const MAX_RESTARTS_BY_HAND: u32 = 3;

/// What a probe said.
#[derive(Clone, Debug, PartialEq)]
struct Verdict {
    at: DateTime<Utc>,
    /// When the life of the container began that it is about.
    life: Option<DateTime<Utc>>,
    health: Health,
}

/// When a container was seen. An observation takes its time, a minute where a call hangs, and what it shows was so at
/// some moment of it.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// From then on what is new counts: the end of the observation.
    pub from: DateTime<Utc>,
    /// Until then what lasts is vouched for: its beginning.
    pub until: DateTime<Utc>,
}

impl From<DateTime<Utc>> for Seen {
    /// At this very moment.
    fn from(moment: DateTime<Utc>) -> Self {
        Self {
            from: moment,
            until: moment,
        }
    }
}

/// Where the verdict of an observation comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// The container was checked just now.
    Done,
    /// The engine says what the last probe of its HEALTHCHECK found, which was known, or is of an unknown age.
    Repeated,
    /// It was checked so recently that it was not checked again.
    Recent,
    /// It has been asked and has not answered: the observation vouches for nothing.
    Awaited,
}

impl History {
    /// The last verdict, if it was given within `age` before `now` and in the life that began at `started_at`.
    pub fn recent_health(
        &self,
        now: DateTime<Utc>,
        age: Duration,
        started_at: Option<DateTime<Utc>>,
    ) -> Option<Health> {
        let verdict = self.verdict.as_ref().filter(|_| !self.is_check_due)?;
        let recent = (now - verdict.at).to_std().is_ok_and(|elapsed| elapsed < age);
        self.verdict_on(started_at).filter(|_| recent).cloned()
    }

    /// Moves all moments along with a clock that was set by so much.
    fn shift(&mut self, by: TimeDelta) {
        let moments = [
            &mut self.seen_since,
            &mut self.healthy_since,
            &mut self.unhealthy_since,
            &mut self.stop_requested_at,
            &mut self.last_observation,
        ];
        for moment in moments.into_iter().flatten() {
            *moment += by;
        }
        if let Some((at, _)) = &mut self.common_cause {
            *at += by;
        }
        if let Some(verdict) = &mut self.verdict {
            verdict.at += by;
        }
        if let Some(stopper) = &mut self.stopper {
            stopper.asked_at += by;
        }
        self.work.shift(by);
        self.checks.shift(by);
    }

    /// How long it has been healthy at every observation. A clock that is set after the last one adds nothing.
    pub fn healthy_for(&self, now: DateTime<Utc>) -> Option<Duration> {
        let vouched = self.last_observation.map_or(now, |last| last.min(now));
        let since = self.healthy_since?;
        Some((vouched - since).to_std().unwrap_or_default())
    }

    /// The last verdict on the life that began at `started_at`, however old. A pause does not count once the container runs again.
    pub fn verdict_on(&self, started_at: Option<DateTime<Utc>>) -> Option<&Health> {
        let verdict = self.verdict.as_ref()?;
        (verdict.life == started_at && verdict.health.is_of_a_check()).then_some(&verdict.health)
    }

    /// The last verdict, however old.
    pub fn last_health(&self) -> Option<&Health> {
        self.verdict.as_ref().map(|verdict| &verdict.health)
    }

    /// Notes its part at an observation. What was done to it in an earlier replacement says nothing about this one: it had
    /// the delegate's name in between, or has given it up again.
    pub fn note_role(&mut self, role: Role) {
        let is_another = match role {
            Role::Serving => {
                self.retired = None;
                true
            }
            Role::Draining { since } => self.retired.replace(since).is_some_and(|before| before != since),
            _ => false,
        };
        if is_another {
            self.restarted_since_stop = false;
            self.restarted_by_us = false;
            self.policy_returned = false;
            self.stop_may_have_arrived = false;
        }
    }

    /// Whether this process saw that it gave up the delegate's name, in the life that began then.
    pub fn was_retired(&self, started_at: Option<DateTime<Utc>>) -> bool {
        self.retired.is_some() && self.started_at == started_at
    }

    /// Whether the life that began then ended while it had the delegate's name.
    pub fn has_ended_in_service(&self, started_at: Option<DateTime<Utc>>) -> bool {
        self.ended_in_service && self.started_at == started_at
    }

    /// Whether this process may have asked it to stop in the life that began then, or is about to end that one's rest.
    pub fn was_drained(&self, started_at: Option<DateTime<Utc>>) -> bool {
        let was_asked = self.stop_requested_at.is_some() || self.stop_may_have_arrived;
        (was_asked || self.policy_returned) && self.started_at == started_at
    }

    /// Notes its restart policy at an observation. Once it has one again, that is its owner's.
    pub fn note_policy(&mut self, policy: &str) {
        if policy != "no" {
            self.original_policy = None;
        }
    }

    /// Whether a common cause was seen since then.
    pub fn had_common_cause_since(&self, since: DateTime<Utc>) -> bool {
        self.common_cause.as_ref().is_some_and(|(at, _)| *at >= since)
    }

    /// Notes a common cause that keeps delegates from being healthy.
    pub fn note_common_cause(&mut self, now: DateTime<Utc>, cause: impl Into<CommonCause>) {
        self.common_cause = Some((now, cause.into()));
        self.excused_restarts = self.max_restart_count;
    }

    /// Takes in one observation.
    pub fn record(
        &mut self,
        seen: impl Into<Seen>,
        verdict: &Health,
        started_at: Option<DateTime<Utc>>,
        restart_count: u64,
        check: Check,
    ) {
        let Seen { from, until } = seen.into();
        let blinked = self.last_observation.is_some_and(|last| {
            (until - last)
                .to_std()
                .map_or(true, |elapsed| elapsed > MAX_OBSERVATION_GAP)
        });
        let another_life = self.started_at != started_at || restart_count > self.restart_count;
        if blinked || another_life {
            self.healthy_since = None;
            self.unhealthy_since = None;
        }
        if self.started_at != started_at {
            self.restarted_since_stop = self.stop_requested_at.take().is_some();
            self.policy_returned = false;
            self.stop_may_have_arrived = false;
        }
        // Somebody restarted it, or the engine when it came back: the time that it has begins anew. Not for ever, should
        // an engine not count what its policy does.
        let lived_before = self
            .started_at
            .is_some_and(|last| started_at.is_some_and(|now| now > last));
        if lived_before && restart_count == 0 && self.restarts_by_hand < MAX_RESTARTS_BY_HAND {
            self.restarts_by_hand += 1;
            self.seen_since = None;
        }
        if started_at.is_some() {
            self.seen_since.get_or_insert(from);
        }
        self.restart_count = restart_count;
        self.max_restart_count = self.max_restart_count.max(restart_count);
        self.started_at = started_at;
        self.checks.note_life(started_at);
        if check == Check::Awaited {
            return;
        }
        self.last_observation = Some(until);
        if verdict.is_healthy() {
            self.healthy_since.get_or_insert(from);
            self.unhealthy_since = None;
        } else {
            self.unhealthy_since.get_or_insert(from);
            self.healthy_since = None;
        }
        if matches!(check, Check::Done | Check::Repeated) {
            let is_new = check == Check::Done;
            self.checks.note(until, verdict, is_new);
            self.is_check_due &= !is_new;
            let (at, life, health) = (until, started_at, verdict.clone());
            self.verdict = Some(Verdict { at, life, health });
        }
    }
}

/// Everything this process remembers between observations. Losing it costs time, never a container.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    histories: HashMap<ContainerId, History>,
    /// Candidates this process created, by the delegate's name, to notice one that vanished.
    created: HashMap<String, Vec<(ContainerId, Vanished)>>,
    /// The `--rm` containers of each delegate at the last observation.
    auto_remove: HashMap<String, Vec<ContainerId>>,
    /// The containers that this process asked to stop. Where they had `--rm`, they are expected to go.
    stop_requested: HashSet<ContainerId>,
    /// Images whose removal was tried; the engine's answer is not asked for twice.
    discarded: HashSet<ImageId>,
    /// How often a candidate of each delegate was found outdated in this run.
    outdated: HashMap<String, u32>,
    /// By the delegate's name, the engine's words when it had no free port for a second container.
    no_free_port: HashMap<String, String>,
}

impl Memory {
    /// What is remembered of a container.
    pub fn history(&mut self, id: &ContainerId) -> &mut History {
        self.histories.entry(id.clone()).or_default()
    }

    /// What is remembered of a container, if anything.
    pub fn history_of(&self, id: &ContainerId) -> Option<&History> {
        self.histories.get(id)
    }

    /// Moves all moments along with a clock that was set by so much.
    pub fn shift(&mut self, by: TimeDelta) {
        for history in self.histories.values_mut() {
            history.shift(by);
        }
    }

    /// Forgets containers that are gone.
    pub fn keep(&mut self, exists: impl Fn(&ContainerId) -> bool) {
        self.histories.retain(|id, _| exists(id));
        let auto_remove = &self.auto_remove;
        // Until it was noticed that one with `--rm` has gone, that is expected.
        let is_expected = |id: &ContainerId| auto_remove.values().any(|known| known.contains(id));
        self.stop_requested.retain(|id| exists(id) || is_expected(id));
    }

    /// Forgets the delegates that are gone.
    pub fn keep_delegates(&mut self, exists: impl Fn(&str) -> bool) {
        self.auto_remove.retain(|name, _| exists(name));
    }

    /// Notes the candidate that was created for the delegate `name`.
    pub fn note_created(&mut self, name: &str, candidate: ContainerId, image: ImageId) {
        let vanished = Vanished {
            image,
            cause: None,
            is_excused: false,
        };
        let created = self.created.entry(name.to_owned()).or_default();
        created.push((candidate, vanished));
        self.forget_excused(name);
    }

    /// Notes that the candidate is about to be started: from then on, one with `--rm` may go by itself.
    pub fn note_start(&mut self, name: &str, candidate: &Member) {
        let created = self.created.entry(name.to_owned()).or_default();
        if candidate.auto_remove && created.iter().all(|(id, _)| *id != candidate.id) {
            // Another process created it.
            let vanished = Vanished {
                image: candidate.image_id.clone(),
                cause: None,
                is_excused: false,
            };
            created.push((candidate.id.clone(), vanished));
        }
        for (_, vanished) in created.iter_mut().filter(|(id, _)| *id == candidate.id) {
            vanished.is_excused = false;
        }
    }

    /// Notes why the candidate could not be started: an `--rm` container does not outlive that, whoever created it.
    pub fn note_refused(&mut self, name: &str, candidate: &Member, cause: &str) {
        let created = self.created.entry(name.to_owned()).or_default();
        for (_, vanished) in created.iter_mut().filter(|(id, _)| *id == candidate.id) {
            vanished.cause = Some(cause.to_owned());
        }
    }

    /// The candidates this process created for the delegate `name`, and what to say of them should they be gone.
    pub fn created(&self, name: &str) -> &[(ContainerId, Vanished)] {
        self.created.get(name).map_or(&[], Vec::as_slice)
    }

    /// Forgets one that is no candidate any more.
    pub fn forget_candidate(&mut self, name: &str, candidate: &ContainerId) {
        if let Some(created) = self.created.get_mut(name) {
            created.retain(|(id, _)| id != candidate);
        }
    }

    /// Forgets the candidates that were created for the delegate `name`.
    pub fn forget_candidates(&mut self, name: &str) {
        self.created.remove(name);
    }

    /// Notes that this candidate is not to blame, should it be gone: the start may have failed for a reason outside of
    /// it.
    pub fn excuse_candidate(&mut self, name: &str, candidate: &ContainerId) {
        let created = self.created.get_mut(name).into_iter().flatten();
        for (_, vanished) in created.filter(|(id, _)| id == candidate) {
            vanished.is_excused = true;
        }
    }

    /// Forgets the candidates of the delegate `name` that were not to blame.
    pub fn forget_excused(&mut self, name: &str) {
        if let Some(created) = self.created.get_mut(name) {
            created.retain(|(_, candidate)| !candidate.is_excused);
        }
    }

    /// Notes that the engine could not be reached: meanwhile somebody may have stopped what was up.
    pub fn doubt_answers(&mut self) {
        let stoppers = self
            .histories
            .values_mut()
            .filter_map(|history| history.stopper.as_mut());
        stoppers.for_each(|stopper| stopper.asked_at = DateTime::UNIX_EPOCH);
    }

    /// Notes that no candidate is to blame that is gone: the engine cannot be reached, and comes back without its `--rm`
    /// containers if it restarts.
    pub fn excuse_candidates(&mut self) {
        for (_, vanished) in self.created.values_mut().flatten() {
            vanished.is_excused = true;
        }
    }

    /// Notes that a container was asked to stop by `now`: its time begins when the engine has the request, not when
    /// it was sent.
    pub fn note_stop_requested(&mut self, id: &ContainerId, now: DateTime<Utc>) {
        self.history(id).stop_requested_at = Some(now);
        self.stop_requested.insert(id.clone());
    }

    /// Notes which `--rm` containers a delegate has. If more than one is gone at once, the engine restarted, which says
    /// nothing about any of them.
    pub fn note_auto_remove(&mut self, name: &str, present: Vec<ContainerId>) {
        let before = self.auto_remove.get(name).into_iter().flatten();
        let gone = before.filter(|id| !present.contains(id) && !self.stop_requested.contains(*id));
        if gone.count() > 1 {
            for (_, vanished) in self.created.get_mut(name).into_iter().flatten() {
                vanished.is_excused = true;
            }
        }
        if present.is_empty() {
            self.auto_remove.remove(name);
        } else {
            self.auto_remove.insert(name.to_owned(), present);
        }
    }

    /// Notes that this candidate is not what it is to replace any more. `false` where that was so too often in this run to
    /// create yet another one.
    pub fn note_outdated(&mut self, name: &str, candidate: &ContainerId, differences: String) -> bool {
        self.history(candidate).outdated = Some(differences);
        let times = self.outdated.entry(name.to_owned()).or_default();
        *times += 1;
        *times < OUTDATED_LIMIT
    }

    /// Notes that a second container of the delegate `name` could not be started, since the ports that it may publish
    /// are all taken.
    pub fn note_no_free_port(&mut self, name: &str, problem: String) {
        self.no_free_port.insert(name.to_owned(), problem);
    }

    /// Why a second container of the delegate `name` cannot be started in this run, by what came of the last attempt.
    pub fn no_free_port(&self, name: &str) -> Option<SingleInstance> {
        let problem = self.no_free_port.get(name)?.clone();
        Some(SingleInstance::NoFreePort { problem })
    }

    /// Forgets what came of the last run's attempts: a new run may try again.
    pub fn forget_attempts(&mut self) {
        for created in self.created.values_mut() {
            created.retain(|(_, candidate)| candidate.is_excused);
        }
        self.created.retain(|_, created| !created.is_empty());
        self.no_free_port.clear();
        self.outdated.clear();
        for history in self.histories.values_mut() {
            history.checks.refused = None;
        }
    }

    /// Whether the removal of this image is still to be tried; notes that it is being tried.
    pub fn first_discard(&mut self, image: &ImageId) -> bool {
        self.discarded.insert(image.clone())
    }

    /// Whether the removal of this image was tried.
    pub fn was_discarded(&self, image: &ImageId) -> bool {
        self.discarded.contains(image)
    }
}
