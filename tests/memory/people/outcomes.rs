//! What becomes of a replacement when the new container loses its health at a bad moment.

use std::time::Duration;

use delegate_upgrader::reconcile::upgrade_run::Mode;

use crate::rollout::host::{Host, NEW, OLD, row};
use kit::twin::{Behaviour, Fault, Operation, Wellness};

/// It becomes unhealthy when the old one has lost its policy and has not been asked to stop.
#[tokio::test(start_paused = true)]
async fn one_that_turns_unhealthy_before_the_old_one_was_asked_to_stop_is_rejected_in_time() {
    let host = Host::new();
    let health = Wellness::For(Duration::from_secs(16));
    host.publish(
        NEW,
        Behaviour {
            health,
            ..Behaviour::default()
        },
    );
    let old = host.run("dd");
    // The engine has a bad moment right then.
    host.twin.set_faults(|call| match call.operation {
        Operation::Stop if call.subject.contains("draining") => Fault::Refuse(503),
        _ => Fault::None,
    });
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    assert!(host.go_on(&mut upgrader, Duration::from_secs(30)).await.is_none());
    host.twin.clear_faults();
    assert_eq!(host.end_of(&old), None);
    let report = host.finish(&mut upgrader).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "rejected", "{report:?}");
    assert_eq!(
        (host.find("dd").id, host.restart_policy("dd").as_str()),
        (old, "unless-stopped")
    );
    assert_eq!(host.find("dd").image, OLD);
    assert!(host.twin.elapsed() < Duration::from_secs(600));
}
