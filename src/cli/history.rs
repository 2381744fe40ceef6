//! `history`: the releases of the delegates.

use std::fs::File;
use std::io::ErrorKind;

use super::named_delegate::failed;
use super::run::made;
use super::{Exit, print, print_json};
use crate::app;
use crate::config::Settings;
use crate::events::Action;
use crate::events::history::{History, Release};
use crate::host::own_container;
use crate::host::place::command;
use crate::status::layout::{Look, Table};
use crate::status::report::none_found;
use crate::status::view::Tone;
use crate::text::time;

pub(super) async fn history(settings: &Settings, container: Option<&str>, json: bool) -> Result<Exit, Exit> {
    let mut upgrader = made(app::looking(settings).await)?;
    let histories = upgrader.history(container, app::records(settings)).await;
    let histories = histories.map_err(failed)?;
    let nothing = none_found(&settings.workload_names, &[]);
    Ok(show(&histories, json, &nothing, note(settings).as_deref()))
}

/// Why the audit log was not read, and what reads it; `None` if it was.
fn note(settings: &Settings) -> Option<String> {
    const SHOWN: &str =
        "so this is what containers show: the present release, the previous one and what failed last";
    let path = settings.audit.readable();
    let opened = path.map(|path| (path, File::open(path)));
    Some(match opened {
        Some((_, Ok(_))) => return None,
        Some((path, Err(error))) if error.kind() != ErrorKind::NotFound => {
            let denied = error.kind() == ErrorKind::PermissionDenied;
            let remedy = match command("history") {
                _ if !denied => String::new(),
                _ if own_container().is_some() => "; the container's user must own it".to_owned(),
                again => format!("; `sudo {}` reads it", again.trim_start_matches("sudo ")),
            };
            let path = path.display();
            format!("The audit log {path} cannot be read ({error}), {SHOWN}{remedy}.")
        }
        // Nothing has been recorded yet.
        Some(_) if settings.audit.path().is_some() => return None,
        _ => format!("No audit log can be read here (AUDIT_LOG), {SHOWN}."),
    })
}

/// Prints the histories and a note, or the text `nothing` if there are none.
pub(super) fn show(histories: &[History], json: bool, nothing: &str, note: Option<&str>) -> Exit {
    if json {
        print_json(&histories)
    } else if histories.is_empty() {
        print(nothing)
    } else {
        print(&text(histories, note))
    }
}

fn text(histories: &[History], note: Option<&str>) -> String {
    let mut table = Table::new(&["CONTAINER", "RELEASE", "WHEN", "IMAGE", "WHAT HAPPENED"]);
    for history in histories {
        for release in &history.releases {
            let cells = vec![
                history.container.clone(),
                release.release.to_string(),
                release.time.map_or_else(|| "–".to_owned(), time::text),
                release.image.clone(),
                what(release),
            ];
            table.row(tone(release), cells);
        }
    }
    let mut lines = table.lines(Look::of_stdout());
    if let Some(note) = note {
        lines.extend([String::new(), note.to_owned()]);
    }
    lines.join("\n")
}

fn what(release: &Release) -> String {
    let mut parts = vec![if release.message.is_empty() {
        release.outcome.to_owned()
    } else {
        release.message.clone()
    }];
    if release.is_serving {
        parts.push("in service".to_owned());
    }
    if release.is_available == Some(false) {
        parts.push("its image is no longer on this host".to_owned());
    }
    parts.join("; ")
}

fn tone(release: &Release) -> Tone {
    match release.outcome {
        outcome if outcome == Action::Rejected.as_str() => Tone::Bad,
        outcome if outcome == Action::Withdrawn.as_str() => Tone::Attention,
        _ => Tone::Good,
    }
}
