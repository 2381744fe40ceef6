//! A candidate that is no good: the old one does not notice.

use std::time::Duration;

use delegate_upgrader::container::ContainerId;
use delegate_upgrader::container::RunState;
use delegate_upgrader::reconcile::upgrade_run::Mode;
use delegate_upgrader::status::report::Report;

use super::host::{HOUR, Host, NEW, NEWER, OLD, STOP_TIMEOUT, good, row};
use kit::twin::{Behaviour, Fault, Happened, Operation};

/// Same id, same name, still running, not one write to it, and the run reports that it failed.
fn assert_untouched(host: &Host, old: &ContainerId, report: &Report) {
    let now = host.find("dd");
    assert_eq!((now.id, now.state), (old.clone(), RunState::Running));
    assert_eq!(host.writes_on("dd"), []);
    let happened: Vec<Happened> = host.events_of(old).into_iter().map(|event| event.what).collect();
    assert_eq!(happened, [Happened::Created, Happened::Started]);
    assert!(report.has_failures(), "{report:?}");
}

async fn with_candidate(behaviour: Behaviour) -> (Host, ContainerId, Report) {
    let host = Host::new();
    host.publish(NEW, behaviour);
    let old = host.run("dd");
    let report = host.once(NEW).await;
    assert_untouched(&host, &old, &report);
    (host, old, report)
}

fn assert_rejected(host: &Host, report: &Report, cause: &str) {
    let d = row(report, "dd");
    assert_eq!(d.reason.as_str(), "rejected", "{d:?}");
    assert!(d.message.contains(cause), "{:?}", d.message);
    assert_eq!(host.names(), ["dd", "dd.failed-1"]);
    assert!(!matches!(
        host.find("dd.failed-1").state,
        RunState::Running | RunState::Restarting
    ));
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_crashes_is_rejected_and_kept_stopped() {
    let (host, _, report) = with_candidate(Behaviour::exits(Duration::from_secs(1), 3)).await;
    assert_rejected(&host, &report, "exited with code 3");
    assert_eq!(host.restart_policy("dd.failed-1"), "no");
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_exits_for_good_is_rejected_with_its_exit_code() {
    let host = Host::new();
    host.publish(NEW, Behaviour::exits(Duration::from_secs(1), 3));
    let old = host.run_with("dd", |body| {
        body["HostConfig"]["RestartPolicy"]["Name"] = "no".into();
    });
    let report = host.once(NEW).await;
    assert_untouched(&host, &old, &report);
    assert_rejected(&host, &report, "exited with code 3");
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_is_never_healthy_is_rejected_at_the_deadline() {
    let (host, _, report) = with_candidate(Behaviour::never_healthy()).await;
    assert_rejected(&host, &report, "answers 503");
    let took = host.twin.elapsed();
    assert!(
        took > Duration::from_secs(120) && took < Duration::from_secs(140),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_flaps_is_rejected() {
    let (host, _, report) =
        with_candidate(Behaviour::flaps(Duration::from_secs(7), Duration::from_secs(4))).await;
    assert_rejected(&host, &report, "without a break");
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_cannot_be_started_is_rejected() {
    let (host, _, report) = with_candidate(Behaviour {
        start_error: Some("exec: /delegate: no such file".to_owned()),
        ..good()
    })
    .await;
    assert_rejected(&host, &report, "exec: /delegate: no such file");
}

/// Docker's own sentences: what its crash left behind says nothing about the image.
#[tokio::test(start_paused = true)]
async fn a_leftover_task_or_endpoint_is_inconclusive() {
    let refused = |message: &str| Behaviour {
        start_error: Some(message.to_owned()),
        ..good()
    };
    for left_behind in [
        "task f00: already exists",
        "endpoint with name dd already exists in network corp",
    ] {
        let (host, _, report) = with_candidate(refused(left_behind)).await;
        assert_eq!(
            row(&report, "dd").reason.as_str(),
            "inconclusive",
            "{left_behind}"
        );
        assert!(row(&report, "dd").message.contains(left_behind), "{report:?}");
        assert_eq!(host.names(), ["dd"]);
    }
    let (host, _, report) = with_candidate(refused("file already exists")).await;
    assert_rejected(&host, &report, "file already exists");
}

/// The engine removes the endpoint of a container that is gone, if late.
#[tokio::test(start_paused = true)]
async fn a_start_that_a_leftover_endpoint_keeps_back_is_repeated() {
    let host = Host::new();
    host.run("dd");
    let mut starts = 0;
    host.twin.set_faults(move |call| {
        if call.operation != Operation::Start {
            return Fault::None;
        }
        starts += 1;
        if starts < 3 {
            Fault::RefuseWith(403, "endpoint with name dd already exists in network corp")
        } else {
            Fault::None
        }
    });
    let report = host.once(NEW).await;
    assert!(!report.has_failures(), "{report:?}");
    host.assert_settled_on("dd", NEW, "");
}

#[tokio::test(start_paused = true)]
async fn a_candidate_whose_network_is_gone_is_rejected() {
    let host = Host::new();
    host.twin.add_network("corp");
    let old = host.run_with("dd", |body| {
        body["HostConfig"]["NetworkMode"] = "corp".into();
    });
    host.twin.remove_network("corp");
    let report = host.once(NEW).await;
    assert_untouched(&host, &old, &report);
    assert_rejected(&host, &report, "corp");
}

#[tokio::test(start_paused = true)]
async fn a_rejected_candidate_is_stopped_gently() {
    let (host, ..) = with_candidate(Behaviour {
        health: kit::twin::Wellness::Never,
        ..Behaviour::drains(Duration::from_secs(100))
    })
    .await;
    let rejected = host.find("dd.failed-1").id;
    let (told, ended, code) = host.end_of(&rejected).unwrap();
    assert_eq!((ended - told, code), (Duration::from_secs(100), 0));
}

#[tokio::test(start_paused = true)]
async fn a_rejected_candidate_that_ignores_its_signal_is_killed_at_the_stop_timeout() {
    let (host, ..) = with_candidate(Behaviour {
        health: kit::twin::Wellness::Never,
        ..Behaviour::ignores_stop()
    })
    .await;
    let rejected = host.find("dd.failed-1").id;
    let (told, ended, _) = host.end_of(&rejected).unwrap();
    assert!((ended - told).abs_diff(STOP_TIMEOUT) <= Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn a_failed_pull_is_reported_in_the_registry_s_words() {
    let host = Host::new();
    host.twin.break_pull(NEW, Some("toomanyrequests: slow down"));
    let old = host.run("dd");
    let report = host.once(NEW).await;
    assert_untouched(&host, &old, &report);
    assert_eq!(row(&report, "dd").reason.as_str(), "pull_failed");
    assert!(row(&report, "dd").message.contains("toomanyrequests"));
    assert_eq!(host.names(), ["dd"]);
    host.twin.break_pull(NEW, None);
    let report = host.once(NEW).await;
    assert!(!report.has_failures());
    host.assert_settled_on("dd", NEW, "");
}

#[tokio::test(start_paused = true)]
async fn an_old_copy_of_the_tag_does_not_hide_a_failed_pull() {
    let host = Host::new();
    host.twin.add_image(NEW, host.twin.image(good()));
    host.twin.break_pull(NEW, Some("toomanyrequests: slow down"));
    let old = host.run("dd");
    let report = host.once(NEW).await;
    assert_untouched(&host, &old, &report);
    assert_eq!(row(&report, "dd").reason.as_str(), "pull_failed");
}

#[tokio::test(start_paused = true)]
async fn an_image_for_another_platform_is_not_tried() {
    let host = Host::new();
    let mut image = host.twin.image(good());
    image.architecture = "arm64".to_owned();
    host.twin.publish(NEW, image);
    let old = host.run("dd");
    let report = host.once(NEW).await;
    assert_untouched(&host, &old, &report);
    assert_eq!(row(&report, "dd").reason.as_str(), "wrong_platform");
}

/// Someone made one of them anew while the tag stood for an image of another platform. It is the first to want the image,
/// or the last.
#[tokio::test(start_paused = true)]
async fn a_delegate_of_another_platform_keeps_no_other_from_its_upgrade() {
    const FOREIGN: &str = "harness/delegate:foreign";
    for (foreign, expected) in [("d1", "wrong_platform"), ("d3", "obstacle")] {
        let host = Host::new();
        let mut image = host.twin.image(Behaviour::drains(Duration::from_secs(1)));
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
            if name == foreign {
                assert_eq!(row.reason.as_str(), expected, "{row:?}");
                assert!(row.message.contains("linux/arm64"), "{row:?}");
                assert_eq!(host.find(name).image, FOREIGN);
            } else {
                assert_eq!(row.reason.as_str(), "up_to_date", "{row:?}");
                assert_eq!(host.find(name).image, NEW);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_is_reported() {
    let host = Host::new();
    let old = host.run("dd");
    let squatter = host
        .twin
        .run("dd.candidate", &serde_json::json!({ "Image": OLD }));
    let report = host.once(NEW).await;
    assert_untouched(&host, &old, &report);
    assert_eq!(row(&report, "dd").reason.as_str(), "name_taken");
    assert_eq!(host.find("dd.candidate").id, squatter);
    assert_eq!(host.writes_on("dd.candidate"), []);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_image_is_left_alone_until_its_back_off_is_over_and_the_back_off_doubles() {
    let host = Host::new();
    let bad = || Behaviour::exits(Duration::from_secs(1), 3);
    host.publish(NEW, bad());
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    let creates = || {
        host.twin
            .calls()
            .iter()
            .filter(|call| call.operation == Operation::Create)
            .count()
    };
    host.scheduled_run(&mut upgrader).await;
    assert_eq!(creates(), 1);
    tokio::time::sleep(HOUR / 2).await;
    let report = host.scheduled_run(&mut upgrader).await;
    assert_eq!(
        (creates(), row(&report, "dd").reason.as_str()),
        (1, "quarantined")
    );
    assert!(report.has_failures());
    tokio::time::sleep(HOUR / 2).await;
    host.scheduled_run(&mut upgrader).await;
    assert_eq!(creates(), 2);
    assert_eq!(
        host.names(),
        ["dd", "dd.failed-2"],
        "one rejected candidate is kept"
    );
    tokio::time::sleep(HOUR).await;
    // Another process reads the same from the containers.
    let report = host.once(NEW).await;
    assert_eq!(
        (creates(), row(&report, "dd").reason.as_str()),
        (2, "quarantined")
    );
    tokio::time::sleep(HOUR).await;
    host.once(NEW).await;
    assert_eq!(creates(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_newer_image_lifts_the_quarantine_and_the_evidence_goes() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    host.publish(NEWER, good());
    host.run("dd");
    host.once(NEW).await;
    let report = host.once(NEWER).await;
    assert!(!report.has_failures(), "{report:?}");
    host.assert_settled_on("dd", NEWER, "");
}

#[tokio::test(start_paused = true)]
async fn a_second_bad_image_takes_the_place_of_the_first() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    host.publish(NEWER, Behaviour::never_healthy());
    host.run("dd");
    host.once(NEW).await;
    let report = host.once(NEWER).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "rejected");
    assert_eq!(host.names(), ["dd", "dd.failed-1"]);
    assert_eq!(host.find("dd.failed-1").image, NEWER);
}

#[tokio::test(start_paused = true)]
async fn an_auto_remove_candidate_that_crashes_is_reported_as_vanished_and_its_image_quarantined() {
    let host = Host::new();
    host.publish(NEW, Behaviour::exits(Duration::from_secs(1), 3));
    let old = host.run_with("dd", super::host::auto_remove);
    let report = host.once(NEW).await;
    assert_untouched(&host, &old, &report);
    assert_eq!(row(&report, "dd").reason.as_str(), "rejected");
    assert!(row(&report, "dd").message.contains("disappeared"), "{report:?}");
    assert_eq!(host.names(), ["dd", "dd.failed-1"]);
    assert_eq!(host.find("dd.failed-1").state, RunState::Created);
    assert_eq!(row(&host.once(NEW).await, "dd").reason.as_str(), "quarantined");
}

/// The successor ends right after it took over, while the old one still drains.
#[tokio::test(start_paused = true)]
async fn a_successor_that_fails_after_the_commit_returns_the_name() {
    let host = Host::new();
    host.publish(
        NEW,
        Behaviour {
            health: kit::twin::Wellness::For(Duration::from_secs(60)),
            ..good()
        },
    );
    let old = host.run("dd");
    let report = host.once(NEW).await;
    assert!(report.has_failures(), "{report:?}");
    assert_eq!(host.find("dd").id, old, "{:?}", host.names());
    assert_eq!(host.find("dd").state, RunState::Running);
    assert_eq!(host.restart_policy("dd"), "unless-stopped");
    assert_eq!(host.find("dd.failed-1").state, RunState::Exited);
    let report = host.once(NEW).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "quarantined");
}

/// An `--rm` delegate that was asked to stop cannot come back, so its successor is all there is.
#[tokio::test(start_paused = true)]
async fn a_failing_successor_of_an_auto_remove_delegate_is_kept() {
    let host = Host::new();
    host.publish(
        NEW,
        Behaviour {
            health: kit::twin::Wellness::For(Duration::from_secs(60)),
            ..good()
        },
    );
    host.run_with("dd", super::host::auto_remove);
    host.once(NEW).await;
    assert_eq!(
        host.find("dd").state,
        RunState::Running,
        "{:?}",
        host.containers()
    );
}

/// The old one was not asked to stop, so it has nothing to recover from.
#[tokio::test(start_paused = true)]
async fn a_successor_that_gets_unhealthy_before_the_old_one_is_asked_to_stop_costs_nothing() {
    let host = Host::new();
    host.publish(
        NEW,
        Behaviour {
            health: kit::twin::Wellness::For(Duration::from_secs(60)),
            ..good()
        },
    );
    let old = host.run("dd");
    assert!(super::faults::killed_when(&host, |call| call.operation == Operation::SetRestartPolicy).await);
    tokio::time::sleep(HOUR).await;
    let report = host.once(NEW).await;
    assert!(report.has_failures(), "{report:?}");
    assert_eq!(host.find("dd").id, old);
    assert_eq!(host.end_of(&old), None, "it was never told to stop");
    assert_eq!(host.restart_policy("dd"), "unless-stopped");
    assert_eq!(host.names(), ["dd", "dd.failed-1"]);
}

/// The engine cannot start the old one again, whatever is tried. A single run ends and reports it; a later one, when the
/// engine works again, brings it back.
#[tokio::test(start_paused = true)]
async fn a_step_that_keeps_failing_is_reported_and_done_once_it_works() {
    let host = Host::new();
    host.publish(
        NEW,
        Behaviour {
            health: kit::twin::Wellness::Never,
            ..good()
        },
    );
    let old = host.run_with("dd", super::host::host_network);
    host.twin.set_faults(|call| match call.operation {
        Operation::Start if call.subject.contains("draining") => Fault::ErrBefore,
        _ => Fault::None,
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

/// Docker 20.10, killed in the middle of a start, can never start that container again.
#[tokio::test(start_paused = true)]
async fn an_old_one_that_the_engine_cannot_start_any_more_comes_back_as_a_copy() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    let old = host.run_with("dd", super::host::host_network);
    host.twin.set_faults(|call| {
        let is_old = call.subject.starts_with("dd.draining");
        if call.operation == Operation::Start && is_old {
            Fault::Refuse(500)
        } else {
            Fault::None
        }
    });
    let report = host.once(NEW).await;
    assert!(report.has_failures(), "{report:?}");
    assert_ne!(host.find("dd").id, old);
    assert_eq!(host.find("dd").image, OLD);
    assert_eq!(host.find("dd").state, RunState::Running);
    assert_eq!(host.restart_policy("dd"), "unless-stopped");
    assert_eq!(host.names(), ["dd", "dd.failed-1"]);
}

/// Somebody tags another image between the pull and the create: what was pulled is what is tried, or nothing.
#[tokio::test(start_paused = true)]
async fn a_tag_that_moves_right_after_the_pull_changes_nothing() {
    let host = Host::new();
    host.run("dd");
    let published = host.publish(NEW, good());
    let retag = async {
        while !host.twin.images().contains(&published) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Until the next observation includes what was pulled.
        tokio::time::sleep(Duration::from_millis(10)).await;
        let other = host.twin.image(Behaviour::never_healthy());
        host.twin.add_image(NEW, other)
    };
    let (report, other) = tokio::join!(host.once(NEW), retag);
    assert!(!report.has_failures(), "{report:?}");
    host.assert_settled_on("dd", NEW, "");
    let started = |event: &kit::twin::Event| event.what == Happened::Started;
    let events = host.twin.events();
    let images: Vec<_> = events
        .iter()
        .filter(|event| started(event))
        .map(|event| &event.image)
        .collect();
    assert!(images.iter().all(|image| *image != other.as_str()), "{images:?}");
    assert_eq!(
        images.last().map(|image| image.as_str()),
        Some(published.as_str())
    );
    let of_the_other = events.iter().filter(|event| event.image == other.as_str());
    assert_eq!(of_the_other.count(), 2, "created and removed: {events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_ends_where_the_engine_refuses_to_change_a_restart_policy() {
    let host = Host::new();
    host.run("dd");
    host.twin.set_faults(|call| {
        if call.operation == Operation::SetRestartPolicy {
            Fault::Refuse(500)
        } else {
            Fault::None
        }
    });
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    let report = host.go_on(&mut upgrader, HOUR * 3).await;
    assert!(report.is_some(), "{:?}", host.containers());
}
