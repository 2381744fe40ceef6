//! What `delegate-upgrader status` prints.

use chrono::Utc;

use crate::status::Status;
use crate::status::evidence::Evidence;
use crate::status::report::DelegateReport;
use crate::text::time;

/// The state as lines for a terminal.
pub fn text(status: &Status) -> String {
    let next_run = status.next_run.map_or_else(|| "-".to_owned(), time::text);
    let mut lines = vec![format!(
        "delegate-upgrader {}, mode {}, schedule {:?}, next run {next_run}",
        status.version,
        status.mode.as_str(),
        status.schedule,
    )];
    lines.extend(
        status
            .engine_error
            .iter()
            .map(|error| format!("Cannot reach the Docker engine: {error}")),
    );
    lines.extend(status.manager.as_ref().map(ToString::to_string));
    for delegate in status.report.iter().flat_map(|report| &report.delegates) {
        lines.extend(delegate_lines(delegate));
    }
    lines.join("\n")
}

fn delegate_lines(delegate: &DelegateReport) -> Vec<String> {
    let mut lines = vec![format!(
        "{}  {}  {} ({})  {}",
        delegate.container,
        delegate.image,
        delegate.health.as_str(),
        delegate.health_detail,
        delegate.message,
    )];
    let today = Utc::now().date_naive();
    let notice = delegate.expiry.as_ref().and_then(|expiry| expiry.notice(today));
    lines.extend(notice.map(|notice| format!("  {notice}")));
    lines.extend(delegate.evidence.iter().flat_map(evidence_lines));
    lines
}

/// What is known of a rejected candidate.
fn evidence_lines(evidence: &Evidence) -> Vec<String> {
    let outcome = evidence.message.as_deref().or(evidence.ending.as_deref());
    let mut lines = vec![format!(
        "  {} ({}, {}): {}",
        evidence.container,
        evidence.image,
        time::text(evidence.time),
        outcome.unwrap_or("rejected"),
    )];
    let health = evidence.health_log.iter();
    lines.extend(health.map(|line| format!("    health check: {line}")));
    lines.extend(evidence.log_tail.iter().map(|line| format!("    log: {line}")));
    lines
}
