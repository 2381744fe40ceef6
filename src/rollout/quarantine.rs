//! How long a rejected image stays in quarantine, and one without a verdict is not tried again.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::reason::Reason;
use super::{Member, Rollout};
use crate::container::{ImageId, Role};
use crate::image::ImageReference;

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
    /// The quarantine of an image that is not on the host any more, told by the reference of the rejected candidate.
    pub(super) fn quarantine_of(&self, reference: &ImageReference, now: DateTime<Utc>) -> Option<Reason> {
        let mut latest_first = self.failed.iter().rev();
        latest_first.find_map(|rejected| rejected.quarantine(now).filter(|_| rejected.runs(reference)))
    }

    /// The last rejection of this image, and how many there were in a row.
    pub(super) fn last_rejection(&self, image: &ImageId) -> Option<(&Member, u32)> {
        let mut latest_first = self.failed.iter().rev();
        latest_first.find_map(|rejected| match rejected.role {
            Role::Failed { attempt } | Role::Inconclusive { attempt } if rejected.image_id == *image => {
                Some((rejected, attempt))
            }
            _ => None,
        })
    }

    /// Whether its marker says that this `--rm` candidate was rejected, whatever it looks like now.
    pub(crate) fn is_marked_as_rejected(&self, candidate: &Member) -> bool {
        candidate.auto_remove && self.failed.iter().any(|failed| failed.is_marker_of(candidate))
    }

    /// A rejected one goes when a later release than it works. What was brought back is no later one, and what has the
    /// image that was rejected may yet be rejected again, as long as there is an old one to go back to.
    pub(super) fn superseded_by(&self, serving: &Member) -> Option<&Member> {
        let is_last = self.draining.is_empty();
        self.failed.iter().find(|rejected| {
            serving.health.is_healthy()
                && rejected.is_removable()
                && rejected.created_at < serving.created_at
                && rejected.release <= serving.release
                && (is_last || rejected.image_id != serving.image_id)
        })
    }

    /// The name for the next failure of this image: it counts the attempts. Or who has to go to free that name.
    pub(super) fn next_failed_name(
        &self,
        image: &ImageId,
        role: impl Fn(u32) -> Role,
    ) -> Result<String, &Member> {
        let last = self.last_rejection(image);
        let mut attempt = last.map_or(1, |(_, attempt)| attempt.saturating_add(1));
        loop {
            let role = role(attempt);
            match self.failed.iter().find(|other| other.role == role) {
                Some(holder) if holder.is_removable() && !self.remembers_policy(holder) => {
                    return Err(holder);
                }
                None if !self.is_taken(role) => return Ok(role.name(&self.name)),
                // Somebody else has that name, or an older one is still stopping, or remembers what an old one is owed.
                _ => attempt = attempt.saturating_add(1),
            }
        }
    }
}

impl Member {
    /// How much longer the image of a rejected candidate stays in quarantine, if it does.
    pub(super) fn quarantine(&self, now: DateTime<Utc>) -> Option<Reason> {
        let (attempt, is_rejected) = match self.role {
            Role::Failed { attempt } => (attempt, true),
            Role::Inconclusive { attempt } => (attempt, false),
            _ => return None,
        };
        let span = TimeDelta::from_std(quarantine(attempt)).unwrap_or(TimeDelta::MAX / 4);
        let until = self.finished_at.unwrap_or(self.created_at) + span;
        let image = self.image.to_string();
        (now < until || self.is_up()).then_some(if is_rejected {
            Reason::Quarantined {
                image,
                attempt,
                until,
            }
        } else {
            Reason::AwaitingRetry {
                image,
                attempt,
                until,
            }
        })
    }
}
