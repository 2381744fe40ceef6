//! The name of an image in a container's configuration.

use std::fmt;

use chrono::{DateTime, NaiveDate, Utc};

use super::support::earliest;
use super::{
    Expiry, ImageReference, ReferenceError, TargetSettings, is_harness, is_mutable_tag, manager_reference,
};

/// The text of a container's `Config.Image`. It is usually an image reference, but it may be an id or anything else that the
/// engine accepted when the container was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageName {
    written: String,
    reference: Result<ImageReference, ReferenceError>,
    released: Option<NaiveDate>,
}

impl ImageName {
    /// Returns the name as it was written.
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// Returns the image reference in this name.
    ///
    /// # Errors
    /// The name is not an image reference.
    pub fn reference(&self) -> Result<&ImageReference, &ReferenceError> {
        self.reference.as_ref()
    }

    /// Whether the name means the same image as this reference.
    pub fn refers_to(&self, reference: &ImageReference) -> bool {
        self.reference() == Ok(reference)
    }

    /// Adds the day of the image's release, if that is known: see [`super::release_day`].
    pub fn note_release(&mut self, day: Option<NaiveDate>) {
        self.released = day;
    }

    /// Returns the reference to ask a registry about if that day is unknown and could give a notice by this day. A tag may have
    /// moved since the image was pulled.
    pub fn undated(&self, target: &TargetSettings, today: NaiveDate) -> Option<ImageReference> {
        let reference = self.reference().ok()?;
        let could_help = self.released.is_none() && !is_mutable_tag(reference);
        let may_have_notice = Expiry::of(reference, earliest(reference))?
            .notice(today)
            .is_some();
        let is_worth_it = could_help && may_have_notice && is_harness(&manager_reference(reference, target));
        is_worth_it.then(|| reference.clone())
    }

    /// Returns the support period of the image's version, if that day or the tag shows it.
    pub fn expiry(&self) -> Option<Expiry> {
        Expiry::of(self.reference().ok()?, self.released)
    }

    /// Returns the notice about the end of that support: see [`Expiry::notice`].
    pub fn support_notice(&self, now: DateTime<Utc>) -> Option<String> {
        self.expiry()?.notice(now.date_naive())
    }
}

impl From<&str> for ImageName {
    fn from(written: &str) -> Self {
        Self {
            written: written.to_owned(),
            reference: written.parse(),
            released: None,
        }
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}
