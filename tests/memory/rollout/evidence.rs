//! The reason for a rejection, in the candidate's own words.

use std::time::Duration;

use delegate_upgrader::reconcile::controller::Controller as _;
use delegate_upgrader::status::evidence::Evidence;
use delegate_upgrader::status::report::Report;
use serde_json::json;

use super::host::{Host, NEW, NEWER, good, host_network, never_restarted, row};
use kit::twin::{Behaviour, CLIENT_TIMEOUT, Fault, Operation, Wellness};

fn crashing() -> Behaviour {
    Behaviour::exits(Duration::from_secs(1), 3).printing(["starting", "cannot open /etc/x"])
}

fn unhealthy() -> Behaviour {
    let health = Wellness::Never;
    good().printing(["starting", "no licence"]).with_health(health)
}

fn host(behaviour: Behaviour) -> Host {
    let host = Host::new();
    host.publish(NEW, behaviour);
    host
}

fn evidence(report: &Report) -> &Evidence {
    let row = row(report, "dd");
    let evidence = row.evidence.as_ref();
    evidence.unwrap_or_else(|| panic!("no evidence: {row:?}"))
}

#[tokio::test(start_paused = true)]
async fn reports_the_last_output_of_a_rejected_candidate() {
    let host = host(crashing());
    host.run_with("dd", never_restarted);
    let report = host.once(NEW).await;
    let evidence = evidence(&report);
    let of = (evidence.container.as_str(), evidence.image.as_str());
    assert_eq!(of, ("dd.failed-1", NEW));
    assert_eq!(evidence.log_tail, ["starting", "cannot open /etc/x"]);
    assert_eq!(evidence.health_log, ["unhealthy: exited with code 3"]);
    assert_eq!(evidence.ending.as_deref(), Some("exited with code 3"));
    let cause = evidence.message.as_deref();
    assert_eq!(cause, Some("exited with code 3 before it had proven itself"));
}

#[tokio::test(start_paused = true)]
async fn reports_the_results_of_its_healthcheck() {
    let host = host(unhealthy());
    host.run_with("dd", |body| {
        body["Healthcheck"] = json!({ "Test": ["CMD", "/probe"], "Interval": 10_000_000_000_u64 });
    });
    let report = host.once(NEW).await;
    assert_eq!(evidence(&report).health_log, ["exit code 1: unhealthy"; 5]);
}

#[tokio::test(start_paused = true)]
async fn collects_evidence_before_the_candidate_is_asked_to_stop() {
    let host = host(unhealthy());
    host.run("dd");
    host.once(NEW).await;
    let calls = host.twin.calls();
    let order = calls.iter().map(|call| call.operation);
    let order: Vec<Operation> = order
        .filter(|operation| matches!(operation, Operation::Logs | Operation::Rename | Operation::Stop))
        .collect();
    assert_eq!(order, [Operation::Logs, Operation::Rename, Operation::Stop]);
}

/// Another process reads it once, from the container that is kept.
#[tokio::test(start_paused = true)]
async fn shows_evidence_as_long_as_the_rejected_container_is_kept() {
    let host = host(unhealthy());
    host.publish(NEWER, good());
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    let first = evidence(&host.scheduled_run(&mut upgrader).await).clone();
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(*evidence(&upgrader.reconcile().await.unwrap()), first);
    }
    assert_eq!(host.count(Operation::Logs), 1);
    let mut another = host.upgrader(NEW);
    for _ in 0..3 {
        let report = host.scheduled_run(&mut another).await;
        let evidence = evidence(&report);
        assert_eq!(evidence.container, "dd.failed-1");
        assert_eq!(evidence.log_tail, ["starting", "no licence"]);
        assert_eq!(evidence.ending.as_deref(), Some("exited with code 0"));
        assert_eq!(evidence.message, None);
    }
    assert_eq!(host.count(Operation::Logs), 2);
    let report = host.once(NEWER).await;
    assert_eq!(row(&report, "dd").evidence, None, "it worked in the end");
}

#[tokio::test(start_paused = true)]
async fn a_second_rejection_has_its_own_evidence() {
    let host = host(unhealthy());
    host.publish(NEWER, crashing());
    host.run("dd");
    let mut first = host.upgrader(NEW);
    host.scheduled_run(&mut first).await;
    let by_another_process = host.once(NEWER).await;
    for report in [by_another_process, first.reconcile().await.unwrap()] {
        let evidence = evidence(&report);
        let of = (evidence.container.as_str(), evidence.image.as_str());
        assert_eq!(of, ("dd.failed-1", NEWER));
        assert!(evidence.log_tail.contains(&"cannot open /etc/x".to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn keeps_the_last_log_lines_with_environment_values_masked() {
    let value = "00112233445566778899aabbccddeeff";
    let mut prints: Vec<String> = (0..100).map(|n| format!("line {n}")).collect();
    prints.push(format!("using {value}"));
    let host = host(Behaviour {
        prints,
        ..unhealthy()
    });
    host.run_with("dd", |body| {
        let env = body["Env"].as_array_mut().unwrap();
        env.push(json!(format!("DATABASE={value}")));
    });
    let report = host.once(NEW).await;
    let log = &evidence(&report).log_tail;
    assert_eq!(
        (log.len(), log[0].as_str(), log[19].as_str()),
        (20, "line 81", "using ***")
    );
    assert!(!format!("{report:?}").contains(value));
}

#[tokio::test(start_paused = true)]
async fn rejects_a_candidate_even_without_evidence() {
    for fault in [Fault::ErrBefore, Fault::Hang] {
        let host = host(crashing());
        host.run("dd");
        host.fault(Operation::Logs, fault.clone());
        let report = host.once(NEW).await;
        assert_eq!(row(&report, "dd").reason.as_str(), "rejected", "{fault:?}");
        assert_eq!(host.names(), ["dd", "dd.failed-1"]);
        assert!(evidence(&report).log_tail.is_empty());
        assert!(evidence(&report).message.is_some());
    }
}

/// No delegate serves while the evidence is collected.
#[tokio::test(start_paused = true)]
async fn an_unresponsive_engine_delays_a_restore_by_at_most_two_seconds() {
    let mut took = Vec::new();
    for fault in [Fault::None, Fault::Hang] {
        let host = host(crashing());
        host.run_with("dd", host_network);
        host.fault(Operation::Logs, fault);
        host.once(NEW).await;
        let old = host.find("dd").id;
        took.push(host.events_of(&old).last().unwrap().at);
    }
    let delay = took[1].saturating_sub(took[0]);
    assert!(delay <= Duration::from_millis(2100), "{delay:?}");
    assert!(delay < CLIENT_TIMEOUT);
}
