//! `doctor`: checks everything that an upgrade needs and reports each problem with its remedy, without changing anything.
//!
//! It finds delegates and resolves their images exactly as a scheduled run does, so it reports on the delegates that an
//! upgrade would replace.

pub(crate) mod alerts;
mod containers;
mod engine;
mod manager;
pub(crate) mod oldest;
mod registry;

use futures_util::FutureExt as _;
use serde::Serialize;
use strum::Display;

use crate::app::{self, PATIENCE};
use crate::config::Settings;
use crate::rollout::reason::ReasonKind;
use crate::status::planned::Planned;

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, Serialize)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Severity {
    /// Nothing to do.
    Ok,
    /// Upgrades work, but with a limitation or a risk.
    Warn,
    /// An upgrade would fail.
    #[strum(to_string = "FAIL")]
    Fail,
}

/// One line of the output.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Check {
    pub(crate) severity: Severity,
    /// The thing that was checked: `engine`, `manager`, or a delegate's name.
    pub(crate) subject: String,
    /// The finding, and unless all is well, what to do about it.
    pub(crate) message: String,
}

/// The checks made so far.
#[derive(Debug)]
pub(crate) struct Checks {
    pub(crate) made: Vec<Check>,
    /// Prints a check as soon as it is made. Returns whether it could be printed.
    show: fn(&Check) -> bool,
    /// Whether all checks could be printed.
    pub(crate) are_shown: bool,
}

impl Checks {
    pub(crate) fn new(show: fn(&Check) -> bool) -> Self {
        Self {
            made: Vec::new(),
            show,
            are_shown: true,
        }
    }

    pub(crate) fn add(&mut self, severity: Severity, subject: &str, message: impl Into<String>) {
        let check = Check {
            severity,
            subject: subject.to_owned(),
            message: message.into(),
        };
        self.are_shown &= (self.show)(&check);
        self.made.push(check);
    }

    pub(crate) fn ok(&mut self, subject: &str, message: impl Into<String>) {
        self.add(Severity::Ok, subject, message);
    }

    pub(crate) fn warn(&mut self, subject: &str, message: impl Into<String>) {
        self.add(Severity::Warn, subject, message);
    }

    /// Adds a finding, with a warning about it if there is one.
    pub(crate) fn judged(&mut self, subject: &str, found: String, warning: Option<String>) {
        match warning {
            Some(warning) => self.warn(subject, format!("{found}: {warning}")),
            None => self.ok(subject, found),
        }
    }

    pub(crate) fn fail(&mut self, subject: &str, message: impl Into<String>) {
        self.add(Severity::Fail, subject, message);
    }

    /// Adds the warnings about the settings, which are valid.
    pub(crate) fn configuration(&mut self, warnings: &[String]) {
        for warning in warnings {
            self.warn("configuration", warning);
        }
        if warnings.is_empty() {
            self.ok("configuration", "all settings are valid");
        }
    }

    /// Adds the checks for one delegate in a plan.
    pub(crate) fn planned(&mut self, row: &Planned) {
        let warnings = row.warnings.iter();
        warnings.for_each(|warning| self.warn(&row.container, warning));
        let severity = match row.reason {
            Some(ReasonKind::SwarmOff | ReasonKind::Quarantined) => Severity::Warn,
            _ if row.failed => Severity::Fail,
            _ => Severity::Ok,
        };
        self.add(severity, &row.container, &row.message);
    }
}

/// Checks everything except the settings. The Manager is checked even if the engine is unreachable.
pub(crate) async fn run_checks(settings: &Settings, checks: &mut Checks) {
    let source = app::impatient_source(settings, crate::host::place::host());
    let of_engine = source.as_ref().ok().cloned().flatten();
    let host = engine::check(of_engine, settings, checks).boxed_local().await;
    let targets = match source {
        Ok(source) => manager::check(host.as_ref(), source, settings, checks).await,
        Err(error) => {
            checks.fail("manager", error);
            Vec::new()
        }
    };
    if let Some(host) = &host
        && !settings.policy.health_only
    {
        registry::check(host, &targets, checks).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_of_doctor_describes_each_field() {
        let check = |severity| Check {
            severity,
            subject: "engine".to_owned(),
            message: "a sentence".to_owned(),
        };
        let checks = [Severity::Ok, Severity::Warn, Severity::Fail].map(check);
        kit::schema::describes("doctor", &[serde_json::json!(checks)]);
    }
}
