//! The last attempts of a workload that are over. They are bounded, and written on the workload: an audit log may be missing.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};

use crate::text::time;

/// The number of attempts that are kept.
const MOST: usize = 5;
/// If the full list has more failures than this, the oldest failure goes: three images always remain to go back to.
const MOST_FAILURES: usize = 2;

/// An attempt that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// The number of the attempt; 0 is the image that the owner chose.
    pub release: u64,
    /// How it ended.
    pub ending: Ending,
    /// The image.
    pub image: String,
    /// When it started; if it did not last, when it was over; of the image that the owner chose, when it was replaced.
    pub at: DateTime<Utc>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Ending {
    /// The workload ran the image that its owner chose.
    Original,
    /// It ran the image.
    Upgraded,
    /// It ran the image, on an operator's request.
    RolledBack,
    /// The image failed.
    Rejected,
    /// Someone else went back from the image.
    Withdrawn,
}

impl Past {
    /// Whether the workload ran the image, so that it can go back there.
    pub fn was_served(&self) -> bool {
        !matches!(self.ending, Ending::Rejected | Ending::Withdrawn)
    }

    /// Reads all of them. An entry that cannot be read was not written here.
    pub(super) fn read(text: &str) -> Vec<Self> {
        text.split(", ").filter_map(|entry| entry.parse().ok()).collect()
    }

    /// All of them in one text, which [`Self::read`] reads; `None` if there are none.
    pub(super) fn write(all: &[Self]) -> Option<String> {
        let texts: Vec<String> = all.iter().map(Self::to_string).collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }

    /// Adds one, and drops another one if they are too many.
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
