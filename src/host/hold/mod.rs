//! What holds replacements back on a host, and survives restarts of this program: a pause, and when an image was first
//! seen. The engine remembers both, as empty named volumes whose labels say it: `docker container prune` and
//! `docker image prune`, which clean-up crons run, leave those alone.

mod known;
mod pause;
mod record;

use chrono::{DateTime, Utc};

pub use known::{KnownHolds, READ_HOLDS};
pub use pause::{pause, resume};
pub use record::{HostRecords, Paused, note_first_seen, read_records};

use crate::schedule::wave::Place;

/// What holds the replacement of one delegate back, as far as the engine remembers it.
#[derive(Clone, Debug, PartialEq)]
pub struct Holds {
    /// Whether changes are paused.
    pub pause: Option<Paused>,
    /// What tells the desired image apart from all others.
    pub image: String,
    /// When that was first seen on this host.
    pub first_seen: Option<DateTime<Utc>>,
    /// The host's place among all that take it.
    pub place: Place,
}
