//! An upgrade from beginning to end: which parts of a service change, and which do not.

use std::sync::{Arc, Mutex};

use kit::lab::{Lab, V1, V2, docker, eventually, image};
use serde_json::json;

use super::{PATIENCE, Service};
use crate::proxy::{Proxy, Treatment};

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn upgrading_a_service_changes_nothing_else() {
    let service = Service::new(
        "swarm-upgrade",
        &["--label", "owner=team-a", "--container-label", "x=y"],
    );
    let before = service.document();
    let plan = service.run(V2, &["plan"]);
    plan.says("have Swarm replace");
    assert_eq!(
        service.document()["Version"],
        before["Version"],
        "a plan changes nothing"
    );
    let health_only = service
        .upgrader(V2)
        .with("DISABLE_AUTO_UPGRADE", "true")
        .run(&["once"]);
    assert_eq!(health_only.code, Some(0), "{}", health_only.text);
    assert_eq!(
        service.document()["Version"],
        before["Version"],
        "{}",
        health_only.text
    );
    service.run(V2, &["once"]).ended(0);
    let pinned = service.image();
    assert!(pinned.starts_with(&format!("{}@sha256:", image(V2))), "{pinned}");
    assert_eq!(service.running(), [image(V2), image(V2)]);
    let after = service.document();
    assert_eq!(after["UpdateStatus"]["State"], "completed");
    // Only fields that the owner left unset change, and the record.
    let mut expected = before["Spec"].clone();
    expected["TaskTemplate"]["ContainerSpec"]["Image"] = json!(pinned);
    expected["TaskTemplate"]["ContainerSpec"]["StopGracePeriod"] = json!(3_600_000_000_000_i64);
    expected["UpdateConfig"] = json!({
        "Parallelism": 1, "FailureAction": "rollback", "Monitor": 2_000_000_000, "MaxFailureRatio": 0, "Order": "start-first",
    });
    let mut spec = after["Spec"].clone();
    let labels = spec["Labels"].as_object_mut().unwrap();
    labels.retain(|name, _| !name.starts_with("io.delegate-upgrader."));
    assert_eq!(spec, expected);
    assert_eq!(service.label("attempt-image"), Some(pinned.clone()));
    // The second run finds nothing to do.
    let version = after["Version"].clone();
    let run = service.run(V2, &["once"]).ended(0);
    assert_eq!(service.document()["Version"], version, "{}", run.text);
    run.says("runs the published image");
    // The upgrader ignores the containers of its tasks, and without SWARM=true it ignores the service as well.
    let alone = service.lab.upgrader(V1).run(&["once"]);
    assert_eq!(alone.code, Some(0), "{}", alone.text);
    let task = format!("a task of the Swarm service {}", service.name);
    for said in [task.as_str(), "SWARM=true also upgrades them"] {
        alone.says(said);
    }
    assert_eq!(service.document()["Version"], version, "{}", alone.text);
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn an_upgrade_keeps_the_rest_of_the_spec_byte_for_byte() {
    const OPTIONS: [&str; 14] = [
        "--mount type=tmpfs,destination=/scratch,tmpfs-size=1048576,tmpfs-mode=1700",
        "--mount type=volume,source=swarm-cache,destination=/cache,volume-label=a=b,readonly",
        "--limit-memory 256m --reserve-memory 32m --limit-cpu 0.5 --limit-pids 900",
        "--restart-condition on-failure --restart-delay 3s --restart-max-attempts 9 --restart-window 90s",
        "--rollback-parallelism 3 --rollback-order start-first --rollback-monitor 7s",
        "--update-delay 1s --update-monitor 1s --update-max-failure-ratio 0.5 --update-order stop-first",
        "--stop-grace-period 20s --stop-signal SIGINT --init --read-only --tty",
        "--user 1001:1001 --workdir / --hostname {{.Node.Hostname}}-{{.Task.Slot}}",
        "--dns 192.0.2.53 --dns-search example.test --dns-option ndots:2 --host manager.test:192.0.2.7",
        "--cap-add NET_BIND_SERVICE --cap-drop MKNOD --ulimit nofile=2048:4096 --sysctl net.core.somaxconn=512",
        "--health-interval 2s --health-retries 5 --health-start-period 3s",
        "--log-driver json-file --log-opt max-size=1m --constraint node.role==manager",
        "--placement-pref spread=node.labels.rack --replicas-max-per-node 4 --endpoint-mode dnsrr",
        "--env NUMBER=9007199254740993 --env EMPTY= --label owner=team-a --container-label x=y",
    ];
    let arguments = OPTIONS.iter().flat_map(|line| line.split(' '));
    let service = Service::new("swarm-spec", &arguments.collect::<Vec<_>>());
    let before = service.document();
    let run = service.run(V2, &["once"]).ended(0);
    run.says("StopGracePeriod of 20s is shorter");
    let mut expected = before["Spec"].clone();
    expected["TaskTemplate"]["ContainerSpec"]["Image"] = json!(service.image());
    let mut spec = service.document()["Spec"].clone();
    let labels = spec["Labels"].as_object_mut().unwrap();
    labels.retain(|name, _| !name.starts_with("io.delegate-upgrader."));
    // The command asks for defaults to be filled in; only the engine itself shows the stored values.
    for document in [&mut expected, &mut spec] {
        let update = document["UpdateConfig"].as_object_mut().unwrap();
        update.retain(|name, _| !["Parallelism", "FailureAction"].contains(&name.as_str()));
    }
    assert_eq!(spec, expected);
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn a_service_scaled_to_zero_gets_the_image_without_verification() {
    let service = Service::new("swarm-scaled", &[]);
    let replicas =
        |count: &str| docker(&["service", "update", "--quiet", "--replicas", count, &service.name]);
    replicas("0");
    for _ in 0..2 {
        let run = service.run(V2, &["once"]).ended(0);
        run.says("is not verified");
        assert!(service.image().starts_with(&image(V2)));
    }
    replicas("2");
    assert_eq!(service.running(), [image(V2), image(V2)]);
    let run = service.run(V2, &["once"]).ended(0);
    run.says("runs the published image");
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn a_job_is_left_alone() {
    let lab = Lab::new("swarm-job");
    let service = Service::new("swarm-beside-job", &[]);
    let name = format!("{}-job", lab.name);
    let variable = format!("DELEGATE_NAME={}", lab.name);
    docker(&[
        "service",
        "create",
        "--quiet",
        "--detach",
        "--name",
        &name,
        "--mode",
        "replicated-job",
        "--env",
        &variable,
        &image(V1),
    ]);
    let job = Service { lab, name };
    let version = job.document()["Version"].clone();
    let run = job.run(V2, &["once"]);
    run.says("a Swarm job");
    assert_eq!(job.document()["Version"], version);
    drop(service);
}

/// Labels of the service are not part of its tasks.
#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn writing_service_labels_restarts_no_task() {
    let service = Service::new("swarm-noted", &[]);
    let before = service.tasks("{{.ID}}");
    let proxy = Proxy::that_treats(|method, _| match method {
        "POST" => Treatment::KilledAfter,
        _ => Treatment::LetThrough,
    });
    service
        .upgrader(V2)
        .with("DOCKER_HOST", &proxy.host())
        .run(&["once"]);
    let noted = service.label("attempt-image").expect("it is noted");
    assert!(noted.starts_with(&image(V2)), "{noted}");
    assert!(service.image().starts_with(&image(V1)));
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert_eq!(service.tasks("{{.ID}}"), before);
    assert_eq!(service.running(), [image(V1), image(V1)]);
}

/// The services in the order of their updates.
fn order_of_updates(proxy: &Proxy) -> Vec<String> {
    let services = proxy.writes().into_iter().filter_map(|call| {
        let (_, rest) = call.split_once("/services/")?;
        Some(rest.split('/').next()?.to_owned())
    });
    services.collect()
}

/// The upgrader notes and updates the first service before it starts the other one.
fn assert_one_after_the_other(proxy: &Proxy) {
    let updated = order_of_updates(proxy);
    assert_eq!(updated.len(), 4, "{updated:?}");
    let [first, second] = [&updated[0], &updated[2]];
    assert!(
        updated[1] == *first && updated[3] == *second && first != second,
        "{updated:?}"
    );
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn services_of_one_workload_are_upgraded_one_after_the_other() {
    let first = Service::with_replicas("swarm-several", 1);
    let second = first.beside("second", &["--replicas", "1"]);
    let proxy = Proxy::that_treats(|_, _| Treatment::LetThrough);
    first
        .upgrader(V2)
        .with("DOCKER_HOST", &proxy.host())
        .run(&["once"])
        .ended(0);
    assert_one_after_the_other(&proxy);
    let time = |service: &Service, path: &str| {
        service.document()["UpdateStatus"][path]
            .as_str()
            .map(str::to_owned)
    };
    let mut spans: Vec<_> = [&first, &second]
        .map(|service| (time(service, "StartedAt"), time(service, "CompletedAt")))
        .into();
    spans.sort();
    assert!(spans[0].1 < spans[1].0, "{spans:?}");
    for service in [&first, &second] {
        assert_eq!(service.running(), [image(V2)]);
    }
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn scaling_during_an_update_is_kept() {
    let service = Service::new("swarm-scaled-meanwhile", &[]);
    let daemon = service.upgrader(V2).with("RUN_ON_START", "true").start();
    daemon.says("is rolling out", PATIENCE);
    service.update(&["--replicas", "3"]);
    daemon.says("runs the published image", PATIENCE);
    service.will_run(&[V2; 3]);
    let spec = service.document()["Spec"].clone();
    assert_eq!(spec["Mode"]["Replicated"]["Replicas"], 3);
    assert_eq!(spec["TaskTemplate"]["ForceUpdate"], 0);
    assert_eq!(service.label("failed-image"), None, "{}", daemon.log());
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn a_global_service_is_upgraded_where_it_runs() {
    let service = Service::create("swarm-global", &["--mode", "global"]);
    service.run(V2, &["once"]).ended(0);
    assert_eq!(service.running(), [image(V2)]);
    // No node may run it any longer: nothing verifies the image.
    service.update(&["--constraint-add", "node.labels.nowhere==1"]);
    eventually("nothing runs", PATIENCE, || service.running().is_empty());
    let run = service.run(V1, &["once"]).ended(0);
    run.says("is not verified");
    assert!(service.image().starts_with(&image(V1)));
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn a_host_port_passes_from_the_old_task_to_the_new_one() {
    let port = "mode=host,target=3460,published=43460";
    let service = Service::create("swarm-host-port", &["--replicas", "1", "--publish", port]);
    service.run(V2, &["once"]).ended(0);
    assert_eq!(service.running(), [image(V2)]);
    let spec = service.document()["Spec"].clone();
    assert_eq!(spec["UpdateConfig"]["Order"], "stop-first");
    assert_eq!(spec["EndpointSpec"]["Ports"][0]["PublishMode"], "host");
}

/// The engine refuses an update of a version that is not the current one, with status 500.
#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn concurrent_change_by_someone_else_is_kept() {
    let service = Service::new("swarm-conflict", &[]);
    let (name, left) = (service.name.clone(), Arc::new(Mutex::new(2)));
    let proxy = Proxy::that_treats(move |method, _| {
        let mut left = left.lock().expect("a number");
        if method == "POST" && *left > 0 {
            *left -= 1;
            let label = format!("theirs-{left}=kept");
            docker(&["service", "update", "--detach", "--label-add", &label, &name]);
        }
        Treatment::LetThrough
    });
    let run = service
        .upgrader(V2)
        .with("DOCKER_HOST", &proxy.host())
        .run(&["once"])
        .ended(0);
    assert!(!run.text.contains("failed; will retry"), "{}", run.text);
    assert_eq!(service.running(), [image(V2), image(V2)]);
    let labels = service.document()["Spec"]["Labels"].clone();
    assert_eq!(
        (&labels["theirs-0"], &labels["theirs-1"]),
        (&json!("kept"), &json!("kept"))
    );
    assert_eq!(order_of_updates(&proxy).len(), 4, "{:?}", proxy.writes());
}

/// A manager that follows the leader answers with an older state of the services, even after the update.
#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn a_reply_older_than_the_last_update_is_ignored() {
    let service = Service::new("swarm-stale", &[]);
    let second = service.beside("second", &["--replicas", "1"]);
    let stale = Mutex::new(0);
    let proxy = Proxy::that_treats(move |method, path| {
        let mut stale = stale.lock().expect("a number");
        match method {
            "POST" => {
                *stale = 3;
                Treatment::LetThrough
            }
            _ if path.ends_with("/services") && *stale > 0 => {
                *stale -= 1;
                Treatment::Repeated
            }
            _ if path.ends_with("/services") => Treatment::Remembered,
            _ => Treatment::LetThrough,
        }
    });
    let run = service
        .upgrader(V2)
        .with("DOCKER_HOST", &proxy.host())
        .run(&["once"])
        .ended(0);
    assert_eq!(service.running(), [image(V2), image(V2)]);
    assert_eq!(second.running(), [image(V2)]);
    assert_one_after_the_other(&proxy);
    run.says("has not applied it yet");
}
