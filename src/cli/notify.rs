//! `notify --test`: checks whether notifications arrive.

use chrono::Utc;
use serde_json::json;

use super::run::make_listeners;
use super::{Exit, fail, print, print_json};
use crate::config::Settings;
use crate::events::Event;
use crate::host;

pub(super) async fn test(settings: &Settings, json: bool) -> Result<Exit, Exit> {
    let listeners = make_listeners(settings)?;
    let mut answers = Vec::new();
    if let Some(webhook) = &listeners.webhook {
        let workload = settings.workload_names.first().map_or("", String::as_str);
        let event = Event::test(&host::name(), workload, Utc::now());
        answers.push(("WEBHOOK_URL", webhook.test(&event).await));
    }
    if let Some(dead_man) = &listeners.dead_man {
        answers.push(("DEADMAN_URL", dead_man.test().await));
    }
    if answers.is_empty() {
        // The warnings may name the setting that is wrong.
        let mut lines = settings.warnings.clone();
        lines.push("no receiver to test: set WEBHOOK_URL or DEADMAN_URL".to_owned());
        return Err(fail(lines.join("\n"), Exit::Config));
    }
    let has_failed = answers.iter().any(|(_, answer)| answer.is_err());
    let printed = if json {
        let answers = answers.into_iter().map(|(variable, answer)| {
            json!({ "receiver": variable, "accepted": answer.is_ok(), "problem": answer.err() })
        });
        print_json(&answers.collect::<Vec<_>>())
    } else {
        let lines = answers.into_iter().map(|(variable, answer)| match answer {
            Ok(()) => format!("{variable}: accepted"),
            Err(problem) => format!("{variable}: {problem}"),
        });
        print(&lines.collect::<Vec<_>>().join("\n"))
    };
    Ok(if has_failed { Exit::NotServed } else { printed })
}
