//! An event in words, for messages to people. Each format escapes them in its own way.

use crate::events::{Action, Event};
use crate::text::one_line;

/// The maximum length of a message, in characters.
const MAX_MESSAGE: usize = 1000;
/// The maximum length of a fact, in characters.
const MAX_FACT: usize = 300;

/// The parts of a message.
pub(super) struct Words {
    /// A symbol, the outcome, and the name of the container.
    pub(super) title: String,
    /// The event's sentence.
    pub(super) message: String,
    /// Names and values for further details.
    pub(super) facts: Vec<(&'static str, String)>,
}

impl Words {
    pub(super) fn of(event: &Event) -> Self {
        let container = one_line(event.subject(), MAX_FACT);
        let cut = event.tasks_cut_short.map(|tasks| tasks.to_string());
        let facts = [
            ("Host", Some(event.host.clone())),
            ("Workload", Some(event.workload.clone())),
            ("Container", Some(event.container.clone())),
            ("Image", image(event)),
            ("Time", Some(event.seconds.words())),
            ("Tasks cut short", cut),
        ];
        let is_there = |value: &String| !value.is_empty();
        Self {
            title: format!("{}: {container}", heading(event)),
            message: one_line(&event.message, MAX_MESSAGE),
            facts: facts
                .into_iter()
                .filter_map(|(name, value)| Some((name, one_line(&value.filter(is_there)?, MAX_FACT))))
                .collect(),
        }
    }
}

fn heading(event: &Event) -> &'static str {
    match event.action {
        Action::Skipped if event.resolved => "✅ No longer held up",
        Action::Upgraded => "✅ Upgraded",
        Action::Rejected => "❌ New image rejected",
        Action::Withdrawn => "⚠️ New container withdrawn",
        Action::RolledBack => "✅ Rolled back",
        Action::Reconfigured => "✅ Reconfigured",
        Action::Restored => "⚠️ Old container restored",
        Action::Restarted => "⚠️ Restarted",
        Action::HealthLost => "❌ Not healthy",
        Action::HealthRegained => "✅ Healthy again",
        Action::ImageRemoved => "🧹 Old image removed",
        Action::Skipped => "⚠️ Not upgraded",
        Action::Paused => "⏸️ Paused",
        Action::Resumed => "▶️ Resumed",
        Action::SelfUpgraded => "✅ Upgrader upgraded",
        Action::Test => "✅ Test",
    }
}

fn image(event: &Event) -> Option<String> {
    match (&event.from, &event.to) {
        (Some(from), Some(to)) => Some(format!("{from} → {to}")),
        (image, None) | (None, image) => image.clone(),
    }
}
