//! What is not ours to touch.

use std::time::Duration;

use delegate_upgrader::container::RunState;
use delegate_upgrader::engine::Engine;
use delegate_upgrader::reconcile::upgrade_run::Mode;
use serde_json::json;

use super::host::{GROUP, Host, NEW, NEWER, OLD, good, host_network, row};
use kit::twin::{Operation, OperatorAction, delegate_body};

#[tokio::test(start_paused = true)]
async fn other_delegates_and_foreign_containers_are_named_in_no_write() {
    let host = Host::new();
    host.run("dd");
    let others = [
        host.twin.run("other", &delegate_body("another-delegate", OLD)),
        host.twin
            .run("foreign", &json!({ "Image": OLD, "Env": ["NAME=x"] })),
        host.twin.run("d2", &delegate_body("docker-delegate-2", OLD)),
        // The last value of a variable counts.
        host.twin.run(
            "changed",
            &json!({ "Image": OLD, "Env": [format!("DELEGATE_NAME={GROUP}"), "DELEGATE_NAME=x"] }),
        ),
    ];
    let report = host.once(NEW).await;
    assert!(!report.has_failures());
    assert_eq!(report.delegates.len(), 1);
    for name in ["other", "foreign", "d2", "changed"] {
        assert_eq!(host.writes_on(name), []);
    }
    for id in others {
        assert_eq!(host.events_of(&id).len(), 2);
        assert!(host.twin.writes().iter().all(|call| call.subject != id.as_str()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_delegate_whose_owner_opted_out_is_left_alone() {
    let ours = "io.delegate-upgrader.enable";
    let watchtower = "com.centurylinklabs.watchtower.enable";
    for (labels, by) in [
        (json!({ ours: "false" }), Some(ours)),
        (json!({ watchtower: "false" }), Some(watchtower)),
        (json!({ ours: "false", watchtower: "true" }), Some(ours)),
        // Ours goes first.
        (json!({ ours: "true", watchtower: "false" }), None),
        (json!({ watchtower: "true" }), None),
    ] {
        let host = Host::new();
        host.run_with("dd", |body| body["Labels"] = labels.clone());
        let report = host.once(NEW).await;
        let row = row(&report, "dd");
        assert!(!report.has_failures());
        match by {
            Some(label) => {
                assert_eq!(row.reason.as_str(), "opted_out", "{labels}");
                assert!(row.message.contains(&format!("{label}=false")), "{}", row.message);
                assert_eq!(host.twin.writes(), []);
            }
            None => assert_eq!(row.image, NEW, "{labels}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn stopped_paused_and_created_delegates_are_left_alone() {
    let host = Host::new();
    let stopped = host.run("stopped");
    host.twin.stop(&stopped, Duration::ZERO).await.unwrap();
    let paused = host.run("paused");
    host.twin.pause(&paused);
    host.twin
        .create("created", None, &delegate_body(GROUP, OLD))
        .await
        .unwrap();
    let before = host.twin.writes().len();
    let report = host.once(NEW).await;
    for (name, word) in [
        ("stopped", "exited"),
        ("paused", "paused"),
        ("created", "created"),
    ] {
        assert_eq!(row(&report, name).reason.as_str(), "not_running");
        assert!(row(&report, name).message.contains(word));
    }
    assert!(!report.has_failures());
    assert_eq!(host.twin.writes().len(), before);
}

/// Stopped by its owner while an upgrader that had created the candidate was away.
#[tokio::test(start_paused = true)]
async fn a_delegate_that_was_stopped_meanwhile_is_not_brought_back_as_its_successor() {
    for change in [(|_: &mut serde_json::Value| ()) as fn(&mut _), host_network] {
        let host = Host::new();
        let old = host.run_with("dd", change);
        super::faults::killed_when(&host, |call| {
            call.operation == Operation::Start || call.operation == Operation::Rename
        })
        .await;
        assert_eq!(host.find("dd.candidate").state, RunState::Created);
        host.twin.stop(&old, Duration::ZERO).await.unwrap();
        let report = host.once(NEW).await;
        assert_eq!(row(&report, "dd").reason.as_str(), "not_running", "{report:?}");
        assert_eq!(
            host.containers(),
            [("dd".to_owned(), RunState::Exited, OLD.to_owned())]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn health_only_writes_nothing() {
    let mut host = Host::new();
    host.health_only = true;
    host.run("dd");
    let report = host.once(NEW).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "health_only");
    assert_eq!(row(&report, "dd").health.as_str(), "healthy");
    assert_eq!(host.twin.writes(), []);
}

/// It is no failure, since nothing would be done about another answer either.
#[tokio::test(start_paused = true)]
async fn health_only_reports_that_the_published_image_is_unknown() {
    let mut host = Host::new();
    host.health_only = true;
    host.refused = [GROUP.to_owned()].into();
    host.run("dd");
    let report = host.once(NEW).await;
    let dd = row(&report, "dd");
    assert_eq!((dd.reason.as_str(), dd.failed), ("health_only", false));
    assert_eq!(
        dd.message,
        "health checks only (DISABLE_AUTO_UPGRADE=true); cannot determine the published image: the \
         Manager rejected the request (INVALID_REQUEST): not for docker-delegate; check ACCOUNT_ID and \
         UPGRADER_WORKLOAD_NAME"
    );
    let plan = host.upgrader(NEW).plan(|_| ()).await.unwrap();
    assert!(
        plan[0]
            .message
            .contains("cannot determine the published image: the Manager rejected"),
        "{plan:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn health_only_writes_nothing_even_where_a_rollout_is_half_done() {
    for change in [(|_: &mut serde_json::Value| ()) as fn(&mut _), host_network] {
        // After each write of a whole rollout.
        for done in 1.. {
            let mut host = Host::new();
            host.run_with("dd", change);
            let mut writes = 0;
            let finished = !super::faults::killed_when(&host, move |call| {
                writes += usize::from(call.is_write());
                writes > done
            })
            .await;
            let before = host.twin.writes().len();
            host.health_only = true;
            let mut upgrader = host.upgrader(NEW);
            host.scheduled_run(&mut upgrader).await;
            tokio::time::sleep(Duration::from_secs(7200)).await;
            host.scheduled_run(&mut upgrader).await;
            assert_eq!(host.twin.writes().len(), before);
            if finished {
                assert!(done > 5, "{done}");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_observation_writes_nothing() {
    let host = Host::new();
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::ReportOnly);
    let report = host.finish(&mut upgrader).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "awaiting_schedule");
    assert!(row(&report, "dd").message.contains(NEW));
    let plan = upgrader.plan(|_| ()).await.unwrap();
    assert_eq!(plan[0].action, "replace");
    assert_eq!(host.twin.writes(), []);
}

/// The number would be the second at which it was asked to stop.
#[tokio::test(start_paused = true)]
async fn an_owner_s_name_that_looks_like_a_retired_one_is_a_name() {
    let host = Host::new();
    host.run("dd");
    host.run("dd.draining-5");
    let report = host.once(NEW).await;
    assert!(!report.has_failures(), "{report:?}");
    let new = |name: &str| (name.to_owned(), RunState::Running, NEW.to_owned());
    assert_eq!(host.containers(), [new("dd"), new("dd.draining-5")]);
}

#[tokio::test(start_paused = true)]
async fn an_owner_s_name_that_looks_like_one_of_ours_stays_through_every_upgrade() {
    for name in ["dd.candidate", "dd.failed-1", "dd.standby"] {
        let host = Host::new();
        host.publish(NEWER, good());
        host.run(name);
        for image in [NEW, NEWER] {
            let report = host.once(image).await;
            assert!(!report.has_failures(), "{report:?}");
            assert_eq!(
                host.containers(),
                [(name.to_owned(), RunState::Running, image.to_owned())]
            );
        }
    }
}

/// It goes on while its process does. Once stopped, neither it nor a successor could be started.
#[tokio::test(start_paused = true)]
async fn a_delegate_that_lives_in_a_namespace_of_a_container_that_does_not_run_is_left_alone() {
    for (field, what) in [
        ("NetworkMode", "network"),
        ("PidMode", "PID namespace"),
        ("IpcMode", "IPC namespace"),
    ] {
        let host = Host::new();
        let companion = host.twin.run("companion", &json!({ "Image": OLD }));
        host.run_with("dd", |body| {
            body["HostConfig"][field] = json!(format!("container:{}", companion.as_str()));
        });
        host.twin
            .by_hand(OperatorAction::Stop("companion".to_owned()))
            .unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let report = host.once(NEW).await;
        assert_eq!(row(&report, "dd").reason.as_str(), "obstacle");
        let why = &row(&report, "dd").message;
        assert!(why.contains(&format!("shares the {what} of")), "{why}");
        assert_eq!(host.writes_on("dd"), []);
        host.twin
            .by_hand(OperatorAction::Restart("companion".to_owned()))
            .unwrap();
        assert!(!host.once(NEW).await.has_failures());
    }
}

#[tokio::test(start_paused = true)]
async fn a_delegate_in_a_network_of_swarm_is_left_alone() {
    let host = Host::new();
    host.twin.add_network("overlay");
    host.run_with("dd", |body| {
        body["HostConfig"]["NetworkMode"] = json!("overlay");
    });
    let report = host.once(NEW).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "obstacle");
    let why = &row(&report, "dd").message;
    assert!(why.contains("the Swarm network overlay"), "{why}");
    assert_eq!(host.twin.writes(), []);
}

/// The engine creates a successor all the same, and starts neither that one nor, once stopped, the old one.
#[tokio::test(start_paused = true)]
async fn a_delegate_that_is_linked_to_a_container_that_does_not_run_is_left_alone() {
    for is_removed in [false, true] {
        let host = Host::new();
        host.twin.run("proxy", &json!({ "Image": OLD }));
        host.run_with("dd", |body| {
            body["HostConfig"]["Links"] = json!(["proxy:web"]);
        });
        host.twin
            .by_hand(OperatorAction::Stop("proxy".to_owned()))
            .unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        if is_removed {
            host.twin
                .by_hand(OperatorAction::Remove("proxy".to_owned()))
                .unwrap();
        }
        let report = host.once(NEW).await;
        assert_eq!(row(&report, "dd").reason.as_str(), "obstacle");
        let why = &row(&report, "dd").message;
        assert!(why.contains("linked to proxy, which is not running"), "{why}");
        assert_eq!(host.writes_on("dd"), []);
        if !is_removed {
            host.twin
                .by_hand(OperatorAction::Restart("proxy".to_owned()))
                .unwrap();
            assert!(!host.once(NEW).await.has_failures());
            assert_eq!(host.find("dd").image, NEW);
        }
    }
}

/// A link is to the container, whatever it is called, and to no other one after it.
#[tokio::test(start_paused = true)]
async fn a_delegate_that_a_container_is_linked_to_is_left_alone_under_another_name_too() {
    let host = Host::new();
    host.run("dd");
    host.twin.run(
        "app",
        &json!({ "Image": OLD, "HostConfig": { "Links": ["dd:d"] } }),
    );
    let mut upgrader = host.upgrader(NEW);
    for name in ["dd", "ee"] {
        let report = host.scheduled_run(&mut upgrader).await;
        assert_eq!(row(&report, name).reason.as_str(), "obstacle");
        let why = &row(&report, name).message;
        assert!(why.contains("container app is linked to it"), "{why}");
        assert_eq!(host.find(name).image, OLD);
        if name == "dd" {
            let renamed = OperatorAction::Rename("dd".to_owned(), "ee".to_owned());
            host.twin.by_hand(renamed).unwrap();
        }
    }
    host.twin
        .by_hand(OperatorAction::Remove("app".to_owned()))
        .unwrap();
    assert!(!host.scheduled_run(&mut upgrader).await.has_failures());
    assert_eq!(host.find("ee").image, NEW);
}

/// A sidecar in its network, say: it would be cut off, and recreating that one is not ours to do.
#[tokio::test(start_paused = true)]
async fn a_delegate_that_others_have_a_share_in_is_left_alone_until_they_are_gone() {
    for what in [
        "network",
        "PID namespace",
        "IPC namespace",
        "volumes",
        "volumes by id",
    ] {
        let host = Host::new();
        let id = host.run("dd");
        let host_config = match what {
            "network" => json!({ "NetworkMode": format!("container:{}", id.as_str()) }),
            "PID namespace" => json!({ "PidMode": "container:dd" }),
            "IPC namespace" => json!({ "IpcMode": format!("container:{}", id.as_str()) }),
            "volumes" => json!({ "VolumesFrom": ["dd:ro"] }),
            // The engine takes as much of an id as is needed, and keeps what it was given.
            _ => json!({ "VolumesFrom": [&id.as_str()[..5]] }),
        };
        host.twin
            .run("logger", &json!({ "Image": OLD, "HostConfig": host_config }));
        let report = host.once(NEW).await;
        assert_eq!(row(&report, "dd").reason.as_str(), "obstacle");
        let why = &row(&report, "dd").message;
        let what = what.trim_end_matches(" by id");
        assert!(why.contains(&format!("logger shares its {what}")), "{why}");
        assert_eq!(host.writes_on("dd"), []);
        assert_eq!(host.writes_on("logger"), []);
        host.twin
            .by_hand(OperatorAction::Remove("logger".to_owned()))
            .unwrap();
        assert!(!host.once(NEW).await.has_failures());
        host.assert_settled_on("dd", NEW, what);
    }
}
