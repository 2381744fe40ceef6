//! Derives outcomes from the records of pauses.

use chrono::{DateTime, TimeDelta, Utc};

use super::event::{Action, Event};
use super::outcome::Outcome;
use crate::host::hold::Paused;
use crate::text::time;

/// How long a pause is new: long enough for a process to find it.
const NEW: TimeDelta = TimeDelta::minutes(1);

/// The outcome that a pause or its end shows.
pub(super) fn outcome_of_pause(pause: &Paused, host: &str, now: DateTime<Utc>) -> Outcome {
    let (action, message) = match pause.until {
        Some(until) if until <= pause.since => (Action::Resumed, "upgrades have resumed".to_owned()),
        Some(until) => (
            Action::Paused,
            format!("upgrades are paused until {}", time::text(until)),
        ),
        None => (Action::Paused, "upgrades are paused".to_owned()),
    };
    // The records do not tell the `DELEGATE_NAME`.
    let subject = (pause.delegate.as_deref().unwrap_or_default(), "");
    let event = Event::new(host, subject, (action, &[&pause.record]), pause.since, message);
    Outcome {
        event: event.requested(Some(&pause.request)),
        is_fresh: now - pause.since < NEW,
        since: pause.since,
    }
}
