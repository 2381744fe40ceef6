//! The link to Prometheus: the question that is open, the last answer, and why it holds an upgrade.

use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use crate::alerts::{AskAlerts, Firing, names};
use crate::rollout::reason::{Awaited, Reason};
use crate::rollout::{Blocker, Desired};
use crate::text::duration::span;

/// No upgrade starts by an older answer.
const FRESH: Duration = Duration::from_secs(30);

/// The question which alerts fire, asked beside the loop. Without `HOLD_ON_ALERTS`, nothing is asked.
#[derive(Default)]
pub(super) struct AlertLink {
    ask: Option<AskAlerts>,
    timeout: Option<Duration>,
    /// The open question. It is dropped with this struct.
    open: JoinSet<Firing>,
    asked: Option<Instant>,
    last: Option<(Instant, Firing)>,
    /// Since when each question has failed, if the last one did.
    silent_since: Option<Instant>,
}

impl AlertLink {
    pub(super) fn new(ask: Option<(AskAlerts, Option<Duration>)>) -> Self {
        let (ask, timeout) = ask.unzip();
        Self {
            ask,
            timeout: timeout.flatten(),
            ..Self::default()
        }
    }

    /// Asks again if one of these blockers depends on it and the last answer is old.
    pub(super) fn keep(&mut self, blockers: &[Blocker]) {
        if blockers.iter().any(|blocker| is_ours(&blocker.reason)) {
            self.ask();
        }
    }

    /// Asks, unless the last answer is young or the question is open.
    pub(super) fn ask(&mut self) {
        if let Some(ask) = self
            .ask
            .as_ref()
            .filter(|_| self.open.is_empty() && !self.is_fresh())
        {
            self.asked = Some(Instant::now());
            self.open.spawn(ask());
        }
    }

    /// Whether the question is open.
    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// The last answer.
    pub(super) fn last(&self) -> Option<&Firing> {
        self.last.as_ref().map(|(_, answer)| answer)
    }

    fn is_fresh(&self) -> bool {
        self.last.as_ref().is_some_and(|(at, _)| at.elapsed() < FRESH)
    }

    /// Completes when the open question is answered; never if none is open.
    pub(super) async fn answered(&mut self) {
        match self.open.join_next().await {
            Some(ended) => self.note(ended),
            None => std::future::pending().await,
        }
    }

    /// Asks, and waits for the answer.
    pub(super) async fn settle(&mut self) {
        self.ask();
        if self.is_open() {
            self.answered().await;
        }
    }

    /// Takes the answer, if it has arrived.
    pub(super) fn take(&mut self) {
        if let Some(ended) = self.open.try_join_next() {
            self.note(ended);
        }
    }

    fn note(&mut self, ended: Result<Firing, JoinError>) {
        let Ok(answer) = ended else { return };
        match &answer {
            Ok(_) => self.silent_since = None,
            Err(_) => _ = self.silent_since.get_or_insert_with(Instant::now),
        }
        self.last = Some((Instant::now(), answer));
    }

    /// Why an upgrade to the wanted image must not start now. A reason lasts until another answer, and no reason only while it is fresh.
    pub(super) fn held(&self, desired: &Desired, now: DateTime<Utc>) -> Option<Reason> {
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
                let timeout = self.timeout.filter(|_| !silence.is_refused);
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
        (!is_fresh).then(|| Reason::AwaitingAnswer {
            from: Awaited::Prometheus,
            waited: self
                .asked
                .filter(|_| !self.open.is_empty())
                .map_or(Duration::ZERO, |asked| asked.elapsed()),
            last_error: None,
        })
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
