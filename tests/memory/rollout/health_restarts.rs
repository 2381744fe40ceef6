//! Unhealthy delegates are restarted if the settings ask for it, and only if a restart can help.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use delegate_upgrader::container::ContainerId;
use delegate_upgrader::reconcile::controller::Controller as _;
use delegate_upgrader::rollout::Intent;
use delegate_upgrader::status::report::Report;
use serde_json::json;

use super::host::{DRAIN, HOUR, Host, OLD, Upgrader, row};
use super::log::log_of;
use kit::twin::{Behaviour, Fault, Happened, OnStop, Operation, OperatorAction, Wellness};

pub(super) const MINUTE: Duration = Duration::from_secs(60);

/// A host that restarts unhealthy delegates, and whose delegates behave this way.
pub(super) fn host(behaviour: &Behaviour) -> Host {
    let mut host = Host::new();
    host.settings.policy.restarts_unhealthy = true;
    host.twin.set_behaviour(OLD, behaviour);
    host
}

/// Each life is healthy for five minutes.
pub(super) fn ailing() -> Behaviour {
    Behaviour::drains(DRAIN).with_health(Wellness::For(5 * MINUTE))
}

/// Acts like the daemon for this time: it wakes at least every minute.
pub(super) async fn live(host: &Host, upgrader: &mut Upgrader, time: Duration) -> Report {
    let end = host.twin.elapsed() + time;
    loop {
        let outcome = upgrader.reconcile().await;
        let is_reachable = outcome.is_ok();
        let until = |wake: DateTime<Utc>| (wake - host.twin.wall_clock()).to_std().unwrap_or_default();
        let pause = match &outcome {
            Ok(report) => report.next_check.map_or(MINUTE, until).min(MINUTE),
            Err(_) => Duration::from_secs(5),
        };
        let left = end.saturating_sub(host.twin.elapsed());
        if left.is_zero() {
            return outcome.expect("a report");
        }
        let pause = pause.min(left);
        tokio::select! {
            () = upgrader.answered(), if is_reachable => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// The times at which the engine was asked to restart this container.
pub(super) fn restarts(host: &Host, name: &str) -> Vec<Duration> {
    let calls = host.writes_on(name).into_iter();
    let calls = calls.filter(|call| call.operation == Operation::Restart);
    calls.map(|call| call.at).collect()
}

/// The times at which its lives began.
fn lives(host: &Host, id: &ContainerId) -> Vec<Duration> {
    let events = host.events_of(id).into_iter();
    let starts = events.filter(|event| event.what == Happened::Started);
    starts.map(|event| event.at).collect()
}

/// An engine reports a failed HEALTHCHECK for a whole interval; a new upgrader does not know how long ago it failed.
#[tokio::test(start_paused = true)]
async fn waits_for_the_next_healthcheck_of_a_delegate_that_may_have_recovered() {
    for recovers in [true, false] {
        let host = host(&if recovers {
            Behaviour::drains(DRAIN)
        } else {
            ailing()
        });
        host.run_with("dd", |body| {
            let interval = 60_000_000_000_u64;
            body["Healthcheck"] = json!({ "Test": ["CMD", "/probe"], "Interval": interval, "Retries": 1 });
        });
        live(&host, &mut host.upgrader(OLD), 4 * MINUTE).await;
        host.twin.set_manager_reachable(false);
        tokio::time::sleep(10 * MINUTE + Duration::from_secs(5)).await;
        host.twin.set_manager_reachable(true);
        let report = live(&host, &mut host.upgrader(OLD), 3 * MINUTE).await;
        let restarts = restarts(&host, "dd");
        assert_eq!(restarts.is_empty(), recovers, "{:?}", row(&report, "dd"));
    }
}

#[tokio::test(start_paused = true)]
async fn restarts_a_delegate_after_three_failed_checks_and_logs_the_outcome() {
    let host = host(&ailing());
    let id = host.run("dd");
    let mut upgrader = host.upgrader(OLD);
    let log = log_of(async {
        let report = live(&host, &mut upgrader, 7 * MINUTE + DRAIN / 2).await;
        let delegate = row(&report, "dd");
        assert_eq!(delegate.reason.as_str(), "restarting");
        assert!(delegate.failed && delegate.deadline.is_some(), "{delegate:?}");
        let report = live(&host, &mut upgrader, 3 * MINUTE).await;
        assert_eq!(row(&report, "dd").reason.as_str(), "awaiting_schedule");
    })
    .await;
    let [asked] = restarts(&host, "dd")[..] else {
        panic!("{:?}", host.twin.writes());
    };
    // The checks at 5, 6 and 7 minutes fail.
    assert!(asked >= 7 * MINUTE && asked < 8 * MINUTE, "{asked:?}");
    let [_, second] = lives(&host, &id)[..] else {
        panic!("{:?}", host.events_of(&id));
    };
    assert!(second >= asked + DRAIN, "its tasks were cut short: {second:?}");
    let writes = host.twin.writes();
    assert_eq!(
        (writes.len(), writes[0].detail.as_str()),
        (1, "3600s"),
        "{writes:?}"
    );
    let expected = [
        "delegate is healthy",
        "delegate is unhealthy",
        "restarting dd (",
        "asked Docker to restart dd",
        "restarting dd; it is finishing its tasks and has until",
        "delegate is healthy",
        "healthy again after its restart",
    ];
    let mut found = log.iter();
    for line in expected {
        assert!(found.any(|found| found.contains(line)), "{line} in {log:#?}");
    }
    let step = log.iter().find(|line| line.contains("restarting dd (")).unwrap();
    let words = "its health check failed 3 times in a row: http://172.17.0.2:3460/api/health answers 503";
    assert!(step.contains(words), "{step}");
    assert_eq!(upgrader.core().ledger.tally.steps.get("restart"), Some(&1));
}

#[tokio::test(start_paused = true)]
async fn gives_each_unhealthy_life_more_time_up_to_an_hour() {
    let host = host(&Behaviour::never_healthy());
    let id = host.run("dd");
    let mut upgrader = host.upgrader(OLD);
    let log = log_of(async {
        let report = live(&host, &mut upgrader, 5 * HOUR).await;
        assert_eq!(row(&report, "dd").reason.as_str(), "restart_backoff");
    })
    .await;
    let asked = restarts(&host, "dd");
    let lives = lives(&host, &id);
    let ages: Vec<u64> = asked
        .iter()
        .zip(&lives)
        .map(|(asked, life)| (*asked - *life).as_secs() / 60)
        .collect();
    // Three checks take two minutes. The daemon wakes once a minute.
    assert_eq!(ages[..2], [2, 2], "{ages:?}");
    for (age, least) in ages.iter().zip([1, 2, 4, 8, 16, 32, 60, 60]) {
        assert!(*age >= least && *age <= least + 2, "{ages:?}");
    }
    assert!(ages.len() >= 7, "{ages:?}");
    let lines = |text: &str| log.iter().filter(|line| line.contains(text)).count();
    assert_eq!(
        lines("still unhealthy after its restart"),
        asked.len(),
        "{log:#?}"
    );
    assert!(lines("restart 4 follows after") == 1, "{log:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_recovery_resets_the_pause_between_restarts() {
    let host = host(&ailing());
    let id = host.run("dd");
    let mut upgrader = host.upgrader(OLD);
    live(&host, &mut upgrader, 2 * HOUR).await;
    let (asked, lives) = (restarts(&host, "dd"), lives(&host, &id));
    assert!(asked.len() >= 10, "{asked:?}");
    for (asked, life) in asked.iter().zip(lives) {
        assert_eq!((*asked - life).as_secs() / 60, 7);
    }
}

#[tokio::test(start_paused = true)]
async fn restarts_a_delegate_once_although_the_upgrader_is_killed_meanwhile() {
    let behaviour = Behaviour {
        on_stop: OnStop::Drain(10 * MINUTE),
        ..Behaviour::never_healthy()
    };
    let host = host(&behaviour);
    let id = host.run("dd");
    let report = live(&host, &mut host.upgrader(OLD), 3 * MINUTE).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "restarting");
    let [asked] = restarts(&host, "dd")[..] else {
        panic!("{:?}", host.twin.writes());
    };
    // The next process does not know about that, and asks once more, which changes nothing.
    let mut next = host.upgrader(OLD);
    live(&host, &mut next, 10 * MINUTE).await;
    assert!(restarts(&host, "dd").len() <= 2, "{:?}", restarts(&host, "dd"));
    let [_, second] = lives(&host, &id)[..] else {
        panic!("{:?}", host.events_of(&id));
    };
    assert!(second >= asked + 10 * MINUTE, "its drain was cut short");
}

/// The check-in has the same question open, and the Manager no longer answers.
#[tokio::test(start_paused = true)]
async fn a_manager_that_never_answers_costs_no_loop_without_a_pause() {
    let host = host(&ailing());
    host.run("dd");
    let mut upgrader = host.upgrader(OLD);
    host.scheduled_run(&mut upgrader).await;
    host.set_delay(10 * HOUR);
    let mut reasons = BTreeSet::new();
    while host.twin.elapsed() < 2 * HOUR {
        upgrader.check_in();
        let report = live(&host, &mut upgrader, Duration::from_secs(5)).await;
        reasons.insert(row(&report, "dd").reason.as_str());
    }
    assert!(restarts(&host, "dd").is_empty(), "nobody answered");
    assert_eq!(reasons, BTreeSet::from(["restart_deferred", "up_to_date"]));
}

#[tokio::test(start_paused = true)]
async fn waits_out_a_manager_outage_with_a_single_log_line() {
    let host = host(&Behaviour::drains(DRAIN));
    host.run("dd");
    host.twin.set_manager_reachable(false);
    let mut upgrader = host.upgrader(OLD);
    let log = log_of(async {
        live(&host, &mut upgrader, HOUR).await;
        host.twin.set_manager_reachable(true);
        let report = live(&host, &mut upgrader, 2 * MINUTE).await;
        assert_eq!(row(&report, "dd").reason.as_str(), "awaiting_schedule");
    })
    .await;
    assert_eq!(host.twin.writes(), []);
    let held_back = log.iter().filter(|line| line.contains("it is not restarted"));
    assert_eq!(held_back.count(), 1, "{log:#?}");
}

#[tokio::test(start_paused = true)]
async fn restarts_only_the_unhealthy_one_of_three_delegates() {
    let host = host(&Behaviour::drains(DRAIN));
    let sick = "harness/delegate:26.01.1";
    host.twin
        .add_image(sick, host.twin.image(Behaviour::never_healthy()));
    host.run("aa");
    host.run_with("bb", |body| body["Image"] = json!(sick));
    host.run("cc");
    live(&host, &mut host.upgrader(OLD), 3 * MINUTE).await;
    let writes = host.twin.writes();
    let asked: Vec<_> = writes
        .iter()
        .map(|call| (call.operation, call.subject.as_str()))
        .collect();
    assert_eq!(asked, [(Operation::Restart, "bb")]);
}

#[tokio::test(start_paused = true)]
async fn restarts_an_rm_delegate_without_losing_it() {
    let host = host(&ailing());
    let id = host.run_with("dd", |body| {
        body["HostConfig"]["AutoRemove"] = json!(true);
        body["HostConfig"]["RestartPolicy"] = json!({ "Name": "no" });
    });
    live(&host, &mut host.upgrader(OLD), 12 * MINUTE).await;
    assert_eq!(lives(&host, &id).len(), 2);
    assert!(host.is_fleeting("dd"));
}

/// The engine ends in the middle of the restart, and the restart policy does not bring back a container that was stopped.
#[tokio::test(start_paused = true)]
async fn starts_a_delegate_that_the_engine_left_stopped() {
    let behaviour = Behaviour {
        on_stop: OnStop::Drain(10 * MINUTE),
        ..ailing()
    };
    let host = host(&behaviour);
    let id = host.run("dd");
    let mut upgrader = host.upgrader(OLD);
    live(&host, &mut upgrader, 8 * MINUTE).await;
    assert_eq!(restarts(&host, "dd").len(), 1);
    host.twin.restart_engine(Duration::from_secs(5));
    live(&host, &mut upgrader, MINUTE).await;
    assert_eq!(lives(&host, &id).len(), 2);
    host.assert_settled_on("dd", OLD, "");
}

#[tokio::test(start_paused = true)]
async fn repeats_a_refused_restart_in_the_next_run() {
    let host = host(&Behaviour::never_healthy());
    let id = host.run("dd");
    host.fault(Operation::Restart, Fault::RefuseWith(403, "not permitted"));
    let mut upgrader = host.upgrader(OLD);
    let report = live(&host, &mut upgrader, HOUR).await;
    let delegate = row(&report, "dd");
    assert_eq!(delegate.cause, Some("refused"));
    assert!(delegate.message.contains("not permitted"), "{}", delegate.message);
    assert_eq!(restarts(&host, "dd").len(), 1);
    host.twin.clear_faults();
    host.publish(OLD, Behaviour::default());
    upgrader.start_run(Intent::Upgrade);
    live(&host, &mut upgrader, MINUTE).await;
    assert_eq!(lives(&host, &id).len(), 2);
}

/// Whatever happens to the call, the delegate is restarted once, with all the time that its tasks need.
#[tokio::test(start_paused = true)]
async fn restarts_a_delegate_once_whatever_happens_to_the_call() {
    for fault in [
        Fault::ErrBefore,
        Fault::ErrAfter,
        Fault::Hang,
        Fault::HangAfter,
        Fault::Twice,
        Fault::Refuse(503),
        Fault::Slow(Duration::from_secs(30)),
    ] {
        let host = host(&ailing());
        let id = host.run("dd");
        let mut spent = Some(fault.clone());
        host.twin.set_faults(move |call| match call.operation {
            Operation::Restart => spent.take().unwrap_or_default(),
            _ => Fault::None,
        });
        live(&host, &mut host.upgrader(OLD), 13 * MINUTE).await;
        assert_eq!(lives(&host, &id).len(), 2, "{fault:?}");
        host.assert_settled_on("dd", OLD, &format!("{fault:?}"));
        let ends: Vec<_> = host.events_of(&id);
        let codes = ends.iter().filter_map(|event| match event.what {
            Happened::Exited { code } => Some(code),
            _ => None,
        });
        assert_eq!(codes.collect::<Vec<_>>(), [0], "{fault:?}");
    }
}

/// Neither the checks before a pause nor the pause itself count once the container runs again.
#[tokio::test(start_paused = true)]
async fn checks_before_or_during_a_pause_do_not_count() {
    for recovers in [true, false] {
        let host = host(&if recovers {
            Behaviour::drains(DRAIN)
        } else {
            ailing()
        });
        let paused = host.run("dd");
        let mut upgrader = host.upgrader(OLD);
        live(&host, &mut upgrader, 2 * MINUTE).await;
        host.twin.set_manager_reachable(false);
        live(&host, &mut upgrader, 8 * MINUTE).await;
        let by_hand = |act: fn(String) -> OperatorAction| {
            host.twin.by_hand(act(paused.as_str().to_owned())).unwrap();
        };
        by_hand(OperatorAction::Pause);
        live(&host, &mut upgrader, 5 * MINUTE).await;
        host.twin.set_manager_reachable(true);
        live(&host, &mut upgrader, 2 * MINUTE).await;
        by_hand(OperatorAction::Unpause);
        let unpaused = host.twin.elapsed();
        let report = live(&host, &mut upgrader, 4 * MINUTE).await;
        let restarts = restarts(&host, "dd");
        assert_eq!(restarts.is_empty(), recovers, "{:?}", row(&report, "dd"));
        // Three checks come a minute apart.
        assert!(
            restarts.iter().all(|at| *at >= unpaused + 2 * MINUTE),
            "{restarts:?}"
        );
    }
}
