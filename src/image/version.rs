//! Versions of the delegate, read from tags: `yy.mm.verno`, and everything else that is written that way.

use std::fmt;
use std::str::FromStr;

use super::{ImageName, ImageReference};

/// Numbers joined by dots, two at least, that are compared one by one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(Vec<u64>);

impl Version {
    /// The version of an image: what its tag begins with. A variant (`.minimal`, `-fips`) does not count. `None` for
    /// `latest`, and where there is no tag.
    pub fn of(image: &ImageReference) -> Option<Self> {
        let tag = image.tag()?;
        let end = tag
            .find(|c: char| c != '.' && !c.is_ascii_digit())
            .unwrap_or(tag.len());
        let (numbers, rest) = tag.split_at(end);
        // `26.03-fips` and `26.03.minimal`, but not `26.03rc1`, which comes before 26.03.
        let ends_there = rest.is_empty() || rest.starts_with('-') || numbers.ends_with('.');
        let version = numbers.trim_end_matches('.').parse().ok();
        version.filter(|_| ends_there)
    }

    /// Whether an image is known to be older than the one that a container runs.
    pub fn is_older(image: &ImageReference, other: &ImageName) -> bool {
        let other = other.reference().ok().and_then(Self::of);
        matches!((Self::of(image), other), (Some(this), Some(other)) if this < other)
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
            // The month has two digits.
            match place {
                0 => write!(f, "{number}")?,
                1 => write!(f, ".{number:02}")?,
                _ => write!(f, ".{number}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(image: &str) -> Option<String> {
        let image: ImageReference = image.parse().unwrap();
        Version::of(&image).map(|version| version.to_string())
    }

    #[test]
    fn a_tag_has_a_version_and_a_variant_does_not_count() {
        for (image, expected) in [
            ("harness/delegate:26.03.88501", Some("26.03.88501")),
            ("harness/delegate:26.03.88501.minimal", Some("26.03.88501")),
            ("harness/delegate:26.03.88501-fips", Some("26.03.88501")),
            ("harness/delegate:26.03.88501.minimal-fips", Some("26.03.88501")),
            ("harness/delegate:26.03", Some("26.03")),
            ("harness/delegate:26.03.", Some("26.03")),
            ("harness/delegate:26.03rc1", None),
            ("harness/delegate:26", None),
            ("harness/delegate:26..1", None),
            ("harness/delegate:v26.03", None),
            ("harness/delegate:99999999999999999999.1", None),
            ("harness/delegate", None),
        ] {
            assert_eq!(of(image).as_deref(), expected, "{image}");
        }
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        let version = |text: &str| text.parse::<Version>().unwrap();
        assert!(version("26.10.1") > version("26.9.2"));
        assert!(version("26.03.88501") > version("26.03.9999"));
        assert!(version("26.03.1") > version("25.12.99999"));
        assert!(version("26.3.1") == version("26.03.1"));
        let is_older =
            |image: &str, other| Version::is_older(&image.parse().unwrap(), &ImageName::from(other));
        assert!(is_older(
            "mirror.example/harness/delegate:26.02.9",
            "harness/delegate:26.03.1"
        ));
        assert!(!is_older(
            "harness/delegate:26.03.1",
            "harness/delegate:26.03.1.minimal"
        ));
        assert!(!is_older("harness/delegate:26.03.1", "harness/delegate:latest"));
        assert!(!is_older("harness/delegate:26.03.1", "not an image"));
    }
}
