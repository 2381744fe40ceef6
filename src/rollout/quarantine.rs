//! How long a rejected image stays in quarantine.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::reason::Reason;
use super::{Member, Rollout};
use crate::container::{ContainerId, ImageId, Role};
use crate::engine::host_problem;
use crate::image::{ImageReference, is_mutable_tag};

/// The quarantine of an image after its first rejection; doubled with each further one.
const QUARANTINE: Duration = Duration::from_secs(3600);
/// The longest quarantine.
const QUARANTINE_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// How long an image stays in quarantine after its `attempt`-th rejection in a row.
pub fn quarantine(attempt: u32) -> Duration {
    let doublings = attempt.saturating_sub(1).min(16);
    QUARANTINE.saturating_mul(1 << doublings).min(QUARANTINE_LIMIT)
}

impl Rollout {
    /// The quarantine of an image, told by its id where that is known, else by the reference of the rejected candidate. A
    /// tag that may mean another image by now is pulled first, unless this is a plan.
    pub(crate) fn quarantine_of(
        &self,
        reference: &ImageReference,
        id: Option<&ImageId>,
        is_plan: bool,
        now: DateTime<Utc>,
    ) -> Option<Reason> {
        if let Some(id) = id {
            return self.last_rejection(id)?.0.quarantine(now);
        }
        if !is_plan && is_mutable_tag(reference) {
            return None;
        }
        let mut latest_first = self.failed.iter().rev();
        latest_first.find_map(|rejected| rejected.quarantine(now).filter(|_| rejected.runs(reference)))
    }

    /// Whether another process has rejected the image since the run started. `known` are the rejections of before.
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

    /// A rejected one that is no longer of use: not the newest, or behind a healthy one in service of a later release.
    /// A restored container does not count as a later release.
    pub(super) fn superseded(&self) -> Option<&Member> {
        let serving = self
            .serving
            .as_ref()
            .filter(|serving| serving.health.is_healthy());
        let serving = serving.filter(|_| self.old.is_empty());
        let is_later = |rejected: &Member| {
            serving.is_some_and(|serving| {
                rejected.created_at < serving.created_at && rejected.release <= serving.release
            })
        };
        let newest = self.failed.last().map(|newest| &newest.id);
        let mut failed = self.failed.iter();
        failed
            .find(|rejected| rejected.is_removable() && (Some(&rejected.id) != newest || is_later(rejected)))
    }

    /// The name for the next failure of this image, whose number counts them.
    pub(super) fn next_failed_name(&self, image: &ImageId) -> String {
        let last = self.last_rejection(image);
        let mut attempt = last.map_or(1, |(_, attempt)| attempt.saturating_add(1));
        loop {
            let role = Role::Failed { attempt };
            if !self.is_taken(role) && self.failed.iter().all(|other| other.role != role) {
                return role.name(&self.name);
            }
            attempt = attempt.saturating_add(1);
        }
    }

    /// A rejected one of another image that has the name which the next failure of this image is to get.
    pub(super) fn in_the_way_of_failure(&self, image: &ImageId) -> Option<&Member> {
        let last = self.last_rejection(image);
        let role = Role::Failed {
            attempt: last.map_or(1, |(_, attempt)| attempt.saturating_add(1)),
        };
        let mut failed = self.failed.iter();
        failed.find(|other| other.role == role && other.is_removable())
    }
}

impl Member {
    /// How much longer the image of a rejected candidate stays in quarantine, if it does.
    pub(super) fn quarantine(&self, now: DateTime<Utc>) -> Option<Reason> {
        let Role::Failed { attempt } = self.role else {
            return None;
        };
        // A thing that the host lacks may come at any time, and says nothing about the image.
        let lasting = match host_problem(&self.life.ending) {
            Some(_) => QUARANTINE,
            None => quarantine(attempt),
        };
        let span = TimeDelta::from_std(lasting).unwrap_or(TimeDelta::MAX / 4);
        let until = self.life.finished_at.unwrap_or(self.created_at) + span;
        let image = self.image.to_string();
        (now < until || self.is_up()).then_some(Reason::Quarantined {
            delegate: self.delegate(),
            image,
            attempt,
            until,
        })
    }
}
