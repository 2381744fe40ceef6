//! `plan`: what a run would do to each delegate.

use std::io::Write as _;
use std::sync::Arc;

use chrono::Utc;

use super::{Exit, fail, print, print_json};
use crate::app::upgrader;
use crate::config::Settings;
use crate::rollout::reason::Reason;
use crate::status::report::{Planned, none_found};

pub(super) async fn plan(settings: &Settings, json: bool) -> Result<Exit, Exit> {
    // It must not look to the Manager like an upgrader at work.
    let made = upgrader(settings, false, Arc::new(Utc::now)).await;
    let mut upgrader = made.map_err(|error| fail(error, Exit::Config))?;
    let waiting = |reason: &Reason| {
        let _ = writeln!(std::io::stderr(), "{reason}");
    };
    let plan = upgrader.plan(waiting).await;
    let plan = plan.map_err(|error| fail(error, Exit::Unavailable))?;
    let printed = if json {
        print_json(&plan)
    } else {
        print(&text(&plan, &settings.workload_names))
    };
    Ok(match printed {
        Exit::Ok if plan.iter().any(|planned| planned.failed) => Exit::NotServed,
        exit => exit,
    })
}

fn text(plan: &[Planned], workload_names: &[String]) -> String {
    if plan.is_empty() {
        return none_found(workload_names);
    }
    let names = plan.iter().map(|planned| planned.container.len());
    let width = names.max().unwrap_or_default();
    let lines: Vec<String> = plan
        .iter()
        .map(|planned| {
            format!(
                "{:width$}  {:9}  {:8}  {}",
                planned.container,
                planned.health.as_str(),
                planned.action,
                planned.message
            )
        })
        .collect();
    lines.join("\n")
}
