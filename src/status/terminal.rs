//! The output of `delegate-upgrader status`.

use chrono::{DateTime, Utc};

use crate::rollout::reason::{ReasonKind, count};
use crate::status::Status;
use crate::status::evidence::Evidence;
use crate::status::layout::{Look, Table};
use crate::status::report::DelegateReport;
use crate::status::view::{Headline, Tone, ago, brief, facts, pauses, problems, rough, rows};
use crate::text::Foreign;

/// How many characters of an image reference fit in a row.
const MAX_IMAGE: usize = 40;

/// The state as lines for a terminal.
pub fn text(status: &Status, look: Look, now: DateTime<Utc>) -> String {
    let headline = Headline::of(status, now);
    let painted = |tone: Tone, begin: &str, text: &str| {
        let lines = look.paragraph(begin, 2, text).into_iter();
        lines.map(move |line| look.paint(tone, &line))
    };
    let symbol = format!("{} ", headline.tone.symbol());
    let mut lines: Vec<String> = painted(headline.tone, &symbol, &headline.text).collect();
    let facts: Vec<String> = facts(status, now).into_iter().map(|(fact, _)| fact).collect();
    lines.extend(look.paragraph("  ", 2, &facts.join(", ")));
    for problem in problems(status, now) {
        lines.extend(painted(Tone::Bad, "  ", &problem));
    }
    for pause in pauses(status, now) {
        lines.extend(painted(Tone::Attention, "  ", &pause));
    }
    let rows = rows(status);
    if !rows.is_empty() {
        let mut table = Table::new(&["CONTAINER", "IMAGE", "HEALTH", "STATUS"]);
        for delegate in &rows {
            table.row(Tone::of(delegate), cells(delegate, now));
        }
        lines.push(String::new());
        lines.extend(table.lines(look));
    }
    for delegate in rows {
        lines.extend(details(delegate, look, now));
    }
    lines.join("\n")
}

fn cells(delegate: &DelegateReport, now: DateTime<Utc>) -> Vec<String> {
    let since = delegate.health_since.map(|since| rough(now - since));
    let since = since.map_or_else(String::new, |since| format!(" {since}"));
    vec![
        delegate.container.clone(),
        shortened(&brief(&delegate.image)),
        format!("{}{since}", delegate.health.as_str()),
        with_word(delegate.reason, &delegate.message),
    ]
}

/// A sentence, preceded by the word of its reason, which `explain` accepts.
pub fn with_word(reason: ReasonKind, sentence: &str) -> String {
    format!("{}: {sentence}", reason.as_str())
}

/// The end of a long image reference, since it is more informative than the start.
fn shortened(image: &str) -> String {
    let begin = image.chars().count().saturating_sub(MAX_IMAGE);
    if begin == 0 {
        return image.to_owned();
    }
    let end: String = image.chars().skip(begin + 1).collect();
    format!("…{end}")
}

/// The lines under the table for one delegate: a failing health check, its other blockers, pull, tasks, drains,
/// releases and support, and the evidence on a rejected candidate.
fn details(delegate: &DelegateReport, look: Look, now: DateTime<Utc>) -> Vec<String> {
    let mut lines = Vec::new();
    if Tone::of(delegate) == Tone::Bad {
        lines.push(delegate.health_detail.clone());
        lines.extend(delegate.next_step.clone());
    }
    lines.extend(delegate.other_blockers().map(|also| format!("also {also}")));
    if let Some(pull) = &delegate.pull {
        lines.push(format!("the pull has {pull}"));
    }
    if let Some(tasks) = delegate.tasks.filter(|tasks| *tasks > 0) {
        lines.push(format!("executes {}", count(tasks)));
    }
    for drain in &delegate.draining {
        let tasks = drain.tasks.map_or_else(|| "its tasks".to_owned(), count);
        let left = drain
            .until
            .map(|until| format!(", at most {}", rough(until - now)));
        let left = left.unwrap_or_default();
        lines.push(format!("{} is finishing {tasks}{left}", drain.container));
    }
    lines.extend(delegate.releases());
    let expiry = delegate.expiry.as_ref();
    lines.extend(expiry.and_then(|expiry| expiry.notice(now.date_naive())));
    lines.extend(
        delegate
            .evidence
            .iter()
            .flat_map(|evidence| evidence_lines(evidence, now)),
    );
    let of = |line: String| {
        let text = line.trim_start();
        let (name, indent) = (&delegate.container, line.len() - text.len());
        let begin = format!("  {}: {}", Foreign(name), " ".repeat(indent));
        look.paragraph(&begin, begin.chars().count(), text)
    };
    let mut lines: Vec<String> = lines.into_iter().flat_map(of).collect();
    if !lines.is_empty() {
        lines.insert(0, String::new());
    }
    lines
}

/// The evidence on a rejected candidate.
fn evidence_lines(evidence: &Evidence, now: DateTime<Utc>) -> Vec<String> {
    let outcome = evidence.message.as_deref().or(evidence.ending.as_deref());
    let mut lines = vec![format!(
        "{} ({}, {}): {}",
        evidence.container,
        evidence.image,
        ago(evidence.time, now),
        outcome.unwrap_or("rejected"),
    )];
    let health = evidence.health_log.iter();
    lines.extend(health.map(|line| format!("  health check: {line}")));
    lines.extend(evidence.log_tail.iter().map(|line| format!("  log: {line}")));
    lines
}
