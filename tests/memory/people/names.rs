//! Names that somebody else's containers have.

use std::time::Duration;

use delegate_upgrader::container::RunState;
use delegate_upgrader::reconcile::upgrade_run::Mode;
use serde_json::{Value, json};

use crate::rollout::host::{DRAIN, Host, NEW, OLD, auto_remove, host_network, row};
use kit::twin::{Behaviour, OperatorAction};

/// Somebody has kept a container under the name that a rejected candidate gets.
#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_stops_no_rejection() {
    for change in [|_: &mut _| (), auto_remove, host_network] {
        let host = Host::new();
        host.publish(NEW, Behaviour::never_healthy());
        host.run_with("dd", change);
        for name in ["dd.failed-1", "dd.failed-2"] {
            host.twin.run(name, &json!({ "Image": OLD }));
        }
        let report = host.once(NEW).await;
        assert_eq!(row(&report, "dd").reason.as_str(), "rejected", "{report:?}");
        assert_eq!(host.names(), ["dd", "dd.failed-1", "dd.failed-2", "dd.failed-3"]);
        assert_eq!(host.find("dd").image, OLD);
        assert_eq!(row(&host.once(NEW).await, "dd").reason.as_str(), "quarantined");
        assert_eq!(host.writes_on("dd.failed-1"), []);
    }
}

/// Somebody copied a label, or a part of them.
#[tokio::test(start_paused = true)]
async fn a_container_that_bears_one_label_of_ours_is_not_ours() {
    let id = "0123456789abcdef".repeat(4);
    let labels = [
        json!({ "io.delegate-upgrader.replaces": id }),
        json!({ "io.delegate-upgrader.name": "dd", "io.delegate-upgrader.replaces": "dd" }),
        json!({ "io.delegate-upgrader.name": "dd", "io.delegate-upgrader.replaces": id }),
        json!({ "io.delegate-upgrader.name": "dd", "io.delegate-upgrader.release": "1" }),
    ];
    for labels in labels {
        let host = Host::new();
        host.run("dd");
        let foreign = host.run_with("dd.candidate", |body| body["Labels"] = labels.clone());
        let report = host.once(NEW).await;
        assert_eq!(
            row(&report, "dd").reason.as_str(),
            "name_taken",
            "{labels} {report:?}"
        );
        assert_eq!(host.find("dd").image, OLD);
        // It is a delegate of its own, under that name.
        assert_eq!(
            row(&report, "dd.candidate").reason.as_str(),
            "up_to_date",
            "{labels} {report:?}"
        );
        assert!(host.events_of(&foreign).len() > 2);
    }
}

/// `docker compose up` makes the one anew that drains, under the name that it has then.
#[tokio::test(start_paused = true)]
async fn one_that_was_made_anew_while_it_drained_makes_room_for_the_candidate_of_the_one_before() {
    for is_fleeting in [false, true] {
        let host = Host::new();
        host.twin
            .add_image(OLD, host.twin.image(Behaviour::drains(DRAIN)));
        let change = |body: &mut Value| {
            host_network(body);
            if is_fleeting {
                auto_remove(body);
            }
        };
        host.run_with("dd", change);
        let mut upgrader = host.upgrader(NEW);
        upgrader.start_run(Mode::Upgrade);
        let is_draining = |name: &&String| name.starts_with("dd.draining-");
        while !host.names().iter().any(|name| is_draining(&name)) {
            host.go_on(&mut upgrader, Duration::from_millis(100)).await;
        }
        host.go_on(&mut upgrader, DRAIN / 2).await;
        let name = host.names().iter().find(is_draining).unwrap().clone();
        host.twin.by_hand(OperatorAction::Remove(name.clone())).unwrap();
        host.run_with(&name, change);
        let calls = host.twin.calls().len();
        let report = host.go_on(&mut upgrader, 4 * DRAIN).await;
        assert_eq!(host.names(), ["dd"], "{is_fleeting} {report:?}");
        assert_eq!(
            (host.find("dd").image.as_str(), host.find("dd").state),
            (NEW, RunState::Running)
        );
        let calls = host.twin.calls().len() - calls;
        assert!(calls < 1000, "{is_fleeting} {calls}");
    }
}
