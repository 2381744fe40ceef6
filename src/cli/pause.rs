//! `pause` and `resume`: whether upgrades may start on this host, or for one delegate. The engine stores a pause, and
//! every upgrader on the host reads it before it starts an upgrade.

use std::fmt::Write as _;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;

use super::named_delegate::failed;
use super::run::{LAST_EVENTS, made, make_listeners};
use super::status::daemon_state;
use super::{Exit, fail, no_engine, print, print_json};
use crate::app;
use crate::config::{AuditTarget, Settings};
use crate::container::{ApiVersion, Request};
use crate::engine::{DockerEngine, Engine as _, EngineError};
use crate::host::hold::{self, Paused, read_records};
use crate::host::place::{command, command_for, is_cluster};
use crate::reconcile::operator::OperatorError;
use crate::schedule::until;
use crate::text::{duration, time};

/// The API version of Docker 23.0. From it on, a prune without a filter removes anonymous volumes only.
const PRUNES_ANONYMOUS_ONLY: ApiVersion = ApiVersion::new(1, 42);

/// The end of a pause, from `--until` or `--for`.
pub(super) fn end(
    until: Option<&str>,
    lasting: Option<&str>,
    settings: &Settings,
) -> Result<Option<DateTime<Utc>>, Exit> {
    let now = Utc::now();
    match (until, lasting) {
        (Some(text), _) => parse(text, settings, now).map(Some),
        (None, Some(text)) => after(text, now).map(Some),
        (None, None) => Ok(None),
    }
}

pub(super) async fn pause(
    settings: &Settings,
    container: Option<&str>,
    until: Option<DateTime<Utc>>,
    request: &Request,
    json: bool,
) -> Result<Exit, Exit> {
    may_change(settings)?;
    let name = match container {
        Some(container) => match delegate_name(settings, container).await? {
            (name, None) => Some(name),
            // The Swarm starts the tasks of a service itself, so pausing one of their containers would have no effect.
            (name, Some(service)) => {
                let instead = command(&format!("pause {service}"));
                let problem =
                    format!("{name} is a task of the Swarm service {service}: run `{instead}` on a manager");
                return Err(fail(problem, Exit::Usage));
            }
        },
        None => None,
    };
    let engine = made(app::engine(settings))?;
    hold::pause(&engine, name.as_deref(), Utc::now(), until, request)
        .await
        .map_err(|error| unavailable(&error))?;
    record_of(settings, &engine, name.as_deref()).await;
    if json {
        let until = until.map(time::text);
        return Ok(print_json(
            &json!({ "paused": name.as_deref().unwrap_or("host"), "until": until }),
        ));
    }
    let lasts = engine
        .info()
        .await
        .is_ok_and(|info| info.api >= PRUNES_ANONYMOUS_ONLY);
    let note = if lasts {
        ""
    } else {
        "\nOn this version of Docker, `docker volume prune` and `docker system prune --volumes` would end the pause."
    };
    let resume = command_for("resume", name.as_deref().unwrap_or_default());
    let end = until.map_or_else(
        || format!("until you run `{resume}`"),
        |until| format!("until {} (or run `{resume}`)", time::text(until)),
    );
    let subject = name.as_deref().unwrap_or("this host");
    Ok(print(&format!(
        "Upgrades are paused on {subject} {end}. Running replacements will finish; health checks continue.{note}"
    )))
}

pub(super) async fn resume(
    settings: &Settings,
    container: Option<&str>,
    request: &Request,
    json: bool,
) -> Result<Exit, Exit> {
    may_change(settings)?;
    let engine = made(app::engine(settings))?;
    let resume = async |container| {
        let resumed = hold::resume(&engine, container, Utc::now(), request).await;
        resumed.map_err(|error| unavailable(&error))
    };
    let mut was_paused = resume(container).await?;
    // The container and its pause may be gone. A wrong name is an error, and an id is replaced by the name.
    let name = match container {
        Some(given) if !was_paused => Some(delegate_name(settings, given).await?.0),
        given => given.map(str::to_owned),
    };
    let container = name.as_deref();
    if !was_paused && container.is_some() {
        was_paused = resume(container).await?;
    }
    if was_paused {
        record_of(settings, &engine, container).await;
    }
    if json {
        return Ok(print_json(
            &json!({ "resumed": container.unwrap_or("host"), "was_paused": was_paused }),
        ));
    }
    let subject = container.unwrap_or("this host");
    let mut text = if was_paused {
        format!("Upgrades have resumed on {subject}.")
    } else {
        format!("Upgrades were not paused on {subject}.")
    };
    // A delegate is upgraded only if neither it nor the host is paused, so list the pauses that remain.
    let records = read_records(&engine).await.unwrap_or_default();
    app::learn_place(settings).await;
    for pause in Paused::lasting(&records.pauses, Utc::now()) {
        let _ = write!(text, "\nBut {pause}.");
    }
    Ok(print(&text))
}

/// Records the last pause of this delegate or of the host, or its end.
async fn record_of(settings: &Settings, engine: &DockerEngine, delegate: Option<&str>) {
    app::learn_place(settings).await;
    if let Ok(mut records) = read_records(engine).await {
        records
            .pauses
            .retain(|pause| pause.delegate.as_deref() == delegate);
        record(settings, &records.pauses).await;
    }
}

/// Records new pauses in the audit log, and reports them unless a daemon does. If that fails, the pause holds anyway.
pub(super) async fn record(settings: &Settings, pauses: &[Paused]) {
    let mut settings = settings.clone();
    // Standard output is for the result.
    if settings.audit == AuditTarget::Stdout {
        settings.audit = AuditTarget::Off;
    }
    // Only a daemon that may upgrade the delegates of an engine looks for pauses.
    let daemon = daemon_state(settings.listen).await;
    let listeners = if !is_cluster() && daemon.is_some_and(|daemon| daemon["mode"] == "upgrade") {
        Ok(Arc::default())
    } else {
        make_listeners(&settings)
    };
    if let Ok(listeners) = listeners
        && let Ok(mut ledger) = app::ledger(&settings, &listeners)
    {
        ledger.observe_pauses(pauses, |_| true, Utc::now()).await;
        listeners.finish(LAST_EVENTS).await;
    }
}

/// The name of this delegate, which must be on this host, and the Swarm service to which it belongs, if any.
async fn delegate_name(settings: &Settings, container: &str) -> Result<(String, Option<String>), Exit> {
    let mut upgrader = made(app::looking(settings).await)?;
    upgrader.delegate_name(container).await.map_err(failed)
}

/// Refuses the command with `DISABLE_AUTO_UPGRADE`, under which the engine must receive no writes.
fn may_change(settings: &Settings) -> Result<(), Exit> {
    if settings.policy.health_only {
        return Err(fail(OperatorError::HealthOnly, Exit::Config));
    }
    Ok(())
}

fn after(text: &str, now: DateTime<Utc>) -> Result<DateTime<Utc>, Exit> {
    // In a setting, a number alone means seconds. Here the user would mean hours or minutes, so a unit is required.
    let has_unit = text.chars().any(char::is_alphabetic);
    let span = duration::parse(text).filter(|span| has_unit && !span.is_zero());
    let until = span.and_then(|span| now.checked_add_signed(TimeDelta::from_std(span).ok()?));
    let problem = || format!("--for {text}: expected a duration such as 8h or 1h30m");
    until.ok_or_else(|| fail(problem(), Exit::Usage))
}

fn parse(text: &str, settings: &Settings, now: DateTime<Utc>) -> Result<DateTime<Utc>, Exit> {
    let until = until::parse(text, settings.schedule.zone()).ok_or_else(|| {
        let instead = match duration::parse(text) {
            Some(_) => format!("; for a duration write --for {text}"),
            None => String::new(),
        };
        fail(
            format!("--until {text}: expected {}{instead}", until::ACCEPTED),
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
    if let EngineError::Refused {
        status: 401 | 403, ..
    } = error
    {
        let advice = "a socket proxy must permit GET, POST and DELETE of /volumes for this";
        let problem = format!("cannot change whether this host is paused: {error}; {advice}");
        return fail(problem, Exit::Unavailable);
    }
    no_engine(error)
}
