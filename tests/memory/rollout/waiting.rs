//! A Manager or a registry that takes its time: nothing else waits for its answer.

use std::time::Duration;

use delegate_upgrader::daemon;
use delegate_upgrader::health::HealthStatus;
use delegate_upgrader::manager::ManagerError;
use delegate_upgrader::reconcile::upgrade_run::Mode;
use delegate_upgrader::status::report::Report;
use serde_json::json;

use super::host::{GROUP, HOUR, Host, Mood, NEW, NEWER, OLD, Upgrader, good, host_network, row};
use kit::twin::{Behaviour, Fault, Operation, Wellness, delegate_body};

const SECOND: Duration = Duration::from_secs(1);
/// Longer than anything else takes.
const FOR_EVER: Mood = Mood::Slow(Duration::from_secs(100 * 3600));

fn questions(host: &Host) -> usize {
    host.asked.lock().unwrap().len()
}

/// The report of one observation, which must take no time.
async fn glimpse(host: &Host, upgrader: &mut Upgrader) -> Report {
    let before = host.twin.elapsed();
    let report = upgrader.reconcile().await.unwrap();
    assert!(host.twin.elapsed() - before < SECOND, "it waited");
    report
}

#[tokio::test(start_paused = true)]
async fn all_delegates_are_reported_while_the_manager_hangs() {
    let host = Host::new();
    let fails_later = Behaviour {
        health: Wellness::For(SECOND * 60),
        ..Behaviour::default()
    };
    host.twin.add_image(NEWER, host.twin.image(fails_later));
    host.run("d1");
    host.run_with("d2", |body| body["Image"] = json!(NEWER));
    host.set_mood(FOR_EVER);
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    let report = glimpse(&host, &mut upgrader).await;
    for name in ["d1", "d2"] {
        let row = row(&report, name);
        assert_eq!(
            (row.reason.as_str(), row.cause.as_deref(), row.message.as_str()),
            ("awaiting_answer", Some("manager"), "waiting for the Manager")
        );
        assert_eq!((row.health, row.failed), (HealthStatus::Healthy, false));
    }
    assert!(report.is_in_progress(), "a single run must not end here");
    tokio::time::sleep(SECOND * 75).await;
    let report = glimpse(&host, &mut upgrader).await;
    assert_eq!(row(&report, "d2").health, HealthStatus::Unhealthy);
    assert_eq!(row(&report, "d2").message, "waiting for the Manager for 1m15s");
}

/// Proof, commit, drain and removal take as long with a Manager that hangs as with one that answers.
#[tokio::test(start_paused = true)]
async fn a_replacement_in_progress_does_not_wait_for_the_answer_to_the_next_run() {
    for stop_first in [false, true] {
        let mut ends = Vec::new();
        for hangs in [false, true] {
            let host = Host::new();
            host.run_with("dd", |body| {
                if stop_first {
                    host_network(body);
                }
            });
            let mut upgrader = host.upgrader(NEW);
            upgrader.start_run(Mode::Upgrade);
            host.go_on(&mut upgrader, SECOND * 3).await;
            assert_eq!(host.names().len(), 2, "{:?}", host.names());
            if hangs {
                host.set_mood(FOR_EVER);
            }
            upgrader.start_run(Mode::Upgrade);
            while host.containers().len() > 1 || host.find("dd").image != NEW {
                host.go_on(&mut upgrader, SECOND).await;
                assert!(host.twin.elapsed() < HOUR, "{:?}", host.containers());
            }
            ends.push(host.twin.elapsed());
        }
        assert!(ends[1] <= ends[0] + SECOND, "stop-first: {stop_first}, {ends:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_joins_a_question_that_is_open() {
    let host = Host::new();
    host.run("d1");
    host.run("d2");
    host.set_mood(Mood::Slow(SECOND * 25));
    let mut upgrader = host.upgrader(NEW);
    for _ in 0..10 {
        upgrader.start_run(Mode::Upgrade);
        assert!(host.go_on(&mut upgrader, SECOND * 2).await.is_none());
    }
    assert_eq!(questions(&host), 1, "two replicas, ten runs");
    let report = glimpse(&host, &mut upgrader).await;
    assert_eq!(row(&report, "d1").message, "waiting for the Manager for 20s");
    // The answer serves the last run, which began after the question.
    host.finish(&mut upgrader).await;
    assert_eq!(questions(&host), 1);
    assert_eq!(
        (host.find("d1").image, host.find("d2").image),
        (NEW.into(), NEW.into())
    );
}

#[tokio::test(start_paused = true)]
async fn each_workload_and_image_is_a_question_and_none_waits_for_another() {
    let mut host = Host::new();
    host.further = vec!["other".to_owned(), "refused".to_owned()];
    host.refused = ["refused".to_owned()].into();
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
    host.set_mood(Mood::Slow(SECOND * 25));
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::ReportOnly);
    host.finish(&mut upgrader).await;
    assert!(host.twin.elapsed() < SECOND * 40, "{:?}", host.twin.elapsed());
    assert_eq!(questions(&host), 4);
    let report = upgrader.reconcile().await.unwrap();
    assert_eq!(row(&report, "c1").reason.as_str(), "target_unknown");
    assert_eq!(row(&report, "b1").reason.as_str(), "awaiting_schedule");
}

#[tokio::test(start_paused = true)]
async fn a_plan_waits_for_the_answer_and_says_so_once_it_takes_long() {
    for (delay, told) in [(1, 0), (25, 1)] {
        let host = Host::new();
        host.run("dd");
        host.set_mood(Mood::Slow(SECOND * delay));
        let mut words = Vec::new();
        let mut upgrader = host.upgrader(NEW);
        let plan = upgrader
            .plan(|reason| words.push(reason.to_string()))
            .await
            .unwrap();
        assert_eq!(plan[0].action, "replace");
        assert_eq!(words.len(), told, "{words:?}");
        assert!(
            words.iter().all(|word| word == "waiting for the Manager for 2s"),
            "{words:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_for_the_answer() {
    let host = Host::new();
    host.run("dd");
    host.set_mood(Mood::Slow(SECOND * 25));
    let mut upgrader = host.upgrader(NEW);
    upgrader.retry("dd").await.unwrap();
    let report = host.finish(&mut upgrader).await;
    assert!(row(&report, "dd").runs_the_target(), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn health_only_reports_at_once_that_the_published_image_is_awaited() {
    let mut host = Host::new();
    host.health_only = true;
    host.run("dd");
    host.set_mood(Mood::Slow(SECOND * 25));
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::ReportOnly);
    let report = glimpse(&host, &mut upgrader).await;
    let message = &row(&report, "dd").message;
    assert!(message.ends_with("; waiting for the Manager"), "{message}");
    let report = host.finish(&mut upgrader).await;
    assert!(row(&report, "dd").message.starts_with(NEW), "{report:?}");
}

/// A tag that moves needs a registry's word, too.
#[tokio::test(start_paused = true)]
async fn a_registry_that_hangs_keeps_nobody_from_being_reported() {
    const LATEST: &str = "harness/delegate:latest";
    let host = Host::new();
    host.twin.add_image(LATEST, host.twin.image(good()));
    host.publish(LATEST, good());
    host.run_with("dd", |body| body["Image"] = json!(LATEST));
    host.twin.set_faults(|call| match call.operation {
        Operation::RegistryDigest => Fault::Hang,
        _ => Fault::None,
    });
    let mut upgrader = host.upgrader(LATEST);
    upgrader.start_run(Mode::Upgrade);
    let report = glimpse(&host, &mut upgrader).await;
    let row = row(&report, "dd");
    assert_eq!(
        (row.reason.as_str(), row.cause.as_deref()),
        ("awaiting_answer", Some("registry"))
    );
    assert_eq!(row.message, "waiting for the registry docker.io");
    host.twin.clear_faults();
}

/// Who limits requests can be reached: that excuses no candidate.
#[tokio::test(start_paused = true)]
async fn a_manager_that_limits_requests_does_not_excuse_a_candidate_that_fails() {
    let limited = ManagerError::RateLimited {
        retry_after: Some(HOUR),
    };
    for (mood, reason) in [
        (Mood::Fails(limited), "rejected"),
        (Mood::Fails(ManagerError::ProxyLogin), "inconclusive"),
    ] {
        let host = Host::new();
        host.publish(NEW, Behaviour::never_healthy());
        host.run("dd");
        let mut upgrader = host.upgrader(NEW);
        upgrader.start_run(Mode::Upgrade);
        host.go_on(&mut upgrader, SECOND * 30).await;
        assert_eq!(host.names().len(), 2);
        host.set_mood(mood);
        let report = host.finish(&mut upgrader).await;
        assert_eq!(row(&report, "dd").reason.as_str(), reason, "{report:?}");
    }
}

/// An answer wakes the loop, but without the engine there is nothing to do with it.
#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_while_the_engine_is_away_does_not_keep_the_loop_busy() {
    let host = Host::new();
    host.run("dd");
    host.set_mood(Mood::Slow(SECOND * 10));
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    let outage = async {
        tokio::time::sleep(SECOND * 5).await;
        host.twin.set_faults(|_| Fault::ErrBefore);
        let before = host.twin.calls().len();
        tokio::time::sleep(SECOND * 60).await;
        host.twin.clear_faults();
        host.twin.calls().len() - before
    };
    let (report, calls) = tokio::join!(daemon::run_to_completion(&mut upgrader), outage);
    assert!(calls <= 15, "{calls} calls in a minute");
    assert!(row(&report.unwrap(), "dd").runs_the_target());
}

/// One list, and an inspect of each delegate, however the answers come. Whoever makes this more says why.
#[tokio::test(start_paused = true)]
async fn a_run_with_nothing_to_do_costs_one_list_and_an_inspect_of_each_delegate() {
    const DELEGATES: usize = 3;
    let host = Host::new();
    for n in 0..DELEGATES {
        host.run(&format!("dd-{n}"));
    }
    let mut upgrader = host.upgrader(OLD);
    for mood in [Mood::Answers, Mood::Slow(SECOND / 3), Mood::Slow(SECOND)] {
        host.set_mood(mood);
        // The first run asks what does not change, too.
        for is_steady in [false, true] {
            let before = host.twin.calls().len();
            upgrader.start_run(Mode::Upgrade);
            let report = host.finish(&mut upgrader).await;
            assert!(row(&report, "dd-0").runs_the_target(), "{report:?}");
            let calls = host.twin.calls().len() - before;
            assert!(!is_steady || calls == 1 + DELEGATES, "{calls} calls");
            tokio::time::sleep(SECOND * 60).await;
        }
    }
}

/// The twin takes two seconds for a pull.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_pull_is_gone_on_with_at_once() {
    let host = Host::new();
    host.run("dd");
    host.once(NEW).await;
    let (calls, events) = (host.twin.calls(), host.twin.events());
    let pull = calls.iter().find(|call| call.operation == Operation::Pull);
    let candidate = events.iter().find(|event| event.name == "dd.candidate");
    let gap = candidate.unwrap().at - pull.unwrap().at - 2 * SECOND;
    assert!(gap < SECOND / 5, "{gap:?}");
}
