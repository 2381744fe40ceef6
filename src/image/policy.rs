//! The administrator's limits on published images.

use strum::{Display, EnumString};

use super::Version;

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
    /// `MAX_VERSION`: permit no later version than this one, or no later month.
    pub max_version: Option<Version>,
}
