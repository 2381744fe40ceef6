//! The outcomes of a host: each is found, recorded in the audit log before the next step, and reported once.
//!
//! Each observation derives the outcomes from the containers again. If a process is killed before it records an
//! outcome, the next process finds that outcome, with the same id. The last records of the audit log provide what the
//! containers do not show, for example that a delegate was reported as unhealthy.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::audit::{AuditLog, Known, Open, Unwritten, note_problem};
use super::event::{Action, Event, EventId};
use super::listeners::Listeners;
use super::managed::outcomes_of_managed;
use super::note::Notes;
use super::outcome::{At, Outcome, recorded_before};
use super::pauses::outcome_of_pause;
use super::tally::Tally;
use crate::container::ImageId;
use crate::health::HealthStatus;
use crate::host::hold::Paused;
use crate::image::ImageName;
use crate::managed::Managed;
use crate::rollout::reason::{Reason, Standing};
use crate::rollout::{Effect, Rollout, Step};

/// A delegate that has been unhealthy for two intervals has failed three checks.
const INTERVALS: i32 = 2;

/// Finds, records and reports outcomes.
#[derive(Debug, Default)]
pub struct Ledger {
    host: String,
    audit: Option<AuditLog>,
    listeners: Arc<Listeners>,
    /// Whether it leaves lasting states, such as lost health, to the daemon.
    is_operators: bool,
    health_interval: TimeDelta,
    notes: Notes,
    /// The ids of outcomes that need no further report.
    seen: BTreeSet<EventId>,
    /// The open problems of each delegate, by container name.
    open: HashMap<String, Open>,
    /// Whether delegates were observed.
    has_begun: bool,
    /// Whether pauses were observed.
    knows_pauses: bool,
    /// The pauses that held at the last observation: of the whole host, and of these delegates.
    pub pauses: Vec<Paused>,
    /// Counts since the start, and the last events.
    pub tally: Tally,
}

impl Ledger {
    /// A ledger that records in this audit log and reports to these listeners; without them, it only counts. `health_interval` is
    /// the longest time between two health checks.
    pub fn new(
        host: String,
        health_interval: Duration,
        audit: Option<AuditLog>,
        listeners: Arc<Listeners>,
    ) -> Self {
        Self {
            host,
            audit,
            listeners,
            health_interval: TimeDelta::from_std(health_interval).unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Counts an attempt at a step of this kind.
    pub fn count(&mut self, step: &'static str) {
        *self.tally.steps.entry(step).or_default() += 1;
    }

    /// The ledger of an operator's command. It reports no lasting states, since the daemon does.
    #[must_use]
    pub fn of_operator(self) -> Self {
        Self {
            is_operators: true,
            ..self
        }
    }

    /// The events that are missing from the audit log, if any are.
    pub fn unwritten(&self) -> Option<Unwritten> {
        let unwritten = self.audit.as_ref()?.unwritten();
        Some(unwritten).filter(|unwritten| *unwritten != Unwritten::default())
    }

    fn at<'a>(&'a self, rollout: &'a Rollout, now: DateTime<Utc>) -> At<'a> {
        At {
            rollout,
            notes: &self.notes,
            host: &self.host,
            now,
        }
    }

    /// Records the outcomes of an observation, before anything is decided because of it. `healthy_time` is how long an
    /// orchestrator's tasks must run before an upgrade counts.
    pub async fn observe<'a>(
        &mut self,
        rollouts: &[Rollout],
        managed: impl Iterator<Item = &'a Managed>,
        healthy_time: Duration,
        now: DateTime<Utc>,
    ) {
        self.notes.note_rollouts(rollouts);
        if let Some(audit) = &self.audit {
            audit.retry();
        }
        let found: Vec<Outcome> = rollouts
            .iter()
            .flat_map(|rollout| self.at(rollout, now).outcomes())
            .chain(managed.flat_map(|managed| outcomes_of_managed(managed, healthy_time, &self.host, now)))
            .collect();
        if !std::mem::replace(&mut self.has_begun, true) {
            let before = rollouts.iter().flat_map(recorded_before);
            self.begin(&found, before).await;
        }
        self.report_new(found).await;
        if !self.is_operators {
            for rollout in rollouts {
                self.note_health(rollout, now).await;
            }
        }
    }

    /// Records the pauses and their ends that the engine's records show: of the whole host, and of these delegates.
    pub async fn observe_pauses(
        &mut self,
        pauses: &[Paused],
        is_own: impl Fn(&str) -> bool,
        now: DateTime<Utc>,
    ) {
        let is_shown = |pause: &&Paused| pause.delegate.as_deref().is_none_or(&is_own);
        self.pauses = Paused::lasting(pauses, now).filter(is_shown).cloned().collect();
        let outcome = |pause| outcome_of_pause(pause, &self.host, now);
        let mut found: Vec<Outcome> = pauses.iter().map(outcome).collect();
        if !std::mem::replace(&mut self.knows_pauses, true) {
            self.begin(&found, std::iter::empty()).await;
        }
        found.retain(|outcome| outcome.event.container.is_empty() || is_own(&outcome.event.container));
        self.report_new(found).await;
    }

    async fn report_new(&mut self, found: Vec<Outcome>) {
        for outcome in found {
            if !self.seen.contains(&outcome.event.id) {
                self.report(outcome.event).await;
            }
        }
    }

    /// Finds out what earlier processes have reported. Outcomes older than the audit log were reported then or never
    /// will be; without a log, this applies to all outcomes of completed replacements.
    async fn begin(&mut self, found: &[Outcome], before: impl Iterator<Item = EventId>) {
        let ids = found.iter().map(|outcome| outcome.event.id.clone());
        let known = match &self.audit {
            Some(audit) => audit.known(ids.chain(before).collect()).await,
            None => Known::default(),
        };
        let is_old = |outcome: &&Outcome| {
            let begins = known.begins;
            !outcome.is_fresh && begins.is_none_or(|begins| outcome.since < begins)
        };
        let old = found
            .iter()
            .filter(is_old)
            .map(|outcome| outcome.event.id.clone());
        self.seen.extend(old);
        self.seen.extend(known.ids);
        if self.tally.events.is_empty() {
            (self.tally.events, self.open) = (known.recent, known.open);
        }
    }

    /// Before a step is taken, records an outcome of which the containers will show no trace afterwards.
    pub async fn before(&mut self, rollout: &Rollout, step: &Step, now: DateTime<Utc>) {
        let member = step.container().and_then(|id| rollout.member(id));
        let event = match (step, member) {
            (Step::Restore { .. }, Some(old)) => self.at(rollout, now).restored(old),
            (
                Step::Restart {
                    failures, verdict, ..
                },
                Some(unhealthy),
            ) => self.at(rollout, now).restarted(unhealthy, *failures, verdict),
            (Step::Retire { .. } | Step::Drain { .. }, Some(old)) => {
                match self.at(rollout, now).took_over(old, true) {
                    Some(outcome) => outcome.event,
                    None => return,
                }
            }
            _ => return,
        };
        if !self.seen.contains(&event.id) {
            self.report(event).await;
        }
    }

    /// Records the outcome of a successful step.
    pub async fn after(&mut self, rollout: &Rollout, step: &Step, effect: &Effect, now: DateTime<Utc>) {
        self.notes.note_step(step, now);
        if let (Step::RemoveImage { id }, Effect::Done) = (step, effect) {
            let what = [id.as_str(), rollout.name.as_str()];
            let message = format!("removed the former image {id}");
            let action = (Action::ImageRemoved, &what[..]);
            let subject = (&*rollout.name, &*rollout.workload);
            let mut event = Event::new(&self.host, subject, action, now, message);
            event.image_id = Some(id.as_str().to_owned());
            self.report(event).await;
        }
    }

    /// Notes the duration of a successful pull.
    pub fn note_pull(&mut self, image: &ImageId, took: Duration) {
        self.notes.note_pull(image, took);
    }

    /// Records the reason why nothing happens to a delegate, if the delegate can no longer be served or can be served again.
    /// `subject` is its container or service, and its `DELEGATE_NAME`; `image` is the one that it runs, if any.
    pub async fn note_reason(
        &mut self,
        subject: (&str, &str),
        image: Option<&ImageName>,
        reason: &Reason,
        now: DateTime<Utc>,
    ) {
        if self.is_operators {
            return;
        }
        let ((name, _), kind) = (subject, reason.kind());
        let word = kind.as_str();
        let skipped = self.open.get(name).and_then(|open| open.skipped.as_deref());
        let (message, is_over) = match (kind.standing(), skipped) {
            (Standing::Skipped, Some(before)) if before == word => return,
            (Standing::Skipped, _) => (reason.to_string(), false),
            (Standing::Served, Some(before)) => (format!("{before} is over: {reason}"), true),
            _ => return,
        };
        let at = now.to_rfc3339();
        let what = [name, word, at.as_str()];
        let mut event = Event::new(&self.host, subject, (Action::Skipped, &what), now, message);
        event.reason = Some(word.to_owned());
        event.resolved = is_over;
        event.from = image.map(ToString::to_string);
        self.report(event).await;
    }

    /// Forgets delegates that no longer exist.
    pub fn forget_absent(&mut self, is_there: impl Fn(&str) -> bool) {
        self.open.retain(|name, _| is_there(name));
    }

    async fn note_health(&mut self, rollout: &Rollout, now: DateTime<Utc>) {
        let Some(serving) = rollout.serving.as_ref() else {
            return;
        };
        // A container that its owner paused, or created and never started, is not expected to be healthy.
        let is_put_away = !serving.is_in_use() && !serving.has_ended();
        if rollout.inspect_error.is_some() || is_put_away {
            return;
        }
        let is_reported = self.open.get(&rollout.name).is_some_and(|open| open.is_unhealthy);
        let lost_since = serving.history.unhealthy_since;
        let has_lasted = lost_since.is_some_and(|since| now - since >= self.health_interval * INTERVALS);
        let detail = &serving.health.detail;
        let (action, message) = match serving.health.status {
            HealthStatus::Healthy if is_reported => {
                (Action::HealthRegained, format!("healthy again: {detail}"))
            }
            HealthStatus::Healthy => return,
            _ if is_reported || !has_lasted => return,
            status => {
                let next = serving.next_step();
                (
                    Action::HealthLost,
                    format!("{}: {detail}; {next}", status.as_str()),
                )
            }
        };
        let at = now.to_rfc3339();
        let what = [serving.id.as_str(), at.as_str()];
        let subject = (&*rollout.name, &*rollout.workload);
        let mut event = Event::new(&self.host, subject, (action, &what), now, message);
        event.container_id = Some(serving.id.as_str().to_owned());
        event.to = Some(serving.image.to_string());
        event.image_id = Some(serving.image_id.as_str().to_owned());
        event.reason = Some(serving.health.probe.as_str().to_owned());
        self.report(event).await;
    }

    async fn report(&mut self, event: Event) {
        if let Some(audit) = &self.audit {
            audit.record(&event).await;
        }
        if let Some(webhook) = &self.listeners.webhook {
            webhook.send(&event);
        }
        // Ids that contain a time never occur again, and the number of such events has no limit.
        if !matches!(
            event.action,
            Action::HealthLost | Action::HealthRegained | Action::Skipped
        ) {
            self.seen.insert(event.id.clone());
        }
        note_problem(&mut self.open, &event);
        self.tally.note(event);
    }
}
