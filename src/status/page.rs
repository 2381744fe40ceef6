//! The status page: what `status` prints, as HTML that reloads itself.

use std::fmt::Write as _;

use crate::status::Status;
use crate::status::evidence::Evidence;
use crate::status::report::{DelegateReport, Report};
use crate::text::time;

const HEAD: &str = "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=10>\
    <title>delegate-upgrader</title><style>body{font:15px/1.5 system-ui,sans-serif;margin:2em;max-width:70em}\
    pre{white-space:pre-wrap;overflow-wrap:anywhere}table{border-collapse:collapse;width:100%}\
    th,td{text-align:left;padding:.4em .8em;border-bottom:1px solid #ddd;vertical-align:top}\
    .healthy{color:#17722f}.unhealthy{color:#b3261e}.starting{color:#8a5a00}</style><h1>delegate-upgrader</h1>";

/// The page. Writing to a `String` cannot fail.
pub fn html(status: &Status) -> String {
    let mut page = HEAD.to_owned();
    let _ = write!(
        page,
        "<p>Version {}, mode {}, schedule <code>{}</code>",
        status.version,
        status.mode.as_str(),
        escaped(&status.schedule)
    );
    if let Some(next) = status.next_run {
        let _ = write!(page, ", next run {}", time::text(next));
    }
    page.push_str(".</p>");
    if let Some(manager) = &status.manager {
        let class = if manager.problem.is_some() {
            " class=unhealthy"
        } else {
            ""
        };
        let _ = write!(page, "<p{class}>{}</p>", escaped(&manager.to_string()));
    }
    if let Some(error) = &status.engine_error {
        let _ = write!(
            page,
            "<p class=unhealthy>Cannot reach the Docker engine: {}</p>",
            escaped(error)
        );
    }
    if let Some(report) = &status.report {
        table(&mut page, report);
    }
    page
}

fn table(page: &mut String, report: &Report) {
    let _ = write!(page, "<p>Observed at {}.</p>", time::text(report.observed_at));
    if report.delegates.is_empty() {
        page.push_str("<p>No container on this host has one of the configured workload names.</p>");
        return;
    }
    page.push_str("<table><tr><th>Container<th>Image<th>Health<th>Status</tr>");
    for delegate in &report.delegates {
        row(page, delegate);
    }
    page.push_str("</table>");
}

fn row(page: &mut String, delegate: &DelegateReport) {
    let health = delegate.health.as_str();
    let _ = write!(
        page,
        "<tr><td>{}<br><small>{} {}</small><td>{}<td class={health}>{health}<br><small>{}</small><td>{}{}</tr>",
        escaped(&delegate.container),
        escaped(&delegate.workload),
        escaped(&delegate.container_id),
        escaped(&delegate.image),
        escaped(&delegate.health_detail),
        escaped(&delegate.message),
        delegate.evidence.as_ref().map(evidence_html).unwrap_or_default(),
    );
}

/// What is known of a rejected candidate, folded up.
fn evidence_html(evidence: &Evidence) -> String {
    let mut text = format!("{} at {}\n", evidence.image, time::text(evidence.time));
    let outcome = evidence.message.iter().chain(&evidence.ending);
    for line in outcome.chain(&evidence.health_log).chain(&evidence.log_tail) {
        text.push_str(line);
        text.push('\n');
    }
    format!(
        "<details><summary>{}</summary><pre>{}</pre></details>",
        escaped(&evidence.container),
        escaped(&text)
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
