//! Reasons with details of a container.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::Reason;
use crate::rollout::{Member, RestartDeferral, Rollout};
use crate::text::duration::span;

impl Reason {
    pub(in crate::rollout) fn settings_changed(rollout: &Rollout) -> Self {
        let (what, again) = (rollout.changes.clone(), None);
        Self::SettingsChanged { what, again }
    }

    /// Waits for a container that was asked to stop, or that Docker is removing.
    pub(in crate::rollout) fn stopping(member: &Member) -> Self {
        let name = member.name.clone();
        Self::Stopping { name }
    }

    /// Waits for the tasks of an old container.
    pub(in crate::rollout) fn draining(old: &Member, until: DateTime<Utc>) -> Self {
        Self::Draining {
            name: old.name.clone(),
            tasks: old.work.map(|work| work.tasks),
            until,
        }
    }

    /// The same if nobody serves meanwhile because two cannot run at once.
    pub(in crate::rollout) fn nobody_serves(old: &Member, now: DateTime<Utc>) -> Self {
        let since = old.stopping_since().unwrap_or(now);
        Self::NobodyServes {
            name: old.name.clone(),
            tasks: old.work.map(|work| work.tasks),
            since,
            until: old.history.stop_requested_at.unwrap_or(since) + span(old.stop_timeout),
        }
    }

    /// A container is not running, by its owner's decision.
    pub(in crate::rollout) fn not_running(member: &Member) -> Self {
        let state = member.state.as_str().to_owned();
        Self::NotRunning { state }
    }

    /// A container has ended, and will be started at that time, or by Docker.
    pub(in crate::rollout) fn returning(member: &Member, at: Option<DateTime<Utc>>) -> Self {
        let name = member.name.clone();
        Self::Returning { name, at }
    }

    /// The container in service is down, but may return shortly.
    pub(in crate::rollout) fn interrupted(serving: &Member) -> Self {
        let name = serving.name.clone();
        Self::Interrupted { name }
    }

    /// The progress of a candidate's proof.
    pub(in crate::rollout) fn proving(candidate: &Member, needed: Duration, now: DateTime<Utc>) -> Self {
        let healthy_for = candidate.history.healthy_for(now).unwrap_or_default();
        Self::Proving {
            healthy_for: healthy_for.min(needed),
            needed,
            verdict: candidate.health.to_string(),
        }
    }

    /// It was asked to stop for a restart, and may take until then.
    pub(in crate::rollout) fn restarting(serving: &Member, until: DateTime<Utc>) -> Self {
        Self::Restarting {
            name: serving.name.clone(),
            tasks: serving.work.map(|work| work.tasks),
            until,
        }
    }

    pub(in crate::rollout) fn restart_backoff(serving: &Member, until: DateTime<Utc>) -> Self {
        let checks = &serving.history.checks;
        Self::RestartBackoff {
            failures: checks.failed,
            verdict: serving.health.detail.clone(),
            attempt: checks.restarts.saturating_add(1),
            until,
        }
    }

    pub(in crate::rollout) fn restart_deferred(serving: &Member, because: RestartDeferral) -> Self {
        Self::RestartDeferred {
            failures: serving.history.checks.failed,
            verdict: serving.health.detail.clone(),
            because,
        }
    }
}
