//! `pause` and `resume`: whether upgrades may start on this host, or for one delegate.

use chrono::{DateTime, Utc};

use super::record::{PAUSE, Paused, REMEMBERED, read_records};
use crate::container::Request;
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
    request: &Request,
) -> Result<(), EngineError> {
    let mut earlier = read_records(engine).await?.pauses;
    let is_forgotten = |pause: &Paused| now - pause.since > REMEMBERED && !pause.lasts(now);
    earlier.retain(|pause| pause.delegate.as_deref() == delegate || is_forgotten(pause));
    // A volume's labels cannot change, so each pause has its own name. The new one comes first: nothing starts in between.
    let name = format!("delegate-upgrader.pause-{}", now.timestamp_millis());
    let until = until.map(time::text).unwrap_or_default();
    let labels = [
        (RECORD, PAUSE.to_owned()),
        (NAME, delegate.unwrap_or_default().to_owned()),
        (SINCE, time::text(now)),
        (UNTIL, until),
    ];
    let labels = labels.into_iter().chain(request.labels());
    engine.create_volume(&Volume::new(name, labels)).await?;
    for pause in earlier {
        engine.remove_volume(&pause.record).await?;
    }
    Ok(())
}

/// Ends that pause: another one replaces it that is over at once, so that every process learns who ended it. Returns whether
/// there was one.
///
/// # Errors
/// The engine did not create or remove a record.
pub async fn resume<E: Engine>(
    engine: &E,
    delegate: Option<&str>,
    now: DateTime<Utc>,
    request: &Request,
) -> Result<bool, EngineError> {
    let pauses = read_records(engine).await?.pauses;
    let mut own = pauses
        .iter()
        .filter(|pause| pause.delegate.as_deref() == delegate);
    let was_paused = own.any(|pause| pause.lasts(now));
    if was_paused {
        pause(engine, delegate, now, Some(now), request).await?;
    }
    Ok(was_paused)
}
