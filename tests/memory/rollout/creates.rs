//! Create calls at which the engine fails.

use super::host::{Host, NEW, auto_remove, row};
use kit::twin::{Fault, Operation, Twin, TwinSettings};

/// The first this many create calls meet this fault.
fn fails(host: &Host, mut failures: usize, fault: Fault) {
    host.twin.set_faults(move |call| {
        if call.operation != Operation::Create || failures == 0 {
            return Fault::None;
        }
        failures -= 1;
        fault.clone()
    });
}

/// Podman also answers 500 to a request that it can never carry out. Only another attempt shows that.
#[tokio::test(start_paused = true)]
async fn gives_up_after_podman_fails_a_create_twice() {
    for (failures, is_fleeting, reason) in [
        (usize::MAX, false, "create_refused"),
        (usize::MAX, true, "create_refused"),
        (1, false, "up_to_date"),
    ] {
        let is_podman = true;
        let host = Host::on(Twin::new(TwinSettings {
            is_podman,
            ..TwinSettings::default()
        }));
        let old = host.run_with("dd", |body| {
            if is_fleeting {
                auto_remove(body);
            }
        });
        let words = "cannot set shmsize when running in the {host} IPC Namespace";
        fails(&host, failures, Fault::RefuseWith(500, words));
        let report = host.once(NEW).await;
        assert_eq!(row(&report, "dd").reason.as_str(), reason, "{report:?}");
        assert_eq!(host.count(Operation::Create), 2);
        if reason == "create_refused" {
            assert!(row(&report, "dd").message.contains("cannot set shmsize"));
            assert_eq!((host.find("dd").id, host.names().len()), (old, 1));
        }
    }
}

/// Docker answers 400 to a request that it can never carry out; a 500 may be temporary.
#[tokio::test(start_paused = true)]
async fn retries_a_create_that_fails_in_docker() {
    let host = Host::new();
    host.run("dd");
    fails(&host, 4, Fault::Refuse(500));
    host.upgrade(NEW).await;
}
