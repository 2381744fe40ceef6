//! `pause` and `resume`: whether upgrades may start on this host, or for one delegate.

use chrono::{DateTime, Utc};

use super::record::PAUSE;
use crate::container::label::{NAME, RECORD, SINCE, UNTIL};
use crate::engine::{Engine, EngineError, Volume};
use crate::text::time;

/// Pauses the delegate with this container name, or else the whole host. Replaces an earlier pause of the same.
///
/// # Errors
/// The engine did not create or remove a record.
pub async fn pause<E: Engine>(
    engine: &E,
    delegate: Option<&str>,
    now: DateTime<Utc>,
    until: Option<DateTime<Utc>>,
) -> Result<(), EngineError> {
    let earlier = pauses(engine, delegate).await?;
    // A volume's labels cannot change, so each pause has its own name. The new one comes first: nothing starts in between.
    let name = format!("delegate-upgrader.pause-{}", now.timestamp_millis());
    let until = until.map(time::text).unwrap_or_default();
    let labels = [
        (RECORD, PAUSE.to_owned()),
        (NAME, delegate.unwrap_or_default().to_owned()),
        (SINCE, time::text(now)),
        (UNTIL, until),
    ];
    engine.create_volume(&Volume::new(name, labels)).await?;
    remove(engine, &earlier).await
}

/// Ends that pause. Returns whether there was one, even if it was over.
///
/// # Errors
/// The engine did not remove a record.
pub async fn resume<E: Engine>(engine: &E, delegate: Option<&str>) -> Result<bool, EngineError> {
    let pauses = pauses(engine, delegate).await?;
    remove(engine, &pauses).await?;
    Ok(!pauses.is_empty())
}

async fn pauses<E: Engine>(engine: &E, delegate: Option<&str>) -> Result<Vec<Volume>, EngineError> {
    let mut volumes = engine.volumes(RECORD).await?;
    let label = |volume: &Volume, label| volume.labels.get(label).cloned().unwrap_or_default();
    volumes.retain(|volume| {
        label(volume, RECORD) == PAUSE && label(volume, NAME) == delegate.unwrap_or_default()
    });
    Ok(volumes)
}

async fn remove<E: Engine>(engine: &E, volumes: &[Volume]) -> Result<(), EngineError> {
    for volume in volumes {
        engine.remove_volume(&volume.name).await?;
    }
    Ok(())
}
