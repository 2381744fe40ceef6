//! Derives outcomes from the state of an orchestrator's workload.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::event::{Action, Actor, Event};
use super::outcome::Outcome;
use crate::managed::{Ending, Managed, Past, Progress};
use crate::rollout::Intent;

/// The outcomes that a workload shows. `healthy_time` is how long its tasks must run before an upgrade counts.
pub(super) fn outcomes_of_managed(
    managed: &Managed,
    healthy_time: Duration,
    host: &str,
    now: DateTime<Utc>,
) -> Vec<Outcome> {
    let image = managed.image.as_str();
    let (record, subject) = (&managed.record, (&*managed.name, &*managed.workload));
    let event = |action, id: &[&str], message: String| Event {
        container_id: Some(managed.id.clone()),
        ..Event::new(host, subject, (action, id), now, message)
    };
    let mut outcomes = Vec::new();
    let healthy_time = TimeDelta::from_std(healthy_time).unwrap_or_default();
    let lasting = managed
        .tasks
        .complete_since()
        .filter(|since| now - *since >= healthy_time);
    if let Some(attempt) = managed.applied()
        && let (Progress::Settled { .. }, Some(since)) = (&managed.progress, lasting)
    {
        let from = &attempt.from;
        let (action, message) = match attempt.intent {
            Intent::Rollback(_) => (Action::RolledBack, format!("rolled back from {from} to {image}")),
            Intent::Reconfigure(..) => {
                let names = &managed.settings.names;
                (Action::Reconfigured, format!("changed the settings {names}"))
            }
            _ => (Action::Upgraded, format!("upgraded from {from} to {image}")),
        };
        let begun = attempt.since.to_rfc3339();
        let mut event = event(action, &[&managed.id, image, &begun], message);
        event.from = Some(attempt.from.clone());
        event.to = Some(image.to_owned());
        event.release = Some(record.release);
        // Someone else may have set the previous image, which then has no number.
        let before = record
            .before(record.release)
            .filter(|past| past.image == attempt.from);
        event.previous_release = before.map(|past| past.release);
        outcomes.push(Outcome {
            event: event.requested(attempt.intent.request()),
            is_fresh: now - since < healthy_time * 2,
            since: attempt.since,
        });
    }
    let failed = record.failed.as_ref();
    let failed = failed.map(|it| (&it.image, it.image.clone(), it.at, &it.cause, None));
    let settings = record.attempt.as_ref().filter(|it| it.is_of_settings());
    let settings = settings.and_then(|it| {
        let release = Some(record.release);
        Some((&it.to, it.tried(), it.since, it.failed.as_ref()?, release))
    });
    for (failed, tried, failed_at, cause, release) in failed.into_iter().chain(settings) {
        let at = failed_at.to_rfc3339();
        let message = format!("{tried} was rejected: {cause}");
        let mut event = event(Action::Rejected, &[&managed.id, failed, &at], message);
        event.to = Some(failed.clone());
        event.reason = Some("rollout_failed".to_owned());
        let is_it = |past: &&Past| past.ending == Ending::Rejected && past.at == failed_at;
        let recorded = record.history.iter().rfind(is_it);
        event.release = release.or(recorded.map(|past| past.release));
        // The current image may belong to a later attempt.
        let before = event.release.and_then(|release| record.before(release));
        event.previous_release = before.map(|past| past.release);
        event.from = Some(before.map_or(image, |past| &past.image).to_owned());
        outcomes.push(Outcome {
            event,
            is_fresh: now - failed_at < healthy_time,
            since: failed_at,
        });
    }
    if let (Some(from), None) = (&record.rolled_back_from, &record.attempt) {
        let message = format!("rolled back from {from} to {image} by someone else");
        let mut event = event(Action::RolledBack, &[&managed.id, from, image], message);
        event.from = Some(from.clone());
        event.to = Some(image.to_owned());
        event.actor = Actor::Operator;
        outcomes.push(Outcome {
            event,
            is_fresh: false,
            since: DateTime::UNIX_EPOCH,
        });
    }
    outcomes
}

/// The earlier attempts in the record of a workload, with the ids that their outcomes had at the time.
pub(super) fn past_of_managed(managed: &Managed, host: &str) -> Vec<Event> {
    let subject = (&*managed.name, &*managed.workload);
    let event = |past: &Past| {
        let (action, message) = match past.ending {
            Ending::Original => return None,
            Ending::Upgraded => (Action::Upgraded, "upgraded to it"),
            Ending::RolledBack => (Action::RolledBack, "rolled back to it"),
            Ending::Reconfigured => (Action::Reconfigured, "changed its settings"),
            Ending::Rejected => (Action::Rejected, "it was rejected"),
            Ending::Withdrawn => (Action::Withdrawn, "someone else rolled back from it"),
        };
        let before = managed.record.before(past.release);
        let id = [managed.id.as_str(), &past.image, &past.at.to_rfc3339()];
        Some(Event {
            from: before.map(|before| before.image.clone()),
            to: Some(past.image.clone()),
            release: Some(past.release),
            previous_release: before.map(|before| before.release),
            ..Event::new(host, subject, (action, &id), past.at, message.to_owned())
        })
    };
    managed.record.history.iter().filter_map(event).collect()
}
