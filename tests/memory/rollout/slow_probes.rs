//! Health endpoints that take their time to answer: each delays its own delegate, and nothing else.

#![allow(clippy::unnecessary_wraps, reason = "what is not slow has no answer")]

use std::net::SocketAddr;
use std::time::Duration;

use delegate_upgrader::health::{HealthStatus, HttpOutcome};
use delegate_upgrader::reconcile::controller::Controller as _;
use delegate_upgrader::reconcile::upgrade_run::Mode;
use delegate_upgrader::status::report::Report;

use kit::twin::{Event, Happened};

use super::host::{HOUR, Host, NEW, Upgrader, row};

const SECOND: Duration = Duration::from_secs(1);

/// As where the upgrader and the delegates are on two bridges: the packets are dropped.
fn dropped(_: SocketAddr) -> Option<(Duration, HttpOutcome)> {
    Some((
        SECOND * 2,
        HttpOutcome::NoRoute("connection timed out".to_owned()),
    ))
}

/// The connection is accepted, and nobody answers.
fn hangs(_: SocketAddr) -> Option<(Duration, HttpOutcome)> {
    Some((
        SECOND * 10,
        HttpOutcome::Broken("no answer within 10s".to_owned()),
    ))
}

fn healthy_but_slow(_: SocketAddr) -> Option<(Duration, HttpOutcome)> {
    Some((SECOND * 3, HttpOutcome::Answered(200)))
}

async fn observe(host: &Host, upgrader: &mut Upgrader) -> (Report, Duration) {
    let begun = host.twin.elapsed();
    let report = upgrader.reconcile().await.unwrap();
    (report, host.twin.elapsed() - begun)
}

fn count(report: &Report, health: HealthStatus) -> usize {
    let delegates = report.delegates.iter();
    delegates.filter(|delegate| delegate.health == health).count()
}

#[tokio::test(start_paused = true)]
async fn the_first_observation_does_not_wait_for_endpoints_that_do_not_answer() {
    for (slow, until, then) in [
        (dropped as fn(_) -> _, SECOND * 3, HealthStatus::Healthy),
        (hangs, SECOND * 11, HealthStatus::Unhealthy),
    ] {
        let host = Host::new();
        for number in 0..13 {
            host.run(&format!("d{number}"));
        }
        host.set_slow(slow);
        let mut upgrader = host.upgrader(NEW);
        upgrader.start_run(Mode::ReportOnly);
        let (report, took) = observe(&host, &mut upgrader).await;
        assert!(took < SECOND, "{took:?}");
        assert_eq!(count(&report, HealthStatus::Starting), 13);
        let detail = &report.delegates[0].health_detail;
        assert!(detail.ends_with("/api/health has not answered yet"), "{detail}");
        // Each answer wakes the loop; then there is no more to learn, until the interval is over.
        let mut last = report;
        while count(&last, then) < 13 {
            upgrader.answered().await;
            last = observe(&host, &mut upgrader).await.0;
        }
        assert!(host.twin.elapsed() < until, "{:?}", host.twin.elapsed());
        let woken = tokio::time::timeout(SECOND * 50, upgrader.answered()).await;
        assert!(woken.is_err(), "it is woken for nothing new");
    }
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_takes_as_long_as_its_own_answers() {
    let mut ends = Vec::new();
    for slow in [|_| None, dropped as fn(_) -> _, healthy_but_slow] {
        let host = Host::new();
        host.run("dd");
        host.set_slow(slow);
        let mut upgrader = host.upgrader(NEW);
        upgrader.start_run(Mode::Upgrade);
        while host.names().len() < 2 || host.find("dd").image != NEW {
            host.go_on(&mut upgrader, SECOND / 4).await;
            assert!(host.twin.elapsed() < HOUR, "{:?}", host.containers());
        }
        ends.push(host.twin.elapsed());
        let report = host.finish(&mut upgrader).await;
        assert!(row(&report, "dd").runs_the_target());
        assert_eq!(host.fewest_working(), 1);
    }
    assert!(ends[1] < ends[0] + SECOND * 8, "{ends:?}");
    assert!(ends[2] < ends[0] + SECOND * 16, "{ends:?}");
}

/// What was healthy before it fell silent does not prove itself by silence.
#[tokio::test(start_paused = true)]
async fn a_candidate_that_stops_answering_is_not_promoted() {
    let host = Host::new();
    let old = host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    while host.names().len() < 2 {
        host.go_on(&mut upgrader, SECOND).await;
    }
    host.go_on(&mut upgrader, SECOND * 8).await;
    assert_ne!(host.find("dd").image, NEW, "it has been promoted already");
    host.set_slow(hangs);
    let report = host.finish(&mut upgrader).await;
    let touched = |event: &Event| event.what != Happened::Started;
    assert!(
        !host.events_of(&old).iter().skip(1).any(touched),
        "{:?}",
        host.events_of(&old)
    );
    assert_eq!(host.find("dd").id, old);
    assert!(report.has_failures(), "{report:?}");
}
