//! Others act on the host: they prune, remove, recreate, and set the clock.

use std::time::Duration;

use chrono::TimeDelta;
use delegate_upgrader::container::RunState;
use delegate_upgrader::engine::EngineError;
use delegate_upgrader::reconcile::controller::Controller as _;
use delegate_upgrader::rollout::Intent;
use serde_json::json;

use super::host::{DRAIN, Host, NEW, NEWER, OLD, good, host_network, row};
use kit::twin::{Behaviour, Fault, Happened, Operation, OperatorAction};

#[tokio::test(start_paused = true)]
async fn reports_a_delegate_that_vanished_during_a_run_once() {
    let host = Host::new();
    let id = host.run("dd");
    let mut upgrader = host.starting(NEW);
    upgrader.reconcile().await.unwrap();
    host.by_hand(OperatorAction::Remove, id.as_str());
    let report = host.finish(&mut upgrader).await;
    assert!(report.has_failures());
    assert_eq!(row(&report, "dd").reason.as_str(), "no_container");
    assert!(!host.scheduled_run(&mut upgrader).await.has_failures());
}

/// A host wakes up after hours, or had a wrong clock at its boot: in the proof, in the drain, or during a reading.
#[tokio::test(start_paused = true)]
async fn a_clock_change_does_not_cut_a_drain_short() {
    for hours in [-30, 30] {
        for is_late in [false, true] {
            let host = Host::new();
            let old = host.run("dd");
            let mut upgrader = host.starting(NEW);
            for after in [8, 30] {
                assert!(
                    host.continue_for(&mut upgrader, Duration::from_secs(after))
                        .await
                        .is_none()
                );
                if !is_late {
                    host.twin.jump_clock(TimeDelta::hours(hours));
                }
            }
            if is_late {
                assert!(host.names().iter().any(|name| name.starts_with("dd.draining-")));
                host.fault(Operation::Containers, Fault::Slow(Duration::from_secs(4)));
                let set = async {
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    host.twin.jump_clock(TimeDelta::hours(hours));
                };
                let (seen, ()) = tokio::join!(upgrader.reconcile(), set);
                assert!(seen.is_ok());
                host.twin.clear_faults();
            }
            let report = host.finish(&mut upgrader).await;
            assert!(!report.has_failures(), "{report:?}");
            host.assert_settled_on("dd", NEW, "");
            let (told, ended, code) = host.end_of(&old).unwrap();
            assert_eq!((ended - told, code), (DRAIN, 0));
        }
    }
}

/// Just before a rename to such a name arrives, another upgrader promotes the candidate, so the rename finds no container.
async fn promoted_before(host: &Host, to: &'static str, upgrade: impl Future) {
    host.fault_where(Fault::Slow(Duration::from_secs(20)), move |call| {
        call.operation == Operation::Rename && call.detail.starts_with(to)
    });
    let late = || {
        let mut writes = host.twin.writes().into_iter();
        writes.find(|call| call.detail.starts_with(to))
    };
    let promote = async {
        for _ in 0..600 {
            if late().is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let rename = |from: &str, to: &str| {
            let rename = OperatorAction::Rename(from.to_owned(), to.to_owned());
            host.twin.by_hand(rename)
        };
        let _ = rename("dd", "dd.retired");
        rename("dd.candidate", "dd").unwrap();
    };
    tokio::join!(promote, upgrade);
    let late = late().expect("it is withdrawn or judged");
    assert_eq!(late.subject, "dd.candidate");
    let outcome = &late.outcome;
    assert!(matches!(outcome, Some(Err(EngineError::NotFound(_)))), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn a_late_verdict_does_not_reach_a_candidate_that_was_promoted() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    host.run_with("dd", host_network);
    let mut upgrader = host.starting(NEW);
    let upgrade = host.continue_for(&mut upgrader, DRAIN + Duration::from_secs(150));
    promoted_before(&host, "dd.failed-1", upgrade).await;
}

#[tokio::test(start_paused = true)]
async fn a_late_withdrawal_does_not_reach_a_candidate_that_was_promoted() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    host.run("dd");
    let _upgrader = host.begin(NEW, Duration::from_secs(30)).await;
    let mut next = host.starting(OLD);
    let upgrade = host.continue_for(&mut next, Duration::from_secs(60));
    promoted_before(&host, "dd.withdrawn-", upgrade).await;
}

/// `docker compose stop` or a backup stops everything during the drain: the upgrader starts nothing and blames no image.
#[tokio::test(start_paused = true)]
async fn keeps_a_container_stopped_if_its_owner_stops_it_during_the_drain() {
    for (is_stop_first, stops_old) in [(false, true), (false, false), (true, false)] {
        let context = format!("stop-first: {is_stop_first}, the old one, too: {stops_old}");
        let host = Host::new();
        let old = host.run_either(is_stop_first);
        let mut upgrader = host.upgrader(NEW).watching();
        upgrader.start_run(Intent::Upgrade);
        // Start-first, the old one drains until second 76; stop-first, the candidate starts then.
        let after = Duration::from_secs(if is_stop_first { 65 } else { 30 });
        host.continue_for(&mut upgrader, after).await;
        let new = if is_stop_first { "dd.candidate" } else { "dd" };
        if stops_old {
            let name = host
                .names()
                .into_iter()
                .find(|name| name.starts_with("dd.draining-"));
            host.by_hand(OperatorAction::Kill, &name.unwrap());
        }
        let new_id = host.find(new).id;
        host.by_hand(OperatorAction::Kill, new);
        let before = host.events_of(&old).len();
        host.continue_for(&mut upgrader, Duration::from_secs(1800)).await;
        let names = host.names();
        assert!(
            names.contains(&new.to_owned()) && names.len() == 2,
            "{context}: {names:?}"
        );
        assert!(
            host.containers()
                .iter()
                .all(|(_, state, _)| *state == RunState::Exited),
            "{context}"
        );
        let is_started = host.events_of(&old)[before..]
            .iter()
            .any(|event| event.what == Happened::Started);
        assert!(!is_started, "{context}");
        host.by_hand(OperatorAction::Start, new_id.as_str());
        let report = host.finish(&mut upgrader).await;
        assert!(!report.has_failures(), "{context}: {report:?}");
        host.assert_settled_on("dd", NEW, &context);
    }
}

/// The delegate's limits change in the middle of each attempt, as if an engine showed another setting each time.
#[tokio::test(start_paused = true)]
async fn gives_up_after_two_attempts_if_the_settings_keep_changing() {
    let host = Host::new();
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    for (run, attempts) in [(1, 1), (2, 2), (3, 2), (4, 2)] {
        upgrader.start_run(Intent::Upgrade);
        host.continue_for(&mut upgrader, Duration::from_secs(8)).await;
        let memory = OperatorAction::SetMemory("dd".to_owned(), run * 1_000_000);
        host.twin.by_hand(memory).unwrap();
        let report = host.finish(&mut upgrader).await;
        let dd = row(&report, "dd");
        assert_eq!(dd.reason.as_str(), "settings_changed", "{}", dd.message);
        assert_eq!(host.count(Operation::Create), attempts, "{}", dd.message);
        let (was, is) = if run == 1 {
            (2_u64 << 30, 1_000_000)
        } else {
            (1_000_000, 2_000_000)
        };
        let what = format!("/HostConfig/Memory was {was}, and is {is})");
        assert!(dd.message.contains(&what), "{}", dd.message);
    }
}

/// A unit or a loop around `docker rm --force` and `docker run --rm` owns the container: each upgrade would cut off tasks.
#[tokio::test(start_paused = true)]
async fn a_delegate_that_another_tool_keeps_recreating_is_left_alone() {
    let host = Host::new();
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    for upgrades in [1, 2, 2, 2] {
        let report = host.scheduled_run(&mut upgrader).await;
        let dd = row(&report, "dd");
        let reason = if upgrades == 2 && dd.image == OLD {
            "recreated_by_another"
        } else {
            "up_to_date"
        };
        assert_eq!(dd.reason.as_str(), reason, "{}", dd.message);
        assert_eq!(host.count(Operation::Create), upgrades, "{}", dd.message);
        host.by_hand(OperatorAction::Remove, "dd");
        // In the meantime the upgrader sees that no container is left.
        host.continue_for(&mut upgrader, Duration::from_secs(2)).await;
        host.run("dd");
    }
    // Another image from its owner is a fresh start.
    host.by_hand(OperatorAction::Remove, "dd");
    host.twin.add_image(NEWER, host.twin.image(good()));
    host.run_with("dd", |body| body["Image"] = json!(NEWER));
    let report = host.scheduled_run(&mut upgrader).await;
    assert_eq!(row(&report, "dd").image, NEW, "{report:?}");
}
