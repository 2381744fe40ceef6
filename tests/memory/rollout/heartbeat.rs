//! The Manager sees that an upgrader is there while the upgrader waits for its schedule.

use std::time::Duration;

use delegate_upgrader::reconcile::controller::Controller as _;
use delegate_upgrader::rollout::Intent;
use serde_json::json;

use super::health_restarts::MINUTE;
use super::host::{GROUP, HOUR, Host, NEW, OLD, Upgrader, host_network, row};
use kit::twin::{Behaviour, Operation, delegate_body};

/// After this time without a request, the Manager shows AUTO UPGRADE as off.
const LIMIT: Duration = Duration::from_secs(90 * 60);

/// Acts like the daemon between two ticks of its schedule.
async fn idle(host: &Host, upgrader: &mut Upgrader, time: Duration) {
    let end = host.twin.elapsed() + time;
    while host.twin.elapsed() < end {
        upgrader.reconcile().await.unwrap();
        upgrader.check_in();
        tokio::time::sleep(MINUTE.min(upgrader.next_check_in())).await;
    }
}

/// A daemon after its check at the start, which may change nothing.
fn daemon(host: &Host) -> Upgrader {
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Intent::Report);
    upgrader
}

/// The same with runs at this interval.
async fn scheduled(host: &Host, every: Duration, runs: usize) {
    let mut upgrader = host.upgrader(NEW);
    for _ in 0..runs {
        upgrader.start_run(Intent::Upgrade);
        idle(host, &mut upgrader, every).await;
    }
}

fn assert_never_silent(host: &Host, about: &[&str]) {
    for name in about {
        let asked = host.manager.asked.lock().unwrap().clone();
        let about = asked.iter().filter(|(_, asked, _)| asked == name);
        let mut times: Vec<Duration> = about.map(|(at, ..)| *at).collect();
        times.push(host.twin.elapsed());
        let silence = times.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(silence.unwrap() < LIMIT, "{name}: {silence:?}");
    }
}

/// Two replicas cause one request, with the image that they run.
#[tokio::test(start_paused = true)]
async fn asks_often_enough_before_a_nightly_window_and_changes_nothing() {
    let host = Host::new();
    host.run("d1");
    host.run("d2");
    let mut upgrader = daemon(&host);
    idle(&host, &mut upgrader, 23 * HOUR).await;
    assert_never_silent(&host, &[GROUP]);
    assert_eq!(host.twin.writes(), [], "nothing is changed outside the schedule");
    let asked = host.manager.asked.lock().unwrap().clone();
    assert!(asked.len() < 40, "{} questions", asked.len());
    assert!(asked.iter().all(|(_, name, image)| name == GROUP && image == OLD));
    let status = upgrader.manager_status().unwrap();
    assert_eq!((status.published[GROUP].as_str(), status.problem), (NEW, None));
}

/// The next run is an hour later.
#[tokio::test(start_paused = true)]
async fn tells_the_manager_at_once_what_an_upgrade_has_changed() {
    let host = Host::new();
    host.run("d1");
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Intent::Upgrade);
    idle(&host, &mut upgrader, 10 * MINUTE).await;
    host.assert_settled_on("d1", NEW, "");
    let asked = host.manager.asked.lock().unwrap().clone();
    let images: Vec<&str> = asked.iter().map(|(.., image)| image.as_str()).collect();
    assert_eq!(images, [OLD, NEW]);
}

/// The image in the registry of the twin was built on the first day of 2026.
#[tokio::test(start_paused = true)]
async fn asks_once_when_the_image_of_each_container_was_released() {
    let host = Host::new();
    host.run("d1");
    let mut upgrader = daemon(&host);
    idle(&host, &mut upgrader, 3 * HOUR).await;
    let report = upgrader.reconcile().await.unwrap();
    let expiry = row(&report, "d1").expiry.unwrap();
    assert_eq!(
        (expiry.support_ends.to_string(), expiry.about()),
        ("2026-07-01".to_owned(), "")
    );
    let calls = host.twin.calls();
    let mut asked = calls
        .iter()
        .filter(|call| call.operation == Operation::InspectImage);
    assert!(asked.all(|call| call.at < MINUTE));
}

#[tokio::test(start_paused = true)]
async fn reports_an_outage_and_its_end_within_minutes() {
    let host = Host::new();
    host.run("d1");
    let mut upgrader = daemon(&host);
    idle(&host, &mut upgrader, HOUR).await;
    host.twin.set_manager_reachable(false);
    idle(&host, &mut upgrader, 3 * HOUR).await;
    let problem = upgrader.manager_status().unwrap().problem;
    assert!(problem.unwrap().contains("unreachable"));
    host.twin.set_manager_reachable(true);
    idle(&host, &mut upgrader, 10 * MINUTE).await;
    assert_eq!(upgrader.manager_status().unwrap().problem, None);
    assert_eq!(host.twin.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn heartbeat_skips_opted_out_delegate() {
    let host = Host::new();
    host.run_with("out", |body| {
        body["Labels"] = json!({ "io.delegate-upgrader.enable": "false" });
    });
    let mut upgrader = daemon(&host);
    idle(&host, &mut upgrader, 3 * HOUR).await;
    assert_eq!(host.manager.asked.lock().unwrap().len(), 0);
    assert_eq!(upgrader.manager_status().unwrap().answered_at, None);
    host.run("d1");
    idle(&host, &mut upgrader, HOUR).await;
    assert!(!host.manager.asked.lock().unwrap().is_empty());
}

/// For an hour no delegate is in service: the old one gave up its name, and the new one does not have it yet. A run's requests
/// about one delegate do not count for another that the run skips.
#[tokio::test(start_paused = true)]
async fn asks_often_enough_during_a_drain_and_about_delegates_that_runs_skip() {
    let host = Host::new();
    host.twin.set_behaviour(OLD, &Behaviour::ignores_stop());
    host.run_with("d1", host_network);
    scheduled(&host, HOUR, 4).await;
    host.assert_settled_on("d1", NEW, "");
    assert_never_silent(&host, &[GROUP]);

    let mut host = Host::new();
    host.manage(&["other"]);
    host.twin.set_behaviour(OLD, &Behaviour::ignores_stop());
    host.run_with("d1", |body| {
        host_network(body);
        body["Labels"] = json!({ "io.delegate-upgrader.stop-timeout": "3h" });
    });
    host.twin.run("other-1", &delegate_body("other", OLD));
    scheduled(&host, HOUR / 2, 8).await;
    assert_never_silent(&host, &[GROUP, "other"]);
}

#[tokio::test(start_paused = true)]
async fn asks_about_the_others_even_if_the_manager_refuses_one() {
    let mut host = Host::new();
    host.manage(&["a-refused", "z-last"]);
    host.manager.refused = ["a-refused".to_owned()].into();
    let mut upgrader = daemon(&host);
    for (container, name) in [("d1", GROUP), ("r1", "a-refused"), ("z1", "z-last")] {
        host.twin.run(container, &delegate_body(name, OLD));
    }
    idle(&host, &mut upgrader, 10 * HOUR).await;
    assert_never_silent(&host, &[GROUP, "z-last"]);
    let status = upgrader.manager_status().unwrap();
    assert_eq!(status.published.keys().collect::<Vec<_>>(), [GROUP, "z-last"]);
    assert!(status.problem.unwrap().contains("not for a-refused"));
    assert_eq!(status.answered_at, None, "it never answered for all of them");
}
