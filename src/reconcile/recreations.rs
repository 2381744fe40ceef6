//! Delegates that another tool recreates from the old image after each upgrade: a unit or a loop around `docker run --rm`,
//! Ansible, Terraform. Upgrading such a delegate again and again would interrupt its tasks each time.

use chrono::{DateTime, TimeDelta, Utc};

use crate::container::{ContainerId, ImageId};
use crate::rollout::reason::Reason;
use crate::rollout::{Member, Rollout};

/// A recreation this soon after an upgrade is a reaction to it.
const SOON: TimeDelta = TimeDelta::minutes(10);
/// After this many of them, another tool owns the delegate.
const ENOUGH: u32 = 2;

/// The recreations of one delegate. Losing them costs two more upgrades.
#[derive(Debug, Default)]
pub(super) struct Recreations {
    /// The image before the last upgrade, and when the upgrade took over.
    upgraded: Option<(ImageId, DateTime<Utc>)>,
    count: u32,
    /// The last container that counted.
    last: Option<ContainerId>,
}

impl Recreations {
    /// Notes that this candidate takes over.
    pub(super) fn note_upgrade(&mut self, candidate: &Member, now: DateTime<Utc>) {
        if let Some(previous) = &candidate.previous {
            self.upgraded = Some((previous.id.clone(), now));
        }
    }

    /// Notes which container serves.
    pub(super) fn observe(&mut self, rollout: &Rollout) {
        let (Some((image, at)), Some(serving)) = (&self.upgraded, &rollout.serving) else {
            return;
        };
        // Containers that we created have a release.
        if serving.release > 0 || serving.is_copy || self.last.as_ref() == Some(&serving.id) {
            return;
        }
        let after = serving.created_at - *at;
        if serving.image_id != *image {
            *self = Self::default();
        } else if self.count >= ENOUGH || (after > TimeDelta::zero() && after < SOON) {
            self.count += 1;
            self.last = Some(serving.id.clone());
        }
    }

    /// Whether these still count although no container is left.
    pub(super) fn are_recent(&self, now: DateTime<Utc>) -> bool {
        self.count >= ENOUGH || self.upgraded.as_ref().is_some_and(|(_, at)| now - *at < SOON)
    }

    /// Why the delegate is not upgraded again, if so.
    pub(super) fn reason(&self, rollout: &Rollout) -> Option<Reason> {
        let serving = rollout.serving.as_ref()?;
        let is_last = self.last.as_ref() == Some(&serving.id);
        (is_last && self.count >= ENOUGH).then(|| Reason::RecreatedByAnother {
            delegate: rollout.name.clone(),
            image: serving.image.to_string(),
        })
    }
}
