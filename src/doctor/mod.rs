//! `doctor`: looks at all that an upgrade needs, says of each what is wrong and what to do, and changes nothing.

mod engine;
mod manager;

use std::fmt;

use serde::Serialize;

use crate::app;
use crate::config::Settings;
use crate::engine::DockerEngine;

/// How it is with something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// As it should be.
    Ok,
    /// It works, but not all of it.
    Warn,
    /// It does not work.
    Fail,
}

/// One line.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Check {
    /// How it is.
    pub(crate) verdict: Severity,
    /// With what: `engine`, `manager`, a delegate's name.
    pub(crate) about: String,
    /// In words, with what to do.
    pub(crate) text: String,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Severity::Ok => "ok",
            Severity::Warn => "warn",
            Severity::Fail => "FAIL",
        };
        write!(f, "{verdict:4}  {:13}  {}", self.about, self.text)
    }
}

/// What has been found so far.
#[derive(Debug, Default)]
struct Checks(Vec<Check>);

impl Checks {
    fn add(&mut self, verdict: Severity, about: &str, text: impl Into<String>) {
        self.0.push(Check {
            verdict,
            about: about.to_owned(),
            text: text.into(),
        });
    }

    fn ok(&mut self, about: &str, text: impl Into<String>) {
        self.add(Severity::Ok, about, text);
    }

    fn warn(&mut self, about: &str, text: impl Into<String>) {
        self.add(Severity::Warn, about, text);
    }

    fn fail(&mut self, about: &str, text: impl Into<String>) {
        self.add(Severity::Fail, about, text);
    }
}

/// Looks at everything, each as far as what it needs is there.
pub(crate) async fn run_checks(settings: &Settings) -> Vec<Check> {
    let mut found = Checks::default();
    for warning in &settings.warnings {
        found.warn("configuration", warning.clone());
    }
    if settings.warnings.is_empty() {
        found.ok("configuration", "every variable is understood");
    }
    let engine = app::engine(settings);
    let delegates = match &engine {
        Ok(engine) => engine::run_checks(engine, settings, &mut found).await,
        Err(error) => {
            found.fail("engine", error.to_string());
            None
        }
    };
    let targets = manager::published(settings, delegates.as_deref().unwrap_or_default(), &mut found).await;
    if let Ok(engine) = &engine {
        manager::examine_targets(engine, settings, &targets, &mut found).await;
    }
    found.0
}

/// A delegate that was found.
struct Delegate {
    /// The container's name.
    name: String,
    /// Its `DELEGATE_NAME`.
    group: String,
    /// Its image, as its configuration names it.
    image: String,
    /// The image's document, where the engine has it.
    image_document: Option<serde_json::Value>,
    /// Its id.
    id: crate::container::ContainerId,
    /// Whether its owner wants it left alone.
    opted_out: bool,
}

/// Used by both parts: the engine as it is, without the telling of each call.
type Engine = DockerEngine;
