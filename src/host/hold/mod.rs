//! Holds on replacements that survive restarts of this program: a pause, when an image was first seen, and which images
//! were rejected. The engine remembers them as empty named volumes whose labels say it: `docker container prune` and
//! `docker image prune`, which clean-up crons run, leave those alone.

mod known;
mod pause;
mod record;
mod rejected;

use chrono::{DateTime, Utc};

pub use known::{KnownHolds, READ_HOLDS};
pub use pause::{pause, resume};
pub use record::{HostRecords, Paused, VOLUMES, note_first_seen, read_records};
pub use rejected::{Rejected, note_rejection};

use crate::schedule::wave::Place;

/// The holds on the replacement of one delegate, as far as the engine remembers them.
#[derive(Clone, Debug, PartialEq)]
pub struct Holds {
    /// The pause of the delegate or of the host that ends last.
    pub pause: Option<Paused>,
    /// Identifies the desired image.
    pub image: String,
    /// When that was first seen on this host.
    pub first_seen: Option<DateTime<Utc>>,
    /// The host's place among all that take it.
    pub place: Place,
    /// The rejected candidates of the delegate.
    pub rejected: Vec<Rejected>,
}
