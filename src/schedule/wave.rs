//! `UPGRADE_WAVE`: when each of many hosts takes a new image. Pure.
//!
//! A host's place among all hosts is a hash of the host and the image. So the hosts do not take an image all at once,
//! nor in the same order each time, although they do not know of each other.

use std::fmt;
use std::str::FromStr;

use chrono::TimeDelta;
use ring::digest::{SHA256, digest};

/// The accepted values, as the errors and the page describe them.
pub const ACCEPTED: &str = "auto, or the percentage of hosts that follow each day, such as 20%";

const DAY: f64 = 24.0 * 60.0 * 60.0;
/// For `auto`: shares of the hosts, each with the hours after which it has started.
const AUTO: [(f64, f64); 5] = [(0.0, 0.0), (0.01, 6.0), (0.1, 24.0), (0.5, 48.0), (1.0, 72.0)];

/// How a new image spreads across the hosts over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wave {
    /// A few hosts at first: 1 % within 6 hours, 10 % within a day, half of them within two days, and all within three.
    Auto,
    /// The same percentage of hosts each day.
    Daily(f64),
}

/// A host's place among all hosts, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place(f64);

impl Place {
    /// The place of a host for one image. `host` is any text that distinguishes it from other hosts.
    pub fn of(host: &str, image: &str) -> Self {
        let hash = digest(&SHA256, format!("{host}\n{image}").as_bytes());
        let mut first = [0; 4];
        first.copy_from_slice(&hash.as_ref()[..4]);
        Self(f64::from(u32::from_be_bytes(first)) / (f64::from(u32::MAX) + 1.0))
    }
}

impl Wave {
    /// How long a host at this place waits.
    pub fn wait(self, Place(place): Place) -> TimeDelta {
        let seconds = match self {
            Self::Daily(percentage) => place * 100.0 / percentage * DAY,
            Self::Auto => {
                let parts = AUTO.iter().zip(&AUTO[1..]);
                let part = parts.into_iter().find(|(_, (until, _))| place < *until);
                part.map_or(0.0, |((from, begins), (until, ends))| {
                    (begins + (place - from) / (until - from) * (ends - begins)) * 3600.0
                })
            }
        };
        #[allow(
            clippy::cast_possible_truncation,
            reason = "there are far fewer seconds than that"
        )]
        TimeDelta::seconds(seconds as i64)
    }
}

impl FromStr for Wave {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("auto") {
            return Ok(Self::Auto);
        }
        let percentage: f64 = text.strip_suffix('%').ok_or(())?.trim().parse().map_err(|_| ())?;
        let is_sound = (0.1..=100.0).contains(&percentage);
        is_sound.then_some(Self::Daily(percentage)).ok_or(())
    }
}

impl fmt::Display for Wave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Daily(percentage) => write!(f, "{percentage}%"),
        }
    }
}
