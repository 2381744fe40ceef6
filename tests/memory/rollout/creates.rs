//! Creates that the engine fails at.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use delegate_upgrader::reconcile::upgrade_run::Mode;

use super::host::{HOUR, Host, NEW, OLD, auto_remove, row};
use kit::twin::{Fault, Operation, OperatorAction, Twin, TwinSettings};

/// Podman answers 500 to a request that it can never carry out, too. The one thing that shows it is another attempt.
#[tokio::test(start_paused = true)]
async fn a_create_that_podman_fails_at_twice_is_refused() {
    for (failures, vanishes, reason) in [
        (usize::MAX, false, "create_refused"),
        (usize::MAX, true, "create_refused"),
        (1, false, "up_to_date"),
    ] {
        let host = Host::on(Twin::new(TwinSettings {
            is_podman: true,
            ..TwinSettings::default()
        }));
        let old = host.run_with("dd", |body| {
            if vanishes {
                auto_remove(body);
            }
        });
        let creates = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&creates);
        host.twin.set_faults(move |call| {
            if call.operation == Operation::Create && seen.fetch_add(1, Ordering::Relaxed) < failures {
                Fault::RefuseWith(500, "cannot set shmsize when running in the {host} IPC Namespace")
            } else {
                Fault::None
            }
        });
        let report = host.once(NEW).await;
        assert_eq!(row(&report, "dd").reason.as_str(), reason, "{report:?}");
        assert_eq!(creates.load(Ordering::Relaxed), 2);
        if reason == "create_refused" {
            assert!(row(&report, "dd").message.contains("cannot set shmsize"));
            assert_eq!((host.find("dd").id, host.names().len()), (old, 1));
        }
    }
}

/// Docker says 400 of what it can never do: a 500 may pass.
#[tokio::test(start_paused = true)]
async fn a_create_that_docker_fails_at_is_repeated() {
    let host = Host::new();
    host.run("dd");
    let mut creates = 0;
    host.twin.set_faults(move |call| {
        creates += usize::from(call.operation == Operation::Create);
        if call.operation == Operation::Create && creates < 5 {
            Fault::Refuse(500)
        } else {
            Fault::None
        }
    });
    let report = host.once(NEW).await;
    assert!(!report.has_failures(), "{report:?}");
    host.assert_settled_on("dd", NEW, "");
}

/// An `--rm` delegate and its candidate, ten seconds into the replacement. Then creates of that name are refused, and
/// something happens; a minute later they are not refused any more.
async fn refused_for_a_minute(refused: &'static str, happens: impl FnOnce(&Host)) -> (Host, usize) {
    let host = Host::new();
    host.run_with("dd", auto_remove);
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    assert!(host.go_on(&mut upgrader, Duration::from_secs(10)).await.is_none());
    assert_eq!(host.names(), ["dd", "dd.attempt", "dd.candidate", "dd.standby"]);
    let creates = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&creates);
    host.twin.set_faults(move |call| {
        if call.operation == Operation::Create && call.subject == refused {
            seen.fetch_add(1, Ordering::Relaxed);
            Fault::Refuse(400)
        } else {
            Fault::None
        }
    });
    happens(&host);
    host.go_on(&mut upgrader, Duration::from_secs(60)).await;
    host.twin.clear_faults();
    host.finish(&mut upgrader).await;
    (host, creates.load(Ordering::Relaxed))
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_is_refused_beside_a_candidate_is_not_tried_without_a_pause() {
    let pruned = |host: &Host| {
        host.twin
            .by_hand(OperatorAction::Remove("dd.standby".to_owned()))
            .unwrap();
    };
    let (host, creates) = refused_for_a_minute("dd.standby", pruned).await;
    assert!((3..8).contains(&creates), "{creates}");
    host.assert_fleeting_on("dd", NEW, "");
}

/// Whatever the engine has against another `--rm` container, the standby is there already.
#[tokio::test(start_paused = true)]
async fn a_standby_serves_at_once_where_the_engine_refuses_the_original_anew() {
    let restarted = |host: &Host| host.twin.restart_engine(Duration::from_secs(3));
    let (host, creates) = refused_for_a_minute("dd.candidate", restarted).await;
    // The other ones are of the next candidate, which is not made in the same run again.
    assert!(creates < 3, "{creates}");
    host.assert_settled("dd", OLD, "no", "");
    assert!(!host.auto_remove("dd"));
    tokio::time::sleep(HOUR).await;
    host.once(NEW).await;
    host.assert_fleeting_on("dd", NEW, "");
}
