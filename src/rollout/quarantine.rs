//! How long a rejected image stays in quarantine.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;

use super::pace::{QUARANTINE, QUARANTINE_LIMIT};
use super::reason::Reason;
use super::{Facts, Member, Rollout};
use crate::container::{ContainerId, ImageId, Role};
use crate::engine::{DISK_FULL, host_problem};
use crate::host::hold::Rejected;
use crate::image::{ImageName, ImageReference};
use crate::text::duration::span;
use crate::text::time;

/// An image that a delegate rejected, or that an operator rolled back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RejectedImage {
    /// Its reference.
    pub image: String,
    /// `rejected` or `rolled_back`.
    pub cause: &'static str,
    /// When that happened.
    #[serde(serialize_with = "time::serialize")]
    pub at: DateTime<Utc>,
}

impl RejectedImage {
    pub(crate) fn new(cause: &'static str, image: &impl ToString, at: DateTime<Utc>) -> Self {
        let image = image.to_string();
        Self { image, cause, at }
    }
}

/// How long an image stays in quarantine after its `attempt`-th rejection in a row.
pub fn quarantine(attempt: u32) -> Duration {
    let doublings = attempt.saturating_sub(1).min(16);
    QUARANTINE.saturating_mul(1 << doublings).min(QUARANTINE_LIMIT)
}

impl Rollout {
    /// The quarantine of an image, found by its id if known, else by the rejected candidate's reference. Both a failed container
    /// and the record of its rejection, which outlasts it, impose one.
    pub(crate) fn quarantine_of(
        &self,
        reference: &ImageReference,
        id: Option<&ImageId>,
        facts: &Facts,
        now: DateTime<Utc>,
    ) -> Option<Reason> {
        let is_it = |image_id: &ImageId, image: &ImageName| match id {
            Some(id) => id == image_id,
            None => image.refers_to(reference),
        };
        let failed = self
            .failed
            .iter()
            .filter(|failed| is_it(&failed.image_id, &failed.image));
        let holds = facts.holds.iter().flatten();
        let recorded = holds.flat_map(|holds| &holds.rejected).filter(|rejected| {
            is_it(&rejected.image_id, &rejected.image) && !self.has_succeeded_since(rejected.release)
        });
        let reasons = failed.filter_map(|failed| failed.quarantine(now));
        let reasons = reasons.chain(recorded.filter_map(|rejected| of_record(rejected, now)));
        reasons.max_by_key(Reason::ends_at)
    }

    /// Whether a replacement has succeeded since that attempt. A rollback does not count: it says nothing about other images.
    fn has_succeeded_since(&self, release: u64) -> bool {
        let is_later = |serving: &Member| release <= serving.release && serving.rolled_back_from.is_none();
        self.serving.as_ref().is_some_and(is_later)
    }

    /// Whether another process has rejected the image since the run started. `known` are the earlier rejections.
    pub(super) fn was_rejected_meanwhile(&self, id: Option<&ImageId>, known: &[ContainerId]) -> bool {
        let last = id.and_then(|id| self.last_rejection(id));
        last.is_some_and(|(last, _)| !known.contains(&last.id))
    }

    /// The last rejection of this image, and how many there were in a row.
    pub(super) fn last_rejection(&self, image: &ImageId) -> Option<(&Member, u32)> {
        let mut latest_first = self.failed.iter().rev();
        latest_first.find_map(|rejected| match rejected.role {
            Role::Failed { attempt } if rejected.image_id == *image => Some((rejected, attempt)),
            _ => None,
        })
    }

    /// Whether a rejected candidate has served its purpose: a newer one exists, or a healthy container of a later release serves.
    /// Neither a restored container nor the result of a rollback counts as a later release.
    pub(crate) fn is_superseded(&self, rejected: &Member) -> bool {
        let mut serving = self.serving.iter();
        let is_later = self.old.is_empty()
            && serving.any(|it| it.health.is_healthy() && rejected.created_at < it.created_at)
            && self.has_succeeded_since(rejected.release);
        let is_newest = self.failed.last().is_some_and(|newest| newest.id == rejected.id);
        matches!(rejected.role, Role::Failed { .. }) && rejected.is_removable() && (!is_newest || is_later)
    }

    /// Whether a rejection says nothing about the image: the host lacks something that only this container needs.
    pub(crate) fn is_own_problem(&self, reason: &Reason) -> bool {
        match reason {
            Reason::Rejected { rejection, .. } => is_about_the_host(&rejection.cause.to_string()),
            Reason::Quarantined { .. } => {
                let last = self.failed.last();
                last.is_some_and(|rejected| is_about_the_host(&rejected.life.ending))
            }
            _ => false,
        }
    }

    /// The images that were rejected here through no fault of this host, or that an operator rolled back, each with the time.
    pub(crate) fn rejected_images(&self) -> impl Iterator<Item = RejectedImage> {
        let failed = self
            .failed
            .iter()
            .filter(|it| host_problem(&it.life.ending).is_none() && it.reconfigured.is_none());
        let failed = failed.map(|it| {
            let at = it.life.finished_at.unwrap_or(it.created_at);
            RejectedImage::new("rejected", &it.image, at)
        });
        let left = self.serving.iter().filter_map(|it| {
            let left = it.rolled_back_from.as_ref()?;
            Some(RejectedImage::new("rolled_back", &left.reference, it.created_at))
        });
        failed.chain(left)
    }

    fn next_attempt(&self, image: &ImageId) -> u32 {
        let last = self.last_rejection(image);
        last.map_or(1, |(_, attempt)| attempt.saturating_add(1))
    }

    /// The name for the next failure of this image; its number counts the failures.
    pub(super) fn next_failed_name(&self, image: &ImageId) -> String {
        self.numbered_name(self.next_attempt(image).into(), |attempt| Role::Failed {
            attempt: attempt.try_into().unwrap_or(u32::MAX),
        })
    }

    /// A rejected candidate of another image that has the name for the next failure of this image.
    pub(super) fn in_the_way_of_failure(&self, image: &ImageId) -> Option<&Member> {
        let attempt = self.next_attempt(image);
        let role = Role::Failed { attempt };
        let mut failed = self.failed.iter();
        failed.find(|other| other.role == role && other.is_removable())
    }
}

/// Whether the cause of such a failure is the host, but not its disk, which all containers share.
fn is_about_the_host(problem: &str) -> bool {
    host_problem(problem).is_some_and(|lacking| lacking != DISK_FULL)
}

impl Member {
    /// How much longer the image of a rejected candidate stays in quarantine, if it does.
    pub(super) fn quarantine(&self, now: DateTime<Utc>) -> Option<Reason> {
        let Role::Failed { attempt } = self.role else {
            return None;
        };
        // Its settings failed, and not its image.
        if self.reconfigured.is_some() {
            return None;
        }
        let since = self.life.finished_at.unwrap_or(self.created_at);
        let until = end(since, self.quarantine_after(attempt), now).or(self.is_up().then_some(now))?;
        Some(Reason::Quarantined {
            delegate: self.delegate(),
            image: self.image.to_string(),
            attempt,
            until,
        })
    }

    /// How long its image stays in quarantine after this many rejections.
    pub(super) fn quarantine_after(&self, attempt: u32) -> TimeDelta {
        // A missing thing on the host may appear at any time, and says nothing about the image.
        let lasting = match host_problem(&self.life.ending) {
            Some(_) => QUARANTINE,
            None => quarantine(attempt),
        };
        span(lasting)
    }
}

fn of_record(rejected: &Rejected, now: DateTime<Utc>) -> Option<Reason> {
    let lasting = (rejected.until - rejected.since).min(span(QUARANTINE_LIMIT));
    Some(Reason::Quarantined {
        delegate: rejected.delegate.clone(),
        image: rejected.image.to_string(),
        attempt: rejected.attempt,
        until: end(rejected.since, lasting, now)?,
    })
}

/// When a quarantine of this length ends; `None` if it has ended. It never ends later than its length from now. A start that lies
/// even further ahead was written by a wrong clock, so the quarantine counts as over.
fn end(since: DateTime<Utc>, lasting: TimeDelta, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let until = since.min(now) + lasting;
    (now < until && since <= now + lasting).then_some(until)
}
