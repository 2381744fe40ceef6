//! The status page: one HTML file without external parts. It updates itself, but also works without JavaScript.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chrono::{DateTime, Utc};
use ring::digest::{SHA256, digest};

use crate::events::Event;
use crate::events::history::releases_of;
use crate::host::place::command;
use crate::image::Expiry;
use crate::rollout::reason::{REFERENCE, ReasonKind};
use crate::schedule::zone::Zone;
use crate::status::Status;
use crate::status::evidence::Evidence;
use crate::status::next_upgrade::clock;
use crate::status::report::{DelegateReport, Drain};
use crate::status::view::{Headline, Tone, ago, brief, facts, pauses, problems, rough, rows};
use crate::text::{Foreign, time};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Above this number of rows, those about which there is nothing to say are one line each.
const MAX_CARDS: usize = 3;

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
    let clock = Clock {
        zone: &status.zone,
        now,
    };
    // Only the first statement is read out when it changes: the others may count down.
    let (first, others) = text.split_at(text.find("; ").unwrap_or(text.len()));
    let (symbol, host) = (tone.symbol(), escaped(&status.host));
    let (first, others) = (escaped(first), escaped(others));
    let mut page = format!(
        "<!doctype html><html lang=en><head><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width,initial-scale=1\"><meta name=color-scheme content=\"light dark\">\
         <title>{symbol} {host}: {first}{others}</title><link rel=icon href=\"{}\"><style>{STYLE}</style>\
         <noscript><meta http-equiv=refresh content=10></noscript></head>\
         <body><header><h1 class={tone}><small>{host}</small><span aria-hidden=true data-part=symbol>{symbol}</span> \
         <span aria-live=polite data-part=headline>{first}</span><span data-part=more>{others}</span>.</h1></header><main>\
         <p class=\"problem bad\" id=stale hidden>Connection lost; showing the last known state.</p>",
        icon(tone)
    );
    page.push_str("<ul class=facts data-part=facts>");
    for (fact, at) in facts(status, now) {
        let at = at.map(|at| format!(", at {}", tagged(at, &clock.words(at))));
        let _ = write!(page, "<li>{}{}</li>", escaped(&fact), at.unwrap_or_default());
    }
    let _ = write!(
        page,
        "<li>times in {}</li></ul><div data-part=problems>",
        clock.zone
    );
    for problem in problems(status, now) {
        let _ = write!(page, "<p class=\"problem bad\">{}</p>", clock.prose(&problem));
    }
    for pause in pauses(status, now) {
        let _ = write!(page, "<p class=\"problem attention\">{}</p>", clock.prose(&pause));
    }
    page.push_str("</div>");
    let all = rows(status);
    let is_short = |delegate: &&DelegateReport| all.len() > MAX_CARDS && is_plain(delegate, now);
    let (short, cards): (Vec<&DelegateReport>, Vec<_>) = all.iter().partition(|row| is_short(row));
    for delegate in cards {
        let (name, head) = (escaped(&delegate.container), head(delegate, clock));
        let _ = write!(
            page,
            "<article data-part=\"delegate {name}\"><header>{head}</header>"
        );
        body(&mut page, delegate, &status.tally.events, clock);
        page.push_str("</article>");
    }
    if !short.is_empty() {
        page.push_str("<article class=rows data-part=rows>");
        for delegate in short {
            let (name, head) = (escaped(&delegate.container), head(delegate, clock));
            let image = reference(&brief(&delegate.image));
            let _ = write!(
                page,
                "<details data-key=\"row of {name}\"><summary>{head}<span>{image}</span></summary>"
            );
            body(&mut page, delegate, &status.tally.events, clock);
            page.push_str("</details>");
        }
        page.push_str("</article>");
    }
    recently(&mut page, &status.tally.events, clock);
    let _ = write!(page, "</main><script>{SCRIPT}</script></body></html>");
    page
}

/// Whether there is nothing to say about it that its row does not show.
fn is_plain(delegate: &DelegateReport, now: DateTime<Utc>) -> bool {
    let notice = |expiry: &Expiry| expiry.notice(now.date_naive());
    Tone::of(delegate) == Tone::Good
        && delegate.pull.is_none()
        && delegate.draining.is_empty()
        && delegate.evidence.is_none()
        && delegate.connected != Some(false)
        && delegate.expiry.as_ref().and_then(notice).is_none()
}

fn icon(tone: Tone) -> String {
    let colour = match tone {
        Tone::Good => "#1b7a3a",
        Tone::Busy => "#1d5fb0",
        Tone::Attention => "#a85b00",
        Tone::Bad => "#b3261e",
    };
    let svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'><circle cx='8' cy='8' r='8' fill='{colour}'/>\
         <text x='8' y='12' text-anchor='middle' font-family='sans-serif' font-size='12' fill='#fff'>{}</text></svg>",
        tone.symbol()
    );
    format!("data:image/svg+xml;base64,{}", BASE64_STANDARD.encode(svg))
}

/// The name of a delegate, its health, and what happens to it.
fn head(delegate: &DelegateReport, clock: Clock<'_>) -> String {
    let lasting = delegate.health_since.map(|since| rough(clock.now - since));
    format!(
        "<h2>{}</h2><span>{} <small>{}</small></span>{}",
        escaped(&delegate.container),
        badge(Tone::of_health(delegate.health), delegate.health.as_str()),
        lasting.unwrap_or_default(),
        badge(Tone::of_action(delegate), delegate.reason.as_str()),
    )
}

fn body(page: &mut String, delegate: &DelegateReport, events: &[Event], clock: Clock<'_>) {
    let now = clock.now;
    page.push_str("<dl>");
    let mut row = |name: &str, value: String| {
        let _ = write!(page, "<dt>{name}</dt><dd>{value}</dd>");
    };
    let explained = |reason: ReasonKind, text: &str| {
        let (text, meaning) = (
            clock.prose(text),
            clock.prose(&meaning(reason, &delegate.container)),
        );
        let (word, name) = (reason.as_str(), escaped(&delegate.container));
        format!(
            "{text}<details data-key=\"{word} of {name}\"><summary>what {word} means</summary>{meaning}</details>"
        )
    };
    row("Status", explained(delegate.reason, &delegate.message));
    for also in delegate.other_blockers() {
        row("Also", explained(also.reason.kind(), &also.to_string()));
    }
    if let Some(next) = &delegate.next_step {
        row("Next step", clock.prose(next));
    }
    row("Image", image(delegate));
    if let Some(releases) = releases_html(delegate, events, clock) {
        row("Releases", releases);
    }
    if let Some(pull) = &delegate.pull {
        let (percent, image) = (pull.percent(), escaped(&pull.image));
        let bar = format!("<progress max=100 value={percent} aria-label=\"pull of {image}\"></progress>");
        row("Pull", format!("{pull}{bar}"));
    }
    let lasting = delegate.health_since.map(|since| {
        let text = format!("for {} (since {})", rough(now - since), clock.words(since));
        format!(" <small>{}</small>", tagged(since, &text))
    });
    let health = escaped(&delegate.health_detail);
    row("Health", format!("{health}{}", lasting.unwrap_or_default()));
    if let Some(tasks) = delegate.tasks {
        let manager = match delegate.connected {
            Some(false) => ", not connected to the Manager",
            _ => "",
        };
        row("Tasks", format!("{tasks}{manager}"));
    }
    for drain in &delegate.draining {
        row("Finishing", drain_html(drain, clock));
    }
    if let Some(expiry) = &delegate.expiry {
        let notice = expiry.notice(now.date_naive());
        let text = notice.unwrap_or_else(|| format!("until {}{}", expiry.about(), expiry.support_ends));
        row("Support", escaped(&text));
    }
    if let Some(evidence) = &delegate.evidence {
        row("Rejected", evidence_html(evidence, clock));
    }
    let (workload, id) = (escaped(&delegate.workload), escaped(&delegate.container_id));
    row("Workload", format!("{workload} <small>{id}</small>"));
    page.push_str("</dl>");
}

/// The last outcomes, the latest first.
fn recently(page: &mut String, events: &[Event], clock: Clock<'_>) {
    if events.is_empty() {
        return;
    }
    page.push_str("<article data-part=recently><h2>Recently</h2><dl>");
    for event in events.iter().rev() {
        let (at, container) = (clock.since(event.time), escaped(event.subject()));
        let message = clock.prose(&event.message);
        let _ = write!(page, "<dt>{at}</dt><dd>{container}: {message}</dd>");
    }
    page.push_str("</dl></article>");
}

fn image(delegate: &DelegateReport) -> String {
    let mut text = reference(&delegate.image);
    if let (Some(previous), Some(releases)) = (&delegate.previous_image, delegate.releases()) {
        let _ = write!(
            text,
            " <small>{releases}, before: {}</small>",
            reference(previous)
        );
    }
    text
}

/// The releases among the last outcomes, collapsed; `None` if there are none.
fn releases_html(delegate: &DelegateReport, events: &[Event], clock: Clock<'_>) -> Option<String> {
    let own = events
        .iter()
        .filter(|event| event.container == delegate.container);
    let releases = releases_of(own, None);
    if releases.is_empty() {
        return None;
    }
    let name = escaped(&delegate.container);
    let mut text = format!("<details data-key=\"releases of {name}\"><summary>recent releases</summary><ol>");
    for release in releases.iter().rev() {
        let (number, image) = (release.release, reference(&release.image));
        let outcome = release.outcome.replace('_', " ");
        let time = release.time.map(|time| format!(" {}", clock.since(time)));
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
fn drain_html(drain: &Drain, clock: Clock<'_>) -> String {
    let now = clock.now;
    let name = escaped(&drain.container);
    let tasks = drain.tasks.map(crate::rollout::reason::count);
    let mut text = format!("{name}: {}", tasks.as_deref().unwrap_or("its tasks"));
    if let (Some(since), Some(until)) = (drain.since, drain.until) {
        let (all, over) = ((until - since).num_seconds().max(1), (now - since).num_seconds());
        let left = format!("at most {} (until {})", rough(until - now), clock.words(until));
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
fn evidence_html(evidence: &Evidence, clock: Clock<'_>) -> String {
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
        reference(&evidence.image),
        clock.since(evidence.time)
    );
    if text.is_empty() {
        return begin;
    }
    format!(
        "{begin}<details data-key=\"{container}\"><summary>last lines of {container}</summary><pre>{text}</pre></details>"
    )
}

/// Shows times in this zone, and how far they are from now.
#[derive(Clone, Copy)]
struct Clock<'a> {
    zone: &'a Zone,
    now: DateTime<Utc>,
}

impl Clock<'_> {
    /// The local time, with day or date unless it is today.
    fn words(self, at: DateTime<Utc>) -> String {
        clock(self.zone, at, self.now).replace(' ', "&nbsp;")
    }

    /// A time in the past: how long ago it was, and the local time.
    fn since(self, at: DateTime<Utc>) -> String {
        tagged(at, &format!("{} ({})", ago(at, self.now), self.words(at)))
    }

    /// A sentence in which commands and names are in backticks, and times are in UTC.
    fn prose(self, text: &str) -> String {
        let mut html = String::new();
        for (number, part) in text.split('`').enumerate() {
            if number % 2 == 0 {
                let is_end = |c: char| !(c.is_ascii_digit() || "T:-Z".contains(c));
                for word in part.split_inclusive(is_end) {
                    let end = word.rfind('Z').map_or(0, |at| at + 1);
                    match time::parse(word.get(..end).unwrap_or_default()) {
                        Some(at) => html.push_str(&tagged(at, &self.words(at))),
                        None => html.push_str(&escaped(word.get(..end).unwrap_or_default())),
                    }
                    html.push_str(&escaped(word.get(end..).unwrap_or_default()));
                }
                continue;
            }
            let _ = write!(html, "<code>{}</code>", escaped(part));
            if part.contains(' ') {
                html.push_str("<button>copy</button>");
            }
        }
        html
    }
}

/// The meaning of a reason by the reference, and what to do about this delegate.
fn meaning(reason: ReasonKind, delegate: &str) -> String {
    let heading = format!("\n### `{}`\n", reason.as_str());
    let (_, entry) = REFERENCE.split_once(&heading).unwrap_or_default();
    let entry = entry.split("\n#").next().unwrap_or_default();
    // Leave out the example, and the page to see.
    let lines = entry
        .lines()
        .filter(|line| !line.starts_with("    ") && !line.starts_with("<!--"));
    let text = lines.collect::<Vec<_>>().join(" ");
    let text = text.split(" See [").next().unwrap_or_default().trim();
    text.replace("**", "")
        .replace("`delegate-upgrader ", &format!("`{}", command("")))
        .replace(" NAME`", &format!(" {delegate}`"))
}

fn tagged(at: DateTime<Utc>, words: &str) -> String {
    format!("<time datetime={}>{words}</time>", time::text(at))
}

/// An image, which breaks between its parts only, or in a digest.
fn reference(image: &str) -> String {
    let (image, digest) = image.split_at(image.find('@').unwrap_or(image.len()));
    let (name, tag) = image.split_at(image.rfind(['/', ':']).map_or(0, |at| at + 1));
    let name = escaped(name).replace('/', "/<wbr>").replace(':', ":<wbr>");
    format!(
        "{name}<span class=part>{}</span>{}",
        escaped(tag),
        escaped(digest)
    )
}

/// One word in the colour of its tone, with its symbol.
fn badge(tone: Tone, word: &str) -> String {
    let symbol = tone.symbol();
    format!("<span class=\"badge {tone}\"><span aria-hidden=true>{symbol}</span> {word}</span>")
}

fn escaped(text: &str) -> String {
    Foreign(text)
        .to_string()
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
