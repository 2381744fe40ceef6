//! `plan`: shows what a run would do to each delegate.

use std::io::Write as _;

use super::named_delegate::failed;
use super::run::made;
use super::{Exit, no_engine, print, print_json};
use crate::app;
use crate::config::Settings;
use crate::health::HealthStatus;
use crate::rollout::reason::Reason;
use crate::status::layout::{Look, Table};
use crate::status::planned::Planned;
use crate::status::report::none_found;
use crate::status::terminal::with_word;
use crate::status::view::Tone;

pub(super) async fn plan(settings: &Settings, container: Option<&str>, json: bool) -> Result<Exit, Exit> {
    let mut upgrader = made(app::looking(settings).await)?;
    let plan = upgrader.plan(print_awaited).await;
    let mut plan = plan.map_err(|error| no_engine(&error))?;
    if let Some(container) = container {
        let (name, _) = upgrader.delegate_name(container).await.map_err(failed)?;
        plan.retain(|planned| planned.container == name);
    }
    let nothing = none_found(&settings.workload_names, &upgrader.observer.other_workloads());
    Ok(show(&plan, json, &nothing))
}

/// Prints, to standard error, which answer the plan is waiting for.
pub(super) fn print_awaited(reason: &Reason) {
    let _ = writeln!(std::io::stderr(), "{reason}");
}

/// Prints a plan, or the text `nothing` if no delegate was found.
pub(super) fn show(plan: &[Planned], json: bool, nothing: &str) -> Exit {
    let printed = if json {
        print_json(&plan)
    } else {
        print(&text(plan, nothing))
    };
    match printed {
        Exit::Ok if plan.iter().any(|planned| planned.failed) => Exit::NotServed,
        exit => exit,
    }
}

fn text(plan: &[Planned], nothing: &str) -> String {
    if plan.is_empty() {
        return nothing.to_owned();
    }
    let mut table = Table::new(&["CONTAINER", "HEALTH", "ACTION", "WHAT"]);
    for planned in plan {
        let tone = match planned.action {
            _ if planned.health == HealthStatus::Unhealthy => Tone::Bad,
            _ if planned.failed => Tone::Attention,
            "leave" => Tone::Good,
            _ => Tone::Busy,
        };
        let (name, health) = (planned.container.as_str(), planned.health.as_str());
        let what = planned.reason.map(|reason| with_word(reason, &planned.message));
        let what = what.as_ref().unwrap_or(&planned.message);
        table.row(tone, [name, health, planned.action, what]);
        let others = planned.blockers.iter().skip(1);
        for also in others.filter(|_| planned.action == "leave") {
            table.row(tone, [name, "", "also", &also.to_string()]);
        }
        for warning in &planned.warnings {
            table.row(Tone::Attention, [name, "", "warning", warning]);
        }
    }
    table.lines(Look::of_stdout()).join("\n")
}
