//! Delegates that were unhealthy before, and outages that make all of them so: an image is judged only beside what the old
//! container does.

use std::net::SocketAddr;
use std::time::Duration;

use delegate_upgrader::container::RunState;
use delegate_upgrader::health::HttpOutcome;
use delegate_upgrader::reconcile::upgrade_run::Mode;
use delegate_upgrader::status::report::Report;
use serde_json::{Value, json};

use crate::rollout::host::{HOUR, Host, NEW, NEWER, OLD, Upgrader, auto_remove, good, host_network, row};
use kit::twin::{Behaviour, Fault, Happened, Operation};

const BROKEN: &str = "harness/delegate:26.01.1";

/// A delegate whose image never becomes healthy, as it never did.
fn run_broken(host: &Host, name: &str, change: fn(&mut Value)) {
    host.twin
        .add_image(BROKEN, host.twin.image(Behaviour::never_healthy()));
    host.run_with(name, |body| {
        body["Image"] = json!(BROKEN);
        change(body);
    });
}

/// What delegates answer while something that all of them need is away.
#[allow(clippy::unnecessary_wraps, reason = "what is not slow has no answer")]
fn fails(_: SocketAddr) -> Option<(Duration, HttpOutcome)> {
    Some((Duration::ZERO, HttpOutcome::Answered(503)))
}

fn reason(report: &Report, name: &str) -> String {
    row(report, name).reason.as_str().to_owned()
}

fn attempts(host: &Host) -> usize {
    let events = host.twin.events();
    let created = events.iter().filter(|event| event.what == Happened::Created);
    created.filter(|event| event.name.ends_with(".candidate")).count()
}

/// What a daemon does between two scheduled runs: it observes once a minute. The last report.
async fn watch(host: &Host, upgrader: &mut Upgrader, time: Duration) -> Option<Report> {
    let (end, mut last) = (host.twin.elapsed() + time, None);
    while host.twin.elapsed() < end {
        let begun = host.twin.elapsed();
        let minute = Duration::from_secs(60);
        last = host.go_on(upgrader, minute).await.or(last);
        tokio::time::sleep(minute.saturating_sub(host.twin.elapsed() - begun)).await;
    }
    last
}

/// Two scheduled runs an hour, for so long.
async fn hours(host: &Host, published: &str, hours: u32) -> Report {
    let mut upgrader = host.upgrader(published);
    let mut last = None;
    for _ in 0..hours * 2 {
        upgrader.start_run(Mode::Upgrade);
        last = watch(host, &mut upgrader, HOUR / 2).await.or(last);
    }
    last.expect("a run that came to rest")
}

/// A dependency that all of them share fails for hours, and the image is good.
#[tokio::test(start_paused = true)]
async fn an_image_is_not_judged_while_all_delegates_are_unhealthy() {
    for change in [|_: &mut Value| (), auto_remove, host_network] {
        let host = Host::new();
        host.run_with("aa", change);
        let mut upgrader = host.upgrader(NEW);
        upgrader.start_run(Mode::ReportOnly);
        watch(&host, &mut upgrader, HOUR).await;
        host.set_slow(fails);
        watch(&host, &mut upgrader, HOUR).await;
        let report = host.scheduled_run(&mut upgrader).await;
        assert_eq!(reason(&report, "aa"), "inconclusive", "{report:?}");
        assert_eq!(
            (host.find("aa").image.as_str(), host.find("aa").state),
            (OLD, RunState::Running)
        );
        assert_eq!(host.names(), ["aa", "aa.inconclusive-1"]);
        // It is not tried at every run, and whoever comes later knows that too.
        let report = host.once(NEW).await;
        assert_eq!(reason(&report, "aa"), "awaiting_retry", "{report:?}");
        assert_eq!(attempts(&host), 1);
        hours(&host, NEW, 5).await;
        let tried = attempts(&host);
        assert!((2..=4).contains(&tried), "{tried}");
        assert!(
            host.names().iter().all(|name| !name.contains("failed")),
            "{:?}",
            host.names()
        );
        // The dependency is back: the image is as good as it was.
        host.set_slow(|_| None);
        let report = hours(&host, NEW, 9).await;
        assert_eq!(reason(&report, "aa"), "up_to_date", "{report:?}");
        assert_eq!(host.names(), ["aa"]);
    }
}

/// A crash is a crash, whatever the health of the old one.
#[tokio::test(start_paused = true)]
async fn an_image_that_crashes_is_rejected_although_the_old_container_is_unhealthy() {
    for change in [|_: &mut Value| (), host_network] {
        let host = Host::new();
        host.publish(NEW, Behaviour::exits(Duration::from_secs(1), 3));
        run_broken(&host, "aa", change);
        let report = host.once(NEW).await;
        assert_eq!(reason(&report, "aa"), "rejected", "{report:?}");
        assert_eq!(host.find("aa").image, BROKEN);
    }
}

#[tokio::test(start_paused = true)]
async fn an_image_that_heals_a_broken_delegate_replaces_it() {
    for change in [|_: &mut Value| (), host_network] {
        let host = Host::new();
        run_broken(&host, "aa", change);
        assert!(!host.once(NEW).await.has_failures());
        host.assert_settled_on("aa", NEW, "");
    }
}

/// One replica was broken before, by its own fault: it is not the canary, and halts nobody.
#[tokio::test(start_paused = true)]
async fn a_replica_that_was_broken_before_halts_no_other() {
    let host = Host::new();
    // Its settings keep it from being healthy, whichever image it runs.
    host.run_with("aa", |body| {
        body["Healthcheck"] =
            json!({ "Test": ["CMD", "/probe"], "Interval": 86_400_000_000_000_u64, "Retries": 3 });
    });
    host.run("bb");
    host.run("cc");
    let mut upgrader = host.upgrader(NEW);
    for _ in 0..3 {
        let report = host.scheduled_run(&mut upgrader).await;
        for name in ["bb", "cc"] {
            assert_eq!(reason(&report, name), "up_to_date", "{report:?}");
        }
        assert!(
            ["inconclusive", "awaiting_retry"].contains(&reason(&report, "aa").as_str()),
            "{report:?}"
        );
    }
    assert_eq!(host.find("aa").image, OLD);
    assert_eq!(host.names(), ["aa", "aa.inconclusive-1", "bb", "cc"]);
}

/// Nor does one in quarantine, once another one runs the image well.
#[tokio::test(start_paused = true)]
async fn nothing_is_halted_once_another_replica_runs_the_image_well() {
    let host = Host::new();
    for name in ["aa", "bb", "cc"] {
        host.run(name);
    }
    assert!(!host.once(NEW).await.has_failures());
    host.publish(NEWER, good());
    host.twin.set_faults(|call| match call.operation {
        Operation::Start if call.subject == "bb.candidate" => Fault::RefuseWith(400, "no such device"),
        _ => Fault::None,
    });
    let report = host.once(NEWER).await;
    assert_eq!(reason(&report, "bb"), "rejected", "{report:?}");
    assert_eq!(reason(&report, "cc"), "up_to_date", "{report:?}");
}

/// A run with an image whose containers make all others unhealthy while they run.
async fn harmful_run(host: &Host, upgrader: &mut Upgrader) -> Report {
    upgrader.start_run(Mode::Upgrade);
    loop {
        if let Some(report) = host.go_on(upgrader, Duration::from_secs(1)).await {
            host.set_slow(|_| None);
            return report;
        }
        let glance = host.twin.glance();
        let mut running = glance
            .iter()
            .filter(|container| container.state == RunState::Running);
        let is_harmed = running.any(|container| container.name != "aa");
        host.set_slow(if is_harmed { fails } else { |_| None });
    }
}

/// An image that takes something from the others when it starts.
#[tokio::test(start_paused = true)]
async fn an_image_that_makes_the_others_unhealthy_twice_is_rejected() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    host.run("aa");
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::ReportOnly);
    watch(&host, &mut upgrader, HOUR).await;
    let report = harmful_run(&host, &mut upgrader).await;
    assert_eq!(reason(&report, "aa"), "inconclusive", "{report:?}");
    assert_eq!(host.names(), ["aa", "aa.inconclusive-1"]);
    watch(&host, &mut upgrader, HOUR * 2).await;
    let report = harmful_run(&host, &mut upgrader).await;
    assert_eq!(reason(&report, "aa"), "rejected", "{report:?}");
    assert!(
        row(&report, "aa").message.contains("for the second time"),
        "{report:?}"
    );
    assert_eq!(host.names(), ["aa", "aa.failed-2"]);
    assert_eq!(attempts(&host), 2);
    assert_eq!(reason(&host.once(NEW).await, "aa"), "quarantined");
}
