//! `pause` and `resume`: whether replacements may start on this host.

use chrono::{DateTime, Utc};

use super::record::{PAUSE, volume};
use crate::container::label::{RECORD, SINCE, UNTIL};
use crate::engine::{Engine, EngineError, Volume};
use crate::text::time;

/// Pauses the host, in place of an earlier pause.
///
/// # Errors
/// The engine did not do it.
pub async fn pause<E: Engine>(
    engine: &E,
    now: DateTime<Utc>,
    until: Option<DateTime<Utc>>,
) -> Result<(), EngineError> {
    let earlier = pauses(engine).await?;
    // A volume keeps its labels, so each pause has its own volume. The new volume comes first, so that nothing starts in between.
    let name = format!("delegate-upgrader.pause-{}", now.timestamp_millis());
    let until = until.map(time::text).unwrap_or_default();
    let labels = [
        (RECORD, PAUSE.to_owned()),
        (SINCE, time::text(now)),
        (UNTIL, until),
    ];
    engine.create_volume(&volume(name, labels)).await?;
    remove(engine, &earlier).await
}

/// Ends the pause. Whether there was one, over or not.
///
/// # Errors
/// The engine did not do it.
pub async fn resume<E: Engine>(engine: &E) -> Result<bool, EngineError> {
    let pauses = pauses(engine).await?;
    remove(engine, &pauses).await?;
    Ok(!pauses.is_empty())
}

async fn pauses<E: Engine>(engine: &E) -> Result<Vec<Volume>, EngineError> {
    let mut volumes = engine.volumes(RECORD).await?;
    volumes.retain(|volume| volume.labels.get(RECORD).is_some_and(|record| record == PAUSE));
    Ok(volumes)
}

async fn remove<E: Engine>(engine: &E, volumes: &[Volume]) -> Result<(), EngineError> {
    for volume in volumes {
        engine.remove_volume(&volume.name).await?;
    }
    Ok(())
}
