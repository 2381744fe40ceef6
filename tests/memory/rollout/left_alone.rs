//! Containers that the upgrader leaves alone.

use std::time::Duration;

use delegate_upgrader::container::RunState;
use delegate_upgrader::reconcile::controller::Controller as _;
use delegate_upgrader::rollout::Intent;
use serde_json::{Value, json};

use super::faults::killed_after_writes;
use super::host::{GROUP, HOUR, Host, NEW, NEWER, OLD, good, host_network, row};
use kit::twin::{Behaviour, OperatorAction, delegate_body};

#[tokio::test(start_paused = true)]
async fn never_writes_to_any_other_container() {
    let host = Host::new();
    host.run("dd");
    // The last value of a variable counts.
    let changed = json!({ "Image": OLD, "Env": [format!("DELEGATE_NAME={GROUP}"), "DELEGATE_NAME=x"] });
    let others = [
        ("other", delegate_body("another-delegate", OLD)),
        ("plain", json!({ "Image": OLD, "Env": ["NAME=x"] })),
        ("d2", delegate_body("docker-delegate-2", OLD)),
        ("changed", changed),
    ];
    let ids = others.each_ref().map(|(name, body)| host.twin.run(name, body));
    let report = host.once(NEW).await;
    assert!(!report.has_failures());
    assert_eq!(report.delegates.len(), 1);
    for ((name, _), id) in others.iter().zip(ids) {
        assert_eq!(host.writes_on(name), []);
        assert_eq!(host.writes_on(id.as_str()), []);
        assert_eq!(host.events_of(&id).len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn reports_what_it_searched_for_and_found_if_no_delegate_matches() {
    let host = Host::new();
    host.twin.run("other", &delegate_body("another-delegate", OLD));
    let found = host.once(NEW).await.none_found.unwrap();
    let words = format!(
        "no container on this host has DELEGATE_NAME={GROUP}; others have another-delegate: set UPGRADER_WORKLOAD_NAME to one of these"
    );
    assert_eq!(found, words);
    let mut third = delegate_body("edge", OLD);
    third["Env"] = json!(["HARNESS_NAME=edge"]);
    host.twin.run("third", &third);
    let found = host.once(NEW).await.none_found.unwrap();
    let product = "; edge (Harness Delegate 3.x): another product, which is left alone";
    assert_eq!(found, format!("{words}{product}"));
    host.run("dd");
    assert_eq!(host.once(NEW).await.none_found, None);
}

#[tokio::test(start_paused = true)]
async fn history_leaves_tasks_to_their_service() {
    let host = Host::new();
    host.run("dd");
    host.run_with("web.1.x", |body| {
        body["Labels"] = json!({ "com.docker.swarm.service.name": "web" });
    });
    let histories = host.upgrader(NEW).history(None, []).await.unwrap();
    let names: Vec<&str> = histories.iter().map(|it| it.container.as_str()).collect();
    assert_eq!(names, ["dd"]);
}

/// One `env_file` for all services gives `DELEGATE_NAME` to a sidecar, and `docker compose run` to a shell.
#[tokio::test(start_paused = true)]
async fn reports_but_never_touches_what_only_has_a_delegates_name() {
    const SIDECAR: &str = "registry.corp/sidecar:1";
    const OURS: &str = "registry.corp/delegate:26.03.1";
    let one_off = json!({ "com.docker.compose.oneoff": "True" });
    let own_word = json!({ "io.delegate-upgrader.enable": "true" });
    let sidecar = |body: &mut Value| body["Image"] = json!(SIDECAR);
    // Whatever listens on the delegate's port answers as a delegate does.
    for (what, port, is_delegate, change) in [
        ("sidecar", 80, false, &sidecar as &dyn Fn(&mut Value)),
        ("sidecar in the host's network", 80, false, &|body| {
            sidecar(body);
            host_network(body);
        }),
        ("command", 3460, false, &|body| body["Labels"] = one_off.clone()),
        ("custom image", 3460, true, &sidecar),
        ("custom image out of reach", 80, true, &|body| {
            sidecar(body);
            body["Labels"] = own_word.clone();
        }),
    ] {
        let mut host = Host::new();
        host.publish(OURS, good());
        host.run("dd");
        let behaviour = Behaviour { port, ..good() };
        host.twin.add_image(SIDECAR, host.twin.image(behaviour));
        let id = host.run_with("other", change);
        let plan = host.upgrader(OURS).plan(|_| ()).await.unwrap();
        let planned = plan.iter().find(|planned| planned.container == "other").unwrap();
        let is_named = planned
            .reason
            .is_some_and(|reason| reason.as_str() == "not_a_delegate");
        assert_eq!(is_named, !is_delegate, "{what}: {planned:?}");
        (
            host.settings.policy.health_only,
            host.settings.policy.restarts_unhealthy,
        ) = (true, true);
        let mut watch = host.upgrader(OURS);
        host.continue_for(&mut watch, HOUR).await;
        (
            host.settings.policy.health_only,
            host.settings.policy.restarts_unhealthy,
        ) = (false, false);
        let report = host.once(OURS).await;
        let counted = report.delegates.iter().any(|row| row.container == "other");
        assert_eq!(counted, is_delegate, "{what}: {report:?}");
        assert_eq!(report.not_delegates.len(), usize::from(!is_delegate), "{what}");
        assert_eq!(row(&report, "dd").image, OURS, "{what}");
        let is_touched = !host.writes_on("other").is_empty() || !host.writes_on(id.as_str()).is_empty();
        assert_eq!(is_touched, is_delegate, "{what}");
    }
}

/// `UPGRADER_WORKLOAD_NAME=*`: the words with which each container is reported, and no other container is touched.
#[tokio::test(start_paused = true)]
async fn manages_every_delegate_of_its_account_with_a_star() {
    let mut host = Host::new();
    host.settings.scope.account = Some("ours".to_owned());
    host.settings.scope.workload_names = vec!["*".to_owned()];
    let body = |image: &str, variables: &[&str]| json!({ "Image": image, "Env": variables });
    host.twin
        .add_image("sidecar:1", host.twin.image(Behaviour { port: 80, ..good() }));
    for (name, image, variables) in [
        ("dd-a", OLD, &["DELEGATE_NAME=a", "ACCOUNT_ID=ours"][..]),
        ("dd-b", OLD, &["DELEGATE_NAME=b", "ACCOUNT_ID=ours"]),
        ("theirs", OLD, &["DELEGATE_NAME=a", "ACCOUNT_ID=theirs"]),
        ("no-account", OLD, &["DELEGATE_NAME=a"]),
        ("no-name", OLD, &["ACCOUNT_ID=ours", "DELEGATE_NAME="]),
        (
            "unfit",
            OLD,
            &["ACCOUNT_ID=ours", "DELEGATE_NAME=the upgrader, itself"],
        ),
        ("sidecar", "sidecar:1", &["DELEGATE_NAME=a", "ACCOUNT_ID=ours"]),
    ] {
        host.twin.run(name, &body(image, variables));
    }
    let report = host.once(NEW).await;
    let rows: Vec<(&str, &str, &str)> = report
        .delegates
        .iter()
        .map(|row| (row.container.as_str(), row.workload.as_str(), row.reason.as_str()))
        .collect();
    let expected = [
        ("dd-a", "a", "up_to_date"),
        ("dd-b", "b", "up_to_date"),
        ("theirs", "a", "other_account"),
    ];
    assert_eq!(rows, expected);
    assert_eq!(report.not_delegates.len(), 1, "{report:?}");
    for name in ["theirs", "no-account", "no-name", "unfit", "sidecar"] {
        assert_eq!(host.writes_on(name), [], "{name}");
    }
}

/// Two accounts on one host may have delegates of the same name, each with its own upgrader.
#[tokio::test(start_paused = true)]
async fn leaves_delegate_of_another_account_alone() {
    for (account, is_ours) in [(Some("ours"), true), (Some("theirs"), false), (None, true)] {
        let mut host = Host::new();
        host.settings.scope.account = Some("ours".to_owned());
        host.run_with("dd", |body| {
            let variables = body["Env"].as_array_mut().unwrap();
            variables.retain(|variable| !variable.as_str().unwrap().starts_with("ACCOUNT_ID="));
            variables.extend(account.map(|account| json!(format!("ACCOUNT_ID={account}"))));
        });
        let reasons = |ours| if is_ours { ours } else { "other_account" };
        let plan = host.upgrader(NEW).plan(|_| ()).await.unwrap();
        assert_eq!(plan[0].message.contains("account theirs"), !is_ours, "{plan:?}");
        let report = host.once(NEW).await;
        assert!(!report.has_failures());
        assert_eq!(
            row(&report, "dd").reason.as_str(),
            reasons("up_to_date"),
            "{account:?}"
        );
        assert_eq!(host.twin.writes().is_empty(), !is_ours);
        host.settings.policy.health_only = true;
        let report = host.once(NEW).await;
        assert_eq!(
            row(&report, "dd").reason.as_str(),
            reasons("health_only"),
            "{account:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn leaves_an_opted_out_delegate_alone() {
    let ours = "io.delegate-upgrader.enable";
    let watchtower = "com.centurylinklabs.watchtower.enable";
    for (labels, by) in [
        (json!({ ours: "false" }), Some(ours)),
        (json!({ watchtower: "false" }), Some(watchtower)),
        (json!({ ours: "false", watchtower: "true" }), Some(ours)),
        // Our label takes precedence.
        (json!({ ours: "true", watchtower: "false" }), None),
        (json!({ watchtower: "true" }), None),
    ] {
        let host = Host::new();
        host.run_with("dd", |body| body["Labels"] = labels.clone());
        let report = host.once(NEW).await;
        let row = row(&report, "dd");
        assert!(!report.has_failures());
        let Some(label) = by else {
            assert_eq!(row.image, NEW, "{labels}");
            continue;
        };
        assert_eq!(row.reason.as_str(), "opted_out", "{labels}");
        assert!(row.message.contains(&format!("{label}=false")), "{}", row.message);
        assert_eq!(host.twin.writes(), []);
    }
}

/// After each write of a whole rollout, as long as a delegate is in service.
#[tokio::test(start_paused = true)]
async fn health_only_mode_writes_nothing_even_during_a_half_done_rollout() {
    for change in [(|_| ()) as fn(&mut Value), host_network] {
        for done in 1.. {
            let mut host = Host::new();
            host.run_with("dd", change);
            let finished = !killed_after_writes(&host, done).await;
            let before = host.twin.writes().len();
            let is_served = host
                .twin
                .glance()
                .iter()
                .any(|it| it.name == "dd" && it.state == RunState::Running);
            host.settings.policy.health_only = true;
            let mut upgrader = host.upgrader(NEW);
            host.scheduled_run(&mut upgrader).await;
            tokio::time::sleep(2 * HOUR).await;
            host.scheduled_run(&mut upgrader).await;
            assert!(host.twin.writes().len() == before || !is_served);
            if finished {
                assert!(done > 5, "{done}");
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn writes_nothing_while_it_observes_or_plans() {
    let host = Host::new();
    host.run("dd");
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Intent::Report);
    let report = host.finish(&mut upgrader).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "awaiting_schedule");
    assert!(row(&report, "dd").message.contains(NEW));
    let plan = upgrader.plan(|_| ()).await.unwrap();
    assert_eq!(plan[0].action, "replace");
    assert_eq!(host.twin.writes(), []);
}

/// In a draining container's name, the number would be the second of its stop request.
#[tokio::test(start_paused = true)]
async fn keeps_owner_name_that_resembles_ours() {
    for name in ["dd.candidate", "dd.failed-1", "dd.draining-5", "dd.helper"] {
        let host = Host::new();
        host.publish(NEWER, good());
        host.run(name);
        for image in [NEW, NEWER] {
            let report = host.once(image).await;
            assert!(!report.has_failures(), "{name}: {report:?}");
            host.assert_settled(&[name], image, name);
        }
    }
    let host = Host::new();
    host.run("dd");
    host.run("dd.draining-5");
    assert!(!host.once(NEW).await.has_failures());
    host.assert_settled(&["dd", "dd.draining-5"], NEW, "");
}

/// Asserts that an obstacle holds `dd` back: another container that it needs, or that needs it.
async fn is_held_back(host: &Host, words: &str) {
    let report = host.once(NEW).await;
    let dd = row(&report, "dd");
    assert_eq!(dd.reason.as_str(), "obstacle", "{dd:?}");
    assert!(dd.message.contains(words), "{}", dd.message);
    assert_eq!(host.writes_on("dd"), []);
    assert_eq!(host.find("dd").image, OLD);
}

/// Once it is stopped, neither the delegate nor a successor could start.
#[tokio::test(start_paused = true)]
async fn leaves_a_delegate_alone_if_a_container_it_needs_is_not_running() {
    for (field, what) in [
        ("NetworkMode", "shares the network of"),
        ("PidMode", "shares the PID namespace of"),
        ("IpcMode", "shares the IPC namespace of"),
        ("Links", "linked to companion, which is not running"),
    ] {
        for is_removed in [false, true] {
            let host = Host::new();
            let companion = host.twin.run("companion", &json!({ "Image": OLD }));
            host.run_with("dd", |body| {
                body["HostConfig"][field] = match field {
                    "Links" => json!(["companion:web"]),
                    _ => json!(format!("container:{}", companion.as_str())),
                };
            });
            host.by_hand(OperatorAction::Stop, "companion");
            tokio::time::sleep(Duration::from_secs(60)).await;
            if is_removed {
                host.by_hand(OperatorAction::Remove, "companion");
            }
            is_held_back(&host, what).await;
            if !is_removed {
                host.by_hand(OperatorAction::Restart, "companion");
                assert!(!host.once(NEW).await.has_failures());
                assert_eq!(host.find("dd").image, NEW);
            }
        }
    }
}

/// A link belongs to the container, whatever its name, and not to a later container of the same name.
#[tokio::test(start_paused = true)]
async fn leaves_a_delegate_alone_if_it_is_linked_under_another_name() {
    let host = Host::new();
    host.run("dd");
    let app = json!({ "Image": OLD, "HostConfig": { "Links": ["dd:d"] } });
    host.twin.run("app", &app);
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
    host.by_hand(OperatorAction::Remove, "app");
    assert!(!host.scheduled_run(&mut upgrader).await.has_failures());
    assert_eq!(host.find("ee").image, NEW);
}

/// For example a sidecar in its network: it would be cut off, and the upgrader does not recreate other containers.
#[tokio::test(start_paused = true)]
async fn leaves_delegate_alone_while_another_container_depends_on_it() {
    for what in [
        "network",
        "PID namespace",
        "IPC namespace",
        "volumes",
        "volumes by id",
    ] {
        let host = Host::new();
        let id = host.run("dd");
        let by_id = format!("container:{}", id.as_str());
        let host_config = match what {
            "network" => json!({ "NetworkMode": by_id }),
            "PID namespace" => json!({ "PidMode": "container:dd" }),
            "IPC namespace" => json!({ "IpcMode": by_id }),
            "volumes" => json!({ "VolumesFrom": ["dd:ro"] }),
            // The engine accepts any unique prefix of an id, and keeps it as it was given.
            _ => json!({ "VolumesFrom": [&id.as_str()[..5]] }),
        };
        let logger = json!({ "Image": OLD, "HostConfig": host_config });
        host.twin.run("logger", &logger);
        let what = what.trim_end_matches(" by id");
        is_held_back(&host, &format!("logger shares its {what}")).await;
        assert_eq!(host.writes_on("logger"), []);
        host.by_hand(OperatorAction::Remove, "logger");
        host.upgrade(NEW).await;
    }
}

#[tokio::test(start_paused = true)]
async fn leaves_a_delegate_in_a_swarm_network_alone() {
    let host = Host::new();
    host.twin.add_network("overlay");
    host.run_with("dd", |body| body["HostConfig"]["NetworkMode"] = json!("overlay"));
    is_held_back(&host, "the Swarm network overlay").await;
    assert_eq!(host.twin.writes(), []);
}
