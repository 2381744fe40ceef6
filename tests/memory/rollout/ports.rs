//! All host ports are taken, which is not the image's fault.

use delegate_upgrader::config::UpdateOrder;
use delegate_upgrader::container::RunState;
use delegate_upgrader::rollout::reason::ReasonKind;
use serde_json::{Value, json};

use super::host::{DRAIN, Host, NEW, NEWER, OLD, auto_remove, good, published_port, row};
use kit::twin::{Operation, OperatorAction};

/// A range with room for two.
fn range(body: &mut Value) {
    body["HostConfig"]["PortBindings"] = json!({ "3460/tcp": [{ "HostPort": "3460-3461" }] });
}

#[tokio::test(start_paused = true)]
async fn replaces_replicas_that_exhaust_a_port_range_stop_first() {
    for change in [|_: &mut Value| (), auto_remove] {
        let host = Host::new();
        for name in ["aa", "bb"] {
            host.run_with(name, |body| {
                change(body);
                range(body);
            });
        }
        let report = host.once(NEW).await;
        assert!(!report.has_failures(), "{report:?}");
        host.assert_settled(&["aa", "bb"], NEW, "");
        assert_eq!(host.fewest_working(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn replaces_delegate_with_port_range_start_first() {
    let host = Host::new();
    host.run_with("dd", range);
    host.upgrade(NEW).await;
    assert_eq!(host.fewest_working(), 1);
}

#[tokio::test(start_paused = true)]
async fn reports_an_exhausted_port_range_if_start_first_is_required() {
    let mut host = Host::new();
    host.settings.policy.update_order = UpdateOrder::StartFirst;
    for name in ["aa", "bb"] {
        host.run_with(name, range);
    }
    let mut upgrader = host.upgrader(NEW);
    let before = host.count(Operation::Create);
    let report = host.scheduled_run(&mut upgrader).await;
    assert_eq!(row(&report, "aa").reason.as_str(), "cannot_start_first");
    assert!(
        row(&report, "aa").message.contains("all ports are allocated"),
        "{report:?}"
    );
    assert_eq!(host.names(), ["aa", "bb"]);
    assert_eq!(host.fewest_working(), 2);
    assert_eq!(
        host.count(Operation::Create) - before,
        2,
        "one candidate for each of them"
    );
    // A port is free at the next run.
    host.by_hand(OperatorAction::Stop, "bb");
    tokio::time::sleep(DRAIN).await;
    let report = host.scheduled_run(&mut upgrader).await;
    assert_eq!(host.find("aa").image, NEW, "{report:?}");
}

/// The engine refuses the port in either order, and the message says why.
#[tokio::test(start_paused = true)]
async fn rejects_a_candidate_whose_port_is_taken() {
    for change in [range, published_port] {
        let host = Host::new();
        let taken = "Bind for 0.0.0.0:3460 failed: port is already allocated";
        let refused = good().refused(taken);
        host.publish(NEW, refused);
        let old = host.run_with("dd", change);
        let report = host.once(NEW).await;
        assert_eq!(row(&report, "dd").reason.as_str(), "rejected", "{report:?}");
        assert!(row(&report, "dd").message.contains(taken), "{report:?}");
        assert_eq!(host.names(), ["dd", "dd.failed-1"]);
        let now = host.find("dd");
        assert_eq!((now.id, now.state), (old, RunState::Running));
        host.publish(NEWER, good());
        host.once(NEWER).await;
        host.assert_settled_on("dd", NEWER, "");
    }
}

/// A plan tries nothing, so it counts the ports.
#[tokio::test(start_paused = true)]
async fn a_plan_reports_an_exhausted_port_range() {
    let mut host = Host::new();
    host.run_with("aa", range);
    let planned = host.upgrader(NEW).plan(|_| ()).await.unwrap();
    assert_eq!(
        planned[0].update_order.as_deref(),
        Some("start-first"),
        "{planned:?}"
    );
    // Another container's port counts as well.
    let other =
        json!({ "Image": OLD, "HostConfig": { "PortBindings": { "1/tcp": [{ "HostPort": "3461" }] } } });
    host.twin.run("other", &other);
    let planned = host.upgrader(NEW).plan(|_| ()).await.unwrap();
    assert_eq!(
        planned[0].update_order.as_deref(),
        Some("stop-first"),
        "{planned:?}"
    );
    assert!(
        planned[0].message.contains("all ports of 3460-3461 are taken"),
        "{planned:?}"
    );
    host.settings.policy.update_order = UpdateOrder::StartFirst;
    let planned = host.upgrader(NEW).plan(|_| ()).await.unwrap();
    assert_eq!(planned[0].reason, Some(ReasonKind::CannotStartFirst));
    assert_eq!(planned[0].cause, Some("no_free_port"));
}
