//! Which of several processes follows an upgrade: one at a time, by an annotation that each write of the Deployment checks.
//!
//! It spares the Deployment a second process's patches, and the log its lines. The Deployment is safe without it, since each
//! patch is about one version; both processes may report an outcome, with the same id. It
//! matters only while an upgrade is in progress. Clocks of two nodes differ, so the holder's time is never compared with ours:
//! a lock has expired once it has not been renewed for a while by our own clock.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::read::annotation;

/// Who follows the upgrade.
const HOLDER: &str = "io.delegate-upgrader.holder";
/// How many times that was renewed.
const RENEWED: &str = "io.delegate-upgrader.holder-renewed";
/// How long a lock counts that is not renewed.
pub(super) const EXPIRY: Duration = Duration::from_secs(90);
/// How often it is renewed.
pub(super) const RENEWAL: Duration = Duration::from_secs(30);

/// A lock as it stands on a Deployment, or is to stand there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The pod, or the host, with something that no other process has.
    pub holder: String,
    /// How many times it was renewed.
    pub renewed: u64,
}

impl Lock {
    /// Reads it.
    pub fn read(document: &Value) -> Option<Self> {
        Some(Self {
            holder: annotation(document, HOLDER)?.to_owned(),
            renewed: annotation(document, RENEWED)?.parse().ok()?,
        })
    }

    /// The annotations.
    pub fn write(&self) -> [(&'static str, Option<String>); 2] {
        [
            (HOLDER, Some(self.holder.clone())),
            (RENEWED, Some(self.renewed.to_string())),
        ]
    }
}

/// What this process has seen of a lock.
#[derive(Debug, Default)]
pub(super) struct Seen {
    last: Option<(Lock, Instant)>,
}

impl Seen {
    /// Takes in the lock of a Deployment at which something is in progress, and says what `own` may do.
    pub(super) fn note(&mut self, lock: Option<Lock>, own: &str) -> Standing {
        let Some(lock) = lock else {
            self.last = None;
            return Standing::Free { renewed: 0 };
        };
        let since = match &self.last {
            Some((last, since)) if *last == lock => *since,
            _ => {
                let now = Instant::now();
                self.last = Some((lock.clone(), now));
                now
            }
        };
        let left = |span: Duration| span.saturating_sub(since.elapsed());
        let renewed = lock.renewed.wrapping_add(1);
        if lock.holder == own {
            Standing::Held {
                renewed,
                for_another: left(RENEWAL),
            }
        } else if left(EXPIRY).is_zero() {
            Standing::Free { renewed }
        } else {
            Standing::Taken {
                by: lock.holder,
                for_another: left(EXPIRY),
            }
        }
    }
}

/// Whose turn it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nobody's: whoever is first.
    Free {
        /// The number of the next renewal.
        renewed: u64,
    },
    /// Ours, for so long.
    Held {
        /// The number of the next renewal.
        renewed: u64,
        /// How long until it is to be renewed.
        for_another: Duration,
    },
    /// Another process's, for so long at least.
    Taken {
        /// Which.
        by: String,
        /// How long until it has expired, if it is not renewed.
        for_another: Duration,
    },
}
