//! How many containers of one delegate there are at a time.

use std::time::Duration;

use delegate_upgrader::reconcile::upgrade_run::Mode;

use crate::rollout::host::{Host, STOP_TIMEOUT, good, row};
use kit::twin::Behaviour;

/// The published image flips every few seconds, and each old container takes its hour.
#[tokio::test(start_paused = true)]
async fn a_bounded_number_of_old_containers_drains_at_once() {
    let host = Host::new();
    let slow = || Behaviour {
        on_stop: Behaviour::drains(STOP_TIMEOUT).on_stop,
        ..good()
    };
    let images: Vec<String> = (10..22)
        .map(|minor| format!("harness/delegate:26.{minor}.1"))
        .collect();
    for image in &images {
        host.publish(image, slow());
    }
    host.run("dd");
    let (mut most, mut waited) = (0, 0);
    for image in &images {
        let mut upgrader = host.upgrader(image);
        upgrader.start_run(Mode::Upgrade);
        assert!(host.go_on(&mut upgrader, Duration::from_secs(30)).await.is_none());
        most = most.max(host.names().len());
        let report = upgrader.reconcile().await.unwrap();
        if row(&report, "dd").reason.as_str() == "awaiting_drains" {
            waited += 1;
            assert!(!report.has_failures(), "{report:?}");
        }
    }
    assert_eq!(most, 3, "{:?}", host.containers());
    assert!(waited > 5, "{waited}");
    let last = images.last().unwrap();
    let report = host.once(last).await;
    assert!(!report.has_failures(), "{report:?}");
    host.assert_settled_on("dd", last, "");
}
