//! Why a candidate was rejected, in its own words.

use std::time::Duration;

use delegate_upgrader::container::RunState;
use delegate_upgrader::status::evidence::Evidence;
use delegate_upgrader::status::report::Report;
use serde_json::json;

use super::host::{Host, NEW, NEWER, auto_remove, good, host_network, row};
use kit::twin::{Behaviour, CLIENT_TIMEOUT, Fault, Operation, Wellness};

fn crashing() -> Behaviour {
    Behaviour::exits(Duration::from_secs(1), 3).printing(["starting", "cannot open /etc/x"])
}

fn unhealthy() -> Behaviour {
    Behaviour {
        health: Wellness::Never,
        ..good().printing(["starting", "no licence"])
    }
}

fn evidence(report: &Report) -> &Evidence {
    let row = row(report, "dd");
    row.evidence
        .as_ref()
        .unwrap_or_else(|| panic!("no evidence: {row:?}"))
}

fn logs_asked_for(host: &Host) -> usize {
    let calls = host.twin.calls();
    calls
        .iter()
        .filter(|call| call.operation == Operation::Logs)
        .count()
}

#[tokio::test(start_paused = true)]
async fn a_rejected_candidate_s_last_words_are_in_the_report() {
    let host = Host::new();
    host.publish(NEW, crashing());
    host.run_with("dd", |body| {
        body["HostConfig"]["RestartPolicy"]["Name"] = json!("no");
    });
    let report = host.once(NEW).await;
    let evidence = evidence(&report);
    assert_eq!(
        (evidence.container.as_str(), evidence.image.as_str()),
        ("dd.failed-1", NEW)
    );
    assert_eq!(evidence.log_tail, ["starting", "cannot open /etc/x"]);
    assert_eq!(evidence.health_log, ["unhealthy: exited with code 3"]);
    assert_eq!(evidence.ending.as_deref(), Some("exited with code 3"));
    let cause = evidence.message.as_deref().unwrap();
    assert_eq!(cause, "exited with code 3 before it had proven itself");
}

#[tokio::test(start_paused = true)]
async fn the_results_of_its_healthcheck_are_in_the_report() {
    let host = Host::new();
    host.publish(NEW, unhealthy());
    host.run_with("dd", |body| {
        body["Healthcheck"] = json!({ "Test": ["CMD", "/probe"], "Interval": 10_000_000_000_u64 });
    });
    let report = host.once(NEW).await;
    assert_eq!(evidence(&report).health_log, ["exit code 1: unhealthy"; 5]);
}

#[tokio::test(start_paused = true)]
async fn evidence_is_collected_before_the_candidate_is_asked_to_stop() {
    let host = Host::new();
    host.publish(NEW, unhealthy());
    host.run("dd");
    host.once(NEW).await;
    let order: Vec<Operation> = host
        .twin
        .calls()
        .iter()
        .map(|call| call.operation)
        .filter(|operation| matches!(operation, Operation::Logs | Operation::Rename | Operation::Stop))
        .collect();
    assert_eq!(order, [Operation::Logs, Operation::Rename, Operation::Stop]);
}

#[tokio::test(start_paused = true)]
async fn evidence_is_shown_as_long_as_the_rejected_one_is_kept_and_read_once() {
    let host = Host::new();
    host.publish(NEW, unhealthy());
    host.publish(NEWER, good());
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    let first = evidence(&host.scheduled_run(&mut upgrader).await).clone();
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(*evidence(&upgrader.reconcile().await.unwrap()), first);
    }
    assert_eq!(logs_asked_for(&host), 1);
    let report = host.once(NEWER).await;
    assert_eq!(row(&report, "dd").evidence, None, "it worked in the end");
}

#[tokio::test(start_paused = true)]
async fn another_process_reads_it_from_the_container_that_is_kept_once() {
    let host = Host::new();
    host.publish(NEW, unhealthy());
    host.run("dd");
    host.once(NEW).await;
    let mut upgrader = host.upgrader(NEW);
    for _ in 0..3 {
        let report = host.scheduled_run(&mut upgrader).await;
        let evidence = evidence(&report);
        assert_eq!(evidence.container, "dd.failed-1");
        assert_eq!(evidence.log_tail, ["starting", "no licence"]);
        assert_eq!(evidence.ending.as_deref(), Some("exited with code 0"));
        assert_eq!(evidence.message, None);
    }
    assert_eq!(logs_asked_for(&host), 2);
}

#[tokio::test(start_paused = true)]
async fn a_second_rejection_has_its_own_evidence() {
    let host = Host::new();
    host.publish(NEW, unhealthy());
    host.publish(NEWER, crashing());
    host.run("dd");
    let mut first = host.upgrader(NEW);
    host.scheduled_run(&mut first).await;
    let by_another_process = host.once(NEWER).await;
    for report in [by_another_process, first.reconcile().await.unwrap()] {
        let evidence = evidence(&report);
        assert_eq!(
            (evidence.container.as_str(), evidence.image.as_str()),
            ("dd.failed-1", NEWER)
        );
        assert!(evidence.log_tail.contains(&"cannot open /etc/x".to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_lines_are_kept_and_no_secret_is_among_them() {
    let host = Host::new();
    let mut lines: Vec<String> = (0..100).map(|n| format!("line {n}")).collect();
    lines.push("using 00112233445566778899aabbccddeeff".to_owned());
    let behaviour = Behaviour {
        prints: lines,
        ..unhealthy()
    };
    host.publish(NEW, behaviour);
    host.run_with("dd", |body| {
        let env = body["Env"].as_array_mut().unwrap();
        env.push(json!("DELEGATE_TOKEN=00112233445566778899aabbccddeeff"));
    });
    let report = host.once(NEW).await;
    let log = &evidence(&report).log_tail;
    assert_eq!((log.len(), log[0].as_str()), (20, "line 81"));
    assert_eq!(log[19], "using ***");
    assert!(!format!("{report:?}").contains("00112233445566778899aabbccddeeff"));
}

#[tokio::test(start_paused = true)]
async fn without_evidence_a_candidate_is_rejected_all_the_same() {
    for fault in [Fault::ErrBefore, Fault::Hang] {
        let host = Host::new();
        host.publish(NEW, crashing());
        host.run("dd");
        let hook = fault.clone();
        host.twin.set_faults(move |call| match call.operation {
            Operation::Logs => hook.clone(),
            _ => Fault::None,
        });
        let report = host.once(NEW).await;
        assert_eq!(row(&report, "dd").reason.as_str(), "rejected", "{fault:?}");
        assert_eq!(host.names(), ["dd", "dd.failed-1"]);
        assert!(evidence(&report).log_tail.is_empty());
        assert!(evidence(&report).message.is_some());
    }
}

/// Nobody serves while it is collected.
#[tokio::test(start_paused = true)]
async fn an_engine_that_does_not_answer_delays_a_restore_by_two_seconds_at_most() {
    let mut took = Vec::new();
    for fault in [Fault::None, Fault::Hang] {
        let host = Host::new();
        host.publish(NEW, crashing());
        host.run_with("dd", host_network);
        host.twin.set_faults(move |call| match call.operation {
            Operation::Logs => fault.clone(),
            _ => Fault::None,
        });
        host.once(NEW).await;
        let old = host.find("dd").id;
        let back = host.events_of(&old).last().unwrap().at;
        took.push(back);
    }
    let held_up = took[1].saturating_sub(took[0]);
    assert!(held_up <= Duration::from_millis(2100), "{held_up:?}");
    assert!(held_up < CLIENT_TIMEOUT);
}

/// An `--rm` candidate takes its log with it when it stops; the mark of its image has none.
#[tokio::test(start_paused = true)]
async fn the_last_words_of_an_auto_remove_candidate_outlive_it() {
    let host = Host::new();
    host.publish(NEW, unhealthy());
    host.run_with("dd", auto_remove);
    let mut upgrader = host.upgrader(NEW);
    let report = host.scheduled_run(&mut upgrader).await;
    assert_eq!(host.find("dd.failed-1").state, RunState::Created);
    assert_eq!(evidence(&report).log_tail, ["starting", "no licence"]);
    assert_eq!(evidence(&report).container, "dd.failed-1");
    assert_eq!(evidence(&host.once(NEW).await).log_tail, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_vanished_leaves_its_cause() {
    let host = Host::new();
    host.publish(NEW, crashing());
    host.run_with("dd", auto_remove);
    let report = host.once(NEW).await;
    assert!(evidence(&report).message.is_some(), "{report:?}");
}
