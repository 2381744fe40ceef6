//! An image as a container's configuration names it.

use std::fmt;

use chrono::{DateTime, Utc};

use super::{Expiry, ImageReference, ReferenceError};

/// The text of `Config.Image` of a container: a reference most often, but it may be an id or anything else that the
/// engine once understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageName {
    written: String,
    reference: Result<ImageReference, ReferenceError>,
}

impl ImageName {
    /// The name as it was written.
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// The reference in this name.
    ///
    /// # Errors
    /// It is not an image reference.
    pub fn reference(&self) -> Result<&ImageReference, &ReferenceError> {
        self.reference.as_ref()
    }

    /// Whether it means the same as this reference.
    pub fn refers_to(&self, reference: &ImageReference) -> bool {
        self.reference() == Ok(reference)
    }

    /// How long its version is supported, where the tag tells.
    pub fn expiry(&self) -> Option<Expiry> {
        self.reference().ok().and_then(Expiry::of)
    }

    /// The notice about the end of that support: see [`Expiry::notice`].
    pub fn support_notice(&self, now: DateTime<Utc>) -> Option<String> {
        self.expiry()?.notice(now.date_naive())
    }
}

impl From<&str> for ImageName {
    fn from(written: &str) -> Self {
        Self {
            written: written.to_owned(),
            reference: written.parse(),
        }
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}
