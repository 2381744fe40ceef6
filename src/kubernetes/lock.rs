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

/// The instance that follows the upgrade.
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

    /// The lock of this holder in place of the one that stands there.
    pub(super) fn next(document: &Value, holder: &str) -> Self {
        Self {
            holder: holder.to_owned(),
            renewed: Self::read(document).map_or(0, |lock| lock.renewed.wrapping_add(1)),
        }
    }

    /// The annotations; without a lock, that there is none.
    pub(super) fn write(lock: Option<&Self>) -> [(&'static str, Option<String>); 2] {
        [
            (HOLDER, lock.map(|lock| lock.holder.clone())),
            (RENEWED, lock.map(|lock| lock.renewed.to_string())),
        ]
    }
}

/// The lock that this process saw last, and since when.
#[derive(Debug, Default)]
pub(super) struct Seen(Option<(Lock, Instant)>);

impl Seen {
    /// How long a lock has not changed, as far as this process has seen.
    pub(super) fn age(&mut self, lock: Option<&Lock>) -> Duration {
        if self.0.as_ref().map(|(last, _)| last) != lock {
            self.0 = lock.map(|lock| (lock.clone(), Instant::now()));
        }
        self.0
            .as_ref()
            .map_or(Duration::ZERO, |(_, since)| since.elapsed())
    }
}
