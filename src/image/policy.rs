//! The administrator's limits on published images.

use std::fmt;
use std::str::FromStr;

use strum::{Display, EnumString};

use super::{ImageReference, Version};

/// `PULL`: whether to ask a registry for an image that is on the host. The words are those of Docker and Compose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Display, EnumString)]
#[strum(serialize_all = "lowercase", ascii_case_insensitive)]
pub enum Pull {
    /// In any case. A version that is on the host is taken where the registry cannot be reached.
    #[default]
    Always,
    /// Only for a missing image, and for a mutable tag.
    Missing,
    /// Never: images are loaded.
    Never,
}

/// The images that `REQUIRE_DIGEST` and `MAX_VERSION` permit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImagePolicy {
    /// `REQUIRE_DIGEST`: only images that are pinned by a digest.
    pub require_digest: bool,
    /// `MAX_VERSION`: no version after this one.
    pub max_version: Option<MaxVersion>,
}

/// Why an image is not permitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// It is not pinned by a digest.
    NoDigest,
    /// It is newer than this.
    NewerThan(MaxVersion),
    /// Its tag does not say whether it is newer than this.
    VersionUnknown(MaxVersion),
}

impl ImagePolicy {
    /// Whether this image is permitted.
    ///
    /// # Errors
    /// The first [`Violation`], if it is not.
    pub fn check(&self, image: &ImageReference) -> Result<(), Violation> {
        if self.require_digest && image.digest().is_none() {
            return Err(Violation::NoDigest);
        }
        let Some(max) = &self.max_version else {
            return Ok(());
        };
        match Version::of(image).and_then(|version| max.permits(&version)) {
            Some(true) => Ok(()),
            Some(false) => Err(Violation::NewerThan(max.clone())),
            None => Err(Violation::VersionUnknown(max.clone())),
        }
    }
}

/// The last version, or the last month, that is permitted: `26.03` has all of March in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaxVersion(Version);

impl MaxVersion {
    /// Whether it permits a version; `None` where the version is less exact: `26.03` may stand for any of March's.
    fn permits(&self, version: &Version) -> Option<bool> {
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
        // `2026.02` would permit every version, since years are written with two digits.
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
