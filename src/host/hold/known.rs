//! The holds on replacements in the engine's records, as last read.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use super::{Holds, HostRecords, Paused, read_records};
use crate::engine::{Engine, EngineError};
use crate::schedule::wave::Place;
use crate::sync::lock;

/// No replacement starts by older records, so that a pause takes effect at once.
const FRESH: Duration = Duration::from_millis(200);
/// How often they are read for display, if the engine does not report changes.
const INTERVAL: Duration = Duration::from_secs(60);

/// The failed action if the pause is unknown.
pub const READ_HOLDS: &str = "find out whether upgrades are paused";

/// The records as last read.
#[derive(Clone, Debug, Default)]
pub struct KnownHolds(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    observations: u64,
    read: Option<Read>,
    /// Whether they have changed since.
    have_changed: bool,
    /// Identifies this host.
    host: Option<String>,
    was_refused: bool,
}

#[derive(Debug)]
struct Read {
    records: Result<HostRecords, String>,
    /// The number of observations until then.
    observations: u64,
    at: Instant,
}

impl KnownHolds {
    /// Notes that the host is observed again.
    pub fn note_observation(&self) {
        lock(&self.0).observations += 1;
    }

    /// Notes that the records have changed, or are about to.
    pub fn note_change(&self) {
        lock(&self.0).have_changed = true;
    }

    /// Whether they were read for this observation or the one before.
    pub fn are_fresh(&self) -> bool {
        let known = lock(&self.0);
        let is_fresh =
            |read: &Read| known.observations <= read.observations + 1 && read.at.elapsed() <= FRESH;
        !known.have_changed && known.read.as_ref().is_some_and(is_fresh)
    }

    /// Whether they must be read for display. `is_told`: the engine reports their changes.
    pub fn are_due(&self, is_told: bool) -> bool {
        let known = lock(&self.0);
        let is_old = |read: &Read| !is_told && read.at.elapsed() >= INTERVAL;
        known.have_changed || known.read.as_ref().is_none_or(is_old)
    }

    /// The holds on replacing this delegate with this image; `None` if the records must be read first.
    pub fn of(&self, delegate: &str, image: &str) -> Option<Result<Holds, String>> {
        let known = lock(&self.0);
        let records = known.read.as_ref()?.records.as_ref();
        Some(records.map_err(Clone::clone).map(|records| Holds {
            pause: records.pause(delegate).cloned(),
            image: image.to_owned(),
            first_seen: records.first_seen(image),
            place: Place::of(known.host.as_deref().unwrap_or_default(), image),
            rejected: records.rejected_of(delegate),
        }))
    }

    /// The pauses, including past ones, as far as they were read.
    pub fn pauses(&self) -> Option<Vec<Paused>> {
        let known = lock(&self.0);
        let records = known.read.as_ref()?.records.as_ref().ok()?;
        Some(records.pauses.clone())
    }

    /// Reads the engine's records. If a proxy refuses that, no pause is known.
    ///
    /// # Errors
    /// The engine did not answer.
    pub async fn read<E: Engine>(&self, engine: &E, has_wave: bool) -> Result<(), EngineError> {
        lock(&self.0).have_changed = false;
        let read = async {
            if has_wave && lock(&self.0).host.is_none() {
                let host = engine.identity().await?;
                lock(&self.0).host = Some(host);
            }
            read_records(engine).await
        };
        let records = match read.await {
            Ok(records) => Ok(records),
            Err(error) if error.is_not_permitted() => Err(error.to_string()),
            Err(error) => {
                self.note_change();
                return Err(error);
            }
        };
        let mut known = lock(&self.0);
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
