//! When the owner of a delegate lets a replacement of it begin, by its labels.

use chrono::{DateTime, Utc};

use crate::image::Pin;
use crate::schedule::window::UpgradeWindow;

/// What the labels of one delegate say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnerLimits {
    /// The version it stays at.
    pub pin: Option<Pin>,
    /// Nothing begins before then.
    pub snooze_until: Option<DateTime<Utc>>,
    /// Its own window, instead of `UPGRADE_WINDOW`.
    pub window: Option<UpgradeWindow>,
    /// The first of these labels that cannot be read. What its owner wants is not known, so nothing begins.
    pub invalid: Option<InvalidLabel>,
}

/// A label of a delegate that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the label {label}={value} is not {accepted}")]
pub struct InvalidLabel {
    /// Its name.
    pub label: &'static str,
    /// Its value.
    pub value: String,
    /// What it takes, in words.
    pub accepted: &'static str,
}
