//! The mark by which tasks with changed settings differ from others that have the same image.

use std::fmt;

/// The last change of the settings of a workload's tasks: the value of [`SETTINGS`](super::label::SETTINGS).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsChange {
    /// The release that made it. 0 means the settings that the owner chose.
    pub release: u64,
    /// The [names](crate::document::NewSettings::names) of the settings.
    pub names: String,
}

impl SettingsChange {
    /// Parses the mark on tasks. A mark that cannot be parsed is not one that this program wrote.
    pub fn read(mark: Option<&str>) -> Self {
        let parts = mark.and_then(|mark| mark.split_once(' '));
        let parsed = parts.and_then(|(release, names)| {
            Some(Self {
                release: release.parse().ok()?,
                names: names.to_owned(),
            })
        });
        parsed.unwrap_or_default()
    }
}

impl fmt::Display for SettingsChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.release, self.names)
    }
}
