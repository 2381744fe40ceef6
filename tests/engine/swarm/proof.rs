//! Images that run and never become healthy: the checks that prove a new task.

use std::time::Duration;

use kit::lab::{NEVER_HEALTHY, Upgrader, V1, V2, build, docker, eventually, image};
use serde_json::{Value, json};

use super::{PATIENCE, Service};

/// The test delegate has neither a shell nor curl.
const COMMAND: &str = r#"["/delegate", "healthcheck"]"#;

impl Service {
    fn proven(&self, published: &str) -> Upgrader {
        self.upgrader(published).with("HEALTH_COMMAND", COMMAND)
    }

    fn soon_rejected(&self, published: &str) -> Upgrader {
        self.proven(published).with("UPGRADE_HEALTHY_DEADLINE", "15s")
    }

    fn health_check(&self) -> Value {
        self.document()["Spec"]["TaskTemplate"]["ContainerSpec"]["Healthcheck"].clone()
    }
}

/// The image of a version with a shell, as Harness's images have one.
fn with_shell(version: &str, tag: &str, options: &str) {
    Service::prepare();
    let context = tempfile::tempdir().expect("a directory");
    std::fs::copy("/bin/busybox", context.path().join("sh")).expect("busybox-static");
    let base = image(version);
    let dockerfile = format!("FROM {base}\nCOPY sh /bin/sh\nCOPY sh /bin/date\n{options}\n");
    build(&image(tag), &dockerfile, context.path(), &[]);
    docker(&["push", "--quiet", &image(tag)]);
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn an_image_that_never_becomes_healthy_replaces_no_task() {
    let service = Service::new("swarm-never", &[]);
    let (before, tasks) = (service.document(), service.tasks("{{.ID}}"));
    let run = service.soon_rejected(NEVER_HEALTHY).run(&["once"]).ended(1);
    let failed = service.label("failed-image").expect("it is in quarantine");
    assert!(failed.starts_with(&image(NEVER_HEALTHY)), "{failed}");
    eventually("the tasks of before run", PATIENCE, || {
        service.tasks("{{.ID}}") == tasks && service.running() == [image(V1), image(V1)]
    });
    let after = service.document();
    assert_eq!(
        after["Spec"]["TaskTemplate"], before["Spec"]["TaskTemplate"],
        "{}",
        run.text
    );
    let plan = service.proven(V2).run(&["plan"]);
    plan.says("or else HEALTH_COMMAND, where the image has that command");
    // A good image is accepted with the check, and the next one without it, if a running task is proof enough.
    service.proven(V2).run(&["once"]).ended(0);
    assert_eq!(service.running(), [image(V2), image(V2)]);
    assert_eq!(service.health_check()["Test"][1], "/delegate");
    service
        .proven(V1)
        .with("HEALTH_PROBE", "running")
        .run(&["once"])
        .ended(0);
    assert_eq!(service.health_check(), Value::Null);
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn swarm_itself_rolls_back_an_image_that_never_becomes_healthy() {
    let (good, bad) = ("26.08.10008", "26.09.10009");
    with_shell(V1, good, "ENV UNHEALTHY_AFTER_SECONDS=20");
    with_shell(NEVER_HEALTHY, bad, "");
    let service = Service::new("swarm-judges", &[]);
    let good = image(good);
    docker(&["service", "update", "--quiet", "--image", &good, &service.name]);
    let tasks = service.tasks("{{.ID}}");
    // The upgrader is gone, so it cannot roll back in Swarm's place.
    let daemon = service.soon_rejected(bad).with("RUN_ON_START", "true").start();
    daemon.says("is rolling out", PATIENCE);
    drop(daemon);
    assert!(
        service.health_check()["Test"][3]
            .as_str()
            .is_some_and(|script| script.contains("delegate-upgrader"))
    );
    eventually("Swarm goes back", PATIENCE, || {
        service.document()["UpdateStatus"]["State"] == "rollback_completed"
    });
    assert_eq!(service.tasks("{{.ID}}"), tasks);
    let run = service.soon_rejected(bad).run(&["once"]).ended(1);
    run.says("unhealthy container");
    assert!(service.label("failed-image").is_some(), "{}", run.text);
}

/// Swarm ends a task whose health check fails, and the delegate's own tasks with it.
#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn a_delegate_that_later_loses_the_manager_is_not_killed() {
    let good = "26.08.10018";
    with_shell(V2, good, "ENV UNHEALTHY_AFTER_SECONDS=15");
    for (suffix, base) in [("shell", good), ("none", V2)] {
        let service = Service::new(
            &format!("swarm-loses-{suffix}"),
            &["--env", "UNHEALTHY_AFTER_SECONDS=15"],
        );
        if suffix == "shell" {
            with_shell(V1, "26.01.10011", "");
            let with_shell = image("26.01.10011");
            docker(&[
                "service",
                "update",
                "--quiet",
                "--image",
                &with_shell,
                &service.name,
            ]);
        }
        // The probes are a twentieth of the deadline apart.
        let upgrader = service.proven(base).with("UPGRADE_HEALTHY_DEADLINE", "40s");
        let run = upgrader.run(&["once"]).ended(0);
        assert_ne!(service.health_check(), Value::Null, "{}", run.text);
        let tasks = service.tasks("{{.ID}}");
        std::thread::sleep(Duration::from_secs(25));
        assert_eq!(service.tasks("{{.ID}}"), tasks, "{suffix}");
    }
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn keeps_the_owners_health_check_and_lets_images_without_a_shell_just_run() {
    let service = Service::new("swarm-owner", &["--no-healthcheck"]);
    service
        .proven(V2)
        .run(&["plan"])
        .says("its health check is switched off");
    service.proven(V2).run(&["once"]).ended(0);
    assert_eq!(service.health_check()["Test"], json!(["NONE"]));
    drop(service);
    let service = Service::new("swarm-plain", &[]);
    let run = service.run(V2, &["once"]).ended(0);
    assert_eq!(service.health_check(), Value::Null, "{}", run.text);
    run.says("neither a shell nor HEALTH_COMMAND's program");
}
