//! An operator's `retry` beside the daemon.

use std::time::Duration;

use delegate_upgrader::reconcile::upgrade_run::Mode;

use crate::rollout::host::{Host, NEW, OLD, auto_remove, host_network, row};
use kit::twin::{Behaviour, Happened};

fn attempts(host: &Host) -> usize {
    let events = host.twin.events();
    let started = events.iter().filter(|event| event.what == Happened::Started);
    started.filter(|event| event.name == "dd.candidate").count()
}

#[tokio::test(start_paused = true)]
async fn a_retry_beside_the_daemon_tries_once_and_says_why() {
    for change in [|_: &mut _| (), auto_remove, host_network] {
        for behaviour in [
            Behaviour::never_healthy(),
            // One with `--rm` is looked at then, before the engine removes it.
            Behaviour::exits(Duration::from_millis(2400), 3),
        ] {
            let host = Host::new();
            host.publish(NEW, behaviour.clone());
            host.run_with("dd", change);
            let mut daemon = host.upgrader(NEW);
            host.scheduled_run(&mut daemon).await;
            let before = attempts(&host);
            let mut operator = host.upgrader(NEW);
            operator.retry("dd").await.unwrap();
            daemon.start_run(Mode::ReportOnly);
            let report = loop {
                // The daemon is always a little quicker.
                let _ = host.go_on(&mut daemon, Duration::from_millis(300)).await;
                if let Some(report) = host.go_on(&mut operator, Duration::from_millis(200)).await {
                    break report;
                }
            };
            let dd = row(&report, "dd");
            assert_eq!(dd.reason.as_str(), "rejected", "{report:?}");
            assert!(!dd.message.contains("--rm"), "{}", dd.message);
            let more = if dd.cause.as_deref() == Some("crash_loop") {
                4
            } else {
                1
            };
            assert!(
                attempts(&host) - before <= more,
                "{} {:?}",
                attempts(&host) - before,
                dd.message
            );
            host.finish(&mut daemon).await;
            assert_eq!(
                (host.find("dd").image.as_str(), host.names().len()),
                (OLD, 2),
                "{:?}",
                host.names()
            );
        }
    }
}
