//! The last finished attempts of a workload: a short list, stored on the workload, since there may be no audit log.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};

use crate::text::time;

const MOST: usize = 5;
/// If a full list has more failures than this, drop the oldest failure. So three images always remain to go back to.
const MOST_FAILURES: usize = 2;

/// A finished attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// The number of the attempt. 0 means the image that the owner chose.
    pub release: u64,
    /// How it ended.
    pub ending: Ending,
    /// The image of the attempt.
    pub image: String,
    /// When the attempt started, or when it ended if it failed. For the owner's image, when that was replaced.
    pub at: DateTime<Utc>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Ending {
    /// The workload ran the image that its owner chose.
    Original,
    /// An upgrade gave the workload the image.
    Upgraded,
    /// The workload ran the image because an operator requested a rollback to it.
    RolledBack,
    /// An operator changed the settings.
    Reconfigured,
    /// The image or the settings failed.
    Rejected,
    /// Someone else rolled the image back.
    Withdrawn,
}

impl Past {
    /// Whether the workload ran the image, so that it can go back to it.
    pub fn was_served(&self) -> bool {
        !matches!(self.ending, Ending::Rejected | Ending::Withdrawn)
    }

    /// Parses all attempts. Skips an entry that cannot be parsed, since this program did not write it.
    pub(super) fn read(text: &str) -> Vec<Self> {
        text.split(", ").filter_map(|entry| entry.parse().ok()).collect()
    }

    /// Writes all attempts as one text for [`Self::read`]. `None` if there are none.
    pub(super) fn write(all: &[Self]) -> Option<String> {
        let texts: Vec<String> = all.iter().map(Self::to_string).collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }

    /// Adds an attempt, and drops one if there are too many.
    pub(super) fn add(self, all: &mut Vec<Self>) {
        all.push(self);
        if all.len() > MOST {
            let failures = all.iter().filter(|past| !past.was_served()).count();
            let first_failure = all.iter().position(|past| !past.was_served());
            all.remove(
                first_failure
                    .filter(|_| failures > MOST_FAILURES)
                    .unwrap_or_default(),
            );
        }
    }
}

impl fmt::Display for Past {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ending: &str = self.ending.into();
        let Self {
            release, image, at, ..
        } = self;
        write!(f, "{release} {ending} {} {image}", time::text(*at))
    }
}

impl FromStr for Past {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let [release, ending, at, image] = text.split(' ').collect::<Vec<_>>().try_into().map_err(drop)?;
        Ok(Self {
            release: release.parse().map_err(drop)?,
            ending: ending.parse().map_err(drop)?,
            image: image.to_owned(),
            at: time::parse(at).ok_or(())?,
        })
    }
}
