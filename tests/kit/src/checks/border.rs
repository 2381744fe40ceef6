//! The rules for foreign text wherever it leaves the program, and for the times and durations in it.

use chrono::{DateTime, Utc};
use delegate_upgrader::config::WebhookFormat;
use delegate_upgrader::container::{Inspected, Role};
use delegate_upgrader::events::Event;
use delegate_upgrader::events::webhook::{WebhookCounts, body};
use delegate_upgrader::manager::ManagerStatus;
use delegate_upgrader::rollout::reason::Reason;
use delegate_upgrader::rollout::{Blocker, BlockerKind, PullState};
use delegate_upgrader::schedule::until;
use delegate_upgrader::schedule::zone::Zone;
use delegate_upgrader::status::evidence::Evidence;
use delegate_upgrader::status::layout::{Look, Table};
use delegate_upgrader::status::report::{DelegateReport, Drain, Report};
use delegate_upgrader::status::view::Tone;
use delegate_upgrader::status::{Mode, Status, metrics, page, terminal};
use delegate_upgrader::text::{Foreign, duration, foreign, json as json_text, time};
use serde_json::{Value, json};

/// Characters that control a terminal or change the writing direction; line breaks have their own rule.
fn steers(c: char) -> bool {
    (c.is_control() && c != '\n') || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn assert_shown(exit: &str, text: &str) {
    let found = text.find(steers);
    assert!(found.is_none(), "{exit}: {:?}", found.map(|at| &text[at..]));
}

/// Checks one text.
pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let shown = Foreign(&text).to_string();
    assert_shown("text", &shown);
    assert!(!shown.contains('\n') && shown.chars().count() <= foreign::LONGEST * 12);
    numbers(&text);
    for (exit, shown) in exits(&text) {
        assert_shown(exit, &shown);
    }
}

/// The sum of its durations and times does not overflow.
fn numbers(text: &str) {
    let last = DateTime::<Utc>::MAX_UTC - duration::span(std::time::Duration::MAX) * 2;
    let time = time::parse(text).unwrap_or_default().min(last);
    let span = duration::span(duration::parse(text).unwrap_or_default());
    let _ = time::text(time + span + span);
    assert!(duration::foreign(text).is_none_or(|read| read <= duration::LONGEST && !read.is_zero()));
    if let (_, Role::Draining { since } | Role::Withdrawn { since }) = Role::parse(text) {
        let _ = DateTime::from_timestamp(since, 0).expect("a time") + span;
    }
    for zone in ["America/Los_Angeles", "Pacific/Kiritimati"]
        .into_iter()
        .filter_map(Zone::named)
    {
        let _ = until::parse(text, &zone).map(|moment| time::text(moment + span));
    }
    let number: Value = text.trim().parse::<i64>().map_or(Value::Null, Value::from);
    let document = json!({
        "Id": "1", "Created": text, "State": { "StartedAt": text, "FinishedAt": text }, "Config": { "StopTimeout": number },
    });
    let container = Inspected::new(document).expect("it has an id");
    let times = [
        container.created_at(),
        container.started_at(),
        container.finished_at(),
    ];
    for time in times.into_iter().flatten() {
        let _ = time + duration::span(container.stop_timeout().unwrap_or_default()) + span;
    }
}

/// The exits, with this text wherever one may occur.
fn exits(text: &str) -> Vec<(&'static str, String)> {
    let mut look = Table::new(&["CONTAINER", "STATUS"]);
    look.row(Tone::Bad, vec![text.to_owned(), text.to_owned()]);
    let mut exits = vec![
        ("table", look.lines(Look::default()).join("\n")),
        ("paragraph", Look::default().paragraph("", 0, text).join("\n")),
        ("terminal", foreign::lines(text)),
    ];
    // A table has as many lines as rows.
    assert_eq!(exits[0].1.matches('\n').count(), 1);
    assert_eq!(exits[1].1.matches('\n').count(), 0);
    // The escapes of its colours are the program's own.
    exits[2].1 = exits[2].1.replace('\u{1b}', "");
    let now = "2026-11-21T05:20:00Z".parse().expect("a time");
    let quiet = terminal::text(&status("x"), Look::default(), now);
    let status = status(text);
    let lines = terminal::text(&status, Look::default(), now);
    assert_eq!(lines.lines().count(), quiet.lines().count(), "{lines}");
    exits.extend([
        ("status", lines),
        ("page", page::html(&status, now)),
        ("metrics", metrics::text(&status)),
        ("JSON", json_text::indented(&status)),
    ]);
    let event = event(text);
    exits.push(("event", json_text::text(&event)));
    let template =
        WebhookFormat::Template("{\"title\":\"{title}\",\"{message}\":\"{host}{workload}\"}".to_owned());
    for format in [
        WebhookFormat::CloudEvents,
        WebhookFormat::Slack,
        WebhookFormat::Teams,
        template,
    ] {
        exits.push(("webhook", body(&format, &event)));
    }
    exits
}

/// An event with this text in each field.
fn event(text: &str) -> Event {
    let event = json!({
        "id": text, "time": "2026-11-21T05:00:00Z", "host": text, "version": text, "actor": "SYSTEM",
        "action": "rejected", "workload": text, "container": text, "container_id": text, "from": text, "to": text,
        "image_id": text, "previous_image_id": text, "reason": text, "message": text, "seconds": {}, "release": 2,
    });
    serde_json::from_value(event).expect("the document has the right form")
}

/// A status with this text in each field.
fn status(text: &str) -> Status {
    let (text, now) = (|| text.to_owned(), DateTime::UNIX_EPOCH);
    let reason = Reason::Snoozed {
        image: text(),
        until: now,
    };
    let delegate = DelegateReport {
        container: text(),
        workload: text(),
        container_id: text(),
        image: text(),
        previous_image: Some(text()),
        release: 3,
        health_detail: text(),
        message: text(),
        failed: true,
        pull: Some(PullState {
            image: text(),
            current: 1,
            total: 2,
            rate: 1,
            eta: None,
        }),
        draining: vec![Drain {
            container: text(),
            tasks: Some(2),
            since: None,
            until: Some(now),
        }],
        evidence: Some(Evidence {
            container: text(),
            image: text(),
            message: Some(text()),
            ending: Some(text()),
            health_log: vec![text()],
            log_tail: vec![text()],
            ..Evidence::default()
        }),
        blockers: vec![Blocker {
            reason,
            until: None,
            kind: BlockerKind::Time,
        }],
        ..DelegateReport::default()
    };
    let mut report = Report::new(now);
    report.delegates.push(delegate);
    let mut status = Status::new(Mode::Upgrade, &text(), now);
    status.host = text();
    status.engine_error = Some(text());
    status.manager = Some(ManagerStatus {
        problem: Some(text()),
        ..ManagerStatus::default()
    });
    status.webhook = Some(WebhookCounts {
        last_error: Some(text()),
        failing_since: Some(now),
        ..WebhookCounts::default()
    });
    status.report = Some(report);
    status.tally.events.push(event(&text()));
    status
}
