//! Versions of the delegate, parsed from tags: `yy.mm.verno`, and other versions in this form.

use std::fmt;
use std::str::FromStr;

use super::{ImageName, ImageReference};

/// Describes the accepted values of the label `io.delegate-upgrader.pin`.
pub const PIN_ACCEPTED: &str = "a month or a version of the delegate such as 26.03 or 26.03.88501";

/// At least two numbers joined by dots. Versions compare number by number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(Vec<u64>);

impl Version {
    /// Parses the version at the start of an image's tag. Ignores variants (`.minimal`, `-fips`). Returns `None` for
    /// `latest`, or if there is no tag.
    pub fn of(image: &ImageReference) -> Option<Self> {
        let (version, rest) = Self::split(image.tag()?)?;
        // Accept `26.03-fips` and `26.03.minimal`, but not `26.03rc1`, which is older than 26.03.
        (rest.is_empty() || rest.starts_with(['-', '.'])).then_some(version)
    }

    /// Splits a tag after the version at its start.
    pub(super) fn split(tag: &str) -> Option<(Self, &str)> {
        let end = tag.find(|c: char| c != '.' && !c.is_ascii_digit());
        let numbers = tag[..end.unwrap_or(tag.len())].trim_end_matches('.');
        Some((numbers.parse().ok()?, &tag[numbers.len()..]))
    }

    /// Whether both versions are known and `image` is older than the image of a container.
    pub fn is_older(image: &ImageReference, other: &ImageName) -> bool {
        let other = other.reference().ok().and_then(Self::of);
        matches!((Self::of(image), other), (Some(this), Some(other)) if this < other)
    }

    /// Reads the version to which an owner pins a delegate. Ignores variants, as in tags.
    pub fn pinned(text: &str) -> Option<Self> {
        Self::of(&format!("pin:{}", text.trim()).parse().ok()?)
    }

    /// Whether an image has this version: `26.03` includes every version released in March 2026. An image whose tag has no version
    /// is not included.
    pub fn includes(&self, image: &ImageReference) -> bool {
        Self::of(image).is_some_and(|version| version.0.starts_with(&self.0))
    }

    /// Whether this version or month is at least that of an image. `None` if its tag does not show it: it has no version, or a less exact
    /// one than this, as `26.03` may be any version of March.
    pub fn is_at_least(&self, image: &ImageReference) -> Option<bool> {
        let (max, numbers) = (&self.0, Self::of(image)?.0);
        let both = max.len().min(numbers.len());
        if numbers[..both] == max[..both] && numbers.len() < max.len() {
            return None;
        }
        Some(numbers[..both] <= max[..both])
    }

    /// Whether it is a version by year and month, or a month. `2026.02` is none, since these years have two digits.
    pub fn is_by_month(&self) -> bool {
        matches!(self.0.as_slice(), [1..=99, 1..=12, ..])
    }

    pub(super) fn numbers(&self) -> &[u64] {
        &self.0
    }
}

impl FromStr for Version {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let number = |part: &str| {
            let is_number = part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse().ok().filter(|_| is_number)
        };
        let numbers: Option<Vec<u64>> = text.split('.').map(number).collect();
        numbers.filter(|numbers| numbers.len() > 1).map(Self).ok_or(())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, number) in self.0.iter().enumerate() {
            // Write the month with two digits.
            match place {
                0 => write!(f, "{number}")?,
                1 => write!(f, ".{number:02}")?,
                _ => write!(f, ".{number}")?,
            }
        }
        Ok(())
    }
}
