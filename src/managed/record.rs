//! The record on a workload: labels of a service, or annotations of a Deployment. Writing it restarts nothing.

use chrono::{DateTime, Utc};

use super::attempts::{Ending, Past};
use super::label::{
    ATTEMPT_APPLIED, ATTEMPT_FAILED, ATTEMPT_FROM, ATTEMPT_IMAGE, ATTEMPT_INTENT, ATTEMPT_REVISION,
    ATTEMPT_SINCE, FAILED_AT, FAILED_ATTEMPTS, FAILED_CAUSE, FAILED_IMAGE, HISTORY,
};
use crate::container::Request;
use crate::container::label::{PREVIOUS_IMAGE, RELEASE, REQUEST_REASON, REQUESTED_BY, ROLLED_BACK_FROM};
use crate::rollout::Intent;
use crate::text::time;

/// The record that earlier runs stored on a workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The number of the last attempt, or 0 if there was none.
    pub release: u64,
    /// The last finished attempts, oldest first.
    pub history: Vec<Past>,
    /// The image before the one that ran when the last attempt started.
    pub previous_image: Option<String>,
    /// The last attempt, unless it failed.
    pub attempt: Option<Attempt>,
    /// The image that failed last.
    pub failed: Option<FailedImage>,
    /// The image that an operator or another program rolled back.
    pub rolled_back_from: Option<String>,
}

/// An attempt to run an image.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// The image that ran before.
    pub from: String,
    /// The image to try.
    pub to: String,
    /// When the attempt started.
    pub since: DateTime<Utc>,
    /// [`Managed::revision`](super::Managed::revision) before it.
    pub revision: Option<u64>,
    /// Whether the schedule or an operator requested it.
    pub intent: Intent,
    /// Whether the image was applied to the workload.
    pub is_applied: bool,
    /// Why this program itself rolled the image back, if it did.
    pub failed: Option<String>,
}

impl Attempt {
    /// Whether it changes settings, and keeps the image.
    pub fn is_of_settings(&self) -> bool {
        matches!(self.intent, Intent::Reconfigure(..))
    }

    /// Returns the text for what it tried.
    pub fn tried(&self) -> String {
        if self.is_of_settings() {
            format!("{} with new settings", self.to)
        } else {
            self.to.clone()
        }
    }
}

/// An image that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedImage {
    /// The image.
    pub image: String,
    /// How many times it failed in a row.
    pub attempts: u32,
    /// When it failed last.
    pub at: DateTime<Utc>,
    /// Why it failed, as a sentence.
    pub cause: String,
}

impl Record {
    /// Parses the record. Ignores fields that cannot be parsed, since this program did not write them.
    pub fn read<'a>(text: impl Fn(&str) -> Option<&'a str>) -> Self {
        let owned = |name| text(name).map(str::to_owned);
        let moment = |name| time::parse(text(name)?);
        let attempt = || {
            Some(Attempt {
                from: owned(ATTEMPT_FROM)?,
                to: owned(ATTEMPT_IMAGE)?,
                since: moment(ATTEMPT_SINCE)?,
                revision: text(ATTEMPT_REVISION).and_then(|text| text.parse().ok()),
                intent: Intent::named(text(ATTEMPT_INTENT)?, Request::read(&text).unwrap_or_default()),
                is_applied: text(ATTEMPT_APPLIED) == Some("true"),
                failed: owned(ATTEMPT_FAILED),
            })
        };
        let failed = || {
            Some(FailedImage {
                image: owned(FAILED_IMAGE)?,
                attempts: text(FAILED_ATTEMPTS)?.parse().ok()?,
                at: moment(FAILED_AT)?,
                cause: owned(FAILED_CAUSE)?,
            })
        };
        Self {
            release: text(RELEASE)
                .and_then(|text| text.parse().ok())
                .unwrap_or_default(),
            history: text(HISTORY).map(Past::read).unwrap_or_default(),
            previous_image: owned(PREVIOUS_IMAGE),
            attempt: attempt(),
            failed: failed(),
            rolled_back_from: owned(ROLLED_BACK_FROM),
        }
    }

    /// Returns the last release before this one that the workload ran, if it is known.
    pub fn before(&self, release: u64) -> Option<&Past> {
        let served = |past: &&Past| past.was_served() && past.release < release;
        self.history.iter().rfind(served)
    }

    /// Returns the record with its last attempt among the finished ones.
    pub(super) fn with_past(mut self, ending: Ending, image: String, at: DateTime<Utc>) -> Self {
        let release = self.release;
        let past = Past {
            release,
            ending,
            image,
            at,
        };
        past.add(&mut self.history);
        self
    }

    /// Returns the record with a changed attempt.
    #[must_use]
    pub fn with_attempt(mut self, change: impl FnOnce(&mut Attempt)) -> Self {
        self.attempt.as_mut().map(change);
        self
    }

    /// Returns all names with their values. A name without a value must be removed.
    pub fn write(&self) -> Vec<(&'static str, Option<String>)> {
        let attempt = self.attempt.as_ref();
        let failed = self.failed.as_ref();
        let intent = |attempt: &Attempt| <&str>::from(&attempt.intent).to_owned();
        let request = attempt.and_then(|attempt| attempt.intent.request());
        let mut request = request
            .into_iter()
            .flat_map(Request::labels)
            .map(|(_, value)| value);
        vec![
            (RELEASE, (self.release > 0).then(|| self.release.to_string())),
            (HISTORY, Past::write(&self.history)),
            (PREVIOUS_IMAGE, self.previous_image.clone()),
            (ROLLED_BACK_FROM, self.rolled_back_from.clone()),
            (ATTEMPT_IMAGE, attempt.map(|attempt| attempt.to.clone())),
            (ATTEMPT_FROM, attempt.map(|attempt| attempt.from.clone())),
            (ATTEMPT_SINCE, attempt.map(|attempt| time::text(attempt.since))),
            (
                ATTEMPT_REVISION,
                attempt
                    .and_then(|attempt| attempt.revision)
                    .map(|it| it.to_string()),
            ),
            (ATTEMPT_INTENT, attempt.map(intent)),
            (REQUESTED_BY, request.next()),
            (REQUEST_REASON, request.next()),
            (
                ATTEMPT_APPLIED,
                attempt
                    .filter(|attempt| attempt.is_applied)
                    .map(|_| "true".to_owned()),
            ),
            (ATTEMPT_FAILED, attempt.and_then(|attempt| attempt.failed.clone())),
            (FAILED_IMAGE, failed.map(|failed| failed.image.clone())),
            (FAILED_ATTEMPTS, failed.map(|failed| failed.attempts.to_string())),
            (FAILED_AT, failed.map(|failed| time::text(failed.at))),
            (FAILED_CAUSE, failed.map(|failed| failed.cause.clone())),
        ]
    }
}
