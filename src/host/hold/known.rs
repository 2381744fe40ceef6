//! The holds on replacements that the engine remembers, as they were read last.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use super::{Holds, HostRecords, read_records};
use crate::engine::{Engine, EngineError};
use crate::schedule::wave::Place;

/// An observation that starts later than this after the records were read reads them again, so that a pause counts at once.
const FRESH: Duration = Duration::from_millis(200);

/// The failed action, where the pause is unknown.
pub const READ_HOLDS: &str = "find out whether upgrades are paused";

/// The records that were read last. They hold for that observation and for the next one.
#[derive(Clone, Debug, Default)]
pub struct KnownHolds(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
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
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The host is observed again.
    pub fn note_observation(&self) {
        let mut known = self.known();
        known.observations += 1;
        let observations = known.observations;
        known
            .read
            .take_if(|read| observations > read.observations + 1 || read.at.elapsed() > FRESH);
    }

    /// It is about to be changed.
    pub fn forget(&self) {
        self.known().read = None;
    }

    /// The holds on the replacement of this delegate by this image; `None` where that has to be read.
    pub fn of(&self, delegate: &str, image: &str) -> Option<Result<Holds, String>> {
        let known = self.known();
        let records = known.read.as_ref()?.records.as_ref();
        Some(records.map_err(Clone::clone).map(|records| Holds {
            pause: records.pause(delegate).cloned(),
            image: image.to_owned(),
            first_seen: records.first_seen(image),
            place: Place::of(known.host.as_deref().unwrap_or_default(), image),
            rejected: records.rejected_of(delegate),
        }))
    }

    /// Reads what the engine remembers. Where a proxy refuses that, nothing is known to be paused.
    ///
    /// # Errors
    /// The engine did not answer.
    pub async fn read<E: Engine>(&self, engine: &E, has_wave: bool) -> Result<(), EngineError> {
        let read = async {
            if has_wave && self.known().host.is_none() {
                let host = engine.identity().await?;
                self.known().host = Some(host);
            }
            read_records(engine).await
        };
        let records = match read.await {
            Ok(records) => Ok(records),
            Err(error) if error.is_not_permitted() => Err(error.to_string()),
            Err(error) => return Err(error),
        };
        let mut known = self.known();
        if let Err(problem) = &records
            && !std::mem::replace(&mut known.was_refused, true)
        {
            warn!(
                problem,
                "cannot find out whether upgrades are paused; continuing as if they are not"
            );
        }
        known.read = Some(Read {
            records,
            observations: known.observations,
            at: Instant::now(),
        });
        Ok(())
    }
}
