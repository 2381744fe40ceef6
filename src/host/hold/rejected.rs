//! Rejected candidates: their images stay in quarantine even after `docker container prune` has removed the containers.

use chrono::{DateTime, Utc};

use crate::container::label::{ATTEMPT, IMAGE, IMAGE_ID, NAME, RECORD, RELEASE, SINCE, UNTIL};
use crate::container::{ContainerId, ImageId};
use crate::engine::Volume;
use crate::image::ImageName;
use crate::text::time;

/// The value of [`RECORD`] for a rejected candidate.
pub(super) const REJECTED: &str = "rejected";

/// A rejected candidate in the engine's records.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejected {
    /// The name of the record's volume. It contains the candidate's id, so each candidate has one record.
    pub(super) record: String,
    /// The container name of the delegate.
    pub delegate: String,
    /// The image as named in the candidate's configuration.
    pub image: ImageName,
    /// The id of the image.
    pub image_id: ImageId,
    /// The number of the candidate's attempt at a replacement.
    pub release: u64,
    /// How many candidates with this image had been rejected by then, this one included.
    pub attempt: u32,
    /// When it was rejected.
    pub since: DateTime<Utc>,
    /// When the quarantine of its image ends.
    pub until: DateTime<Utc>,
}

impl Rejected {
    /// The first rejection of the image, by this candidate. Its quarantine has no length yet.
    pub fn new(
        candidate: &ContainerId,
        delegate: &str,
        (image, image_id): (&ImageName, &ImageId),
        release: u64,
        now: DateTime<Utc>,
    ) -> Self {
        Self {
            record: format!("delegate-upgrader.rejected-{candidate}"),
            delegate: delegate.to_owned(),
            image: image.clone(),
            image_id: image_id.clone(),
            release,
            attempt: 1,
            since: now,
            until: now,
        }
    }

    pub(super) fn read(volume: &Volume, since: DateTime<Utc>) -> Option<Self> {
        let label = |name| volume.labels.get(name).map(String::as_str);
        Some(Self {
            record: volume.name.clone(),
            delegate: label(NAME)?.to_owned(),
            image: label(IMAGE)?.into(),
            image_id: ImageId::new(label(IMAGE_ID)?),
            release: label(RELEASE)?.parse().ok()?,
            attempt: label(ATTEMPT)?.parse().ok()?,
            since,
            until: volume.time(UNTIL)?,
        })
    }

    pub(super) fn volume(&self) -> Volume {
        let labels = [
            (RECORD, REJECTED.to_owned()),
            (NAME, self.delegate.clone()),
            (IMAGE, self.image.to_string()),
            (IMAGE_ID, self.image_id.as_str().to_owned()),
            (RELEASE, self.release.to_string()),
            (ATTEMPT, self.attempt.to_string()),
            (SINCE, time::text(self.since)),
            (UNTIL, time::text(self.until)),
        ];
        Volume::new(self.record.clone(), labels)
    }
}
