//! The documents of a Swarm manager.

use std::time::Duration;

use chrono::DateTime;
use delegate_upgrader::config::ProbeKind;
use delegate_upgrader::document::NewSettings;
use delegate_upgrader::managed::{Managed, Progress, Record, Tasks};
use delegate_upgrader::observe::Scope;
use delegate_upgrader::rollout::reason::{Reason, ReasonKind};
use delegate_upgrader::swarm::{self, Defaults, Gate, Tools};
use serde_json::{Value, json};

const OLD: &str = "harness/delegate:26.01.1";
const NEW: &str = "harness/delegate:26.02.2";

fn service() -> Value {
    json!({
        "ID": "id",
        "Version": { "Index": 7 },
        "Spec": {
            "Name": "delegate",
            "Labels": {},
            "TaskTemplate": { "ContainerSpec": { "Image": NEW, "Env": ["A=b", "DELEGATE_NAME=docker-delegate"] } },
            "Mode": { "Replicated": { "Replicas": 2 } },
        },
    })
}

fn read(service: &Value, tasks: &[Value]) -> Option<Managed> {
    let account = Some("ours".to_owned());
    swarm::read(
        service,
        tasks,
        &Scope {
            account,
            ..kit::scope::scope()
        },
    )
}

fn task(image: &str, desired: &str, state: &str, second: u32) -> Value {
    json!({
        "ServiceID": "id", "DesiredState": desired, "CreatedAt": "2026-03-01T00:00:01Z", "Spec": { "ContainerSpec": { "Image": image } },
        "Status": { "State": state, "Timestamp": format!("2026-03-01T00:00:{second:02}.5Z"), "Message": state },
    })
}

fn progress(status: Value) -> Progress {
    let mut service = service();
    service["UpdateStatus"] = status;
    read(&service, &[]).unwrap().progress
}

#[test]
fn a_service_without_an_update_status_is_settled() {
    let settled = Progress::Settled { completed_at: None };
    assert_eq!(read(&service(), &[]).unwrap().progress, settled);
    assert_eq!(progress(Value::Null), settled);
    assert_eq!(progress(json!({})), settled);
}

#[test]
#[rustfmt::skip]
fn distinguishes_each_state_of_an_update() {
    let failure = || "update paused due to failure or early termination of task x".to_owned();
    let paused = |by_failure, message| Progress::Paused { by_failure, message };
    let message = String::new;
    for (state, said, expected) in [
        ("updating", "update in progress".to_owned(), Progress::Updating),
        ("rollback_started", message(), Progress::RollingBack),
        ("paused", failure(), paused(true, failure())),
        ("paused", "paused".to_owned(), paused(false, "paused".to_owned())),
        ("rollback_paused", message(), Progress::RollbackPaused { message: message() }),
        ("rollback_completed", message(), Progress::RolledBack { message: message() }),
    ] {
        assert_eq!(progress(json!({ "State": state, "Message": said })), expected);
    }
    let at = "2026-03-01T00:00:00.123456789Z";
    let completed = progress(json!({ "State": "completed", "CompletedAt": at }));
    let completed_at = Some(DateTime::parse_from_rfc3339(at).unwrap().to_utc());
    assert_eq!(completed, Progress::Settled { completed_at });
}

#[test]
fn only_tasks_meant_to_run_the_current_image_count() {
    let tasks = [
        task(NEW, "running", "running", 5),
        task(NEW, "running", "preparing", 6),
        task(NEW, "shutdown", "running", 7),
        task(OLD, "running", "running", 8),
        task(NEW, "shutdown", "failed", 4),
        task(NEW, "shutdown", "failed", 3),
    ];
    let Tasks {
        wanted,
        running,
        last_started_at,
        last_failure,
    } = read(&service(), &tasks).unwrap().tasks;
    let second = |at: DateTime<chrono::Utc>| at.timestamp() % 60;
    assert_eq!((wanted, running, last_started_at.map(second)), (2, 1, Some(5)));
    let failure = last_failure.unwrap();
    assert_eq!(second(failure.at), 4);
    assert_eq!(failure.ran_for, Some(Duration::from_millis(3500)));
}

/// All tasks of a node end with it, including tasks of the previous image.
#[test]
fn a_later_failure_does_not_hide_one_of_the_attempted_image() {
    let mut service = service();
    let tasks = [
        task(NEW, "shutdown", "failed", 3),
        task(NEW, "shutdown", "failed", 4),
        task(OLD, "shutdown", "failed", 9),
    ];
    let seen = |service: &Value| {
        let failure = read(service, &tasks).unwrap().tasks.last_failure.unwrap();
        (failure.image, failure.at.timestamp() % 60)
    };
    assert_eq!(seen(&service), (OLD.to_owned(), 9));
    for (label, value) in [
        ("attempt-image", NEW),
        ("attempt-from", OLD),
        ("attempt-since", "2026-03-01T00:00:00Z"),
        ("attempt-intent", "upgrade"),
    ] {
        service["Spec"]["Labels"][format!("io.delegate-upgrader.{label}")] = json!(value);
    }
    assert_eq!(seen(&service), (NEW.to_owned(), 4));
}

#[test]
fn a_later_failure_with_former_settings_does_not_hide_one_with_new_settings() {
    let with_settings = |mut task: Value| {
        let labels = json!({ "io.delegate-upgrader.settings": "3 env.A" });
        task["Spec"]["ContainerSpec"]["Labels"] = labels;
        task
    };
    let failed = [
        with_settings(task(NEW, "shutdown", "failed", 4)),
        task(NEW, "shutdown", "failed", 9),
    ];
    let failure = read(&service(), &failed).unwrap().tasks.last_failure.unwrap();
    assert_eq!((failure.settings, failure.at.timestamp() % 60), (3, 4));
}

/// For a global service, only the manager knows on how many nodes it may run.
#[test]
fn a_global_services_task_count_comes_from_its_manager() {
    let mut service = service();
    service["Spec"]["Mode"] = json!({ "Global": {} });
    service["ServiceStatus"] = json!({ "RunningTasks": 1, "DesiredTasks": 3 });
    assert_eq!(read(&service, &[]).unwrap().tasks.wanted, 3);
    service["ServiceStatus"]["DesiredTasks"] = json!(0);
    assert_eq!(read(&service, &[]).unwrap().tasks.wanted, 0);
}

#[test]
fn job_and_service_of_another_account_are_never_upgraded() {
    for (mode, account, reason) in [
        ("ReplicatedJob", "", Some(ReasonKind::NotUpgradable)),
        ("GlobalJob", "ours", Some(ReasonKind::NotUpgradable)),
        ("Replicated", "ours", None),
        ("Global", "", None),
        ("Global", "theirs", Some(ReasonKind::OtherAccount)),
    ] {
        let mut service = service();
        service["Spec"]["Mode"] = json!({ mode: {} });
        let variables = &mut service["Spec"]["TaskTemplate"]["ContainerSpec"]["Env"];
        variables[0] = json!(format!("ACCOUNT_ID={account}"));
        let left_alone = read(&service, &[]).unwrap().left_alone;
        assert_eq!(left_alone.as_ref().map(Reason::kind), reason, "{mode} {account}");
    }
}

#[test]
fn services_of_other_workloads_are_ignored() {
    let mut service = service();
    service["Spec"]["TaskTemplate"]["ContainerSpec"]["Env"] = json!(["DELEGATE_NAME=another"]);
    assert_eq!(read(&service, &[]), None);
    service["Spec"]["TaskTemplate"] = json!({ "NetworkAttachmentSpec": {} });
    assert_eq!(read(&service, &[]), None);
    assert_eq!(read(&json!({}), &[]), None);
}

#[test]
fn with_a_star_a_service_of_any_name_needs_an_account_and_the_image_of_a_delegate() {
    let every = Scope {
        workload_names: vec!["*".to_owned()],
        ..kit::scope::scope()
    };
    for (account, image, is_managed) in [
        ("ACCOUNT_ID", NEW, true),
        ("NO", NEW, false),
        ("ACCOUNT_ID", "nginx:1", false),
    ] {
        let mut service = service();
        let container = &mut service["Spec"]["TaskTemplate"]["ContainerSpec"];
        container["Image"] = json!(image);
        container["Env"] = json!(["DELEGATE_NAME=another", format!("{account}=ours")]);
        let workload = swarm::read(&service, &[], &every).map(|managed| managed.workload);
        assert_eq!(workload.as_deref(), is_managed.then_some("another"), "{image}");
    }
}

/// The record belongs to the service, not to its containers.
#[test]
fn the_record_is_read_from_the_labels_of_the_service() {
    let mut service = service();
    service["Spec"]["Labels"]["io.delegate-upgrader.release"] = json!("3");
    service["Spec"]["TaskTemplate"]["ContainerSpec"]["Labels"] =
        json!({ "io.delegate-upgrader.rolled-back-from": "x:1" });
    let record = read(&service, &[]).unwrap().record;
    assert_eq!(
        record,
        Record {
            release: 3,
            ..Record::default()
        }
    );
}

const DEFAULTS: Defaults = Defaults {
    monitor: Duration::from_secs(60),
    stop_grace_period: Duration::from_secs(3600),
};

#[test]
fn sets_only_what_the_owner_left_unset() {
    let spec =
        json!({ "Name": "d", "Labels": null, "UpdateConfig": { "Order": "stop-first" }, "Unknown": 1.5 });
    let written = swarm::with_record(spec, &Record::default(), DEFAULTS);
    assert_eq!(
        written,
        json!({
            "Name": "d", "Labels": {}, "Unknown": 1.5,
            "UpdateConfig": {
                "Order": "stop-first", "Parallelism": 1, "FailureAction": "rollback", "Monitor": 60_000_000_000_u64,
            },
        })
    );
    assert_eq!(
        swarm::with_record(written.clone(), &Record::default(), DEFAULTS),
        written
    );
    let spec = json!({ "TaskTemplate": { "ContainerSpec": { "Image": "a:1", "StopGracePeriod": 5 } } });
    let given = swarm::with_image(spec, "a:2", None, DEFAULTS);
    assert_eq!(
        given["TaskTemplate"]["ContainerSpec"],
        json!({ "Image": "a:2", "StopGracePeriod": 5 })
    );
}

#[test]
fn a_host_port_is_never_needed_by_two_tasks_at_once() {
    let port = json!({ "TargetPort": 3460, "PublishedPort": 3460, "PublishMode": "host" });
    let mut spec = json!({ "EndpointSpec": { "Ports": [port] } });
    let order = |spec: &Value| {
        swarm::with_record(spec.clone(), &Record::default(), DEFAULTS)["UpdateConfig"]["Order"].clone()
    };
    assert_eq!(order(&spec), "stop-first");
    // Only its stop grace period is missing, so the first upgrade cuts off its tasks.
    let warnings = swarm::warnings(&spec, DEFAULTS);
    assert!(
        warnings.len() == 1 && warnings[0].contains("no StopGracePeriod"),
        "{warnings:?}"
    );
    spec["TaskTemplate"] = json!({ "ContainerSpec": { "StopGracePeriod": 3_600_000_000_000_u64 } });
    assert!(swarm::warnings(&spec, DEFAULTS).is_empty());
    spec["UpdateConfig"] = json!({ "Order": "start-first", "FailureAction": "continue" });
    assert_eq!(order(&spec), "start-first");
    let warnings = swarm::warnings(&spec, DEFAULTS);
    assert!(
        warnings[0].contains("only once") && warnings[1].contains("continue"),
        "{warnings:?}"
    );
}

fn gate(probe: ProbeKind) -> Gate {
    Gate {
        command: vec!["/probe".to_owned(), "--quick".to_owned()],
        probe,
        deadline: Duration::from_secs(600),
    }
}

fn checked(check: &Value) -> Value {
    json!({ "TaskTemplate": { "ContainerSpec": { "Image": OLD, "Healthcheck": check } } })
}

#[test]
#[rustfmt::skip]
fn the_health_command_proves_a_new_task_unless_its_owner_has_a_check() {
    let until = DateTime::UNIX_EPOCH + Duration::from_secs(7);
    let ours = |tools| gate(ProbeKind::Auto).check(tools, until);
    let shell = ours(Tools::Shell);
    let script = shell["Test"][3].as_str().unwrap();
    assert_eq!(
        shell,
        json!({
            "Test": ["CMD", "sh", "-c", script, "7", "/probe", "--quick"],
            // Docker needs three failures in a row, so it becomes unhealthy at the deadline.
            "Interval": 30_000_000_000_u64, "StartPeriod": 510_000_000_000_u64,
        })
    );
    // In this image, nothing could remember that it was healthy.
    assert_eq!(
        ours(Tools::Command),
        json!({ "Test": ["CMD", "/probe", "--quick"], "Interval": 30_000_000_000_u64, "Retries": i32::MAX })
    );
    let theirs = json!({ "Test": ["CMD-SHELL", "true"], "Interval": 1_000_000_000 });
    for (probe, present, proof, is_replaced) in [
        (ProbeKind::Auto, Value::Null, "or else HEALTH_COMMAND", true),
        (ProbeKind::Exec, shell.clone(), "or else HEALTH_COMMAND", true),
        (ProbeKind::Auto, ours(Tools::Command), "or else HEALTH_COMMAND", true),
        (ProbeKind::Running, shell.clone(), "since HEALTH_PROBE is running", true),
        (ProbeKind::Auto, theirs.clone(), "its own health check proves", false),
        (ProbeKind::Auto, json!({ "Interval": 5 }), "its own health check proves", false),
        (ProbeKind::Auto, json!({ "Test": ["NONE"] }), "is switched off", false),
    ] {
        let spec = checked(&present);
        let (gate, new) = (gate(probe), json!({ "Test": ["CMD", "new"] }));
        assert!(
            gate.proof(&spec).contains(proof),
            "{present}: {}",
            gate.proof(&spec)
        );
        let wanted = is_replaced && probe != ProbeKind::Running;
        assert_eq!(gate.command(&spec).is_some(), wanted, "{present}");
        let written = |check| {
            let spec = swarm::with_image(spec.clone(), NEW, check, DEFAULTS);
            spec["TaskTemplate"]["ContainerSpec"].get("Healthcheck").cloned()
        };
        let (with, without) = if is_replaced {
            (Some(new.clone()), None)
        } else {
            (Some(present.clone()), Some(present))
        };
        assert_eq!((written(Some(new)), written(None)), (with, without));
    }
}

/// Tasks that still run the previous image are not replaced, and no trial delays the rollback.
#[test]
fn a_rollback_restores_the_previous_tasks_unless_the_service_changed() {
    let ours = gate(ProbeKind::Auto).check(Tools::Shell, DateTime::UNIX_EPOCH);
    let mut service = json!({ "Spec": checked(&ours), "PreviousSpec": checked(&Value::Null) });
    service["Spec"]["Labels"] = json!({ "x": "y" });
    service["Spec"]["TaskTemplate"]["ContainerSpec"]["Image"] = json!(NEW);
    let back = swarm::way_back(&service, OLD, DEFAULTS).unwrap();
    assert_eq!(back["TaskTemplate"], service["PreviousSpec"]["TaskTemplate"]);
    assert_eq!(back["Labels"], json!({ "x": "y" }));
    service["PreviousSpec"] = service["Spec"].clone();
    service["Spec"]["TaskTemplate"]["ContainerSpec"]["Env"] = json!(["A=b"]);
    let back = swarm::way_back(&service, OLD, DEFAULTS).unwrap();
    assert_eq!(
        back["TaskTemplate"]["ContainerSpec"],
        json!({ "Image": OLD, "Env": ["A=b"], "StopGracePeriod": 3_600_000_000_000_u64 })
    );
}

#[test]
fn former_settings_come_back_only_from_the_spec_that_swarm_keeps() {
    let former = checked(&Value::Null);
    let mut new = NewSettings::default();
    new.env.insert("TOKEN".to_owned(), Some("new".to_owned()));
    let now = swarm::with_settings(former.clone(), &new, "3 env.TOKEN");
    let container = &now["TaskTemplate"]["ContainerSpec"];
    assert_eq!(
        container["Env"].as_array().unwrap().last(),
        Some(&json!("TOKEN=new"))
    );
    assert_eq!(
        container["Labels"],
        json!({ "io.delegate-upgrader.settings": "3 env.TOKEN" })
    );
    let image = former["TaskTemplate"]["ContainerSpec"]["Image"].as_str().unwrap();
    let service = json!({ "Spec": now, "PreviousSpec": former });
    let back = swarm::way_back(&service, image, DEFAULTS).unwrap();
    assert_eq!(back["TaskTemplate"], former["TaskTemplate"]);
    // Someone has updated the service since.
    let service = json!({ "Spec": now, "PreviousSpec": now });
    assert_eq!(swarm::way_back(&service, image, DEFAULTS), None);
}

/// A pull takes time, so a container is judged from its start; but a failing one is not judged from each new start.
#[test]
fn a_task_awaiting_its_health_check_has_made_progress() {
    let second = |tasks: &[Value]| {
        let started = read(&service(), tasks).unwrap().tasks.last_started_at;
        started.map(|at| at.timestamp() % 60)
    };
    let starting = task(NEW, "running", "starting", 5);
    assert_eq!(second(std::slice::from_ref(&starting)), Some(5));
    assert_eq!(second(&[starting, task(NEW, "shutdown", "failed", 3)]), None);
    assert_eq!(second(&[task(OLD, "running", "starting", 5)]), None);
}
