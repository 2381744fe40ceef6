//! Names that somebody else's containers have.

use serde_json::json;

use crate::rollout::host::{Host, NEW, OLD, auto_remove, host_network, row};
use kit::twin::Behaviour;

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
