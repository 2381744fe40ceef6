//! Creates that the engine fails at.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::host::{Host, NEW, row};
use kit::twin::{Fault, Operation, Twin, TwinSettings};

/// Podman answers 500 to a request that it can never carry out, too. The one thing that shows it is another attempt.
#[tokio::test(start_paused = true)]
async fn a_create_that_podman_fails_at_twice_is_refused() {
    for (failures, auto_remove, reason) in [
        (usize::MAX, false, "create_refused"),
        (usize::MAX, true, "create_refused"),
        (1, false, "up_to_date"),
    ] {
        let host = Host::on(Twin::new(TwinSettings {
            is_podman: true,
            ..TwinSettings::default()
        }));
        let old = host.run_with("dd", |body| {
            if auto_remove {
                super::host::auto_remove(body);
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
