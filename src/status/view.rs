//! The wording that the page and the terminal share: the headline, which tells whether all is well, and times as people
//! say them.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use chrono::{DateTime, TimeDelta, Utc};

use crate::events::audit::Unwritten;
use crate::health::HealthStatus;
use crate::host::hold::Paused;
use crate::host::place::command;
use crate::image::Version;
use crate::rollout::reason::{ReasonKind, count};
use crate::status::report::{DelegateReport, Report};
use crate::status::{Mode, Status};

/// How good or bad the state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Tone {
    /// There is nothing to do.
    Good,
    /// Something is in progress, or is not known yet.
    Busy,
    /// Someone should have a look.
    Attention,
    /// Something does not work.
    Bad,
}

impl Tone {
    /// A symbol, so that the tone is clear without its colour.
    pub fn symbol(self) -> char {
        match self {
            Self::Good => '✓',
            Self::Busy => '…',
            Self::Attention => '!',
            Self::Bad => '✗',
        }
    }

    /// The tone of one delegate.
    pub fn of(delegate: &DelegateReport) -> Self {
        if delegate.reason == ReasonKind::NotADelegate {
            return Self::Good;
        }
        Self::of_health(delegate.health).max(Self::of_action(delegate))
    }

    /// The tone of a health status.
    pub fn of_health(health: HealthStatus) -> Self {
        match health {
            HealthStatus::Healthy => Self::Good,
            HealthStatus::Starting => Self::Busy,
            HealthStatus::Unhealthy => Self::Bad,
        }
    }

    /// The tone of the action on a delegate, or of the reason why there is none.
    pub fn of_action(delegate: &DelegateReport) -> Self {
        match (delegate.failed, delegate.in_progress, delegate.health) {
            (true, ..) => Self::Attention,
            (_, true, _) => Self::Busy,
            // No green beside a delegate that is unhealthy.
            (.., HealthStatus::Unhealthy) => Self::Attention,
            _ => Self::Good,
        }
    }
}

/// The rows of a report. Those that need attention come first.
pub fn rows(status: &Status) -> Vec<&DelegateReport> {
    let mut rows: Vec<_> = status.report.iter().flat_map(Report::rows).collect();
    rows.sort_by_key(|delegate| Reverse(Tone::of(delegate)));
    rows
}

/// The problems of the host as a whole, each as a sentence.
pub fn problems(status: &Status, now: DateTime<Utc>) -> Vec<String> {
    let manager = status.manager.iter().filter(|manager| manager.problem.is_some());
    let mut problems: Vec<String> = status.engine_error.iter().cloned().collect();
    problems.extend(
        status
            .report
            .iter()
            .filter_map(|report| report.none_found.clone()),
    );
    problems.extend(manager.map(ToString::to_string));
    problems.extend(delivery_problems(status, now));
    problems
}

/// The pauses that hold, each as a sentence.
pub fn pauses(status: &Status, now: DateTime<Utc>) -> impl Iterator<Item = String> {
    Paused::lasting(&status.pauses, now).map(ToString::to_string)
}

/// The receivers and the log that take nothing now, each as a sentence that begins with its setting.
pub fn delivery_problems(status: &Status, now: DateTime<Utc>) -> Vec<String> {
    let (webhook, dead_man) = (status.webhook.iter(), status.dead_man.iter());
    let webhook = webhook.map(|it| ("WEBHOOK_URL", &it.last_error, it.failing_since));
    let dead_man = dead_man.map(|it| ("DEADMAN_URL", &it.last_error, it.failing_since));
    let failing = webhook.chain(dead_man).filter_map(|(setting, problem, since)| {
        let (problem, lasts, test) = (problem.as_ref()?, rough(now - since?), command("notify --test"));
        Some(format!(
            "{setting}: nothing was accepted for {lasts}: {problem}; `{test}` tries it, and the next success ends this"
        ))
    });
    let unwritten = status.audit_log.iter().filter(|unwritten| unwritten.waiting > 0);
    let audit = unwritten.map(|Unwritten { waiting, problem, .. }| {
        let problem = problem.as_deref().unwrap_or("its disk does not answer");
        format!("AUDIT_LOG: {waiting} of its records wait in memory, which a restart loses: {problem}")
    });
    failing.chain(audit).collect()
}

/// The facts about the host as a whole, each with the time that it is about.
pub fn facts(status: &Status, now: DateTime<Utc>) -> Vec<(String, Option<DateTime<Utc>>)> {
    let mut facts = vec![(format!("{} on {}", status.program(), status.host), None)];
    if status.mode == Mode::HealthOnly {
        facts.push(("health checks only".to_owned(), None));
    }
    if let Some(next) = status.next_run {
        let text = format!("next run {} ({})", soon(next, now), status.schedule);
        facts.push((text, Some(next)));
    }
    facts.extend(status.timing.iter().map(|setting| (setting.clone(), None)));
    if let Some(Report { observed_at: at, .. }) = status.report {
        facts.push((format!("observed {}", ago(at, now)), Some(at)));
    }
    let manager = status.manager.as_ref();
    if let Some(at) = manager.and_then(|manager| manager.answered_at) {
        facts.push((format!("Manager answered {}", ago(at, now)), Some(at)));
    }
    let published: BTreeSet<&String> = manager.iter().flat_map(|it| it.published.values()).collect();
    facts.extend(
        published
            .into_iter()
            .map(|image| (format!("published: {image}"), None)),
    );
    facts
}

/// The state of the whole host in one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headline {
    /// How good or bad it is.
    pub tone: Tone,
    /// The sentence, without a full stop.
    pub text: String,
}

impl Headline {
    /// Answers "is all well, what is in progress, and when is the next upgrade?".
    pub fn of(status: &Status, now: DateTime<Utc>) -> Self {
        let next = status
            .next_upgrade
            .as_ref()
            .filter(|_| status.engine_error.is_none());
        let next = next.map(|next| format!("next upgrade: {}", next.text));
        let (mut tone, mut parts) = match (&status.engine_error, &status.report) {
            (Some(_), report) => {
                let seen = report.as_ref().map(|report| report.observed_at);
                let seen = seen.map(|at| format!("last seen {}", ago(at, now)));
                let begin = "The Docker engine cannot be reached".to_owned();
                (Tone::Bad, [Some(begin), seen].into_iter().flatten().collect())
            }
            (None, None) => (Tone::Busy, vec!["Observing the delegates".to_owned()]),
            (None, Some(report)) if report.delegates.is_empty() => {
                (Tone::Attention, vec!["No delegate was found".to_owned()])
            }
            (None, Some(report)) => {
                let worst = report.delegates.iter().map(Tone::of).max();
                (worst.unwrap_or(Tone::Good), parts(report, now))
            }
        };
        let failing = delivery_problems(status, now);
        if !failing.is_empty() {
            let names: Vec<&str> = failing.iter().filter_map(|text| text.split(':').next()).collect();
            parts.push(format!("failing: {}", names.join(", ")));
            tone = tone.max(Tone::Attention);
        }
        parts.extend(next);
        let text = parts.join("; ");
        Self { tone, text }
    }
}

/// Statements about the delegates. The most important come first.
fn parts(report: &Report, now: DateTime<Utc>) -> Vec<String> {
    let delegates = report.counted();
    let those = |is_one: fn(&DelegateReport) -> bool| -> Vec<&DelegateReport> {
        let all = delegates.iter().copied();
        all.filter(|delegate| is_one(delegate)).collect()
    };
    let failed = those(|delegate| delegate.failed);
    let replaced = those(|delegate| delegate.in_progress).len();
    let total = delegates.len();
    let mut parts = Vec::new();
    let unhealthy = those(|delegate| delegate.health == HealthStatus::Unhealthy);
    let starting = those(|delegate| delegate.health == HealthStatus::Starting);
    match (unhealthy.as_slice(), starting.as_slice(), total) {
        ([], [], 1) => parts.push(format!(
            "{} is healthy{}",
            delegates[0].container,
            on_version(report)
        )),
        ([], [], _) => parts.push(format!("All {total} delegates are healthy{}", on_version(report))),
        ([only], _, 1) => parts.push(format!("{} is unhealthy", only.container)),
        ([], [only], 1) => parts.push(format!("{} is starting", only.container)),
        ([], some, _) => parts.push(of_total(some, total, "starting")),
        (some, ..) => parts.push(of_total(some, total, "unhealthy")),
    }
    if !failed.is_empty() {
        parts.push(format!("not upgraded: {}", names(&failed)));
    }
    if replaced > 0 {
        let are = if replaced == 1 { "is" } else { "are" };
        parts.push(format!("{replaced} {are} being replaced"));
    }
    parts.extend(drains(report, now));
    parts
}

/// The version, if all delegates run the same one.
fn on_version(report: &Report) -> String {
    let of = |delegate: &DelegateReport| Version::of(&delegate.image.parse().ok()?);
    let mut versions = report.delegates.iter().map(of);
    let first = versions.next().flatten();
    match first.filter(|first| versions.all(|version| version.as_ref() == Some(first))) {
        Some(version) => format!(" on {version}"),
        None => String::new(),
    }
}

fn of_total(some: &[&DelegateReport], total: usize, state: &str) -> String {
    let are = if some.len() == 1 { "is" } else { "are" };
    let (number, names) = (some.len(), names(some));
    format!("{number} of {total} delegates {are} {state}: {names}")
}

/// At most three names, and the number of the others.
fn names(delegates: &[&DelegateReport]) -> String {
    let (shown, more) = delegates.split_at(delegates.len().min(3));
    let names: Vec<&str> = shown.iter().map(|delegate| delegate.container.as_str()).collect();
    let mut text = names.join(", ");
    if !more.is_empty() {
        let _ = write!(text, " and {} more", more.len());
    }
    text
}

fn drains(report: &Report, now: DateTime<Utc>) -> Option<String> {
    let drains = || report.delegates.iter().flat_map(|delegate| &delegate.draining);
    let tasks = drains()
        .filter_map(|drain| drain.tasks)
        .reduce(u64::saturating_add);
    let tasks = tasks.map_or_else(|| "tasks".to_owned(), count);
    let until = drains().filter_map(|drain| drain.until).max();
    let left = until.map(|until| format!(", at most {}", rough(until - now)));
    let left = left.unwrap_or_default();
    match drains().count() {
        0 => None,
        1 => Some(format!("1 old container is finishing {tasks}{left}")),
        number => Some(format!("{number} old containers are finishing {tasks}{left}")),
    }
}

/// An image in a table: a digest is left out where a tag says more, and cut short elsewhere.
pub fn brief(image: &str) -> String {
    match image.split_once("@sha256:") {
        Some((name, _)) if name.rsplit('/').next().is_some_and(|last| last.contains(':')) => name.to_owned(),
        Some((name, digest)) => format!("{name}@sha256:{}", digest.get(..12).unwrap_or(digest)),
        None => image.to_owned(),
    }
}

/// A rough duration as people say it: `12 min`.
pub fn rough(span: TimeDelta) -> String {
    let seconds = span.num_seconds().max(0);
    match seconds {
        0..=89 => format!("{seconds} s"),
        90..=5_399 => format!("{} min", (seconds + 30) / 60),
        5_400..=129_599 => format!("{} h", (seconds + 1_800) / 3_600),
        _ => format!("{} days", (seconds + 43_200) / 86_400),
    }
}

/// A time in the past: `12 min ago`.
pub fn ago(time: DateTime<Utc>, now: DateTime<Utc>) -> String {
    format!("{} ago", rough(now - time))
}

/// A time in the future: `in 12 min`, or `now`.
pub fn soon(time: DateTime<Utc>, now: DateTime<Utc>) -> String {
    if time <= now {
        return "now".to_owned();
    }
    format!("in {}", rough(time - now))
}
