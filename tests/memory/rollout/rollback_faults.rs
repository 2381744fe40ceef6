//! A bad image, and another fault at every single change on the way back from it.

use std::time::Duration;

use delegate_upgrader::container::RunState;

use super::faults::{Way, killed_when, points};
use super::host::{HOUR, Host, NEW, OLD, bad_images, row};
use kit::twin::{Behaviour, Call, Fault, Operation};

fn host(way: Way, bad: &Behaviour) -> Host {
    let host = way.host();
    host.publish(NEW, bad.clone());
    host
}

/// The old image serves under its own name with its own configuration; only the evidence of the new one is left.
fn assert_back(host: &Host, way: Way, context: &str) {
    let containers = host.containers();
    let (served, rest) = containers.split_first().unwrap();
    assert_eq!(
        *served,
        ("dd".to_owned(), RunState::Running, OLD.to_owned()),
        "{context}: {containers:?}"
    );
    let [(evidence, state, image)] = rest else {
        panic!("{context}: {containers:?}");
    };
    assert!(
        evidence.starts_with("dd.failed-") && image == NEW && *state != RunState::Running,
        "{context}: {containers:?}"
    );
    let policy = if way.is_fleeting() { "no" } else { "unless-stopped" };
    assert_eq!(host.restart_policy("dd"), policy, "{context}");
    assert_eq!(host.is_fleeting("dd"), way.is_fleeting(), "{context}");
    if !way.stops_first() {
        assert_eq!(host.fewest_working(), 1, "{context}");
    }
}

/// Whether a call is the `k`-th that changes something, counted from 0.
fn change(k: usize) -> impl FnMut(&Call) -> bool + Send {
    let mut changes = 0;
    move |call| {
        changes += usize::from(call.is_write());
        call.is_write() && changes == k + 1
    }
}

/// The request, its answer, or the connection is lost.
#[tokio::test(start_paused = true)]
async fn a_rollback_survives_a_fault_at_every_change() {
    let [_, exits, _, refused] = &bad_images();
    let faults = [Fault::ErrBefore, Fault::ErrAfter, Fault::Hang];
    for (way, fault) in Way::ALL
        .iter()
        .flat_map(|way| faults.iter().map(move |fault| (*way, fault)))
    {
        for (number, bad) in [exits, refused].iter().enumerate() {
            for k in points(number) {
                let host = host(way, bad);
                let (chosen, mut is_it) = (fault.clone(), change(k));
                host.twin
                    .set_faults(move |call| if is_it(call) { chosen.clone() } else { Fault::None });
                host.once(NEW).await;
                let over = host.twin.writes().len() <= k;
                host.twin.clear_faults();
                host.once(NEW).await;
                assert_back(&host, way, &format!("{way:?}, {fault:?} at change {k}"));
                if over {
                    break;
                }
            }
        }
    }
}

/// The image is always bad and each process is killed right after its first change: no step is repeated forever.
#[tokio::test(start_paused = true)]
async fn a_rollback_completes_even_if_every_process_dies_after_one_change() {
    for way in Way::ALL {
        let host = host(way, &Behaviour::never_healthy());
        let mut processes = 0;
        loop {
            let mut writes = 0;
            let killed = killed_when(&host, move |call| {
                // Pulling an image again costs nothing, and a trial is created again.
                let is_again = call.operation == Operation::Pull || call.subject.contains(".trial-");
                writes += u32::from(call.is_write() && !is_again);
                writes > 1
            });
            if !killed.await {
                break;
            }
            processes += 1;
            assert!(processes < 40, "{way:?}: {:?}", host.containers());
        }
        assert_back(&host, way, &format!("{way:?}, {processes} processes"));
    }
}

/// Like a socket proxy that lets only `GET` through, from any moment on.
#[tokio::test(start_paused = true)]
async fn keeps_the_delegate_when_the_engine_starts_refusing_changes() {
    for way in [Way::StartFirst, Way::Fleeting] {
        for k in 0.. {
            let host = way.host();
            let mut writes = 0;
            host.fault_where(Fault::Refuse(403), move |call| {
                writes += usize::from(call.is_write());
                call.is_write() && writes > k
            });
            let report = host.once(NEW).await;
            let context = format!("{way:?}, read-only after {k} changes: {report:?}");
            assert_eq!(host.fewest_working(), 1, "{context}");
            if !report.has_failures() {
                assert!(k > 5, "{context}");
                break;
            }
            assert_ne!(row(&report, "dd").reason.as_str(), "up_to_date", "{context}");
            host.twin.clear_faults();
            for _ in 0..3 {
                tokio::time::sleep(HOUR).await;
                host.once(NEW).await;
            }
            match way {
                Way::Fleeting => host.assert_fleeting_on("dd", NEW, &context),
                _ => host.assert_settled_on("dd", NEW, &context),
            }
        }
    }
}

/// The delegate is down while its engine restarts, and no longer.
#[tokio::test(start_paused = true)]
async fn a_rollback_survives_repeated_engine_restarts() {
    for way in [Way::StartFirst, Way::StopFirst] {
        let host = way.host();
        let restarts = async {
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_secs(45)).await;
                host.twin.restart_engine(Duration::from_secs(3));
            }
        };
        tokio::join!(host.once(NEW), restarts);
        for _ in 0..3 {
            tokio::time::sleep(HOUR).await;
            host.once(NEW).await;
        }
        host.assert_settled_on("dd", NEW, &format!("{way:?}"));
    }
}
