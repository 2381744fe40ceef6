//! The administrator's limits on published images.

use std::fmt;
use std::str::FromStr;

use strum::{Display, EnumString};

use super::{ImageReference, Version};

/// `PULL`: whether to contact a registry for an image that is on the host. Docker and Compose use the same words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Display, EnumString)]
#[strum(serialize_all = "lowercase", ascii_case_insensitive)]
pub enum Pull {
    /// Always. If the registry cannot be reached, a version that is on the host is used.
    #[default]
    Always,
    /// Only if the image is missing, or if its tag is mutable.
    Missing,
    /// Never. Images are loaded by other means.
    Never,
}

/// The images that `REQUIRE_DIGEST` and `MAX_VERSION` permit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImagePolicy {
    /// `REQUIRE_DIGEST`: permit only images that are pinned by a digest.
    pub require_digest: bool,
    /// `MAX_VERSION`: permit no later version than this one.
    pub max_version: Option<MaxVersion>,
}

/// The last permitted version or month. `26.03` permits every version of March 2026.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaxVersion(Version);

impl MaxVersion {
    /// Whether this permits an image. `None` if its tag does not show it: it has no version, or a less exact one than the limit,
    /// as `26.03` may be any version of March.
    pub fn permits(&self, image: &ImageReference) -> Option<bool> {
        let version = Version::of(image)?;
        let (max, numbers) = (self.0.numbers(), version.numbers());
        let both = max.len().min(numbers.len());
        if numbers[..both] == max[..both] && numbers.len() < max.len() {
            return None;
        }
        Some(numbers[..both] <= max[..both])
    }
}

impl FromStr for MaxVersion {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let version: Version = text.parse()?;
        // `2026.02` would permit every version, since the years in versions have two digits.
        match version.numbers() {
            [1..=99, 1..=12, ..] => Ok(Self(version)),
            _ => Err(()),
        }
    }
}

impl fmt::Display for MaxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
