//! The parts of a reason's sentence that depend on a value.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::host::place::command_for;
use crate::text::{duration, time};

/// The command that tries this delegate again.
pub(super) fn retry(delegate: &str) -> String {
    command_for("retry", delegate)
}

/// The next step for a person if a delegate is unhealthy: read its log with this command, and go back to the image before.
pub(crate) fn next_step(logs: &str, delegate: &str, before: Option<&str>) -> String {
    let rollback = command_for("rollback", delegate);
    let back = before.map_or_else(String::new, |image| format!("; `{rollback}` returns to {image}"));
    format!("see `{logs}`{back}")
}

/// How long an answer has taken. Usually it comes within a second, which is not worth mentioning.
pub(super) fn since(waited: Duration, last_error: Option<&str>) -> String {
    let error = last_error.map_or_else(String::new, |error| format!("; last error: {error}"));
    match waited.as_secs() {
        0 => error,
        _ => format!(" for {}{error}", whole(waited)),
    }
}

/// How a stopped container starts again.
pub(super) fn returning(at: Option<DateTime<Utc>>) -> String {
    at.map_or_else(
        || "Docker starts it again".to_owned(),
        |at| format!("restarting it at {} unless it is removed first", time::text(at)),
    )
}

pub(super) fn paused(delegate: Option<&str>, until: Option<DateTime<Utc>>) -> String {
    let until = until.map_or_else(String::new, |until| format!(" until {}", time::text(until)));
    let resume = command_for("resume", delegate.unwrap_or_default());
    let whose = if delegate.is_some() {
        "its upgrades"
    } else {
        "upgrades"
    };
    format!("{whose} are paused{until}; `{resume}` resumes them")
}

pub(super) fn soaking(name: &str, until: Option<DateTime<Utc>>, verdict: &str) -> String {
    match until {
        Some(until) => format!("{name} runs it first (UPGRADE_SOAK), until {}", time::text(until)),
        None => format!("{name}, which runs it first (UPGRADE_SOAK), is not healthy: {verdict}"),
    }
}

pub(super) fn held_until(until: Option<DateTime<Utc>>) -> String {
    until.map_or_else(String::new, |until| {
        format!("; waiting for it until {} (HOLD_TIMEOUT)", time::text(until))
    })
}

pub(super) fn not_a_delegate(image: Option<&str>) -> String {
    match image {
        None => "it is a command of `docker compose run`".to_owned(),
        Some(image) => format!(
            "{image} is not known to be a delegate's image, and it has not answered as a delegate does; if it is one, give it the \
             label io.delegate-upgrader.enable=true"
        ),
    }
}

/// The settings that were changed, and when the upgrade is tried again.
pub(super) fn changed(what: &str, again: Option<&str>) -> String {
    let what = if what.is_empty() {
        String::new()
    } else {
        format!(" ({what})")
    };
    let then = match again {
        None => "retrying at the next scheduled run".to_owned(),
        Some(delegate) => format!(
            "that came twice in a row, so nothing is tried again until you run `{}` or recreate the delegate",
            retry(delegate)
        ),
    };
    format!("{what}; {then}")
}

pub(super) fn is_published(image: Option<&str>) -> String {
    image.map_or_else(String::new, |image| format!("{image} is published; "))
}

pub(super) fn health_only(published: &Result<Option<String>, String>) -> String {
    let only = "health checks only (DISABLE_AUTO_UPGRADE=true)";
    match published {
        Ok(None) => only.to_owned(),
        Ok(Some(image)) => format!("{image} is published; {only}"),
        Err(problem) => format!("{only}; {problem}"),
    }
}

/// A number of tasks, with its noun.
pub(crate) fn count(tasks: u64) -> String {
    match tasks {
        1 => "1 task".to_owned(),
        more => format!("{more} tasks"),
    }
}

pub(super) fn unfinished(tasks: Option<u64>) -> String {
    tasks.map_or_else(|| "its tasks".to_owned(), count)
}

pub(super) fn times(attempt: u32) -> String {
    match attempt {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        more => format!("{more} times"),
    }
}

/// Counts only whole seconds.
pub(super) fn whole(duration: Duration) -> String {
    duration::text(Duration::from_secs(duration.as_secs()))
}
