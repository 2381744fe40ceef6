//! What a host's administrator lets in, whatever is published.

use std::fmt;
use std::str::FromStr;

use super::{ImageReference, Version};

/// `REQUIRE_DIGEST` and `MAX_VERSION`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImagePolicy {
    /// `REQUIRE_DIGEST`: nothing but what a digest pins.
    pub require_digest: bool,
    /// `MAX_VERSION`: nothing newer.
    pub max_version: Option<MaxVersion>,
}

/// Why an image is not let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Nothing pins it.
    NoDigest,
    /// It is newer than this.
    NewerThan(MaxVersion),
    /// Its tag does not tell whether it is newer than this.
    NotKnown(MaxVersion),
}

impl ImagePolicy {
    /// Why this image is not let in; `None` where it is.
    pub fn forbid(&self, image: &ImageReference) -> Option<Violation> {
        if self.require_digest && image.digest().is_none() {
            return Some(Violation::NoDigest);
        }
        let max = self.max_version.as_ref()?;
        match Version::of(image).and_then(|version| max.allows(&version)) {
            Some(true) => None,
            Some(false) => Some(Violation::NewerThan(max.clone())),
            None => Some(Violation::NotKnown(max.clone())),
        }
    }
}

/// The last version, or the last month, that is let in: `26.03` has all of March in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaxVersion(Version);

impl MaxVersion {
    /// Whether it lets a version in; `None` where that is less exact: `26.03` may stand for any of March's.
    fn allows(&self, version: &Version) -> Option<bool> {
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
        text.parse().map(Self)
    }
}

impl fmt::Display for MaxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pins(max: &str) -> ImagePolicy {
        ImagePolicy {
            require_digest: false,
            max_version: Some(max.parse().unwrap()),
        }
    }

    fn forbid(pins: &ImagePolicy, tag: &str) -> Option<Violation> {
        pins.forbid(&format!("harness/delegate{tag}").parse().unwrap())
    }

    #[test]
    fn a_month_lets_in_all_of_it_and_a_version_no_later_one() {
        for (max, tag, expected) in [
            ("26.03", ":26.03.88501", Some(true)),
            ("26.03", ":26.03.99999.minimal", Some(true)),
            ("26.03", ":26.02.1", Some(true)),
            ("26.03", ":25.12.1", Some(true)),
            ("26.03", ":26.04.1", Some(false)),
            ("26.03", ":27.01.1", Some(false)),
            ("26.03", ":26.03", Some(true)),
            ("26.03.88501", ":26.03.88501", Some(true)),
            ("26.03.88501", ":26.03.88501-fips", Some(true)),
            ("26.03.88501", ":26.03.88502", Some(false)),
            ("26.03.88501", ":26.03.88501.1", Some(true)),
            ("26.03.88501", ":26.03", None),
            ("26.03.88501", ":26.02", Some(true)),
            ("26.03.88501", ":26.04", Some(false)),
            ("26.03", ":latest", None),
            ("26.03", "", None),
            ("26.03", ":mine", None),
        ] {
            let told = match forbid(&pins(max), tag) {
                None => Some(true),
                Some(Violation::NewerThan(_)) => Some(false),
                Some(_) => None,
            };
            assert_eq!(told, expected, "{tag} by {max}");
        }
    }

    #[test]
    fn what_no_digest_pins_is_not_let_in_where_one_is_required() {
        let pins = ImagePolicy {
            require_digest: true,
            max_version: None,
        };
        let digest = format!("@sha256:{}", "a".repeat(64));
        assert_eq!(forbid(&pins, ":26.03.1"), Some(Violation::NoDigest));
        assert_eq!(forbid(&pins, &digest), None);
        assert_eq!(forbid(&pins, &format!(":26.03.1{digest}")), None);
        assert_eq!(forbid(&ImagePolicy::default(), ":26.03.1"), None);
    }
}
