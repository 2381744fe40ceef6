//! The link to Prometheus: its last answer, and why it holds an upgrade.

use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::FutureExt as _;
use tokio::time::Instant;

use super::questions::{Answer, Question, Questions};
use crate::alerts::{AskAlerts, Firing, names};
use crate::config::Timing;
use crate::rollout::reason::{Awaited, Reason};
use crate::rollout::{Blocker, Desired};
use crate::text::duration::span;

/// No upgrade starts by an older answer.
const FRESH: Duration = Duration::from_secs(30);

/// Which alerts fire. Without `HOLD_ON_ALERTS`, nothing is asked.
#[derive(Default)]
pub(crate) struct AlertLink {
    pub(super) ask: Option<AskAlerts>,
    /// Since when the question is open.
    asked: Option<Instant>,
    last: Option<(Instant, Firing)>,
    /// Since when each question has failed, if the last one did.
    silent_since: Option<Instant>,
}

impl AlertLink {
    /// Asks again if one of these blockers depends on it and the last answer is old.
    pub(super) fn keep(&mut self, questions: &mut Questions, blockers: &[Blocker]) {
        if blockers.iter().any(|blocker| is_ours(&blocker.reason)) {
            self.ask(questions);
        }
    }

    /// Asks, unless the last answer is young or the question is open.
    pub(super) fn ask(&mut self, questions: &mut Questions) {
        if let Some(ask) = self.ask.as_ref().filter(|_| !self.is_fresh()) {
            self.asked = Some(questions.ask(&Question::Alerts, || ask().map(Answer::Alerts)));
        }
    }

    /// Whether the question is open.
    pub(super) fn is_open(&self) -> bool {
        self.asked.is_some()
    }

    /// The last answer.
    pub(crate) fn last(&self) -> Option<&Firing> {
        self.last.as_ref().map(|(_, answer)| answer)
    }

    fn is_fresh(&self) -> bool {
        self.last.as_ref().is_some_and(|(at, _)| at.elapsed() < FRESH)
    }

    /// Records an answer, and when it came.
    pub(super) fn note(&mut self, answer: &Firing, at: Instant) {
        match answer {
            Ok(_) => self.silent_since = None,
            Err(_) => _ = self.silent_since.get_or_insert(at),
        }
        self.asked = None;
        self.last = Some((at, answer.clone()));
    }

    /// Why an upgrade to the wanted image must not start now. A reason lasts until another answer, and no reason only while it is fresh.
    pub(super) fn held(&self, desired: &Desired, timing: &Timing, now: DateTime<Utc>) -> Option<Reason> {
        self.ask.as_ref()?;
        let (image, ..) = desired.wanted()?;
        let (is_fresh, image_name) = (self.is_fresh(), image.to_string());
        match &self.last {
            Some((_, Ok(alerts))) if alerts.iter().any(|alert| alert.holds(image)) => {
                let alerts = names(alerts.iter().filter(|alert| alert.holds(image)));
                return Some(Reason::AlertFiring {
                    image: image_name,
                    alerts,
                });
            }
            Some((_, Err(silence))) => {
                let hold = timing.alerts.as_ref().filter(|_| !silence.is_refused);
                let timeout = hold.and_then(|hold| hold.timeout);
                let silent = self.silent_since.map_or(Duration::ZERO, |since| since.elapsed());
                let left = timeout.map(|timeout| timeout.saturating_sub(silent));
                if !is_fresh || left.is_none_or(|left| !left.is_zero()) {
                    return Some(Reason::AlertsUnknown {
                        image: image_name,
                        problem: silence.problem.clone(),
                        until: left.map(|left| now + span(left)),
                    });
                }
            }
            _ => {}
        }
        (!is_fresh).then(|| Question::Alerts.awaited(self.asked.unwrap_or_else(Instant::now), None))
    }
}

fn is_ours(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::AlertFiring { .. }
            | Reason::AlertsUnknown { .. }
            | Reason::AwaitingAnswer {
                from: Awaited::Prometheus,
                ..
            }
    )
}
