//! A candidate that fails: the old container is not touched.

use std::time::Duration;

use delegate_upgrader::container::{ContainerId, RunState};
use delegate_upgrader::status::report::Report;

use super::faults::killed_when;
use super::host::{HOUR, Host, NEW, NEWER, OLD, bad_images, good, host_network, row};
use kit::twin::{Behaviour, Event, Fault, Happened, Operation, Wellness};

const SECOND: Duration = Duration::from_secs(1);

/// The old container keeps its id and name, still runs and was not written to, and the run reports its failure.
fn assert_untouched(host: &Host, old: &ContainerId, report: &Report) {
    let now = host.find("dd");
    assert_eq!((&now.id, now.state), (old, RunState::Running));
    assert_eq!(host.writes_on("dd"), []);
    let happened: Vec<Happened> = host.events_of(old).into_iter().map(|event| event.what).collect();
    assert_eq!(happened, [Happened::Created, Happened::Started]);
    assert!(report.has_failures(), "{report:?}");
}

async fn with_candidate(behaviour: Behaviour) -> (Host, Report) {
    let host = Host::new();
    host.publish(NEW, behaviour);
    let old = host.run("dd");
    let report = host.once(NEW).await;
    assert_untouched(&host, &old, &report);
    (host, report)
}

fn assert_rejected(host: &Host, report: &Report, cause: &str) {
    let dd = row(report, "dd");
    assert_eq!(dd.reason.as_str(), "rejected", "{dd:?}");
    assert!(dd.message.contains(cause), "{:?}", dd.message);
    assert_eq!(host.names(), ["dd", "dd.failed-1"]);
    let state = host.find("dd.failed-1").state;
    assert!(
        !matches!(state, RunState::Running | RunState::Restarting),
        "{state:?}"
    );
    assert_eq!(host.restart_policy("dd.failed-1"), "no");
}

#[tokio::test(start_paused = true)]
async fn rejects_every_bad_image_with_its_cause_and_keeps_it_stopped() {
    let causes = [
        "answers 503",
        "exited with code 3",
        "without a break",
        "exec: /delegate: no such file",
    ];
    for (behaviour, cause) in bad_images().into_iter().zip(causes) {
        let (host, report) = with_candidate(behaviour).await;
        assert_rejected(&host, &report, cause);
        let took = host.twin.elapsed().as_secs();
        assert!(cause != "answers 503" || (120..140).contains(&took), "{took}");
    }
}

/// The engine removes the leftovers of its own crash, though late.
#[tokio::test(start_paused = true)]
async fn retries_a_start_blocked_by_a_leftover_endpoint() {
    let host = Host::new();
    host.run("dd");
    let mut starts = 0;
    host.fault_where(
        Fault::RefuseWith(403, "endpoint with name dd already exists in network corp"),
        move |call| {
            starts += usize::from(call.operation == Operation::Start);
            call.operation == Operation::Start && starts < 3
        },
    );
    host.upgrade(NEW).await;
}

/// A copy of the tag that is already on the host does not hide the failure.
#[tokio::test(start_paused = true)]
async fn reports_a_failed_pull_in_the_registrys_words() {
    for is_there in [false, true] {
        let host = Host::new();
        if is_there {
            host.twin.add_image(NEW, host.twin.image(good()));
        }
        host.twin.break_pull(NEW, Some("toomanyrequests: slow down"));
        let old = host.run("dd");
        let report = host.once(NEW).await;
        assert_untouched(&host, &old, &report);
        assert_eq!(row(&report, "dd").reason.as_str(), "pull_failed");
        assert!(row(&report, "dd").message.contains("toomanyrequests"));
        assert_eq!(host.names(), ["dd"]);
        host.twin.break_pull(NEW, None);
        host.upgrade(NEW).await;
    }
}

#[tokio::test(start_paused = true)]
async fn does_not_try_an_image_for_another_platform() {
    let host = Host::new();
    let mut image = host.twin.image(good());
    image.architecture = "arm64".to_owned();
    host.twin.publish(NEW, image);
    let old = host.run("dd");
    let report = host.once(NEW).await;
    assert_untouched(&host, &old, &report);
    assert_eq!(row(&report, "dd").reason.as_str(), "wrong_platform");
    let writes: Vec<Operation> = host.twin.writes().iter().map(|call| call.operation).collect();
    assert_eq!(writes, [Operation::Pull]);
}

/// One of them, the first or the last to want the image, was recreated while the tag stood for another platform.
#[tokio::test(start_paused = true)]
async fn a_delegate_of_another_platform_does_not_block_the_others() {
    const FOREIGN: &str = "harness/delegate:foreign";
    for (foreign, expected) in [("d1", "wrong_platform"), ("d3", "obstacle")] {
        let host = Host::new();
        let mut image = host.twin.image(Behaviour::drains(SECOND));
        image.architecture = "arm64".to_owned();
        host.twin.add_image(FOREIGN, image);
        let names = ["d1", "d2", "d3"];
        for name in names {
            host.run_with(name, |body| {
                if name == foreign {
                    body["Image"] = FOREIGN.into();
                }
            });
        }
        let report = host.once(NEW).await;
        for name in names {
            let row = row(&report, name);
            let is_foreign = name == foreign;
            let (reason, image) = if is_foreign {
                (expected, FOREIGN)
            } else {
                ("up_to_date", NEW)
            };
            assert_eq!(
                (row.reason.as_str(), host.find(name).image.as_str()),
                (reason, image)
            );
            assert!(!is_foreign || row.message.contains("linux/arm64"), "{row:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_newer_image_ends_the_quarantine_and_replaces_the_evidence() {
    for bad in [false, true] {
        let host = Host::new();
        host.publish(NEW, Behaviour::never_healthy());
        host.publish(NEWER, if bad { Behaviour::never_healthy() } else { good() });
        host.run("dd");
        host.once(NEW).await;
        if bad {
            assert_eq!(host.reason(NEWER).await, "rejected");
            assert_eq!(host.names(), ["dd", "dd.failed-1"]);
            assert_eq!(host.find("dd.failed-1").image, NEWER);
        } else {
            host.upgrade(NEWER).await;
        }
    }
}

/// The successor fails right after it took over, while the old one drains. Either the old one was asked to stop, or not.
#[tokio::test(start_paused = true)]
async fn returns_the_name_when_the_successor_fails_after_the_commit() {
    for was_asked in [true, false] {
        let host = Host::new();
        let health = Wellness::For(SECOND * 60);
        host.publish(NEW, good().with_health(health));
        let old = host.run("dd");
        if !was_asked {
            let is_drain = |detail: &str| detail.starts_with("dd.draining-");
            let killed = killed_when(&host, move |call| is_drain(&call.detail)).await;
            assert!(killed, "{:?}", host.names());
            tokio::time::sleep(HOUR).await;
        }
        let report = host.once(NEW).await;
        assert!(report.has_failures(), "{report:?}");
        let now = host.find("dd");
        assert_eq!(
            (&now.id, now.state),
            (&old, RunState::Running),
            "{:?}",
            host.names()
        );
        assert_eq!(host.end_of(&old).is_some(), was_asked);
        assert_eq!(host.restart_policy("dd"), "unless-stopped");
        assert_eq!(host.find("dd.failed-1").state, RunState::Exited);
        assert_eq!(host.reason(NEW).await, "quarantined");
    }
}

/// The engine cannot start the old container again, whatever is tried. A single run ends and reports that; a later run,
/// when the engine works again, brings the old one back.
#[tokio::test(start_paused = true)]
async fn reports_a_step_that_keeps_failing_and_repeats_it_in_the_next_run() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    let old = host.run_with("dd", host_network);
    host.fault_where(Fault::ErrBefore, |call| {
        call.operation == Operation::Start && call.subject.contains("draining")
    });
    let report = host.once(NEW).await;
    assert!(report.has_failures() && !report.is_in_progress(), "{report:?}");
    assert_eq!(row(&report, "dd").reason.as_str(), "engine_error");
    host.twin.clear_faults();
    host.once(NEW).await;
    assert_eq!(
        (host.find("dd").id, host.find("dd").state),
        (old, RunState::Running)
    );
}

/// A container that Docker 20.10 was starting when it was killed can never start again.
#[tokio::test(start_paused = true)]
async fn recreates_an_old_container_that_the_engine_cannot_start() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    let old = host.run_with("dd", host_network);
    host.fault_where(Fault::Refuse(500), |call| {
        call.operation == Operation::Start && call.subject.starts_with("dd.draining")
    });
    assert!(host.once(NEW).await.has_failures());
    let now = host.find("dd");
    assert_ne!(now.id, old);
    assert_eq!((now.image.as_str(), now.state), (OLD, RunState::Running));
    assert_eq!(host.restart_policy("dd"), "unless-stopped");
    assert_eq!(host.names(), ["dd", "dd.failed-1"]);
    host.twin.clear_faults();
    host.publish(NEWER, good());
    host.upgrade(NEWER).await;
}

/// Another image gets the tag between the pull and the create: only the pulled image is tried, or none.
#[tokio::test(start_paused = true)]
async fn starts_the_pulled_image_even_if_its_tag_moves_right_after() {
    let host = Host::new();
    host.run("dd");
    let published = host.publish(NEW, good());
    let retag = async {
        while !host.twin.images().contains(&published) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Until the next observation includes the pulled image.
        tokio::time::sleep(Duration::from_millis(10)).await;
        let other = host.twin.image(Behaviour::never_healthy());
        host.twin.add_image(NEW, other)
    };
    let (report, other) = tokio::join!(host.once(NEW), retag);
    assert!(!report.has_failures(), "{report:?}");
    host.assert_settled_on("dd", NEW, "");
    let events = host.twin.events();
    let started = |event: &&Event| event.what == Happened::Started;
    let images: Vec<&str> = events
        .iter()
        .filter(started)
        .map(|event| event.image.as_str())
        .collect();
    assert!(!images.contains(&other.as_str()), "{images:?}");
    assert_eq!(images.last(), Some(&published.as_str()));
    let of_the_other = events.iter().filter(|event| event.image == other.as_str());
    assert_eq!(of_the_other.count(), 2, "created and removed: {events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_restart_policy_change_does_not_keep_a_run_from_ending() {
    let host = Host::new();
    host.publish(NEW, Behaviour::exits(SECOND, 3));
    host.run("dd");
    host.fault(Operation::SetRestartPolicy, Fault::Refuse(500));
    let report = host.once(NEW).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "rejected", "{report:?}");
    host.twin.clear_faults();
    host.once(NEW).await;
    assert_eq!(host.restart_policy("dd.failed-1"), "no");
    assert_eq!(host.find("dd.failed-1").state, RunState::Exited);
}
