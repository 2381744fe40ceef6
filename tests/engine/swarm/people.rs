//! A service on which someone else also works.

use kit::lab::{CRASHES, Lab, V1, V2, docker, eventually, image};

use super::{PATIENCE, Service};

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn an_operator_can_roll_back_and_retry() {
    let service = Service::new("swarm-operator", &[]);
    let before = service.image();
    let nothing = service.run(V2, &["rollback", &service.name]);
    nothing.says("nothing to roll back");
    service.run(V2, &["once"]).ended(0);
    let upgraded = service.image();
    let back = service.run(V2, &["rollback", &service.name]).ended(0);
    back.says("rolled back from");
    assert_eq!(service.image(), before);
    assert_eq!(service.running(), [image(V1), image(V1)]);
    let run = service.run(V2, &["once"]).ended(0);
    run.says("rolled back from");
    assert_eq!(service.image(), before);
    let again = service.run(V2, &["rollback", &service.name]);
    again.says("was already rolled back from");
    // By a prefix of its id.
    let id = service.document()["ID"].as_str().unwrap()[..8].to_owned();
    service.run(V2, &["retry", &id]).ended(0);
    assert_eq!(service.image(), upgraded);
    let history = service.run(V2, &["history", &service.name]);
    history.says("upgraded from");
    let nobody = service.run(V2, &["retry", "nobody"]);
    assert_eq!(nobody.code, Some(2), "{}", nobody.text);
    nobody.says(&service.name);
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn update_that_someone_else_paused_is_left_alone() {
    let service = Service::new(
        "swarm-paused",
        &["--update-failure-action", "pause", "--update-monitor", "20s"],
    );
    service.update(&["--image", &image(CRASHES)]);
    eventually("Swarm pauses", PATIENCE, || {
        service.document()["UpdateStatus"]["State"] == "paused"
    });
    let version = service.document()["Version"].clone();
    let run = service.run(V2, &["once"]).ended(1);
    run.says("Swarm has paused its update");
    assert_eq!(service.document()["Version"], version);
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn a_services_labels_can_hold_back_an_upgrade() {
    let label = "io.delegate-upgrader.pin=26.01";
    let service = Service::new("swarm-pinned", &["--label", label]);
    let run = service.run(V2, &["once"]).ended(0);
    run.says("reason=\"pinned\"");
    service.forget("pin");
    service.run(V2, &["once"]).ended(0);
    assert_eq!(service.running(), [image(V2), image(V2)]);
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn a_manual_rollback_is_respected() {
    let service = Service::new("swarm-by-hand", &[]);
    let before = service.image();
    service.run(V2, &["once"]).ended(0);
    docker(&["service", "rollback", "--quiet", &service.name]);
    assert_eq!(service.image(), before);
    for _ in 0..2 {
        let run = service.run(V2, &["once"]).ended(0);
        run.says("rolled back from");
        assert_eq!(service.image(), before);
    }
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn two_upgraders_at_once_do_no_harm() {
    let service = Service::new("swarm-two", &[]);
    let mut both = [(); 2].map(|()| service.upgrader(V2).begin("once"));
    for upgrader in &mut both {
        upgrader.wait().ended(0);
    }
    assert_eq!(service.running(), [image(V2), image(V2)]);
    assert_eq!(service.label("attempt-image"), Some(service.image()));
    assert_eq!(
        service.label("release").as_deref(),
        Some("1"),
        "it was upgraded once"
    );
}

/// A stack of one service, deployed from a file with the first version and none of our labels.
struct Stack {
    service: Service,
    file: tempfile::NamedTempFile,
}

impl Stack {
    fn deploy(test: &str) -> Self {
        Service::prepare();
        let lab = Lab::new(test);
        let file = tempfile::NamedTempFile::new().expect("a file");
        let text = format!(
            "version: '3.8'\nservices:\n  delegate:\n    image: {}\n    environment: ['DELEGATE_NAME={}']\n    deploy: {{replicas: 1}}\n",
            image(V1),
            lab.name
        );
        std::fs::write(file.path(), text).expect("the file");
        let name = format!("{}_delegate", lab.name);
        let stack = Self {
            service: Service { lab, name },
            file,
        };
        stack.deploy_again();
        stack.service.will_run(&[V1]);
        stack
    }

    fn deploy_again(&self) {
        let path = self.file.path().to_str().expect("a path");
        docker(&["stack", "deploy", "--compose-file", path, &self.service.lab.name]);
    }
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn redeployed_stack_is_upgraded_again() {
    let stack = Stack::deploy("swarm-stack");
    let service = &stack.service;
    for _ in 0..2 {
        service.run(V2, &["once"]).ended(0);
        assert_eq!(service.running(), [image(V2)]);
        let label = service.document()["Spec"]["Labels"]["com.docker.stack.image"].clone();
        assert_eq!(label, image(V1), "it is the stack's");
        stack.deploy_again();
        service.will_run(&[V1]);
    }
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn does_not_blame_the_image_for_a_redeploy_during_an_update() {
    let stack = Stack::deploy("swarm-stack-meanwhile");
    let service = &stack.service;
    let daemon = service
        .upgrader(V2)
        .with("RUN_ON_START", "true")
        .with("SCHEDULE", "*/5 * * * * *")
        .start();
    daemon.says("is rolling out", PATIENCE);
    stack.deploy_again();
    daemon.says("runs the published image", PATIENCE);
    service.will_run(&[V2]);
    assert_eq!(service.label("failed-image"), None, "{}", daemon.log());
    assert_eq!(service.label("rolled-back-from"), None, "{}", daemon.log());
}
