//! The state of the daemon in the terminal and on the page.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine as _;
use chrono::{DateTime, TimeDelta, Utc};
use delegate_upgrader::config::{Needs, Settings};
use delegate_upgrader::container::Request;
use delegate_upgrader::events::audit::Unwritten;
use delegate_upgrader::events::webhook::WebhookCounts;
use delegate_upgrader::events::{Action, DeadManCounts, Event};
use delegate_upgrader::health::{HealthStatus, Probe};
use delegate_upgrader::host::hold::Paused;
use delegate_upgrader::image::{CountedFrom, Expiry};
use delegate_upgrader::manager::{ManagerError, ManagerStatus, UpgraderImage};
use delegate_upgrader::rollout::reason::ReasonKind;
use delegate_upgrader::rollout::{Blocker, BlockerKind, PullState, RejectedImage};
use delegate_upgrader::schedule::zone::Zone;
use delegate_upgrader::status::evidence::Evidence;
use delegate_upgrader::status::layout::Look;
use delegate_upgrader::status::next_upgrade::NextUpgrade;
use delegate_upgrader::status::report::{DelegateReport, Drain, Report, none_found};
use delegate_upgrader::status::view::{Headline, Tone, rough};
use delegate_upgrader::status::{Mode, Status, metrics, page, terminal};

use crate::reference::examples::example;
use crate::reference::kinds;

fn status() -> Status {
    Status {
        version: "0.1.0",
        host: "build-7".to_owned(),
        ..Status::new(Mode::HealthOnly, "@hourly", at("2026-11-21T05:00:00Z"))
    }
}

fn delegate(container: &str) -> DelegateReport {
    DelegateReport {
        container: container.to_owned(),
        workload: "docker-delegate".to_owned(),
        container_id: "0123456789ab".to_owned(),
        image: "harness/delegate:latest".to_owned(),
        health: HealthStatus::Healthy,
        health_probe: Probe::Http,
        health_detail: "answers 200".to_owned(),
        reason: ReasonKind::UpToDate,
        message: "fine".to_owned(),
        ..DelegateReport::default()
    }
}

fn drain(container: &str, tasks: Option<u64>, until: Option<&str>) -> Drain {
    Drain {
        container: container.to_owned(),
        tasks,
        since: None,
        until: until.map(at),
    }
}

/// The evidence on a candidate that exited with code 3.
fn evidence(container: &str, log: &[&str]) -> Evidence {
    Evidence {
        container: format!("{container}.failed-1"),
        image: "harness/delegate:26.03.1".to_owned(),
        time: at("2026-11-21T05:18:14Z"),
        message: Some("exited with code 3".to_owned()),
        log_tail: log.iter().map(|line| (*line).to_owned()).collect(),
        health_log: vec!["exit code 1: ill".to_owned()],
        ..Evidence::default()
    }
}

fn at(time: &str) -> DateTime<Utc> {
    time.parse().unwrap()
}

/// The moment of every test.
fn now() -> DateTime<Utc> {
    at("2026-11-21T05:20:00Z")
}

fn text(status: &Status) -> String {
    terminal::text(status, Look::default(), now())
}

fn html(status: &Status) -> String {
    page::html(status, now())
}

/// A status with these delegates.
fn with(delegates: &[DelegateReport]) -> Status {
    let mut report = Report::new(at("2026-11-21T05:18:15Z"));
    report.delegates = delegates.to_vec();
    let mut status = status();
    status.report = Some(report);
    status
}

/// The next upgrade for delegates with these blockers and their ends.
fn next_upgrade(all: &[&[(ReasonKind, Option<&str>)]]) -> Option<NextUpgrade> {
    let kind = |reason| match reason {
        ReasonKind::UpToDate => BlockerKind::Current,
        ReasonKind::OptedOut => BlockerKind::Nature,
        ReasonKind::Pinned => BlockerKind::Wish,
        ReasonKind::WaitingForReplica => BlockerKind::Turn,
        _ => BlockerKind::Time,
    };
    let rows = all.iter().enumerate().map(|(number, blockers)| {
        let blocker = |(reason, until): &(ReasonKind, Option<&str>)| Blocker {
            reason: example(*reason),
            kind: kind(*reason),
            until: until.map(at),
        };
        DelegateReport {
            blockers: blockers.iter().map(blocker).collect(),
            ..delegate(&format!("d{number}"))
        }
    });
    let status = with(&rows.collect::<Vec<_>>());
    NextUpgrade::of(
        &status.report.unwrap(),
        &Zone::named("Europe/Berlin").unwrap(),
        now(),
    )
}

/// 06:20 on a Saturday in Berlin.
#[test]
#[rustfmt::skip]
fn the_next_upgrade_is_due_once_all_its_blockers_end() {
    let today = (ReasonKind::Paused, Some("2026-11-21T14:43:00Z"));
    let monday = (ReasonKind::OutsideWindow, Some("2026-11-23T01:00:00Z"));
    let schedule = (ReasonKind::AwaitingSchedule, Some("2026-11-21T06:00:00Z"));
    let (pinned, current) = ((ReasonKind::Pinned, None), (ReasonKind::UpToDate, None));
    let opted_out = (ReasonKind::OptedOut, None);
    for (all, expected) in [
        (&[&[today][..]][..], Some("15:43 Europe/Berlin (paused)")),
        (&[&[monday, schedule]], Some("Mon 02:00 Europe/Berlin (window)")),
        (&[&[schedule]], Some("07:00 Europe/Berlin (schedule)")),
        (&[&[(ReasonKind::Delayed, Some("2026-12-24T01:00:00Z"))]], Some("2026-12-24 02:00 Europe/Berlin (delayed)")),
        (&[&[current], &[monday], &[today]], Some("15:43 Europe/Berlin (paused)")),
        (&[&[pinned, today], &[monday]], Some("Mon 02:00 Europe/Berlin (window)")),
        (&[&[opted_out], &[current], &[pinned, today]], Some("none while pinned (d2)")),
        (&[&[opted_out], &[current]], Some("none: all run what is published")),
        (&[&[opted_out]], None),
        (&[&[(ReasonKind::WaitingForReplica, None)], &[]], None),
        (&[], None),
    ] {
        let next = next_upgrade(all);
        assert_eq!(next.map(|next| next.text).as_deref(), expected, "{all:?}");
    }
}

#[test]
#[rustfmt::skip]
fn first_line_summarises_all_delegates() {
    let healthy = "All 2 delegates are healthy";
    let draining = vec![drain("d1.draining-1", Some(7), None), drain("d1.draining-2", None, None)];
    let (unhealthy, starting) = (HealthStatus::Unhealthy, HealthStatus::Starting);
    for (one, tone, text) in [
        (delegate("d1"), Tone::Good, healthy.to_owned()),
        (DelegateReport { health: unhealthy, ..delegate("d1") }, Tone::Bad, "1 of 2 delegates is unhealthy: d1".to_owned()),
        (DelegateReport { health: starting, ..delegate("d1") }, Tone::Busy, "1 of 2 delegates is starting: d1".to_owned()),
        (DelegateReport { failed: true, ..delegate("d1") }, Tone::Attention, format!("{healthy}; not upgraded: d1")),
        (
            DelegateReport { in_progress: true, draining, ..delegate("d1") },
            Tone::Busy,
            format!("{healthy}; 1 is being replaced; 2 old containers are finishing 7 tasks"),
        ),
    ] {
        let found = Headline::of(&with(&[one, delegate("d2")]), now());
        assert_eq!((found.tone, found.text), (tone, text));
    }
    let lasting = |versions: [&str; 2]| {
        let delegates = versions.map(|version| {
            let mut one = delegate("d1");
            one.image = format!("harness/delegate:{version}");
            one
        });
        let mut status = with(&delegates);
        status.next_run = Some(now());
        status.next_upgrade = next_upgrade(&[&[(ReasonKind::OutsideWindow, Some("2026-11-22T05:20:00Z"))]]);
        Headline::of(&status, now()).text
    };
    let next = "next upgrade: Sun 06:20 Europe/Berlin (window)";
    assert_eq!(
        lasting(["26.10.1", "26.10.1"]),
        format!("All 2 delegates are healthy on 26.10.1; {next}")
    );
    for mixed in [["26.10.1", "26.11.1"], ["26.10.1", "latest"]] {
        assert_eq!(lasting(mixed), format!("All 2 delegates are healthy; {next}"));
    }
    let all = |names: &[&str], health: HealthStatus| {
        let delegates = names.iter().map(|name| DelegateReport {
            health,
            ..delegate(name)
        });
        Headline::of(&with(&delegates.collect::<Vec<_>>()), now()).text
    };
    for health in [HealthStatus::Healthy, unhealthy, starting] {
        assert_eq!(all(&["d1"], health), format!("d1 is {}", health.as_str()));
    }
    let many = ["d1", "d2", "d3", "d4", "d5"];
    let words = "5 of 5 delegates are unhealthy: d1, d2, d3 and 2 more";
    assert_eq!(all(&many, unhealthy), words);
    // Before anything is known, and if nothing is there.
    let first = |status: &Status| {
        let headline = Headline::of(status, now());
        (headline.tone, headline.text)
    };
    let mut begun = status();
    begun.next_run = Some(at("2026-11-21T05:32:10Z"));
    let mut away = with(&[delegate("d1")]);
    away.engine_error = Some("connection refused".to_owned());
    let lost = "The Docker engine cannot be reached; last seen 2 min ago";
    for (status, tone, text) in [
        (begun, Tone::Busy, "Observing the delegates"),
        (with(&[]), Tone::Attention, "No delegate was found"),
        (away, Tone::Bad, lost),
    ] {
        assert_eq!(first(&status), (tone, text.to_owned()));
    }
}

#[test]
fn durations_are_rounded_the_way_people_say_them() {
    let rough = |seconds| rough(TimeDelta::seconds(seconds));
    for (seconds, words) in [
        (-5, "0 s"),
        (89, "89 s"),
        (90, "2 min"),
        (720, "12 min"),
        (5_399, "90 min"),
        (5_400, "2 h"),
        (129_599, "36 h"),
        (129_600, "2 days"),
    ] {
        assert_eq!(rough(seconds), words, "{seconds}");
    }
}

#[test]
fn an_error_from_the_manager_still_counts_as_an_answer() {
    let shown = |problem: Option<&str>, answered_at: Option<&str>| {
        let mut status = status();
        status.manager = Some(ManagerStatus {
            answered_at: answered_at.map(at),
            problem: problem.map(str::to_owned),
            ..ManagerStatus::default()
        });
        (text(&status), html(&status))
    };
    let (problem, at) = (Some("the token was revoked"), Some("2026-11-21T05:18:14Z"));
    let (line, _) = shown(problem, at);
    let words = "\n  Manager: the token was revoked (last successful answer at 2026-11-21T05:18:14Z)";
    assert!(line.ends_with(words), "{line}");
    let (line, page) = shown(problem, None);
    let words = "  Manager: the token was revoked (no successful answer since start)";
    assert!(line.ends_with(&format!("\n{words}")), "{line}");
    assert!(page.contains(words.trim_start()), "{page}");
    let (well, _) = shown(None, at);
    assert!(well.contains("Manager answered 2 min ago"), "{well}");
    assert_eq!(text(&status()).lines().count(), 2);
}

#[test]
fn a_newer_upgrader_version_is_shown_next_to_the_running_one() {
    let shown = |newer: bool| {
        let mut status = status();
        status.upgrader_image = Some(UpgraderImage {
            image: "team/upgrader:1.0.0".to_owned(),
            published: "team/upgrader:1.1.0".to_owned(),
            newer_version_available: newer,
        });
        [text(&status), html(&status), metrics::text(&status)]
    };
    let program = "delegate-upgrader 0.1.0 (newer: team/upgrader:1.1.0)";
    let [terminal, page, metrics] = shown(true);
    assert!(terminal.contains(program) && page.contains(program), "{terminal}");
    assert!(metrics.contains("delegate_upgrader_newer_version_available 1\n"));
    let [terminal, page, metrics] = shown(false);
    assert!(!terminal.contains("newer") && !page.contains("newer:"));
    assert!(metrics.contains("delegate_upgrader_newer_version_available 0\n"));
    // If the newer version is unknown, the metric is missing.
    assert!(!metrics::text(&status()).contains("newer_version"));
}

#[test]
fn details_that_do_not_fit_in_a_row_appear_below_the_table() {
    let mut rejected = delegate("d1");
    rejected.evidence = Some(evidence("d1", &["one", "two"]));
    rejected.tasks = Some(2);
    rejected.health_since = Some(at("2026-11-21T02:20:00Z"));
    rejected.draining = vec![drain("d1.draining-9", Some(1), Some("2026-11-21T06:01:00Z"))];
    let text = text(&with(&[rejected, delegate("d2")]));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "✓ All 2 delegates are healthy; 1 old container is finishing 1 task, at most 41 min",
            "  delegate-upgrader 0.1.0 on build-7, health checks only, observed 2 min ago",
            "",
            "  CONTAINER  IMAGE                    HEALTH       STATUS",
            "✓ d1         harness/delegate:latest  healthy 3 h  up_to_date: fine",
            "✓ d2         harness/delegate:latest  healthy      up_to_date: fine",
            "",
            "  d1: executes 2 tasks",
            "  d1: d1.draining-9 is finishing 1 task, at most 41 min",
            "  d1: d1.failed-1 (harness/delegate:26.03.1, 2 min ago): exited with code 3",
            "  d1:   health check: exit code 1: ill",
            "  d1:   log: one",
            "  d1:   log: two",
        ]
    );
}

#[test]
fn no_line_is_longer_than_the_terminals_width() {
    let mut rejected = delegate("production-delegate-1");
    rejected.image = "registry.example.com:5000/team/mirror/harness/delegate:26.09.88404".to_owned();
    rejected.health = HealthStatus::Unhealthy;
    rejected.message =
        "harness/delegate:26.11.99999 was rejected: not healthy for 5s without a break".to_owned();
    let printed =
        "2026-11-24 21:05:03,123 [main] ERROR io.harness.delegate - cannot register with the Manager";
    rejected.evidence = Some(Evidence {
        health_log: vec![
            "exit code 1: curl: (7) Failed to connect to localhost port 3460 after 0 ms".to_owned(),
        ],
        ..evidence("production-delegate-1", &[printed])
    });
    let mut status = with(&[rejected, delegate("d2")]);
    status.next_run = Some(now());
    status.engine_error =
        Some("unix:///var/run/docker.sock: No such file or directory (os error 2)".to_owned());
    status.manager = Some(ManagerStatus {
        problem: Some("a ".repeat(80)),
        ..ManagerStatus::default()
    });
    for width in [60, 80, 120] {
        let width_of = |line: &str| line.chars().count();
        let look = Look {
            width: Some(width),
            has_colour: false,
        };
        let text = terminal::text(&status, look, now());
        let longest = text.lines().map(width_of).max();
        assert!(longest <= Some(width), "{width}:\n{text}");
        // No word is lost, and colour changes only the colour.
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<BTreeSet<_>>()
        };
        assert_eq!(words(&text), words(&self::text(&status)), "{width}");
        let coloured = Look {
            has_colour: true,
            ..look
        };
        let coloured = terminal::text(&status, coloured, now());
        let codes = ["\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m", "\x1b[0m"];
        let plain = codes.iter().fold(coloured, |text, code| text.replace(code, ""));
        assert_eq!(plain, text);
    }
}

#[test]
fn an_unhealthy_delegate_is_never_green_and_shows_its_next_step() {
    let mut ill = delegate("d1");
    ill.health = HealthStatus::Unhealthy;
    ill.next_step = Some("see `docker logs d1`".to_owned());
    let status = with(&[ill]);
    let page = html(&status);
    let parts = [
        "<span class=\"badge attention\"",
        "<dt>Next step</dt><dd>see <code>docker logs d1</code><button>copy</button></dd>",
    ];
    for part in parts {
        assert!(page.contains(part), "no {part} in {page}");
    }
    assert!(!page.contains("badge good"), "{page}");
    assert!(text(&status).contains("d1: see `docker logs d1`"));
}

#[test]
fn what_is_not_delivered_is_in_the_headline_and_on_every_screen() {
    let mut status = with(&[delegate("d1")]);
    let all_well = Headline::of(&status, now());
    let last_error = Some("HTTP 500: <b>".to_owned());
    let failing_since = Some(at("2026-11-21T05:08:00Z"));
    status.webhook = Some(WebhookCounts {
        last_error: last_error.clone(),
        failing_since,
        ..WebhookCounts::default()
    });
    status.dead_man = Some(DeadManCounts {
        last_error,
        failing_since,
        ..DeadManCounts::default()
    });
    status.audit_log = Some(Unwritten {
        waiting: 2,
        lost: 0,
        problem: Some("no space".to_owned()),
    });
    let headline = Headline::of(&status, now());
    assert_eq!((all_well.tone, headline.tone), (Tone::Good, Tone::Attention));
    assert_eq!(
        headline.text,
        format!("{}; failing: WEBHOOK_URL, DEADMAN_URL, AUDIT_LOG", all_well.text)
    );
    let (page, text) = (html(&status), text(&status));
    for (setting, words) in [
        (
            "WEBHOOK_URL",
            "nothing was accepted for 12 min: HTTP 500: <b>; `delegate-upgrader notify --test` tries it, and the next success ends this",
        ),
        (
            "DEADMAN_URL",
            "nothing was accepted for 12 min: HTTP 500: <b>; `delegate-upgrader notify --test` tries it, and the next success ends this",
        ),
        (
            "AUDIT_LOG",
            "2 of its records wait in memory, which a restart loses: no space",
        ),
    ] {
        assert!(text.contains(&format!("\n  {setting}: {words}")), "{text}");
        let words = words.replace("<b>", "&lt;b&gt;");
        let words = words.replacen('`', "<code>", 1);
        let words = words.replacen('`', "</code><button>copy</button>", 1);
        let line = format!("<p class=\"problem bad\">{setting}: {words}</p>");
        assert!(page.contains(&line), "no {line} in {page}");
    }
    // The script updates the parts of the page.
    assert!(
        page.contains("<div data-part=problems><p class=\"problem bad\">WEBHOOK_URL"),
        "{page}"
    );
    // A loss of the past is no longer a problem.
    status.webhook.as_mut().unwrap().last_error = None;
    status.dead_man = None;
    status.audit_log.as_mut().unwrap().waiting = 0;
    assert_eq!(Headline::of(&status, now()), all_well);
}

#[test]
fn what_needs_attention_comes_first() {
    let [mut busy, mut failed, mut ill] = ["b", "c", "d"].map(delegate);
    busy.in_progress = true;
    failed.failed = true;
    ill.health = HealthStatus::Unhealthy;
    let status = with(&[delegate("a"), busy, failed, ill]);
    let order = |text: &str, begin: &str| {
        let rows = text.split(begin).skip(1);
        let names = rows.filter_map(|row| row.chars().next());
        names.collect::<String>()
    };
    assert_eq!(order(&html(&status), "<h2>"), "dcba");
    let table = text(&status);
    let rows = table
        .lines()
        .filter(|line| line.contains("harness/delegate:latest"));
    let names: String = rows.filter_map(|row| row.chars().nth(2)).collect();
    assert_eq!(names, "dcba", "{table}");
}

#[test]
fn health_and_action_each_have_a_badge_and_the_title_names_the_host() {
    let mut rejected = delegate("d1");
    rejected.reason = ReasonKind::Quarantined;
    rejected.failed = true;
    let page = html(&with(&[rejected]));
    for part in [
        "<title>! build-7: d1 is healthy; not upgraded: d1</title>",
        "<small>build-7</small>",
        "<span class=\"badge good\"><span aria-hidden=true>✓</span> healthy</span>",
        "<span class=\"badge attention\"><span aria-hidden=true>!</span> quarantined</span>",
    ] {
        assert!(page.contains(part), "no {part} in {page}");
    }
}

#[test]
fn the_page_shows_times_both_relative_and_absolute_in_its_time_zone() {
    let mut delegate = delegate("d1");
    delegate.message = "rejected at 2026-11-21T05:05:00Z; again at 2026-11-21T06:05:00Z: `x`".to_owned();
    delegate.health_since = Some(at("2026-11-19T02:20:00Z"));
    let mut status = with(&[delegate]);
    status.next_run = Some(at("2026-11-21T05:32:10Z"));
    status.tally.events.push(Event {
        time: at("2026-10-24T02:20:00Z"),
        ..Event::default()
    });
    status.zone = Zone::named("Europe/Berlin").unwrap();
    let page = html(&status);
    for time in [
        "observed 2 min ago, at <time datetime=2026-11-21T05:18:15Z>06:18</time>",
        "next run in 12 min (@hourly), at <time datetime=2026-11-21T05:32:10Z>06:32</time>",
        "<time datetime=2026-11-19T02:20:00Z>for 2 days (since Thu&nbsp;03:20)</time>",
        "<time datetime=2026-10-24T02:20:00Z>28 days ago (2026-10-24&nbsp;04:20)</time>",
        "rejected at <time datetime=2026-11-21T05:05:00Z>06:05</time>; again at \
         <time datetime=2026-11-21T06:05:00Z>07:05</time>: <code>x</code>",
        "<li>times in Europe/Berlin</li>",
    ] {
        assert!(page.contains(time), "no {time} in {page}");
    }
    assert!(!page.contains("UTC"), "{page}");
    // A person's reason may name the earliest time that there is.
    status.zone = Zone::named("America/New_York").unwrap();
    status.tally.events[0].message = "because of -262143-01-01T00:00:00Z".to_owned();
    assert!(html(&status).contains("because of -262143-01-01T00:00:00Z"));
}

#[test]
fn shows_pauses_that_hold_and_who_asked_for_them() {
    let (four, five) = ("2026-11-21T04:00:00Z", "2026-11-21T05:00:00Z");
    let paused = |since, until: Option<&str>, delegate: &str| Paused {
        since: at(since),
        until: until.map(at),
        delegate: Some(delegate.to_owned()),
        ..Paused::default()
    };
    let host = Paused {
        delegate: None,
        request: Request::new(Some("ada"), Some("a freeze")),
        ..paused(four, Some("2026-11-21T14:00:00Z"), "")
    };
    let mut status = status();
    status.pauses = vec![
        host,
        paused(four, None, "d1"),
        paused(four, Some(five), "over"),
        paused(four, None, "resumed"),
        paused(five, Some(five), "resumed"),
    ];
    let on_host = "  upgrades are paused on this host since 2026-11-21T04:00:00Z, until 2026-11-21T14:00:00Z; \
                   `delegate-upgrader resume` resumes them; requested by ada: a freeze";
    let on_delegate =
        "  upgrades are paused on d1 since 2026-11-21T04:00:00Z; `delegate-upgrader resume d1` resumes them";
    let text = text(&status);
    let shown: Vec<&str> = text.lines().filter(|line| line.contains("paused")).collect();
    assert_eq!(shown, [on_host, on_delegate]);
    let page = html(&status);
    assert!(page.contains("<code>delegate-upgrader resume</code><button>copy</button> resumes them; requested by ada: a freeze</p>"));
    assert_eq!(page.matches("upgrades are paused").count(), 2, "{page}");
}

#[test]
fn among_many_delegates_only_those_with_something_to_say_have_a_card() {
    let mut all: Vec<DelegateReport> = ["d1", "d2", "d3", "d4"].map(delegate).into();
    let shown = |all: &[DelegateReport]| {
        let page = html(&with(all));
        assert_eq!(page.matches("<h2>").count(), all.len());
        let (cards, rows) = ("<article data-part=\"delegate ", "<details data-key=\"row of ");
        [cards, rows].map(|begin| {
            let names = page.split(begin).skip(1);
            names
                .filter_map(|rest| rest.split('"').next())
                .collect::<Vec<_>>()
                .join(" ")
        })
    };
    assert_eq!(shown(&all[..3]), ["d1 d2 d3", ""]);
    assert_eq!(shown(&all), ["", "d1 d2 d3 d4"]);
    let changes: [fn(&mut DelegateReport); 8] = [
        |row| row.health = HealthStatus::Unhealthy,
        |row| row.failed = true,
        |row| row.in_progress = true,
        |row| row.connected = Some(false),
        |row| row.draining = vec![drain("d2.draining-1", None, None)],
        |row| row.pull = Some(pull(1, 2)),
        |row| row.expiry = Some(expiry("2026-11-22")),
        |row| row.evidence = Some(Evidence::default()),
    ];
    for change in changes {
        let plain = all[1].clone();
        change(&mut all[1]);
        assert_eq!(shown(&all), ["d2", "d1 d3 d4"], "{:?}", all[1]);
        all[1] = plain;
    }
}

fn pull(current: u64, total: u64) -> PullState {
    PullState {
        image: "harness/delegate:26.03.1".to_owned(),
        current,
        total,
        rate: 2_097_152,
        eta: Some(145),
    }
}

fn expiry(support_ends: &str) -> Expiry {
    Expiry {
        support_ends: support_ends.parse().unwrap(),
        life_ends: "2027-01-31".parse().unwrap(),
        counted_from: CountedFrom::Tag,
    }
}

/// A `title` is out of reach for a keyboard and for a phone.
#[test]
fn every_word_is_explained_in_place() {
    for reason in kinds() {
        let word = reason.as_str();
        let mut row = delegate("d1");
        row.reason = reason;
        let page = html(&with(&[row]));
        let summary = format!("<summary>what {word} means</summary>");
        let (_, rest) = page.split_once(&summary).expect(&page);
        let (text, _) = rest.split_once("</details>").unwrap();
        assert!(text.contains(" Do: "), "{word}: {text}");
        for markup in ["**", "](", "###", "<!--", " NAME<"] {
            assert!(!text.contains(markup), "{word}: {text}");
        }
        assert!(!page.contains(" title="), "{page}");
    }
    let mut waits = delegate("d1");
    waits.reason = ReasonKind::AwaitingSchedule;
    let page = html(&with(&[waits]));
    let command = "<code>delegate-upgrader retry d1</code><button>copy</button>";
    assert!(page.contains(command), "{page}");
}

#[test]
fn only_what_does_not_count_down_is_read_out_and_the_icon_shows_the_state() {
    let mut busy = delegate("d1");
    busy.in_progress = true;
    busy.draining = vec![drain("d1.draining-1", Some(7), Some("2026-11-21T06:01:00Z"))];
    let page = html(&with(&[busy]));
    assert_eq!(page.matches("aria-live").count(), 1);
    let headline = "<span aria-live=polite data-part=headline>d1 is healthy</span>\
                    <span data-part=more>; 1 is being replaced; 1 old container is finishing 7 tasks, at most 41 min</span>";
    assert!(page.contains(headline), "{page}");
    let (_, icon) = page
        .split_once("<link rel=icon href=\"data:image/svg+xml;base64,")
        .unwrap();
    let icon = icon.split('"').next().unwrap();
    let icon = base64::prelude::BASE64_STANDARD.decode(icon).unwrap();
    assert!(String::from_utf8(icon).unwrap().contains(">…</text>"));
}

#[test]
fn what_is_published_what_puts_off_and_what_was_searched_for_is_on_the_screens() {
    let mut status = with(&[]);
    let published = [
        ("w1", "harness/delegate:26.03.1"),
        ("w2", "harness/delegate:26.03.1"),
        ("w3", "example.com:5000/d"),
    ];
    status.manager = Some(ManagerStatus {
        published: published
            .map(|(workload, image)| (workload.to_owned(), image.to_owned()))
            .into(),
        ..ManagerStatus::default()
    });
    let putting_off = |variables: &[(&str, &str)]| {
        let variables = variables.iter().chain(&[("UPGRADER_WORKLOAD_NAME", "d")]);
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        Settings::from_env(variables, Needs::HostOnly)
            .unwrap()
            .putting_off()
    };
    status.timing = putting_off(&[
        ("UPGRADE_WINDOW", "Mon-Fri 02:00-04:00"),
        ("UPGRADE_DELAY", "3d"),
        ("UPGRADE_WAVE", "auto"),
    ]);
    assert_eq!(putting_off(&[]), Vec::<String>::new());
    let sentence = none_found(&["typo".to_owned()], &["build".to_owned()]);
    status.report.as_mut().unwrap().none_found = Some(sentence.clone());
    let (page, text) = (html(&status), text(&status));
    for fact in [
        "<li>published: harness/delegate:26.03.1</li>",
        "<li>published: example.com:5000/d</li>",
        "<li>UPGRADE_WINDOW=Mon-Fri 02:00-04:00</li>",
        "<li>UPGRADE_DELAY=3d</li>",
        "<li>UPGRADE_WAVE=auto</li>",
        &format!("<p class=\"problem bad\">{sentence}</p>"),
    ] {
        assert_eq!(page.matches(fact).count(), 1, "{fact} in {page}");
    }
    let facts = ", UPGRADE_WINDOW=Mon-Fri 02:00-04:00, UPGRADE_DELAY=3d, UPGRADE_WAVE=auto, observed 2 min ago, \
                 published: example.com:5000/d, published: harness/delegate:26.03.1\n";
    assert!(text.contains(facts) && text.contains(&sentence), "{text}");
}

#[test]
fn shows_the_progress_of_a_pull() {
    let mut waits = delegate("d1");
    waits.reason = ReasonKind::Pulling;
    waits.pull = Some(pull(220_200_960, 524_288_000));
    let status = with(&[waits]);
    let shown = text(&status);
    let line = "  d1: the pull has 42 % of 500 MiB, 2 MiB/s, 2m25s left";
    assert!(shown.lines().any(|shown| shown == line), "{shown}");
    let page = html(&status);
    let row = "<dt>Pull</dt><dd>42 % of 500 MiB, 2 MiB/s, 2m25s left<progress max=100 value=42";
    assert!(page.contains(row), "{page}");
}

#[test]
fn a_delegate_lists_its_last_releases() {
    let event = |action, release: u64| {
        let image = |version: u64| Some(format!("harness/delegate:26.0{version}.1"));
        Event {
            time: at("2026-11-21T02:20:00Z"),
            action,
            container: "d1".to_owned(),
            from: image(release - 1),
            to: image(release),
            release: Some(release),
            previous_release: Some(release - 1),
            ..Event::default()
        }
    };
    let mut status = with(&[delegate("d1"), delegate("d2")]);
    status.tally.events = vec![
        event(Action::Upgraded, 4),
        event(Action::Rejected, 5),
        event(Action::RolledBack, 5),
    ];
    let page = html(&status);
    let items: Vec<&str> = page.split("<li value=").skip(1).collect();
    let items: Vec<&str> = items
        .iter()
        .map(|item| item.split("</li>").next().unwrap())
        .collect();
    let when = "<time datetime=2026-11-21T02:20:00Z>3 h ago (02:20)</time>";
    let image = |tag: &str| format!("harness/<wbr>delegate:<wbr><span class=part>{tag}</span>");
    assert_eq!(
        items,
        [
            format!("5>{} <small>rolled back {when}</small>", image("26.05.1")),
            format!("5>{} <small>rejected {when}</small>", image("26.05.1")),
            format!("4>{} <small>upgraded {when}</small>", image("26.04.1")),
            format!("3>{} <small>upgraded</small>", image("26.03.1")),
        ]
    );
    assert_eq!(page.matches("<dt>Releases</dt>").count(), 1, "d2 has no outcomes");
}

#[test]
fn the_output_of_a_rejected_candidate_is_text_and_not_markup() {
    let mut rejected = delegate("dd");
    rejected.evidence = Some(evidence("dd", &["</pre><script>alert(1)</script>"]));
    let html = html(&with(&[rejected]));
    assert!(!html.contains("<script>alert"), "{html}");
    for text in [
        "dd.failed-1",
        "exited with code 3",
        "exit code 1: ill",
        "&lt;script&gt;",
    ] {
        assert!(html.contains(text), "{html}");
    }
}

/// A browser runs only those scripts on the page that the header names by their hash.
#[test]
fn the_content_security_policy_allows_the_pages_style_and_script() {
    let policy = page::content_security_policy();
    let page = html(&with(&[delegate("dd")]));
    for element in ["style", "script"] {
        let (_, rest) = page.split_once(&format!("<{element}>")).unwrap();
        let (content, rest) = rest.split_once(&format!("</{element}>")).unwrap();
        assert!(!rest.contains(&format!("<{element}>")), "one {element}");
        let digest = ring::digest::digest(&ring::digest::SHA256, content.as_bytes());
        let hash = base64::prelude::BASE64_STANDARD.encode(digest);
        assert!(
            policy.contains(&format!("{element}-src 'sha256-{hash}'")),
            "{policy}"
        );
    }
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    // Without the script, the page reloads itself.
    assert!(
        page.contains("<noscript><meta http-equiv=refresh content=10></noscript>"),
        "{page}"
    );
    assert!(!page.contains(" style="), "the policy forbids style attributes");
    assert!(
        !page.contains("http://") && !page.contains("https://"),
        "nothing external"
    );
}

/// The contrast of two colours, as WCAG 2 defines it.
fn contrast(one: [u8; 3], other: [u8; 3]) -> f64 {
    let luminance = |colour: [u8; 3]| {
        let [red, green, blue] = colour.map(|part| {
            let part = f64::from(part) / 255.0;
            if part <= 0.040_45 {
                part / 12.92
            } else {
                ((part + 0.055) / 1.055).powf(2.4)
            }
        });
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    };
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn all_text_on_the_page_meets_the_wcag_contrast() {
    let style = include_str!("../../src/status/page/page.css");
    let themes: Vec<&str> = style.split(":root{").skip(1).collect();
    assert_eq!(themes.len(), 2, "light and dark");
    for theme in themes {
        let (variables, _) = theme.split_once('}').unwrap();
        let colour = |name: &str| {
            let value = variables
                .split(';')
                .find_map(|pair| pair.strip_prefix(&format!("--{name}:#")));
            let value = value.unwrap_or_else(|| panic!("--{name}"));
            let long: String = match value.len() {
                3 => value.chars().flat_map(|digit| [digit, digit]).collect(),
                _ => value.to_owned(),
            };
            [0, 2, 4].map(|at| u8::from_str_radix(&long[at..at + 2], 16).unwrap())
        };
        let pairs = [
            ("ink", "back"),
            ("ink", "card"),
            ("soft", "back"),
            ("soft", "card"),
            ("good", "good-back"),
            ("busy", "busy-back"),
            ("attention", "attention-back"),
            ("bad", "bad-back"),
        ];
        for (text, back) in pairs {
            let ratio = contrast(colour(text), colour(back));
            assert!(ratio >= 4.5, "{text} on {back}: {ratio:.2}");
        }
    }
}

/// A state that appears in every metric.
pub(crate) fn with_every_metric() -> Status {
    let mut delegate = delegate("dd");
    delegate.tasks = Some(1);
    delegate.rejected_images = vec![RejectedImage {
        image: "i:2".to_owned(),
        cause: "rejected",
        at: at("2026-11-21T05:00:00Z"),
    }];
    delegate.draining = vec![drain("d", Some(2), Some("2026-11-21T06:18:14Z"))];
    delegate.expiry = Some(expiry("2026-12-31"));
    let mut status = with(&[delegate]);
    status.next_run = Some(at("2026-11-21T06:00:00Z"));
    status.success_due = Some(at("2026-11-21T07:00:00Z"));
    status.manager = Some(ManagerStatus {
        answered_at: Some(at("2026-11-21T05:18:14Z")),
        ..ManagerStatus::default()
    });
    status.tally.steps = [("pull", 1)].into();
    status.tally.outcomes = [("upgraded", 2)].into();
    status.audit_log = Some(Unwritten {
        waiting: 1,
        lost: 2,
        problem: None,
    });
    status.webhook = Some(WebhookCounts {
        delivered: 5,
        failed_attempts: 4,
        given_up: 3,
        dropped: 2,
        queued: 1,
        ..WebhookCounts::default()
    });
    status.dead_man = Some(DeadManCounts {
        succeeded: 7,
        failed: 6,
        ..DeadManCounts::default()
    });
    status.upgrader_image = Some(UpgraderImage {
        image: "team/upgrader:1.0.0".to_owned(),
        published: "team/upgrader:1.0.0".to_owned(),
        newer_version_available: false,
    });
    let took = Duration::from_secs(3);
    status.engine_calls.note("GET /v1.41/containers/json", None, took);
    status.manager_requests.note(Some(&ManagerError::TokenRevoked));
    status.tally.durations[2].1.observe(42.0);
    status
}

#[test]
fn metrics_have_the_values_of_the_state() {
    let text = metrics::text(&with_every_metric());
    for line in [
        "delegate_upgrader_outcomes_total{action=\"upgraded\"} 2",
        "delegate_upgrader_drain_seconds_bucket{le=\"60.0\"} 1",
        "delegate_upgrader_image_rejected_timestamp_seconds{container=\"dd\",workload=\"docker-delegate\",image=\"i:2\",cause=\"rejected\"} 1795237200",
        "delegate_upgrader_audit_records_missing 3",
        "delegate_upgrader_engine_request_duration_seconds_bucket{le=\"1.0\",operation=\"list\"} 0",
        "delegate_upgrader_engine_request_duration_seconds_bucket{le=\"10.0\",operation=\"list\"} 1",
        "delegate_upgrader_manager_requests_total{result=\"token_revoked\"} 1",
        "delegate_upgrader_webhook_deliveries_total{result=\"delivered\"} 5",
        "delegate_upgrader_webhook_deliveries_total{result=\"failed\"} 4",
        "delegate_upgrader_webhook_deliveries_total{result=\"given_up\"} 3",
        "delegate_upgrader_webhook_deliveries_total{result=\"dropped\"} 2",
        "delegate_upgrader_webhook_queue_length 1",
        "delegate_upgrader_deadman_requests_total{result=\"succeeded\"} 7",
        "delegate_upgrader_deadman_requests_total{result=\"failed\"} 6",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let mut quoted = delegate("d1");
    quoted.workload = "a\"b\\c".to_owned();
    let text = metrics::text(&with(&[quoted]));
    assert!(text.contains(r#"workload="a\"b\\c""#), "{text}");
    // Without receivers, nothing is counted.
    let text = metrics::text(&status());
    assert!(!text.contains("webhook") && !text.contains("deadman"), "{text}");
}

#[test]
fn a_run_has_succeeded_once_nothing_is_left_to_prove() {
    let succeeded = |reason, failed: bool| {
        let mut one = delegate("d1");
        (one.reason, one.failed) = (reason, failed);
        let report = with(&[one, delegate("d2")]).report.unwrap();
        report.has_succeeded()
    };
    for well in [
        ReasonKind::UpToDate,
        ReasonKind::Draining,
        ReasonKind::OptedOut,
        ReasonKind::WaitingForIdle,
        ReasonKind::AwaitingDrains,
    ] {
        assert!(succeeded(well, false), "{well}");
    }
    for open in [
        ReasonKind::AwaitingAnswer,
        ReasonKind::Pulling,
        ReasonKind::Proving,
        ReasonKind::Interrupted,
        ReasonKind::Returning,
        ReasonKind::WaitingForReplica,
        ReasonKind::WaitingForOthers,
    ] {
        assert!(!succeeded(open, false), "{open}");
    }
    assert!(!succeeded(ReasonKind::Rejected, true));
    assert!(
        !with(&[]).report.unwrap().has_succeeded(),
        "no delegate was found"
    );
}

#[test]
fn counts_a_service_once_and_shortens_its_digest() {
    let digest = "c552d011ae2ac29da0d1f55cfb1aaf3c760486cd5f60302e5d803b79382f9d17";
    let mut service = delegate("sd");
    service.image = format!("harness/delegate:26.10.1@sha256:{digest}");
    let mut task = delegate("sd.1.x64");
    task.reason = ReasonKind::TaskOfService;
    task.image = format!("harness/delegate@sha256:{digest}");
    let status = with(&[service, task.clone(), delegate("d1"), delegate("d2")]);
    let text = text(&status);
    assert!(text.starts_with("✓ All 3 delegates are healthy\n"), "{text}");
    let cells = [
        "harness/delegate:26.10.1 ",
        "harness/delegate@sha256:c552d011ae2a ",
    ];
    assert!(cells.iter().all(|cell| text.contains(cell)), "{text}");
    let page = html(&status);
    assert!(
        page.contains("<span>harness/<wbr>delegate:<wbr><span class=part>26.10.1</span></span></summary>"),
        "{page}"
    );
    assert!(
        page.contains(&format!("26.10.1</span>@sha256:{digest}</dd>")),
        "{page}"
    );
    // A worker knows no services.
    assert!(self::text(&with(&[task])).starts_with("✓ sd.1.x64 is healthy"));
}
