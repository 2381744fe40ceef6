//! Whether a question or a pull that failed is tried again before the next run.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::text::time;

/// The fate of a question or a pull that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// It would fail again, until a person acts.
    Never,
    /// The cause may pass, such as a registry that answers 500. The other end may ask to wait for so long.
    Later(Option<Duration>),
    /// It is tried again then.
    At(DateTime<Utc>),
}

/// The end of the reason's sentence.
impl fmt::Display for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(at) => write!(f, "; retrying at {}", time::text(*at)),
            Self::Never | Self::Later(_) => Ok(()),
        }
    }
}
