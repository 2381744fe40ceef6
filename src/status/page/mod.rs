//! The status page: one HTML file without external parts. It updates itself, but also works without JavaScript.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chrono::{DateTime, Utc};
use ring::digest::{SHA256, digest};

use crate::events::Event;
use crate::events::history::History;
use crate::host::place::command;
use crate::status::Status;
use crate::status::evidence::Evidence;
use crate::status::report::{DelegateReport, Drain};
use crate::status::terminal::with_word;
use crate::status::view::{Headline, Tone, ago, problems, rough, rows, soon};
use crate::text::{Foreign, time};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The value of the `Content-Security-Policy` header: it permits only the page's own style and script, requests to this
/// server, and images embedded in the page.
pub fn content_security_policy() -> String {
    let hash = |text: &str| BASE64_STANDARD.encode(digest(&SHA256, text.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
}

/// The page for the current state. Writing to a `String` cannot fail.
pub fn html(status: &Status, now: DateTime<Utc>) -> String {
    let Headline { tone, text } = Headline::of(status, now);
    let (class, symbol, text, host) = (
        tone.as_str(),
        tone.symbol(),
        escaped(&text),
        escaped(&status.host),
    );
    let mut page = format!(
        "<!doctype html><html lang=en><head><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width,initial-scale=1\"><meta name=color-scheme content=\"light dark\">\
         <title>{symbol} {host}: {text}</title><link rel=icon href=\"data:,\"><style>{STYLE}</style>\
         <noscript><meta http-equiv=refresh content=10></noscript></head>\
         <body><header aria-live=polite data-part=headline><h1 class={class}><small>{host}</small>\
         <span aria-hidden=true>{symbol}</span> {text}.</h1></header><main>\
         <p class=\"problem bad\" id=stale hidden>Connection lost; showing the last known state.</p>"
    );
    facts(&mut page, status, now);
    for problem in problems(status, now) {
        let _ = write!(page, "<p class=\"problem bad\">{}</p>", prose(&problem));
    }
    for delegate in rows(status) {
        article(&mut page, delegate, &status.events, now);
    }
    recently(&mut page, &status.events, now);
    let _ = write!(page, "</main><script>{SCRIPT}</script></body></html>");
    page
}

/// The facts about the host as a whole.
fn facts(page: &mut String, status: &Status, now: DateTime<Utc>) {
    page.push_str("<ul class=facts data-part=facts>");
    let mut fact = |text: String| {
        let _ = write!(page, "<li>{text}</li>");
    };
    if let Some(report) = &status.report {
        fact(format!("observed {}", since(report.observed_at, now)));
    }
    if let Some(next) = status.next_run {
        let schedule = escaped(&status.schedule);
        fact(format!(
            "next run {} (<code>{schedule}</code>)",
            moment(next, now, &soon(next, now))
        ));
    }
    if let Some(at) = status.manager.as_ref().and_then(|manager| manager.answered_at) {
        fact(format!("Manager answered {}", since(at, now)));
    }
    if status.mode == crate::status::Mode::HealthOnly {
        fact("health checks only".to_owned());
    }
    fact(escaped(&status.program()));
    page.push_str("</ul>");
}

fn article(page: &mut String, delegate: &DelegateReport, events: &[Event], now: DateTime<Utc>) {
    let name = escaped(&delegate.container);
    let reason = delegate.reason.as_str();
    let explain = escaped(&command(&format!("explain {reason}")));
    let explain = format!(" title=\"{explain}\"");
    let _ = write!(
        page,
        "<article data-part=\"delegate {name}\"><header><h2>{name}</h2>{}{}<small>{} {}</small></header><dl>",
        badge(Tone::of_health(delegate.health), delegate.health.as_str(), ""),
        badge(Tone::of_action(delegate), reason, &explain),
        escaped(&delegate.workload),
        escaped(&delegate.container_id),
    );
    let mut row = |name: &str, value: String| {
        let _ = write!(page, "<dt>{name}</dt><dd>{value}</dd>");
    };
    row("Status", prose(&delegate.message));
    for also in delegate.other_blockers() {
        row("Also", prose(&with_word(also.reason, &also.message)));
    }
    row("Image", image(delegate));
    if let Some(releases) = releases_html(delegate, events, now) {
        row("Releases", releases);
    }
    if let Some(pull) = &delegate.pull {
        let (percent, image) = (pull.percent(), escaped(&pull.image));
        let bar = format!("<progress max=100 value={percent} aria-label=\"pull of {image}\"></progress>");
        row("Pull", format!("{pull}{bar}"));
    }
    let lasting = delegate.health_since.map(|since| {
        let text = format!("for {} (since {})", rough(now - since), clock(since, now));
        format!(" <small>{}</small>", tagged(since, &text))
    });
    let health = escaped(&delegate.health_detail);
    row("Health", format!("{health}{}", lasting.unwrap_or_default()));
    if let Some(next) = &delegate.next_step {
        row("Next step", prose(next));
    }
    if let Some(tasks) = delegate.tasks {
        let manager = match delegate.connected {
            Some(false) => ", not connected to the Manager",
            _ => "",
        };
        row("Tasks", format!("{tasks}{manager}"));
    }
    for drain in &delegate.draining {
        row("Finishing", drain_html(drain, now));
    }
    if let Some(expiry) = &delegate.expiry {
        let notice = expiry.notice(now.date_naive());
        let text = notice.unwrap_or_else(|| format!("until {}", expiry.support_ends));
        row("Support", escaped(&text));
    }
    if let Some(evidence) = &delegate.evidence {
        row("Rejected", evidence_html(evidence, now));
    }
    page.push_str("</dl></article>");
}

/// The last outcomes, the latest first.
fn recently(page: &mut String, events: &[Event], now: DateTime<Utc>) {
    if events.is_empty() {
        return;
    }
    page.push_str("<article data-part=recently><h2>Recently</h2><dl>");
    for event in events.iter().rev() {
        let (at, container) = (since(event.time, now), escaped(&event.container));
        let message = prose(&event.message);
        let _ = write!(page, "<dt>{at}</dt><dd>{container}: {message}</dd>");
    }
    page.push_str("</dl></article>");
}

fn image(delegate: &DelegateReport) -> String {
    let mut text = escaped(&delegate.image);
    if let (Some(previous), Some(releases)) = (&delegate.previous_image, delegate.releases()) {
        let _ = write!(text, " <small>{releases}, before: {}</small>", escaped(previous));
    }
    text
}

/// The releases among the last outcomes, collapsed; `None` if there are none.
fn releases_html(delegate: &DelegateReport, events: &[Event], now: DateTime<Utc>) -> Option<String> {
    let own = events
        .iter()
        .filter(|event| event.container == delegate.container);
    let releases = History::of(&delegate.container, None, own.cloned().collect()).releases;
    if releases.is_empty() {
        return None;
    }
    let name = escaped(&delegate.container);
    let mut text = format!("<details data-key=\"releases of {name}\"><summary>recent releases</summary><ol>");
    for release in releases.iter().rev() {
        let (number, image) = (release.release, escaped(&release.image));
        let outcome = release.outcome.replace('_', " ");
        let time = release.time.map(|time| format!(" {}", since(time, now)));
        let _ = write!(
            text,
            "<li value={number}>{image} <small>{outcome}{}</small></li>",
            time.unwrap_or_default()
        );
    }
    text.push_str("</ol></details>");
    Some(text)
}

/// A container that is finishing its tasks, with a bar for the time that is left.
fn drain_html(drain: &Drain, now: DateTime<Utc>) -> String {
    let name = escaped(&drain.container);
    let tasks = drain.tasks.map(crate::rollout::reason::count);
    let mut text = format!("{name}: {}", tasks.as_deref().unwrap_or("its tasks"));
    if let (Some(since), Some(until)) = (drain.since, drain.until) {
        let (all, over) = ((until - since).num_seconds().max(1), (now - since).num_seconds());
        let left = format!("{} left (until {})", rough(until - now), clock(until, now));
        let _ = write!(
            text,
            ", {}<progress max={all} value={} aria-label=\"time used by {name}\"></progress>",
            tagged(until, &left),
            over.clamp(0, all)
        );
    }
    text
}

/// The evidence on a rejected candidate, collapsed.
fn evidence_html(evidence: &Evidence, now: DateTime<Utc>) -> String {
    let outcome = evidence.message.as_deref().or(evidence.ending.as_deref());
    let mut text = String::new();
    for line in evidence.health_log.iter().chain(&evidence.log_tail) {
        text.push_str(&escaped(line));
        text.push('\n');
    }
    let (container, outcome) = (
        escaped(&evidence.container),
        escaped(outcome.unwrap_or("rejected")),
    );
    let begin = format!(
        "{}, {}: {outcome}",
        escaped(&evidence.image),
        since(evidence.time, now)
    );
    if text.is_empty() {
        return begin;
    }
    format!(
        "{begin}<details data-key=\"{container}\"><summary>last lines of {container}</summary><pre>{text}</pre></details>"
    )
}

/// A time in the past: how long ago it was, and the clock time.
fn since(time: DateTime<Utc>, now: DateTime<Utc>) -> String {
    moment(time, now, &ago(time, now))
}

/// A time described with these words, followed by the clock time.
fn moment(at: DateTime<Utc>, now: DateTime<Utc>, words: &str) -> String {
    tagged(at, &format!("{words} ({})", clock(at, now)))
}

fn tagged(at: DateTime<Utc>, words: &str) -> String {
    format!("<time datetime={}>{words}</time>", time::text(at))
}

/// The clock time to the minute, with the date unless it is today.
fn clock(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let (at, now) = (time::text(at), time::text(now));
    let begin = if at.get(..10) == now.get(..10) { 11 } else { 0 };
    let text = at.get(begin..16).unwrap_or_default();
    format!("{}&nbsp;UTC", text.replace('T', "&nbsp;"))
}

/// One word in the colour of its tone, with its symbol.
fn badge(tone: Tone, word: &str, title: &str) -> String {
    let (class, symbol) = (tone.as_str(), tone.symbol());
    format!("<span class=\"badge {class}\"{title}><span aria-hidden=true>{symbol}</span> {word}</span>")
}

/// A sentence in which commands are in backticks.
fn prose(text: &str) -> String {
    let mut html = String::new();
    for (number, part) in text.split('`').enumerate() {
        let part = escaped(part);
        if number % 2 == 0 {
            html.push_str(&part);
        } else {
            let _ = write!(html, "<code>{part}</code>");
        }
    }
    html
}

fn escaped(text: &str) -> String {
    Foreign(text)
        .to_string()
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
