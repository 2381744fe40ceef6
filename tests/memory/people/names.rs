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
