//! What the engine remembers that holds replacements back, as it was read last.

use tracing::warn;

use super::Reconciler;
use super::facts::is_for_good;
use crate::engine::{Engine, EngineError};
use crate::health::HealthEndpoint;
use crate::host::hold::{Holds, HostRecords, read_records};
use crate::manager::ImageSource;
use crate::rollout::Rollout;
use crate::schedule::wave::Place;

/// What was read, and when: it holds for the next observation only, so that a pause counts at once.
#[derive(Debug, Default)]
pub(super) struct KnownHolds {
    observations: u64,
    read: Option<(u64, Result<HostRecords, String>)>,
    /// What tells this host apart from all others.
    host: Option<String>,
    was_refused: bool,
}

impl KnownHolds {
    /// The host has been observed again.
    pub(super) fn note_observation(&mut self) {
        self.observations += 1;
    }

    /// It is about to be changed.
    pub(super) fn forget(&mut self) {
        self.read = None;
    }

    /// What holds the replacement by this image back; `None` where that has to be read.
    pub(super) fn of(&self, image: &str) -> Option<Result<Holds, String>> {
        let (at, read) = self.read.as_ref()?;
        (self.observations <= at + 1).then(|| {
            read.as_ref().map_err(Clone::clone).map(|records| Holds {
                pause: records.pause,
                image: image.to_owned(),
                first_seen: records.first_seen(image),
                place: Place::of(self.host.as_deref().unwrap_or_default(), image),
            })
        })
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

    /// The same, for whoever waits after an error by itself.
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
                "cannot find out whether changes are paused on this host; going on"
            );
        }
        self.holds.read = Some((self.holds.observations, read));
        Ok(())
    }
}

/// What failed where that is unknown.
pub(super) const READ_HOLDS: &str = "find out whether changes are paused on this host";
