//! The holds on replacements that the engine remembers, as they were read last.

use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use super::Reconciler;
use super::facts::is_for_good;
use crate::engine::{Engine, EngineError};
use crate::health::HealthEndpoint;
use crate::host::hold::{Holds, HostRecords, read_records};
use crate::manager::ImageSource;
use crate::rollout::Rollout;
use crate::schedule::wave::Place;

/// An observation that starts later than this after the records were read reads them again, so that a pause counts at once.
const FRESH: Duration = Duration::from_millis(200);

/// The records that were read last. They hold for that observation and for the next one.
#[derive(Debug, Default)]
pub(super) struct KnownHolds {
    observations: u64,
    read: Option<Read>,
    /// Identifies this host.
    host: Option<String>,
    was_refused: bool,
}

#[derive(Debug)]
struct Read {
    records: Result<HostRecords, String>,
    /// The observations until then.
    observations: u64,
    at: Instant,
}

impl KnownHolds {
    /// The host is observed again.
    pub(super) fn note_observation(&mut self) {
        self.observations += 1;
        self.read
            .take_if(|read| self.observations > read.observations + 1 || read.at.elapsed() > FRESH);
    }

    /// It is about to be changed.
    pub(super) fn forget(&mut self) {
        self.read = None;
    }

    /// The holds on the replacement of this delegate by this image; `None` where that has to be read.
    pub(super) fn of(&self, delegate: &str, image: &str) -> Option<Result<Holds, String>> {
        let records = self.read.as_ref()?.records.as_ref();
        Some(records.map_err(Clone::clone).map(|records| Holds {
            pause: records.pause(delegate).cloned(),
            image: image.to_owned(),
            first_seen: records.first_seen(image),
            place: Place::of(self.host.as_deref().unwrap_or_default(), image),
        }))
    }
}

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Reconciler<E, M, H> {
    /// Reads what the engine remembers. Where a proxy refuses that, nothing is known to be paused.
    pub(super) async fn learn_holds(&mut self, rollout: &Rollout) {
        let now = self.now();
        if let Err(error) = self.read_holds().await {
            self.backoff(rollout, READ_HOLDS, error.to_string(), now);
        }
    }

    /// The same, for a caller that handles errors itself.
    pub(super) async fn read_holds(&mut self) -> Result<(), EngineError> {
        let engine = self.engine.as_ref();
        let has_wave = self.settings.policy.timing.wave.is_some();
        let read = async {
            if has_wave && self.holds.host.is_none() {
                self.holds.host = Some(engine.identity().await?);
            }
            read_records(engine).await
        };
        let read = match read.await {
            Ok(records) => Ok(records),
            Err(error) if is_for_good(&error) => Err(error.to_string()),
            Err(error) => return Err(error),
        };
        if let Err(problem) = &read
            && !std::mem::replace(&mut self.holds.was_refused, true)
        {
            warn!(
                problem,
                "cannot find out whether upgrades are paused; continuing as if they are not"
            );
        }
        self.holds.read = Some(Read {
            records: read,
            observations: self.holds.observations,
            at: Instant::now(),
        });
        Ok(())
    }
}

/// The failed action, where the pause is unknown.
pub(super) const READ_HOLDS: &str = "find out whether upgrades are paused";
