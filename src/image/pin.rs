//! The version to which an owner pins a delegate.

use std::fmt;
use std::str::FromStr;

use super::{ImageReference, Version};

/// Describes the accepted values of the label `io.delegate-upgrader.pin`.
pub const ACCEPTED: &str = "a month or a version of the delegate such as 26.03 or 26.03.88501";

/// A version or a month: `26.03` matches every version released in March 2026.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin(Version);

impl Pin {
    /// Whether an image has this version. An image whose tag has no version does not.
    pub fn permits(&self, image: &ImageReference) -> bool {
        Version::of(image).is_some_and(|version| version.numbers().starts_with(self.0.numbers()))
    }
}

impl FromStr for Pin {
    type Err = ();

    /// Ignores variants, as in tags.
    fn from_str(text: &str) -> Result<Self, ()> {
        let image: ImageReference = format!("pin:{}", text.trim()).parse().map_err(drop)?;
        Version::of(&image).map(Self).ok_or(())
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
