//! The audit log of whole rollouts: it has each outcome once, whichever process is killed and when.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use delegate_upgrader::container::Request;
use delegate_upgrader::events::audit::{AuditLog, read};
use delegate_upgrader::events::history::History;
use delegate_upgrader::events::ledger::Ledger;
use delegate_upgrader::events::{Action, Actor, Event};
use delegate_upgrader::health::HttpOutcome;
use delegate_upgrader::host::hold::{pause, read_records, resume};
use delegate_upgrader::reconcile::controller::Controller as _;
use delegate_upgrader::reconcile::operator::OperatorError;
use tempfile::TempDir;

use super::faults::{Way, killed_during, points};
use super::host::{DRAIN, HOUR, Host, NEW, NEWER, OLD, READY, Upgrader, good, host_network, row};
use kit::twin::{Behaviour, Call, Fault, Operation, Wellness, delegate_body};

const BAD: &str = "harness/delegate:26.02.9";

/// A host whose upgraders share an audit log.
struct Audited {
    host: Host,
    directory: TempDir,
}

impl Audited {
    fn new(host: Host) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = Self { host, directory };
        // By the host's clock, the log begins before everything else.
        let first = delegate_upgrader::text::json::text(&template(at.host.twin.wall_clock()));
        std::fs::write(at.path(), first + "\n").unwrap();
        at
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("audit.log")
    }

    fn ledger(&self) -> Ledger {
        let audit = AuditLog::open(&self.path()).unwrap();
        Ledger::new(
            "a-host".to_owned(),
            Duration::from_secs(60),
            Some(audit),
            Arc::default(),
        )
    }

    /// A process that knows only the log.
    fn upgrader(&self, published: &str) -> Upgrader {
        self.host.upgrader(published).with_ledger(self.ledger())
    }

    /// A process of an operator's command.
    fn command(&self) -> Upgrader {
        let ledger = self.ledger().of_operator();
        self.host.upgrader(NEW).with_ledger(ledger)
    }

    async fn once(&self, published: &str) {
        self.host.scheduled_run(&mut self.upgrader(published)).await;
    }

    fn records(&self) -> Vec<Event> {
        records(&self.path())
    }

    fn of(&self, action: Action) -> Vec<Event> {
        let records = self.records().into_iter();
        records.filter(|event| event.action == action).collect()
    }
}

/// All records except the first.
fn records(path: &Path) -> Vec<Event> {
    read(path).skip(1).collect()
}

fn actions(events: &[Event]) -> Vec<&'static str> {
    events.iter().map(|event| event.action.as_str()).collect()
}

/// Every id stands for one outcome, and every outcome has one id.
fn assert_each_once(events: &[Event], context: &str) {
    let mut ids = BTreeMap::new();
    let mut outcomes = BTreeMap::new();
    for event in events {
        *ids.entry(event.id.clone()).or_insert(0) += 1;
        let what = (event.action.as_str(), event.container_id.clone(), event.release);
        outcomes.entry(what).or_insert_with(Vec::new).push(&event.id);
    }
    assert!(ids.values().all(|count| *count == 1), "{context}: {events:#?}");
    assert!(
        outcomes.values().all(|ids| ids.len() == 1),
        "{context}: {events:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn records_upgrade_with_all_details() {
    let at = Audited::new(Way::StartFirst.host());
    at.once(NEW).await;
    let [upgraded] = at.records().try_into().unwrap();
    assert_eq!(
        (upgraded.action, upgraded.actor),
        (Action::Upgraded, Actor::System)
    );
    assert_eq!(
        (upgraded.host.as_str(), upgraded.container.as_str()),
        ("a-host", "dd")
    );
    assert_eq!(
        (upgraded.from.as_deref(), upgraded.to.as_deref()),
        (Some(OLD), Some(NEW))
    );
    assert_eq!((upgraded.release, upgraded.tasks_cut_short), (Some(1), None));
    assert_eq!(upgraded.message, format!("replaced {OLD} with {NEW}"));
    let serving = at.host.find("dd");
    assert_eq!(upgraded.container_id.as_deref(), Some(serving.id.as_str()));
    let seconds = upgraded.seconds;
    let about = |found: Option<f64>, span: Duration| {
        let off = found.unwrap_or(-100.0) - span.as_secs_f64();
        assert!(off.abs() < 10.0, "{seconds:?}");
    };
    about(seconds.proof, READY + Duration::from_secs(10));
    about(seconds.drain, DRAIN);
    assert!(
        seconds.pull.is_some() && seconds.downtime.is_none(),
        "{seconds:?}"
    );
    // The same image leads to no further record.
    at.once(NEW).await;
    assert_eq!(at.records().len(), 1);

    let at = Audited::new(Way::StopFirst.host());
    at.once(NEW).await;
    let [upgraded] = at.records().try_into().unwrap();
    let downtime = upgraded.seconds.downtime.unwrap();
    assert!(downtime >= (DRAIN + READY).as_secs_f64() - 1.0, "{upgraded:?}");
}

#[tokio::test(start_paused = true)]
async fn reports_that_a_proof_was_weak() {
    let at = Audited::new(Way::StartFirst.host());
    at.host
        .set_slow(|_| Some((Duration::ZERO, HttpOutcome::NoRoute("no route".to_owned()))));
    at.host.fault(Operation::CreateExec, Fault::Refuse(403));
    at.once(NEW).await;
    let message = &at.of(Action::Upgraded)[0].message;
    assert!(message.ends_with("so the proof was that it ran"), "{message}");
}

/// Kills a process at each write, which never arrives, and at the first call after each write.
async fn killed_around_every_write(way: Way, check: impl Fn(&[Event], &str), bad: Option<Behaviour>) {
    for k in points(0) {
        let host = way.host();
        if let Some(behaviour) = &bad {
            host.publish(NEW, behaviour.clone());
        }
        let at = Audited::new(host);
        let mut upgrader = at.upgrader(NEW);
        let run = at.host.scheduled_run(&mut upgrader);
        let (mut points, mut has_written) = (0, false);
        let is_point = move |call: &Call| {
            let is_one = call.is_write() || has_written;
            has_written = call.is_write();
            points += usize::from(is_one);
            is_one && points > k
        };
        let finished = !killed_during(&at.host, is_point, run).await;
        drop(upgrader);
        for _ in 0..3 {
            at.once(NEW).await;
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        let context = format!("{way:?}, killed at point {k}");
        let events = at.records();
        assert_each_once(&events, &context);
        check(&events, &context);
        if finished {
            assert!(k > 8, "{k} calls");
            break;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn records_an_upgrade_exactly_once_no_matter_when_the_process_is_killed() {
    for way in Way::ALL {
        let check = |events: &[Event], context: &str| {
            let upgraded = events.iter().filter(|event| event.action == Action::Upgraded);
            assert_eq!(upgraded.count(), 1, "{context}: {events:#?}");
        };
        killed_around_every_write(way, check, None).await;
    }
}

#[tokio::test(start_paused = true)]
async fn records_rejection_once_despite_kills() {
    for way in Way::ALL {
        let check = |events: &[Event], context: &str| {
            let of = |action| events.iter().filter(|event| event.action == action).count();
            assert_eq!(of(Action::Rejected), 1, "{context}: {events:#?}");
            assert_eq!(of(Action::Upgraded), 0, "{context}: {events:#?}");
            if way.stops_first() {
                assert_eq!(of(Action::Restored), 1, "{context}: {events:#?}");
            }
        };
        killed_around_every_write(way, check, Some(Behaviour::never_healthy())).await;
    }
}

#[tokio::test(start_paused = true)]
async fn records_failure_after_the_commit_as_rejection_and_restore() {
    let host = Way::StartFirst.host();
    let health = Wellness::For(Duration::from_secs(25));
    host.publish(NEW, good().with_health(health));
    let at = Audited::new(host);
    at.once(NEW).await;
    let mut records = at.records();
    records.retain(|event| !matches!(event.action, Action::HealthLost | Action::HealthRegained));
    assert_eq!(actions(&records), ["rejected", "restored"], "{records:#?}");
    let words = format!("{NEW} was rejected: ");
    assert!(records[0].message.starts_with(&words), "{records:?}");
    assert!(records[0].reason.is_some());
    assert_eq!(records[1].to.as_deref(), Some(OLD));
}

#[tokio::test(start_paused = true)]
async fn attributes_a_request_to_its_person_after_another_process_finished_it() {
    let at = Audited::new(Way::StartFirst.host());
    at.host.publish(NEWER, good());
    let ada = Request::new(Some("ada\u{1b}[31m\n"), Some(&"too slow ".repeat(99)));
    for _ in 0..2 {
        let mut command = at.command();
        if at.records().is_empty() {
            command.retry("dd", ada.clone()).await.unwrap();
        } else {
            command.rollback("dd", None, ada.clone(), []).await.unwrap();
        }
        let left = at.host.continue_for(&mut command, Duration::from_secs(5));
        assert!(left.await.is_none(), "the command ends in the middle");
        drop(command);
        at.host.finish(&mut at.upgrader(NEW)).await;
    }
    at.once(NEWER).await;
    let records = at.records();
    assert_eq!(actions(&records[..3]), ["upgraded", "rolled_back", "upgraded"]);
    assert_eq!(records[1].release, Some(2));
    let words = format!("; requested by ada: {}", ada.reason.as_deref().unwrap());
    for record in &records[..2] {
        assert_eq!(
            (record.actor, record.request.as_ref()),
            (Actor::Operator, Some(&ada))
        );
        assert!(
            record.message.ends_with(&words) && words.len() < 300,
            "{record:?}"
        );
    }
    assert_eq!((records[2].actor, &records[2].request), (Actor::System, &None));
}

#[tokio::test(start_paused = true)]
async fn records_each_pause_and_its_end_once() {
    let at = Audited::new(Way::StartFirst.host());
    let twin = &at.host.twin;
    let (ada, bob) = (
        Request::new(Some("ada"), Some("a freeze")),
        Request::new(Some("bob"), None),
    );
    let day = twin.wall_clock() + chrono::TimeDelta::days(1);
    // No daemon runs, and the next one finds the pause. Another upgrader manages the other delegate.
    pause(twin, None, twin.wall_clock(), Some(day), &ada)
        .await
        .unwrap();
    pause(
        twin,
        Some("other"),
        twin.wall_clock() + chrono::TimeDelta::seconds(1),
        None,
        &ada,
    )
    .await
    .unwrap();
    tokio::time::sleep(HOUR).await;
    at.once(OLD).await;
    let mut daemon = at.upgrader(OLD).watching();
    daemon.reconcile().await.unwrap();
    for (action, delegate) in [("pause", Some("dd")), ("resume", None)] {
        let now = twin.wall_clock();
        match action {
            "pause" => pause(twin, delegate, now, None, &bob).await.unwrap(),
            _ => assert!(resume(twin, delegate, now, &bob).await.unwrap()),
        }
        // The command and the daemon both record it.
        let pauses = read_records(twin).await.unwrap().pauses;
        at.ledger()
            .observe_pauses(&pauses, |name| name == "dd", now)
            .await;
        daemon.answered().await;
        daemon.reconcile().await.unwrap();
    }
    let counts = &daemon.core().ledger.tally.outcomes;
    assert_eq!((counts["paused"], counts["resumed"]), (2, 1));
    at.once(OLD).await;
    let records = at.records();
    let said = records
        .iter()
        .map(|it| format!("{} {:?} {}", it.action, it.container, it.message));
    let until = delegate_upgrader::text::time::text(day);
    let expected = [
        format!("paused \"\" upgrades are paused until {until}; requested by ada: a freeze"),
        "paused \"dd\" upgrades are paused; requested by bob".to_owned(),
        "resumed \"\" upgrades have resumed; requested by bob".to_owned(),
    ];
    assert_eq!(said.collect::<Vec<_>>(), expected);
    let histories = daemon.history(None, records).await.unwrap();
    assert_eq!(
        (histories.len(), histories[0].events.len()),
        (1, 1),
        "{histories:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_daemon_and_a_command_record_nothing_twice() {
    let at = Audited::new(Way::StartFirst.host());
    let mut daemon = at.upgrader(NEW);
    at.host.scheduled_run(&mut daemon).await;
    let mut command = at.command();
    command
        .rollback("dd", None, Request::default(), [])
        .await
        .unwrap();
    tokio::select! {
        _ = at.host.finish(&mut command) => {}
        () = async {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let _ = daemon.reconcile().await;
            }
        } => {}
    }
    let _ = daemon.reconcile().await;
    let records = at.records();
    assert_each_once(&records, "");
    assert_eq!(actions(&records), ["upgraded", "rolled_back"]);
}

#[tokio::test(start_paused = true)]
async fn records_both_upgrades_if_a_drain_outlasts_the_second_one() {
    let host = Host::new();
    let slow = Duration::from_secs(1800);
    host.twin.set_behaviour(OLD, &Behaviour::drains(slow));
    host.run("dd");
    host.publish(NEWER, good());
    let at = Audited::new(host);
    let mut daemon = at.upgrader(NEW);
    daemon.start_run(delegate_upgrader::rollout::Intent::Upgrade);
    let _ = at.host.continue_for(&mut daemon, Duration::from_secs(120)).await;
    at.once(NEWER).await;
    let upgraded = at.of(Action::Upgraded);
    let to = upgraded.iter().map(|event| event.to.as_deref().unwrap());
    assert_eq!(to.collect::<Vec<_>>(), [NEW, NEWER], "{upgraded:#?}");
}

#[tokio::test(start_paused = true)]
async fn omits_outcomes_older_than_the_log() {
    let host = Way::StartFirst.host();
    host.once(NEW).await;
    tokio::time::sleep(HOUR).await;
    let at = Audited::new(host);
    at.once(NEW).await;
    assert_eq!(at.records().len(), 0);
}

fn template(time: chrono::DateTime<chrono::Utc>) -> Event {
    let record = serde_json::json!({
        "id": "0", "time": time.to_rfc3339(), "host": "a-host", "version": "0.1.0", "actor": "SYSTEM",
        "action": "upgraded", "workload": "docker-delegate", "container": "another", "message": "replaced",
    });
    serde_json::from_value(record).unwrap()
}

#[tokio::test(start_paused = true)]
async fn records_lost_and_regained_health_once_each() {
    let at = Audited::new(Way::StartFirst.host());
    let mut daemon = at.upgrader(OLD);
    at.host.scheduled_run(&mut daemon).await;
    at.host.twin.set_manager_reachable(false);
    for minute in 0..30 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        if minute == 15 {
            // Another process continues.
            daemon = at.upgrader(OLD);
        }
        let _ = daemon.reconcile().await;
    }
    assert_eq!(at.of(Action::HealthLost).len(), 1, "{:#?}", at.records());
    at.host.twin.set_manager_reachable(true);
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let _ = daemon.reconcile().await;
    }
    let mut health = at.records();
    health.retain(|event| event.action != Action::Skipped);
    assert_eq!(
        actions(&health),
        ["health_lost", "health_regained"],
        "{health:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn records_a_blocked_delegate_once_and_its_recovery_once() {
    let at = Audited::new(Way::StartFirst.host());
    let mut daemon = at.upgrader("harness/delegate:26.09.9");
    for hour in 0..5 {
        if hour == 3 {
            daemon = at.upgrader("harness/delegate:26.09.9");
        }
        at.host.scheduled_run(&mut daemon).await;
        tokio::time::sleep(HOUR).await;
    }
    let [skipped] = at.records().try_into().unwrap();
    assert_eq!(skipped.action, Action::Skipped);
    assert_eq!(skipped.reason.as_deref(), Some("pull_failed"));
    assert!(!skipped.resolved);
    at.once(NEW).await;
    let records = at.records();
    let over: Vec<&Event> = records.iter().filter(|event| event.resolved).collect();
    assert_eq!(over.len(), 1, "{records:#?}");
}

#[tokio::test(start_paused = true)]
async fn rolls_back_to_a_release_recorded_in_the_log() {
    let host = Host::new();
    host.run_with("dd", host_network);
    host.publish(NEWER, good());
    host.publish(BAD, Behaviour::never_healthy());
    let at = Audited::new(host);
    for image in [NEW, BAD, NEWER] {
        at.once(image).await;
    }
    // Another container keeps the image between the first and the last one.
    at.host.twin.run("another", &delegate_body("another", NEW));
    let mut command = at.command();
    let histories = command.history(Some("dd"), at.records()).await.unwrap();
    let shown = |histories: &[History]| {
        let releases = histories[0].releases.iter();
        let words =
            releases.map(|it| format!("{} {} {} {}", it.release, it.image, it.outcome, it.is_serving));
        words.collect::<Vec<_>>()
    };
    let all = [
        format!("0 {OLD} original false"),
        format!("1 {NEW} upgraded false"),
        format!("2 {BAD} rejected false"),
        format!("1 {NEW} restored false"),
        format!("3 {NEWER} upgraded true"),
    ];
    assert_eq!(shown(&histories), all);
    // The containers show the release in service and the one before; their numbers need not be consecutive.
    let unlogged = command.history(Some("dd"), []).await.unwrap();
    assert_eq!(shown(&unlogged), [all[1].clone(), all[4].clone()]);
    let unknown = command
        .rollback("dd", Some("7"), Request::default(), at.records())
        .await
        .unwrap_err();
    let words = format!("dd has no release 7 that is known here; known: 0 ({OLD}), 1 ({NEW})");
    assert_eq!(unknown.to_string(), words);
    let same = command
        .rollback("dd", Some("3"), Request::default(), at.records())
        .await
        .unwrap_err();
    assert!(matches!(same, OperatorError::AlreadyThere { .. }), "{same}");

    command
        .rollback("dd", Some("0"), Request::default(), at.records())
        .await
        .unwrap();
    at.host.finish(&mut command).await;
    assert_eq!(at.host.find("dd").image, OLD);
    // From one rollback to another release: the image that the first rollback left stays rolled back.
    let mut command = at.command();
    command
        .rollback("dd", Some("1"), Request::default(), at.records())
        .await
        .unwrap();
    let report = at.host.finish(&mut command).await;
    let came_from = format!("rolled back from {OLD} to {NEW}; it stays there");
    assert!(row(&report, "dd").message.starts_with(&came_from), "{report:?}");
    assert_eq!(at.host.find("dd").image, NEW);
    at.once(NEWER).await;
    assert_eq!(at.host.find("dd").image, NEW);
    let records = at.records();
    assert_each_once(&records, "");
    let upgrades = ["upgraded", "rejected", "restored", "upgraded"];
    let rollbacks = ["rolled_back", "rolled_back", "image_removed"];
    assert_eq!(actions(&records), [&upgrades[..], &rollbacks[..]].concat());
}
