//! `pause` and `resume`: whether any upgrade may start on this host. The engine remembers a pause, and every upgrader of the
//! host reads it before it starts an upgrade.

use chrono::{DateTime, TimeDelta, Utc};

use super::run::made;
use super::{Exit, fail, print};
use crate::app;
use crate::config::Settings;
use crate::container::ApiVersion;
use crate::engine::{Engine as _, EngineError};
use crate::host::hold;
use crate::host::place::command;
use crate::reconcile::operator::OperatorError;
use crate::schedule::moment;
use crate::text::{duration, time};

/// Docker 23.0: from this version of its API on, a prune without a filter leaves volumes with a name alone.
const PRUNES_ANONYMOUS_ONLY: ApiVersion = ApiVersion::new(1, 42);

pub(super) async fn pause(
    settings: &Settings,
    until: Option<&str>,
    lasting: Option<&str>,
) -> Result<Exit, Exit> {
    may_change(settings)?;
    let now = Utc::now();
    let until = match (until, lasting) {
        (Some(text), _) => Some(parse(text, settings, now)?),
        (None, Some(text)) => Some(after(text, now)?),
        (None, None) => None,
    };
    let engine = made(app::engine(settings))?;
    hold::pause(&engine, now, until)
        .await
        .map_err(|error| unavailable(&error))?;
    // Later engines prune only volumes without a name.
    let lasts = engine
        .info()
        .await
        .is_ok_and(|info| info.api >= PRUNES_ANONYMOUS_ONLY);
    let note = if lasts {
        ""
    } else {
        "\nOn this version of Docker, `docker volume prune` and `docker system prune --volumes` would end the pause."
    };
    app::learn_place(settings).await;
    let resume = command("resume");
    let end = until.map_or_else(
        || format!("until you run `{resume}`"),
        |until| format!("until {} (or run `{resume}`)", time::text(until)),
    );
    Ok(print(&format!(
        "Upgrades are paused on this host {end}. Running replacements will finish; health checks continue.{note}"
    )))
}

pub(super) async fn resume(settings: &Settings) -> Result<Exit, Exit> {
    may_change(settings)?;
    let engine = made(app::engine(settings))?;
    let was_paused = hold::resume(&engine).await.map_err(|error| unavailable(&error))?;
    Ok(print(if was_paused {
        "Upgrades have resumed on this host."
    } else {
        "This host was not paused."
    }))
}

/// With health checks only, the engine receives no request that changes anything.
fn may_change(settings: &Settings) -> Result<(), Exit> {
    if settings.disable_auto_upgrade {
        return Err(fail(OperatorError::HealthOnly, Exit::Config));
    }
    Ok(())
}

fn after(text: &str, now: DateTime<Utc>) -> Result<DateTime<Utc>, Exit> {
    let span = duration::parse(text).filter(|span| !span.is_zero());
    let until = span.and_then(|span| now.checked_add_signed(TimeDelta::from_std(span).ok()?));
    let problem = || format!("--for {text}: expected a duration such as 8h or 1h30m");
    until.ok_or_else(|| fail(problem(), Exit::Usage))
}

fn parse(text: &str, settings: &Settings, now: DateTime<Utc>) -> Result<DateTime<Utc>, Exit> {
    let until = moment::parse(text, settings.schedule.zone()).ok_or_else(|| {
        let instead = match duration::parse(text) {
            Some(_) => format!("; for a duration write --for {text}"),
            None => String::new(),
        };
        fail(
            format!("--until {text}: expected {}{instead}", moment::ACCEPTED),
            Exit::Usage,
        )
    })?;
    if until <= now {
        let message = format!("--until {text}: {} is in the past", time::text(until));
        return Err(fail(message, Exit::Usage));
    }
    Ok(until)
}

fn unavailable(error: &EngineError) -> Exit {
    let advice = match error {
        EngineError::Refused {
            status: 401 | 403, ..
        } => "; a socket proxy has to permit GET, POST and DELETE of /volumes for this",
        _ => "",
    };
    fail(
        format!("cannot change whether this host is paused: {error}{advice}"),
        Exit::Unavailable,
    )
}
