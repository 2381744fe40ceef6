//! Holds on replacements that survive restarts of this program: pauses, when images were first seen, and rejected images. The
//! engine keeps them as labels of empty named volumes, which the clean-up commands `docker container prune` and `docker image
//! prune` leave alone.

mod known;
mod pause;
mod record;
mod rejected;

use chrono::{DateTime, Utc};

pub use known::{KnownHolds, READ_HOLDS};
pub use pause::{pause, resume};
pub use record::{HostRecords, Paused, VOLUMES, note_first_seen, note_rejection, read_records};
pub use rejected::Rejected;

use crate::schedule::wave::Place;

/// The holds on the replacement of one delegate in the engine's records.
#[derive(Clone, Debug, PartialEq)]
pub struct Holds {
    /// The pause of the delegate or of the host, whichever ends later.
    pub pause: Option<Paused>,
    /// Identifies the desired image.
    pub image: String,
    /// When that image was first seen on this host.
    pub first_seen: Option<DateTime<Utc>>,
    /// The host's place in the rollout wave of the image.
    pub place: Place,
    /// The rejected candidates of the delegate.
    pub rejected: Vec<Rejected>,
}
