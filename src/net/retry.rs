//! Whether to retry a failed registry or Manager request, or a failed pull, before the next run.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::text::time;

/// Whether and when to retry a failed request or pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Never. A retry would fail until a person fixes the cause.
    Never,
    /// Later, since the cause is temporary, such as a registry that answers 500. The server may ask to wait for this long.
    Later(Option<Duration>),
    /// At this time.
    At(DateTime<Utc>),
}

/// Writes the end of a sentence that gives the reason of the failure.
impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(at) => write!(f, "; retrying at {}", time::text(*at)),
            Self::Never | Self::Later(_) => Ok(()),
        }
    }
}
