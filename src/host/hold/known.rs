//! What the engine remembers that holds replacements back, as it was read last: known to all that ask.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use super::{Holds, HostRecords, read_records};
use crate::engine::{Engine, EngineError};
use crate::schedule::wave::Place;

/// An observation that begins later than this after the records were read needs them anew, so that a pause counts at once.
const FRESH: Duration = Duration::from_millis(200);

/// What failed where that is unknown.
pub const READ_HOLDS: &str = "find out whether changes are paused on this host";

/// The records that were read last. They hold for that observation and for the next one.
#[derive(Clone, Debug, Default)]
pub struct KnownHolds(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    observations: u64,
    read: Option<Read>,
    /// What tells this host apart from all others.
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

    /// What holds the replacement by this image back; `None` where that has to be read.
    pub fn of(&self, image: &str) -> Option<Result<Holds, String>> {
        let known = self.known();
        let records = known.read.as_ref()?.records.as_ref();
        Some(records.map_err(Clone::clone).map(|records| Holds {
            pause: records.pause,
            image: image.to_owned(),
            first_seen: records.first_seen(image),
            place: Place::of(known.host.as_deref().unwrap_or_default(), image),
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
                "cannot find out whether changes are paused on this host; going on"
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
