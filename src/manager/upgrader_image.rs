//! Compares the upgrader's own image with the one that the Manager publishes for upgraders.

use serde::Serialize;

use crate::image::{ImageReference, Version};

/// The upgrader's own image, and whether a newer one is published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UpgraderImage {
    /// The image of the upgrader's own container, in the form that the Manager knows.
    pub image: String,
    /// The image that the Manager publishes for upgraders.
    pub published: String,
    /// Whether the published image has a later version.
    pub newer_version_available: bool,
}

impl UpgraderImage {
    /// Compares the two images. Returns `None` if they are from different repositories, or if a tag has no version, such as
    /// `latest`.
    pub fn compare(own: &ImageReference, published: &ImageReference) -> Option<Self> {
        let (own_version, version) = (Version::of(own)?, Version::of(published)?);
        own.is_of_repository(published).then(|| Self {
            image: own.to_string(),
            published: published.to_string(),
            newer_version_available: own_version < version,
        })
    }

    /// Compares the own image with the one that `SELF_UPGRADE` names. Any other image needs an upgrade.
    pub fn set(own: &ImageReference, image: &ImageReference) -> Self {
        Self {
            image: own.to_string(),
            published: image.to_string(),
            newer_version_available: own.normalised() != image.normalised(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_of_one_repository_are_compared() {
        let newer = |own: &str, published: &str| {
            let image = UpgraderImage::compare(&own.parse().unwrap(), &published.parse().unwrap());
            image.map(|image| image.newer_version_available)
        };
        for (own, published, expected) in [
            ("team/upgrader:1.2.0", "team/upgrader:1.10.0", Some(true)),
            (
                "docker.io/team/upgrader:1.2.0",
                "team/upgrader:1.10.0",
                Some(true),
            ),
            ("team/upgrader:1.2.0", "team/upgrader:1.2.0", Some(false)),
            ("team/upgrader:1.2.0-dev", "team/upgrader:1.2.0", Some(false)),
            ("team/upgrader:1.3.0", "team/upgrader:1.2.9", Some(false)),
            ("team/upgrader:1.3.0", "harness/upgrader:1.4.0", None),
            ("team/upgrader:latest", "team/upgrader:1.4.0", None),
            ("team/upgrader:1.4.0", "team/upgrader:latest", None),
            ("team/upgrader", "team/upgrader:1.4.0", None),
        ] {
            assert_eq!(newer(own, published), expected, "{own} {published}");
        }
    }
}
