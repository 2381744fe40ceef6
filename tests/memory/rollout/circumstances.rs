//! Other problems at the time when a candidate fails: the message of its rejection names them, but they decide nothing.

use std::time::Duration;

use super::host::{
    HOUR, Host, NEW, OLD, auto_remove, good, host_network, never_restarted, published_port, row,
};
use kit::twin::{Behaviour, OperatorAction, Wellness};

/// The Manager goes away at this second, after it has been asked, and comes back after the outage.
async fn with_an_outage(host: &Host, begins: u64, outage: Duration) -> String {
    let outage = async {
        tokio::time::sleep(Duration::from_secs(begins)).await;
        host.twin.set_manager_reachable(false);
        tokio::time::sleep(outage).await;
        host.twin.set_manager_reachable(true);
    };
    let (report, ()) = tokio::join!(host.once(NEW), outage);
    let row = row(&report, "dd");
    format!("{} {}", row.reason.as_str(), row.message)
}

/// The candidate is tried again after an hour, and then it works.
#[tokio::test(start_paused = true)]
async fn rejects_a_candidate_during_a_manager_outage_and_names_the_outage() {
    for change in [
        |_: &mut serde_json::Value| (),
        host_network,
        published_port,
        auto_remove,
    ] {
        let host = Host::new();
        host.run_with("dd", change);
        let message = with_an_outage(&host, 3, HOUR).await;
        assert!(message.starts_with("rejected"), "{message}");
        assert_eq!(host.names(), ["dd", "dd.failed-1"]);
        assert_eq!(host.find("dd").image, OLD);
        assert_eq!(host.reason(NEW).await, "quarantined");
        tokio::time::sleep(HOUR).await;
        host.upgrade(NEW).await;
    }
}

#[tokio::test(start_paused = true)]
async fn promotes_a_candidate_that_recovers_within_its_deadline() {
    let host = Host::new();
    host.run("dd");
    with_an_outage(&host, 3, Duration::from_secs(90)).await;
    host.assert_settled_on("dd", NEW, "");
    assert_eq!(
        host.count(kit::twin::Operation::Create),
        1,
        "one candidate is enough"
    );
}

/// While the Manager is away, no delegate is healthy. As long as the old container drains, its successor is not rejected;
/// once the old one has ended, it comes back, which costs an hour.
#[tokio::test(start_paused = true)]
async fn keeps_delegate_through_outage_after_the_commit() {
    let host = Host::new();
    let old = host.run("dd");
    let message = with_an_outage(&host, 30, HOUR).await;
    assert!(message.starts_with("rejected"), "{message}");
    assert_eq!(host.find("dd").id, old);
    tokio::time::sleep(2 * HOUR).await;
    host.upgrade(NEW).await;
}

/// The message says how the candidate ended: a kill by hand looks like a crash.
#[tokio::test(start_paused = true)]
async fn a_rejection_names_unhealthy_delegates_and_how_the_candidate_ended() {
    let host = Host::new();
    let health = Wellness::For(Duration::from_secs(40));
    host.twin
        .set_behaviour(OLD, &Behaviour::default().with_health(health));
    host.publish(NEW, Behaviour::never_healthy());
    for name in ["aa", "bb"] {
        host.run(name);
    }
    let report = host.once(NEW).await;
    let aa = row(&report, "aa");
    assert_eq!(aa.reason.as_str(), "rejected", "{report:?}");
    for words in [
        "(at that time, the delegate in service was",
        "2 of 2 delegates on this host were unhealthy",
    ] {
        assert!(aa.message.contains(words), "{}", aa.message);
    }
    assert_eq!(row(&report, "bb").reason.as_str(), "halted");
    assert_eq!(host.names(), ["aa", "aa.failed-1", "bb"]);

    let host = Host::new();
    host.publish(NEW, good().ready_in(HOUR));
    host.run_with("dd", never_restarted);
    let kill = async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        host.by_hand(OperatorAction::Kill, "dd.candidate");
    };
    let (report, ()) = tokio::join!(host.once(NEW), kill);
    let message = &row(&report, "dd").message;
    assert!(
        message.contains("exited with code 137 before it had proven itself"),
        "{message}"
    );
}
