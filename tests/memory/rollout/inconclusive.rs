//! A verdict on a candidate counts only beside that on the others, and with the Manager in reach.

use std::time::Duration;

use delegate_upgrader::container::ContainerId;
use delegate_upgrader::reconcile::upgrade_run::Mode;

use super::host::{HOUR, Host, NEW, OLD, auto_remove, good, host_network, published_port, row};
use kit::twin::{Behaviour, Happened};

/// The Manager goes away right after it has been asked, and is back after so long.
async fn with_an_outage(host: &Host, outage: Duration) -> delegate_upgrader::status::report::Report {
    let outage = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        host.twin.set_manager_reachable(false);
        tokio::time::sleep(outage).await;
        host.twin.set_manager_reachable(true);
    };
    tokio::join!(host.once(NEW), outage).0
}

fn created(host: &Host) -> usize {
    let events = host.twin.events();
    events
        .iter()
        .filter(|event| event.what == Happened::Created)
        .count()
}

#[tokio::test(start_paused = true)]
async fn a_long_outage_of_the_manager_withdraws_the_candidate_without_quarantine() {
    for change in [
        |_: &mut serde_json::Value| (),
        host_network,
        published_port,
        auto_remove,
    ] {
        let host = Host::new();
        host.run_with("dd", change);
        let report = with_an_outage(&host, HOUR).await;
        assert_eq!(row(&report, "dd").reason.as_str(), "inconclusive", "{report:?}");
        assert!(report.has_failures());
        assert_eq!(host.names(), ["dd"]);
        assert_eq!(host.find("dd").image, OLD);
        // The next run is none the wiser, and upgrades it.
        let report = host.once(NEW).await;
        assert!(!report.has_failures(), "{report:?}");
        assert_eq!(host.find("dd").image, NEW);
        assert_eq!(host.names(), ["dd"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_extends_the_proof() {
    let host = Host::new();
    host.run("dd");
    let report = with_an_outage(&host, Duration::from_secs(150)).await;
    assert!(!report.has_failures(), "{report:?}");
    host.assert_settled_on("dd", NEW, "");
    assert_eq!(created(&host), 2, "one candidate is enough");
}

/// While the Manager is away nobody is healthy: the successor is not to blame, however long it takes.
#[tokio::test(start_paused = true)]
async fn an_outage_after_the_commit_does_not_bring_the_old_one_back() {
    let host = Host::new();
    let old = host.run("dd");
    let outage = async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        host.twin.set_manager_reachable(false);
        tokio::time::sleep(HOUR).await;
        host.twin.set_manager_reachable(true);
    };
    let (report, ()) = tokio::join!(host.once(NEW), outage);
    assert!(!report.has_failures(), "{report:?}");
    host.assert_settled_on("dd", NEW, "");
    assert_eq!(lives(&host, &old), 1);
}

/// It ends as soon as it cannot reach its Manager: the old one comes back, and the image is not blamed.
#[tokio::test(start_paused = true)]
async fn a_successor_that_ends_in_an_outage_gives_way_without_quarantine() {
    let host = Host::new();
    host.publish(
        NEW,
        Behaviour {
            ready_after: Duration::from_secs(5),
            ..Behaviour::exits(Duration::from_secs(40), 1)
        },
    );
    host.run_with("dd", |body| {
        body["HostConfig"]["RestartPolicy"]["Name"] = "no".into();
    });
    let outage = async {
        tokio::time::sleep(Duration::from_secs(35)).await;
        host.twin.set_manager_reachable(false);
    };
    let (report, ()) = tokio::join!(host.once(NEW), outage);
    assert_eq!(row(&report, "dd").reason.as_str(), "inconclusive", "{report:?}");
    assert_eq!(host.names(), ["dd"]);
    assert_eq!(host.find("dd").image, OLD);
    let calls = host.twin.calls().len();
    assert!(calls < 2000, "{calls} calls");
}

fn lives(host: &Host, id: &ContainerId) -> usize {
    let events = host.events_of(id);
    events
        .iter()
        .filter(|event| event.what == Happened::Started)
        .count()
}

/// The old ones lost their health in the same minutes: something else is wrong here.
#[tokio::test(start_paused = true)]
async fn where_the_old_ones_are_unhealthy_too_the_image_is_not_blamed() {
    let host = Host::new();
    let ailing = Behaviour {
        health: kit::twin::Wellness::For(Duration::from_secs(40)),
        ..Behaviour::drains(Duration::from_secs(5))
    };
    host.twin.add_image(OLD, host.twin.image(ailing));
    host.publish(NEW, Behaviour::never_healthy());
    for name in ["aa", "bb"] {
        host.run(name);
    }
    let report = host.once(NEW).await;
    assert_eq!(row(&report, "aa").reason.as_str(), "inconclusive", "{report:?}");
    assert!(
        row(&report, "aa").message.contains("is unhealthy too"),
        "{report:?}"
    );
    // That says nothing about the other one, which is in the same state.
    assert_eq!(row(&report, "bb").reason.as_str(), "inconclusive", "{report:?}");
    assert_eq!(
        host.names(),
        ["aa", "aa.inconclusive-1", "bb", "bb.inconclusive-1"]
    );
}

/// One replica has always been unhealthy: that says nothing about the image of today.
#[tokio::test(start_paused = true)]
async fn peers_that_were_unhealthy_before_are_no_excuse() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    host.run("aa");
    host.twin.add_image(
        "harness/delegate:26.01.1",
        host.twin.image(Behaviour::never_healthy()),
    );
    host.run_with("bb", |body| body["Image"] = "harness/delegate:26.01.1".into());
    let mut upgrader = host.upgrader(NEW);
    // An hour of observations before the first scheduled run.
    for _ in 0..60 {
        let _ = upgrader.reconcile().await;
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    let report = host.scheduled_run(&mut upgrader).await;
    assert_eq!(row(&report, "aa").reason.as_str(), "rejected", "{report:?}");
}

/// After the commit, too: those that stay unhealthy do not keep a successor that fails from being rejected.
#[tokio::test(start_paused = true)]
async fn peers_that_stay_unhealthy_are_no_excuse_for_ever() {
    let host = Host::new();
    host.publish(NEW, Behaviour::flaps(HOUR, HOUR * 1000));
    host.run("aa");
    host.twin.add_image(
        "harness/delegate:26.01.1",
        host.twin.image(Behaviour::never_healthy()),
    );
    host.run_with("bb", |body| {
        body["Image"] = "harness/delegate:26.01.1".into();
        body["Labels"]["io.delegate-upgrader.enable"] = "false".into();
    });
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    while host.find("aa").image != NEW {
        host.go_on(&mut upgrader, Duration::from_secs(5)).await;
    }
    assert_eq!(host.names().len(), 3, "the old one drains: {:?}", host.names());
    // The next process sees neither of them well.
    drop(upgrader);
    tokio::time::sleep(HOUR * 2).await;
    host.go_on(&mut host.upgrader(NEW), HOUR).await;
    assert_eq!(host.names(), ["aa", "aa.failed-1", "bb"]);
    assert_eq!(host.find("aa").image, OLD);
}

#[tokio::test(start_paused = true)]
async fn an_image_that_fails_where_all_others_are_healthy_is_blamed() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    for name in ["aa", "bb"] {
        host.run(name);
    }
    let report = host.once(NEW).await;
    assert_eq!(row(&report, "aa").reason.as_str(), "rejected", "{report:?}");
    host.publish(NEW, good());
}
