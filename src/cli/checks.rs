//! The output of `doctor`: one line for each check, or JSON.

use serde_json::Value;

use super::status::daemon_state;
use super::trial;
use super::{Exit, print, print_json};
use crate::config::Settings;
use crate::doctor::run_checks;
use crate::doctor::{Check, Checks, Severity};
use crate::status::layout::Look;
use crate::status::view::Tone;

pub(super) async fn doctor(settings: &Settings, json: bool) -> Exit {
    let mut checks = checks(json);
    checks.configuration(&settings.warnings);
    for problem in trial::problems(settings).await {
        checks.fail("configuration", problem);
    }
    run_checks(settings, &mut checks).await;
    conclude(checks, settings, json).await
}

/// Prints each check as soon as it is made; with `json`, all are printed at the end.
pub(super) fn checks(json: bool) -> Checks {
    Checks::new(if json { |_| true } else { print_check })
}

fn print_check(check: &Check) -> bool {
    print(&lines_of(check, Look::of_stdout()).join("\n")) == Exit::Ok
}

/// Adds what the daemon cannot deliver, prints the JSON of all checks if asked for, and returns the exit.
pub(super) async fn conclude(mut checks: Checks, settings: &Settings, json: bool) -> Exit {
    let state = daemon_state(settings.listen).await.unwrap_or_default();
    let problems = state["delivery_problems"].as_array().into_iter().flatten();
    for problem in problems.filter_map(Value::as_str) {
        checks.fail("daemon", problem);
    }
    let printed = match checks.are_shown {
        _ if json => print_json(&checks.made),
        true => Exit::Ok,
        false => Exit::Unavailable,
    };
    match printed {
        Exit::Ok if checks.made.iter().any(|check| check.severity == Severity::Fail) => Exit::NotServed,
        exit => exit,
    }
}

fn lines_of(check: &Check, look: Look) -> Vec<String> {
    let Check {
        severity,
        subject,
        message,
    } = check;
    let tone = match severity {
        Severity::Ok => Tone::Good,
        Severity::Warn => Tone::Attention,
        Severity::Fail => Tone::Bad,
    };
    let begin = look.paint(tone, &format!("{severity:4}"));
    look.paragraph(&format!("{begin}  {subject:13}  "), 21, message)
}
