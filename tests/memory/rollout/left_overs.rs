//! Broken leftovers never hold up the living, and no call is repeated without a pause.

use std::time::Duration;

use delegate_upgrader::container::RunState;
use delegate_upgrader::reconcile::controller::Controller as _;
use delegate_upgrader::rollout::Intent;
use serde_json::{Value, json};

use super::faults::killed_when;
use super::host::{HOUR, Host, NEW, NEWER, OLD, Upgrader, good, host_network, row};
use kit::twin::{Behaviour, Fault, Operation, OperatorAction};

const BAD: &str = "harness/delegate:26.03.9";

/// Makes these calls for the container of this name meet this fault.
fn broken(host: &Host, name: &str, operations: &'static [Operation], fault: Fault) {
    let name = name.to_owned();
    host.fault_where(fault, move |call| {
        call.subject == name && operations.contains(&call.operation)
    });
}

/// A host on which a bad image was rejected, stop-first or start-first.
async fn with_failure(stop_first: bool) -> Host {
    let host = Host::new();
    host.publish(BAD, Behaviour::never_healthy());
    host.publish(NEWER, good());
    host.run_either(stop_first);
    host.once(BAD).await;
    assert_eq!(host.names(), ["dd", "dd.failed-1"]);
    host
}

const ALL: &[Operation] = &[
    Operation::Inspect,
    Operation::SetRestartPolicy,
    Operation::Stop,
    Operation::Rename,
    Operation::Remove,
];

/// A dead mount, a busy device, a stuck task: whichever call fails, and however it fails.
#[tokio::test(start_paused = true)]
async fn a_broken_failed_container_does_not_block_a_good_image() {
    for stop_first in [false, true] {
        for operations in [&[Operation::Inspect][..], &[Operation::Remove], ALL] {
            for fault in [Fault::Refuse(500), Fault::Hang, Fault::Ignore] {
                if fault == Fault::Ignore && operations[0] == Operation::Inspect {
                    continue;
                }
                let context = format!("{operations:?} {fault:?}, stop-first: {stop_first}");
                let host = with_failure(stop_first).await;
                broken(&host, "dd.failed-1", operations, fault);
                let report = host.once(NEWER).await;
                assert_eq!(row(&report, "dd").reason.as_str(), "up_to_date", "{context}");
                assert!(!report.has_failures(), "{context}: {report:?}");
                assert_eq!(host.find("dd").image, NEWER, "{context}");
                // The leftover is removed once that succeeds.
                host.twin.clear_faults();
                host.once(NEWER).await;
                host.assert_settled_on("dd", NEWER, &context);
            }
        }
    }
}

/// The image of a leftover stays in quarantine, and the next failure finds a free name.
#[tokio::test(start_paused = true)]
async fn a_leftover_that_cannot_be_inspected_keeps_its_quarantine_and_name() {
    let host = with_failure(false).await;
    broken(&host, "dd.failed-1", ALL, Fault::Refuse(500));
    assert_eq!(host.reason(BAD).await, "quarantined");
    host.publish(NEW, Behaviour::never_healthy());
    let report = host.once(NEW).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "rejected");
    assert_eq!(host.names(), ["dd", "dd.failed-1", "dd.failed-2"]);
    assert_eq!(host.find("dd").image, OLD);
}

/// One part of an earlier process's leftovers cannot be changed: it was not the serving container.
#[tokio::test(start_paused = true)]
async fn leftovers_of_a_replacement_do_not_block_later_images() {
    use Operation::{Create, Remove, Start, Stop};
    // The call at which the process ends, and the container that breaks then.
    for (killed_at, name) in [
        (Start, "dd.candidate"),
        (Remove, "dd.draining"),
        (Stop, "dd.draining"),
    ] {
        for fault in [Fault::Refuse(500), Fault::Hang] {
            let context = format!("{killed_at:?} {name} {fault:?}");
            let host = Host::new();
            host.publish(NEWER, good());
            host.run("dd");
            assert!(killed_when(&host, move |call| call.operation == killed_at).await);
            let all = host.names();
            assert!(all[1].starts_with(name), "{context}: {all:?}");
            // A stuck process can be neither stopped nor removed.
            let calls = if killed_at == Stop { &[Stop, Remove] } else { ALL };
            broken(&host, &all[1], calls, fault);
            let mut upgrader = host.upgrader(NEWER);
            host.continue_for(&mut upgrader, Duration::from_secs(60)).await;
            upgrader.start_run(Intent::Upgrade);
            let report = host.continue_for(&mut upgrader, 2 * HOUR).await;
            let context = format!("{context} {report:?}");
            assert_eq!(host.find("dd").image, NEWER, "{context}: {:?}", host.names());
            assert!(host.find(&all[1]).state != RunState::Removing, "{context}");
            assert!(host.fewest_working() >= 1, "{context}");
            assert!(host.count(Create) <= 3, "{context}");
        }
    }
}

/// An engine that creates only broken containers creates few of them.
#[tokio::test(start_paused = true)]
async fn broken_candidates_are_not_created_forever() {
    let host = Host::new();
    host.run("dd");
    host.fault_where(Fault::Refuse(500), |call| {
        call.subject.starts_with("dd.candidate") && ALL.contains(&call.operation)
    });
    let report = host.once(NEW).await;
    assert!(row(&report, "dd").failed, "{report:?}");
    assert!(host.names().len() <= 4, "{:?}", host.names());
    host.twin.clear_faults();
    host.upgrade(NEW).await;
}

/// Stop-first, the ended candidate cannot even be inspected, and no delegate serves: the old one comes back.
#[tokio::test(start_paused = true)]
async fn a_broken_candidate_does_not_cost_the_old_container_its_name() {
    for operations in [&[Operation::Inspect][..], ALL] {
        let host = Host::new();
        host.publish(BAD, good().refused("mount is gone"));
        host.run_with("dd", host_network);
        let mut upgrader = host.starting(BAD);
        host.twin.set_faults(move |call| match call.subject.as_str() {
            "dd.candidate" if call.operation == Operation::Start => Fault::Hang,
            _ => Fault::None,
        });
        while !host.names().iter().any(|name| name.starts_with("dd.draining")) {
            host.continue_for(&mut upgrader, Duration::from_secs(1)).await;
        }
        let operations: &'static [Operation] = operations;
        host.fault_where(Fault::Refuse(500), move |call| {
            let is_met = operations.contains(&call.operation) || call.operation == Operation::Start;
            is_met && call.subject.starts_with("dd.candidate")
        });
        host.continue_for(&mut upgrader, 2 * HOUR).await;
        let dd = host.find("dd");
        assert_eq!(
            (dd.image.as_str(), dd.state),
            (OLD, RunState::Running),
            "{:?}",
            host.names()
        );
    }
}

/// A running leftover holds the resources of a stop-first candidate, so the upgrader waits for it, and the reason names it.
#[tokio::test(start_paused = true)]
async fn names_an_unstoppable_leftover_that_blocks_the_next_candidate() {
    for stop_first in [false, true] {
        let host = Host::new();
        host.publish(BAD, Behaviour::never_healthy());
        host.publish(NEWER, good());
        host.run_either(stop_first);
        broken(&host, "dd.failed-1", &[Operation::Stop], Fault::Refuse(500));
        let mut upgrader = host.starting(BAD);
        host.continue_for(&mut upgrader, HOUR).await;
        let report = host.once(NEWER).await;
        let dd = row(&report, "dd");
        if stop_first {
            assert!(
                dd.failed && dd.message.contains("dd.failed-1") && dd.message.contains("stop"),
                "{dd:?}"
            );
        } else {
            assert_eq!(host.find("dd").image, NEWER, "{dd:?}");
        }
    }
}

/// An engine answers 200 to an update and ignores it, which once led to 482 calls a second.
#[tokio::test(start_paused = true)]
async fn calls_without_effect_are_repeated_at_growing_intervals() {
    for (operation, name) in [
        (Operation::SetRestartPolicy, "dd.failed-1"),
        (Operation::Stop, "dd.draining"),
        (Operation::Remove, "dd.draining"),
        (Operation::Rename, "dd"),
    ] {
        let host = Host::new();
        host.publish(BAD, Behaviour::never_healthy());
        host.run("dd");
        host.fault_where(Fault::Ignore, move |call| {
            call.operation == operation && call.subject.starts_with(name)
        });
        let image = if operation == Operation::SetRestartPolicy {
            BAD
        } else {
            NEW
        };
        let mut upgrader = host.starting(image);
        host.continue_for(&mut upgrader, HOUR).await;
        let calls = host.count(operation);
        assert!(
            (1..75).contains(&calls),
            "{operation:?} {name}: {calls} calls in an hour"
        );
        assert!(host.fewest_working() >= 1, "{operation:?}");
    }
}

/// A resource that only one replica lacks is that replica's own problem.
#[tokio::test(start_paused = true)]
async fn the_problem_of_one_replica_does_not_halt_the_other() {
    const MOUNT: &str = "invalid mount config for type \"bind\": bind source path does not exist: /srv/gone";
    let mount = Fault::RefuseWith(400, MOUNT);
    for (operation, fault) in [
        (Operation::Create, mount.clone()),
        (Operation::Start, mount),
        (Operation::Start, Fault::Refuse(503)),
    ] {
        let what = format!("{operation:?}, {fault:?}");
        let host = Host::new();
        host.run("aa");
        host.run("bb");
        host.fault_where(fault, move |call| {
            call.operation == operation && call.subject.starts_with("aa")
        });
        let report = host.once(NEW).await;
        assert!(row(&report, "aa").failed, "{what}: {report:?}");
        assert_eq!(host.find("aa").image, OLD, "{what}");
        assert_eq!(host.find("bb").image, NEW, "{what}: {report:?}");
    }
}

/// Its owner takes one replica out in the middle of its replacement: the other one does not wait.
#[tokio::test(start_paused = true)]
async fn a_replica_taken_out_mid_replacement_does_not_block_the_other() {
    let host = Host::new();
    host.run("aa");
    host.run("bb");
    assert!(killed_when(&host, |call| call.operation == Operation::Start).await);
    assert_eq!(host.names(), ["aa", "aa.candidate", "bb"]);
    host.by_hand(OperatorAction::Remove, "aa");
    host.run_with("aa", |body| {
        body["Labels"] = json!({ "io.delegate-upgrader.enable": "false" });
    });
    let report = host.once(NEW).await;
    assert_eq!(row(&report, "aa").reason.as_str(), "opted_out");
    assert_eq!(host.find("bb").image, NEW, "{report:?}");
}

/// Watches for this many minutes, once a minute, whether or not the upgrader is at rest.
async fn watch_for(host: &Host, upgrader: &mut Upgrader, minutes: u32) {
    for _ in 0..minutes {
        host.continue_for(upgrader, Duration::from_secs(30)).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
    }
}

/// The candidate may or may not hold a resource of the old container: only the engine knows.
#[tokio::test(start_paused = true)]
async fn an_unstoppable_rejected_candidate_does_not_keep_the_old_one_stopped() {
    let device =
        json!([{ "PathOnHost": "/dev/ttyS0", "PathInContainer": "/dev/ttyS0", "CgroupPermissions": "rwm" }]);
    let host = Host::new();
    host.publish(BAD, Behaviour::never_healthy());
    let old = host.run_with("dd", |body| {
        body["HostConfig"]["Devices"] = device.clone();
    });
    broken(&host, "dd.failed-1", &[Operation::Stop], Fault::Refuse(500));
    let mut upgrader = host.starting(BAD);
    watch_for(&host, &mut upgrader, 240).await;
    let back = host.twin.glance().into_iter().find(|it| it.id == old).unwrap();
    assert_eq!(back.state, RunState::Running, "{:?}", host.containers());
}

/// The commit was long ago, so an outage hours later does not count against the new version.
#[tokio::test(start_paused = true)]
async fn an_unremovable_old_container_does_not_bring_back_its_version() {
    for change in [|_: &mut Value| (), host_network as fn(&mut Value)] {
        let host = Host::new();
        host.publish(NEW, good().with_health(kit::twin::Wellness::For(5 * HOUR)));
        host.run_with("dd", change);
        host.fault_where(Fault::Refuse(500), |call| {
            call.operation == Operation::Remove && call.subject.starts_with("dd.draining")
        });
        let mut upgrader = host.starting(NEW);
        watch_for(&host, &mut upgrader, 240).await;
        let new = host.find("dd").id;
        watch_for(&host, &mut upgrader, 240).await;
        assert_eq!(host.find("dd").id, new, "{:?}", host.containers());
    }
}
