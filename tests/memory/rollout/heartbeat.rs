//! The Manager hears of an upgrader that waits for its schedule.

use std::time::Duration;

use delegate_upgrader::reconcile::upgrade_run::Mode;
use serde_json::json;

use super::host::{GROUP, HOUR, Host, NEW, OLD, Upgrader, good, host_network};
use kit::twin::{Behaviour, delegate_body};

/// After so long without a word the Manager shows AUTO UPGRADE as off.
const LIMIT: Duration = Duration::from_secs(90 * 60);
const MINUTE: Duration = Duration::from_secs(60);

/// As the daemon does between two ticks of its schedule.
async fn idle(host: &Host, upgrader: &mut Upgrader, time: Duration) {
    let end = host.twin.elapsed() + time;
    while host.twin.elapsed() < end {
        upgrader.reconcile().await.unwrap();
        upgrader.check_in();
        tokio::time::sleep(MINUTE.min(upgrader.next_check_in())).await;
    }
}

/// The same with a run so often.
async fn scheduled(host: &Host, upgrader: &mut Upgrader, every: Duration, passes: usize) {
    for _ in 0..passes {
        upgrader.start_run(Mode::Upgrade);
        idle(host, upgrader, every).await;
    }
}

fn longest_silence(host: &Host) -> Duration {
    longest_silence_about(host, GROUP)
}

fn longest_silence_about(host: &Host, name: &str) -> Duration {
    let asked = host.asked.lock().unwrap().clone();
    let about = asked.iter().filter(|(_, asked, _)| asked == name);
    let mut times: Vec<Duration> = about.map(|(at, ..)| *at).collect();
    times.push(host.twin.elapsed());
    times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_nightly_window_leaves_no_ninety_minutes_of_silence_and_changes_nothing() {
    let host = Host::new();
    host.run("d1");
    host.run("d2");
    let mut upgrader = host.upgrader(NEW);
    // The check at start, without leave to change anything.
    upgrader.start_run(Mode::ReportOnly);
    idle(&host, &mut upgrader, 23 * HOUR).await;
    assert!(longest_silence(&host) < LIMIT, "{:?}", longest_silence(&host));
    assert_eq!(host.twin.writes(), [], "nothing is changed outside the schedule");
    let asked = host.asked.lock().unwrap().clone();
    // Two replicas are one question, with the image they run.
    assert!(asked.len() < 40, "{} questions", asked.len());
    assert!(asked.iter().all(|(_, name, image)| name == GROUP && image == OLD));
    let manager_status = upgrader.manager_status().unwrap();
    assert_eq!(
        manager_status.published[GROUP], NEW,
        "status tells that there is a newer one"
    );
    assert_eq!(manager_status.problem, None);
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_reported_and_over_within_minutes_of_its_end() {
    let host = Host::new();
    host.run("d1");
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::ReportOnly);
    idle(&host, &mut upgrader, HOUR).await;
    host.twin.set_manager_reachable(false);
    idle(&host, &mut upgrader, 3 * HOUR).await;
    let problem = upgrader.manager_status().unwrap().problem.clone();
    assert!(problem.unwrap().contains("unreachable"));
    host.twin.set_manager_reachable(true);
    idle(&host, &mut upgrader, 10 * MINUTE).await;
    assert_eq!(upgrader.manager_status().unwrap().problem, None);
    assert_eq!(host.twin.writes(), []);
}

/// Nobody is asked for whose owner opted out, and nothing is asked where there is nobody.
#[tokio::test(start_paused = true)]
async fn without_a_delegate_nothing_is_asked_and_the_first_one_is_asked_for() {
    let host = Host::new();
    host.run_with("out", |body| {
        body["Labels"] = json!({ "io.delegate-upgrader.enable": "false" });
    });
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::ReportOnly);
    idle(&host, &mut upgrader, 3 * HOUR).await;
    assert_eq!(host.asked.lock().unwrap().len(), 0);
    assert_eq!(
        upgrader.manager_status().unwrap().answered_at,
        None,
        "who was not asked has not answered"
    );
    host.publish("harness/delegate:26.05.1", good());
    host.twin.run("d1", &delegate_body(GROUP, OLD));
    idle(&host, &mut upgrader, HOUR).await;
    assert!(!host.asked.lock().unwrap().is_empty());
}

/// Nobody is in service then for an hour: the old one has its name no more, the new one does not have it yet.
#[tokio::test(start_paused = true)]
async fn a_stop_first_drain_leaves_no_ninety_minutes_of_silence() {
    let host = Host::new();
    host.twin
        .add_image(OLD, host.twin.image(Behaviour::ignores_stop()));
    host.run_with("d1", host_network);
    let mut upgrader = host.upgrader(NEW);
    scheduled(&host, &mut upgrader, HOUR, 4).await;
    host.assert_settled_on("d1", NEW, "");
    assert!(longest_silence(&host) < LIMIT, "{:?}", longest_silence(&host));
}

/// What runs ask about one delegate says nothing about the other, which they leave out.
#[tokio::test(start_paused = true)]
async fn a_workload_that_the_runs_leave_out_is_asked_for_beside_them() {
    let mut host = Host::new();
    host.further = vec!["other".to_owned()];
    host.twin
        .add_image(OLD, host.twin.image(Behaviour::ignores_stop()));
    host.run_with("d1", |body| {
        host_network(body);
        body["Labels"] = json!({ "io.delegate-upgrader.stop-timeout": "3h" });
    });
    host.twin.run("other-1", &delegate_body("other", OLD));
    let mut upgrader = host.upgrader(NEW);
    scheduled(&host, &mut upgrader, HOUR / 2, 8).await;
    host.find("d1");
    for name in [GROUP, "other"] {
        let silence = longest_silence_about(&host, name);
        assert!(silence < LIMIT, "{name}: {silence:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_workload_that_the_manager_refuses_does_not_silence_the_others() {
    let mut host = Host::new();
    host.further = vec!["a-refused".to_owned(), "z-last".to_owned()];
    host.refused = ["a-refused".to_owned()].into();
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::ReportOnly);
    // All are due at once from here on.
    for (container, name) in [("d1", GROUP), ("r1", "a-refused"), ("z1", "z-last")] {
        host.twin.run(container, &delegate_body(name, OLD));
    }
    idle(&host, &mut upgrader, 10 * HOUR).await;
    for name in [GROUP, "z-last"] {
        let silence = longest_silence_about(&host, name);
        assert!(silence < LIMIT, "{name}: {silence:?}");
    }
    let manager_status = upgrader.manager_status().unwrap();
    assert_eq!(
        manager_status.published.keys().collect::<Vec<_>>(),
        [GROUP, "z-last"],
        "what was answered is told"
    );
    assert!(manager_status.problem.unwrap().contains("not for a-refused"));
    assert_eq!(
        manager_status.answered_at, None,
        "it never answered for all of them"
    );
}
