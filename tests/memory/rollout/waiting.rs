//! A slow Manager or registry: nothing else waits for its answer.

use std::time::Duration;

use delegate_upgrader::daemon;
use delegate_upgrader::health::HttpOutcome;
use delegate_upgrader::reconcile::controller::Controller as _;
use delegate_upgrader::rollout::Intent;
use delegate_upgrader::status::report::Report;

use super::host::{GROUP, HOUR, Host, NEW, NEWER, OLD, Upgrader, good, row};
use kit::twin::{Event, Fault, Happened, Operation, delegate_body};

const SECOND: Duration = Duration::from_secs(1);
/// Longer than anything else takes.
const NEVER: Duration = Duration::from_secs(100 * 3600);

fn questions(host: &Host) -> usize {
    host.manager.asked.lock().unwrap().len()
}

/// The report of one observation, which must take no time.
async fn glimpse(host: &Host, upgrader: &mut Upgrader) -> Report {
    let before = host.twin.elapsed();
    let report = upgrader.reconcile().await.unwrap();
    assert!(host.twin.elapsed() - before < SECOND, "it waited");
    report
}

/// Proof, commit, drain and removal take as long with a hanging Manager as with an answering one.
#[tokio::test(start_paused = true)]
async fn a_slow_manager_does_not_delay_a_replacement_in_progress() {
    for stop_first in [false, true] {
        let mut ends = Vec::new();
        for hangs in [false, true] {
            let host = Host::new();
            host.run_either(stop_first);
            let mut upgrader = host.starting(NEW);
            host.continue_for(&mut upgrader, SECOND * 3).await;
            assert_eq!(host.names().len(), 2, "{:?}", host.names());
            if hangs {
                host.set_delay(NEVER);
            }
            upgrader.start_run(Intent::Upgrade);
            while host.containers().len() > 1 || host.find("dd").image != NEW {
                host.continue_for(&mut upgrader, SECOND).await;
                assert!(host.twin.elapsed() < HOUR, "{:?}", host.containers());
            }
            ends.push(host.twin.elapsed());
        }
        assert!(ends[1] <= ends[0] + SECOND, "stop-first: {stop_first}, {ends:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_joins_a_pending_manager_request() {
    let host = Host::new();
    host.run("d1");
    host.run("d2");
    host.set_delay(SECOND * 25);
    let mut upgrader = host.upgrader(NEW);
    for _ in 0..10 {
        upgrader.start_run(Intent::Upgrade);
        assert!(host.continue_for(&mut upgrader, SECOND * 2).await.is_none());
    }
    assert_eq!(questions(&host), 1, "two replicas, ten runs");
    let report = glimpse(&host, &mut upgrader).await;
    assert_eq!(row(&report, "d1").message, "waiting for the Manager for 19s");
    // The answer serves the last run, which began after the request.
    host.finish(&mut upgrader).await;
    assert_eq!(questions(&host), 1);
    host.assert_settled(&["d1", "d2"], NEW, "");
}

#[tokio::test(start_paused = true)]
async fn asks_once_per_workload_and_image_and_concurrently() {
    let mut host = Host::new();
    host.manage(&["other", "refused"]);
    host.manager.refused = ["refused".to_owned()].into();
    host.twin.add_image(NEWER, host.twin.image(good()));
    for (name, group, image) in [
        ("a1", GROUP, OLD),
        ("a2", GROUP, "docker.io/harness/delegate:26.02.1"),
        ("a3", GROUP, NEWER),
        ("b1", "other", OLD),
        ("c1", "refused", OLD),
    ] {
        host.twin.run(name, &delegate_body(group, image));
    }
    host.set_delay(SECOND * 25);
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Intent::Report);
    host.finish(&mut upgrader).await;
    assert!(host.twin.elapsed() < SECOND * 40, "{:?}", host.twin.elapsed());
    assert_eq!(questions(&host), 4);
    let report = upgrader.reconcile().await.unwrap();
    assert_eq!(row(&report, "c1").reason.as_str(), "target_unknown");
    assert_eq!(row(&report, "b1").reason.as_str(), "awaiting_schedule");
}

#[tokio::test(start_paused = true)]
async fn health_only_mode_reports_that_it_waits_for_the_published_image() {
    let mut host = Host::new();
    host.settings.policy.health_only = true;
    host.run("dd");
    host.set_delay(SECOND * 25);
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Intent::Report);
    let report = glimpse(&host, &mut upgrader).await;
    let message = &row(&report, "dd").message;
    assert!(message.ends_with("; waiting for the Manager"), "{message}");
    let report = host.finish(&mut upgrader).await;
    assert!(row(&report, "dd").message.starts_with(NEW), "{report:?}");
}

/// An answer wakes the loop, but without the engine there is nothing to do with it.
#[tokio::test(start_paused = true)]
async fn a_manager_reply_during_an_engine_outage_does_not_spin_the_loop() {
    let host = Host::new();
    host.run("dd");
    host.set_delay(SECOND * 10);
    let mut upgrader = host.starting(NEW);
    let outage = async {
        tokio::time::sleep(SECOND * 5).await;
        host.twin.set_faults(|_| Fault::ErrBefore);
        let before = host.twin.calls().len();
        tokio::time::sleep(SECOND * 60).await;
        host.twin.clear_faults();
        host.twin.calls().len() - before
    };
    let (report, calls) = tokio::join!(daemon::run_until(&mut upgrader, &|_| false), outage);
    assert!(calls <= 15, "{calls} calls in a minute");
    assert!(row(&report.unwrap(), "dd").reason.runs_the_target());
}

/// At whatever speed the answers come. A change that needs more calls must give a reason.
#[tokio::test(start_paused = true)]
async fn an_idle_run_costs_one_list_and_one_inspect_per_delegate() {
    const DELEGATES: usize = 3;
    let host = Host::new();
    for n in 0..DELEGATES {
        host.run(&format!("dd-{n}"));
    }
    let mut upgrader = host.upgrader(OLD);
    for delay in [Duration::ZERO, SECOND / 3, SECOND] {
        host.set_delay(delay);
        // The first run also asks for facts that do not change.
        for is_steady in [false, true] {
            let before = host.twin.calls().len();
            let report = host.scheduled_run(&mut upgrader).await;
            assert!(row(&report, "dd-0").reason.runs_the_target(), "{report:?}");
            let calls = host.twin.calls().len() - before;
            assert!(!is_steady || calls == 1 + DELEGATES, "{calls} calls");
            tokio::time::sleep(SECOND * 60).await;
        }
    }
}

/// The twin takes two seconds for a pull.
#[tokio::test(start_paused = true)]
async fn continues_at_once_after_a_pull() {
    let host = Host::new();
    host.run("dd");
    host.once(NEW).await;
    let (calls, events) = (host.twin.calls(), host.twin.events());
    let pull = calls.iter().find(|call| call.operation == Operation::Pull);
    let candidate = events.iter().find(|event| event.name == "dd.candidate");
    let gap = candidate.unwrap().at - pull.unwrap().at - 2 * SECOND;
    assert!(gap < SECOND / 5, "{gap:?}");
}

/// A candidate that was healthy does not prove itself by silence.
#[tokio::test(start_paused = true)]
async fn a_candidate_that_stops_answering_is_not_promoted() {
    let host = Host::new();
    let old = host.run("dd");
    let mut upgrader = host.starting(NEW);
    while host.names().len() < 2 {
        host.continue_for(&mut upgrader, SECOND).await;
    }
    host.continue_for(&mut upgrader, SECOND * 8).await;
    assert_ne!(host.find("dd").image, NEW, "it has been promoted already");
    // The connection is accepted without an answer.
    host.set_slow(|_| {
        Some((
            SECOND * 10,
            HttpOutcome::Broken("no answer within 10s".to_owned()),
        ))
    });
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
