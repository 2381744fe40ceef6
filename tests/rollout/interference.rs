//! Somebody else has a hand in it: a delegate that keeps crashing.

use std::time::Duration;

use delegate_upgrader::engine::RunState;
use serde_json::json;

use crate::host::{Host, NEW, host_network};
use crate::support::twin::Behaviour;

const CRASHING: &str = "harness/delegate:26.02.0";

#[tokio::test(start_paused = true)]
async fn a_delegate_that_keeps_crashing_is_replaced() {
    for change in [(|_: &mut serde_json::Value| ()) as fn(&mut _), host_network] {
        let host = Host::new();
        let crashes = Behaviour::exits(Duration::from_millis(20), 1);
        host.twin.add_image(CRASHING, host.twin.image(crashes));
        host.run_with("dd", |body| {
            body["Image"] = json!(CRASHING);
            change(body);
        });
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(host.find("dd").state, RunState::Restarting);
        let report = host.once(NEW).await;
        assert!(!report.has_failures(), "{report:?}");
        host.assert_settled_on("dd", NEW, "");
    }
}
