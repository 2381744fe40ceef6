//! `history`: the releases of the delegates.

use super::pause::no_name;
use super::run::looking;
use super::{Exit, print, print_json};
use crate::app;
use crate::config::Settings;
use crate::events::Action;
use crate::events::history::{History, Release};
use crate::status::layout::{Look, Table};
use crate::status::report::none_found;
use crate::status::view::Tone;
use crate::text::time;

pub(super) async fn history(settings: &Settings, container: Option<&str>, json: bool) -> Result<Exit, Exit> {
    app::learn_place(settings).await;
    let mut upgrader = looking(settings).await?;
    let histories = upgrader.history(container, app::records(settings)).await;
    let histories = histories.map_err(no_name)?;
    let is_unlogged = settings.audit.as_ref().is_none_or(|audit| audit.path().is_none());
    let note = is_unlogged.then_some(
        "No audit log can be used here (AUDIT_LOG; that of the package needs sudo), so this is what containers show: the present release, the previous one and what failed last.",
    );
    Ok(show(
        &histories,
        json,
        &none_found(&settings.workload_names, &[]),
        note,
    ))
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
