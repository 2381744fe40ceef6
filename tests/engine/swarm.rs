//! Services of a real Swarm with one node. It is a thing of the whole engine, so these tests are ignored where others use
//! that: `make test` gives them a lab of their own.

use std::process::Command;
use std::sync::Once;
use std::time::Duration;

use kit::lab::{CRASHES, Lab, Run, Upgrader, V1, V2, build_images, docker, eventually, image};
use serde_json::{Value, json};

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A service of a test, removed with it.
pub(crate) struct Service {
    lab: Lab,
    name: String,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = Command::new("docker")
            .args(["service", "rm", &self.name])
            .output();
    }
}

impl Service {
    /// Two tasks of the first version, with further arguments of `docker service create`.
    fn new(test: &str, arguments: &[&str]) -> Self {
        Self::create(test, 2, arguments)
    }

    /// So many tasks of the first version.
    pub(crate) fn with_replicas(test: &str, replicas: u32) -> Self {
        Self::create(test, replicas, &[])
    }

    /// Makes the engine a Swarm, once, and the images.
    fn prepare() {
        static SWARM: Once = Once::new();
        SWARM.call_once(|| {
            build_images();
            docker(&["swarm", "init", "--advertise-addr", "127.0.0.1"]);
        });
    }

    fn create(test: &str, replicas: u32, arguments: &[&str]) -> Self {
        Self::prepare();
        let lab = Lab::new(test);
        let name = format!("{}-service", lab.name);
        let variable = format!("DELEGATE_NAME={}", lab.name);
        let image = image(V1);
        let replicas = replicas.to_string();
        let mut all = vec![
            "service",
            "create",
            "--quiet",
            "--name",
            &name,
            "--replicas",
            &replicas,
            "--env",
            &variable,
        ];
        all.extend(arguments);
        all.push(&image);
        docker(&all);
        Self { lab, name }
    }

    fn document(&self) -> Value {
        let text = docker(&["service", "inspect", &self.name]);
        let mut list: Vec<Value> = serde_json::from_str(&text).expect("docker service inspect prints JSON");
        list.remove(0)
    }

    pub(crate) fn image(&self) -> String {
        self.document()["Spec"]["TaskTemplate"]["ContainerSpec"]["Image"]
            .as_str()
            .expect("an image")
            .to_owned()
    }

    pub(crate) fn label(&self, name: &str) -> Option<String> {
        let document = self.document();
        let label = &document["Spec"]["Labels"][format!("io.delegate-upgrader.{name}")];
        label.as_str().map(str::to_owned)
    }

    /// The images of the tasks that run.
    pub(crate) fn running(&self) -> Vec<String> {
        let format = "{{.CurrentState}} {{.Image}}";
        let tasks = docker(&[
            "service",
            "ps",
            &self.name,
            "--filter",
            "desired-state=running",
            "--format",
            format,
        ]);
        let running = tasks.lines().filter(|line| line.starts_with("Running"));
        running
            .filter_map(|line| Some(line.rsplit(' ').next()?.to_owned()))
            .collect()
    }

    /// Takes a label of the record away.
    pub(crate) fn forget(&self, label: &str) {
        let label = format!("io.delegate-upgrader.{label}");
        docker(&["service", "update", "--quiet", "--label-rm", &label, &self.name]);
    }

    pub(crate) fn upgrader(&self, published: &str) -> Upgrader {
        self.lab.upgrader(published)
    }

    fn run(&self, published: &str, arguments: &[&str]) -> Run {
        self.upgrader(published).run(arguments)
    }
}

#[test]
#[ignore = "needs an engine of its own"]
fn a_service_is_upgraded_and_all_else_stays() {
    let service = Service::new(
        "swarm-upgrade",
        &["--label", "owner=team-a", "--container-label", "x=y"],
    );
    let before = service.document();
    let plan = service.run(V2, &["plan"]);
    assert!(plan.text.contains("have Swarm replace"), "{}", plan.text);
    assert_eq!(
        service.document()["Version"],
        before["Version"],
        "a plan changes nothing"
    );
    let health_only = service
        .lab
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
    let run = service.run(V2, &["once"]);
    assert_eq!(run.code, Some(0), "{}", run.text);
    let pinned = service.image();
    assert!(pinned.starts_with(&format!("{}@sha256:", image(V2))), "{pinned}");
    assert_eq!(service.running(), [image(V2), image(V2)]);
    let after = service.document();
    assert_eq!(after["UpdateStatus"]["State"], "completed");
    // What its owner left unset, and the record.
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
    let run = service.run(V2, &["once"]);
    assert_eq!(run.code, Some(0), "{}", run.text);
    assert_eq!(service.document()["Version"], version, "{}", run.text);
    assert!(run.text.contains("runs the published image"), "{}", run.text);
    // The containers of its tasks are none of our business, on a worker either.
    let alone = service.lab.upgrader(V2).with("SWARM", "off").run(&["plan"]);
    assert_eq!(alone.code, Some(0), "{}", alone.text);
    assert!(
        alone
            .text
            .contains(&format!("a task of the Swarm service {}", service.name)),
        "{}",
        alone.text
    );
}

#[test]
#[ignore = "needs an engine of its own"]
fn all_else_of_a_spec_survives_to_the_byte() {
    let all = [
        [
            "--mount",
            "type=tmpfs,destination=/scratch,tmpfs-size=1048576,tmpfs-mode=1700",
        ]
        .as_slice(),
        &[
            "--mount",
            "type=volume,source=swarm-cache,destination=/cache,volume-label=a=b,readonly",
        ],
        &[
            "--limit-memory",
            "256m",
            "--reserve-memory",
            "32m",
            "--limit-cpu",
            "0.5",
            "--limit-pids",
            "900",
        ],
        &[
            "--restart-condition",
            "on-failure",
            "--restart-delay",
            "3s",
            "--restart-max-attempts",
            "9",
            "--restart-window",
            "90s",
        ],
        &[
            "--rollback-parallelism",
            "3",
            "--rollback-order",
            "start-first",
            "--rollback-monitor",
            "7s",
        ],
        &[
            "--update-delay",
            "1s",
            "--update-monitor",
            "1s",
            "--update-max-failure-ratio",
            "0.5",
            "--update-order",
            "stop-first",
        ],
        &[
            "--stop-grace-period",
            "20s",
            "--stop-signal",
            "SIGINT",
            "--init",
            "--read-only",
            "--tty",
        ],
        &[
            "--user",
            "1001:1001",
            "--workdir",
            "/",
            "--hostname",
            "{{.Node.Hostname}}-{{.Task.Slot}}",
        ],
        &[
            "--dns",
            "192.0.2.53",
            "--dns-search",
            "example.test",
            "--dns-option",
            "ndots:2",
            "--host",
            "manager.test:192.0.2.7",
        ],
        &[
            "--cap-add",
            "NET_BIND_SERVICE",
            "--cap-drop",
            "MKNOD",
            "--ulimit",
            "nofile=2048:4096",
            "--sysctl",
            "net.core.somaxconn=512",
        ],
        &[
            "--health-interval",
            "2s",
            "--health-retries",
            "5",
            "--health-start-period",
            "3s",
        ],
        &[
            "--log-driver",
            "json-file",
            "--log-opt",
            "max-size=1m",
            "--constraint",
            "node.role==manager",
        ],
        &[
            "--placement-pref",
            "spread=node.labels.rack",
            "--replicas-max-per-node",
            "4",
            "--endpoint-mode",
            "dnsrr",
        ],
        &[
            "--env",
            "NUMBER=9007199254740993",
            "--env",
            "EMPTY=",
            "--label",
            "owner=team-a",
            "--container-label",
            "x=y",
        ],
        &[
            "--generic-resource",
            "gpu=0",
            "--isolation",
            "default",
            "--entrypoint",
            "/delegate",
            "--group",
            "1001",
        ],
    ];
    // A generic resource of which there is none, and other platforms' options, would keep it from being created.
    let arguments = all.iter().take(all.len() - 1).copied().flatten().copied();
    let service = Service::new("swarm-spec", &arguments.collect::<Vec<_>>());
    let before = service.document();
    let run = service.run(V2, &["once"]);
    assert_eq!(run.code, Some(0), "{}", run.text);
    assert!(
        run.text.contains("StopGracePeriod of 20s is shorter"),
        "{}",
        run.text
    );
    let mut expected = before["Spec"].clone();
    expected["TaskTemplate"]["ContainerSpec"]["Image"] = json!(service.image());
    let mut spec = service.document()["Spec"].clone();
    let labels = spec["Labels"].as_object_mut().unwrap();
    labels.retain(|name, _| !name.starts_with("io.delegate-upgrader."));
    // The command asks for defaults to be filled in; the engine alone says what is stored.
    for document in [&mut expected, &mut spec] {
        let update = document["UpdateConfig"].as_object_mut().unwrap();
        update.retain(|name, _| !["Parallelism", "FailureAction"].contains(&name.as_str()));
    }
    assert_eq!(spec, expected);
}

#[test]
#[ignore = "needs an engine of its own"]
fn an_operator_goes_back_and_tries_again() {
    let service = Service::new("swarm-operator", &[]);
    let before = service.image();
    let nothing = service.run(V2, &["rollback", &service.name]);
    assert!(nothing.text.contains("nothing to roll back"), "{}", nothing.text);
    let run = service.run(V2, &["once"]);
    assert_eq!(run.code, Some(0), "{}", run.text);
    let upgraded = service.image();
    let run = service.run(V2, &["rollback", &service.name]);
    assert_eq!(run.code, Some(0), "{}", run.text);
    assert_eq!(service.image(), before);
    assert_eq!(service.running(), [image(V1), image(V1)]);
    let run = service.run(V2, &["once"]);
    assert_eq!(run.code, Some(0), "{}", run.text);
    assert!(run.text.contains("rolled back from"), "{}", run.text);
    assert_eq!(service.image(), before);
    let again = service.run(V2, &["rollback", &service.name]);
    assert!(
        again.text.contains("was already rolled back from"),
        "{}",
        again.text
    );
    // By the beginning of its id.
    let id = service.document()["ID"].as_str().unwrap()[..8].to_owned();
    let run = service.run(V2, &["retry", &id]);
    assert_eq!(run.code, Some(0), "{}", run.text);
    assert_eq!(service.image(), upgraded);
    let history = service.run(V2, &["history", &service.name]);
    assert!(history.text.contains("upgraded from"), "{}", history.text);
    let nobody = service.run(V2, &["retry", "nobody"]);
    assert_eq!(nobody.code, Some(2), "{}", nobody.text);
    assert!(nobody.text.contains(&service.name), "{}", nobody.text);
}

#[test]
#[ignore = "needs an engine of its own"]
fn an_update_that_somebody_else_paused_is_left_to_them() {
    let service = Service::new(
        "swarm-paused",
        &["--update-failure-action", "pause", "--update-monitor", "3s"],
    );
    let bad = image(CRASHES);
    let update = [
        "service",
        "update",
        "--quiet",
        "--detach",
        "--image",
        &bad,
        &service.name,
    ];
    docker(&update);
    eventually("Swarm pauses", PATIENCE, || {
        service.document()["UpdateStatus"]["State"] == "paused"
    });
    let version = service.document()["Version"].clone();
    let run = service.run(V2, &["once"]);
    assert_eq!(run.code, Some(1), "{}", run.text);
    assert!(run.text.contains("Swarm has paused its update"), "{}", run.text);
    assert_eq!(service.document()["Version"], version);
}

#[test]
#[ignore = "needs an engine of its own"]
fn where_swarm_does_not_roll_back_we_do() {
    let service = Service::new(
        "swarm-pause",
        &["--update-failure-action", "pause", "--update-monitor", "3s"],
    );
    let before = service.image();
    let run = service.run(CRASHES, &["once"]);
    assert_eq!(run.code, Some(1), "{}", run.text);
    assert_eq!(service.image(), before);
    let failed = service.label("failed-image").expect("it is in quarantine");
    assert!(failed.starts_with(&image(CRASHES)), "{failed}");
    eventually("both run again", PATIENCE, || {
        service.running() == [image(V1), image(V1)]
    });
    let doctor = service.run(V2, &["doctor"]);
    assert!(
        doctor.text.contains("its FailureAction is pause"),
        "{}",
        doctor.text
    );
}

#[test]
#[ignore = "needs an engine of its own"]
fn a_service_that_is_scaled_to_nothing_gets_the_image_and_is_not_verified() {
    let service = Service::new("swarm-scaled", &[]);
    let replicas =
        |count: &str| docker(&["service", "update", "--quiet", "--replicas", count, &service.name]);
    replicas("0");
    for _ in 0..2 {
        let run = service.run(V2, &["once"]);
        assert_eq!(run.code, Some(0), "{}", run.text);
        assert!(run.text.contains("is not verified"), "{}", run.text);
        assert!(service.image().starts_with(&image(V2)));
    }
    replicas("2");
    assert_eq!(service.running(), [image(V2), image(V2)]);
    let run = service.run(V2, &["once"]);
    assert_eq!(run.code, Some(0), "{}", run.text);
    assert!(run.text.contains("runs the published image"), "{}", run.text);
}

#[test]
#[ignore = "needs an engine of its own"]
fn an_image_that_the_registry_does_not_have_changes_nothing() {
    let service = Service::new("swarm-absent", &[]);
    let version = service.document()["Version"].clone();
    let run = service.run("26.99.1", &["once"]);
    assert_eq!(run.code, Some(1), "{}", run.text);
    assert!(run.text.contains("digest_unknown"), "{}", run.text);
    assert_eq!(service.document()["Version"], version);
    assert_eq!(service.running(), [image(V1), image(V1)]);
}

#[test]
#[ignore = "needs an engine of its own"]
fn its_owner_s_labels_hold_it_back() {
    let label = "io.delegate-upgrader.pin=26.01";
    let service = Service::new("swarm-pinned", &["--label", label]);
    let run = service.run(V2, &["once"]);
    assert_eq!(run.code, Some(0), "{}", run.text);
    assert!(run.text.contains("reason=\"pinned\""), "{}", run.text);
    docker(&[
        "service",
        "update",
        "--quiet",
        "--label-rm",
        "io.delegate-upgrader.pin",
        &service.name,
    ]);
    let run = service.run(V2, &["once"]);
    assert_eq!(run.code, Some(0), "{}", run.text);
    assert_eq!(service.running(), [image(V2), image(V2)]);
}

#[test]
#[ignore = "needs an engine of its own"]
fn an_image_that_crashes_is_rolled_back_and_stays_in_quarantine() {
    let service = Service::new("swarm-crashes", &[]);
    let before = service.image();
    let run = service.run(CRASHES, &["once"]);
    assert_eq!(run.code, Some(1), "{}", run.text);
    assert_eq!(service.image(), before);
    eventually("both run again", PATIENCE, || {
        service.running() == [image(V1), image(V1)]
    });
    let failed = service.label("failed-image").expect("it is in quarantine");
    assert!(failed.starts_with(&image(CRASHES)), "{failed}");
    let cause = service.label("failed-cause").unwrap();
    assert!(cause.contains("non-zero exit"), "{cause}");
    let version = service.document()["Version"].clone();
    for _ in 0..3 {
        let run = service.run(CRASHES, &["once"]);
        assert_eq!(run.code, Some(1), "{}", run.text);
        assert!(run.text.contains("next attempt after"), "{}", run.text);
    }
    assert_eq!(service.document()["Version"], version);
    // Another published image is tried at once.
    let run = service.run(V2, &["once"]);
    assert_eq!(run.code, Some(0), "{}", run.text);
    assert_eq!(service.running(), [image(V2), image(V2)]);
}

#[test]
#[ignore = "needs an engine of its own"]
fn an_image_that_finds_no_node_is_rolled_back_at_the_deadline() {
    let service = Service::new("swarm-pending", &[]);
    let before = service.image();
    // Nothing of the new spec can be scheduled.
    let lab = &service.lab;
    let daemon = lab.upgrader(V2).with("RUN_ON_START", "true").start();
    daemon.says("is rolling out", PATIENCE);
    docker(&[
        "service",
        "update",
        "--quiet",
        "--detach",
        "--constraint-add",
        "node.labels.nowhere==1",
        &service.name,
    ]);
    // That is somebody else's update, with our image: it is waited for, and goes back when nothing gets on.
    daemon.says("rolling back to", PATIENCE);
    eventually("it is back", PATIENCE, || service.image() == before);
}

#[test]
#[ignore = "needs an engine of its own"]
fn whoever_rolls_back_by_hand_is_right() {
    let service = Service::new("swarm-by-hand", &[]);
    let before = service.image();
    let run = service.run(V2, &["once"]);
    assert_eq!(run.code, Some(0), "{}", run.text);
    docker(&["service", "rollback", "--quiet", &service.name]);
    assert_eq!(service.image(), before);
    for _ in 0..2 {
        let run = service.run(V2, &["once"]);
        assert_eq!(run.code, Some(0), "{}", run.text);
        assert!(run.text.contains("rolled back from"), "{}", run.text);
        assert_eq!(service.image(), before);
    }
}

#[test]
#[ignore = "needs an engine of its own"]
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
    assert!(run.text.contains("a Swarm job"), "{}", run.text);
    assert_eq!(job.document()["Version"], version);
    drop(service);
}

#[test]
#[ignore = "needs an engine of its own"]
fn two_upgraders_at_once_do_no_harm() {
    let service = Service::new("swarm-two", &[]);
    let mut both = [(); 2].map(|()| service.upgrader(V2).begin("once"));
    for upgrader in &mut both {
        let run = upgrader.wait();
        assert_eq!(run.code, Some(0), "{}", run.text);
    }
    assert_eq!(service.running(), [image(V2), image(V2)]);
    assert_eq!(service.label("attempt-image"), Some(service.image()));
    assert_eq!(service.label("release"), None, "it was upgraded once");
}

/// The file has the image of before, and none of our labels.
#[test]
#[ignore = "needs an engine of its own"]
fn a_stack_that_is_deployed_anew_is_upgraded_again() {
    let lab = Lab::new("swarm-stack");
    let file = tempfile::NamedTempFile::new().expect("a file");
    let text = format!(
        "version: '3.8'\nservices:\n  delegate:\n    image: {}\n    environment: ['DELEGATE_NAME={}']\n    deploy: {{replicas: 1}}\n",
        image(V1),
        lab.name
    );
    std::fs::write(file.path(), text).expect("the file");
    let path = file.path().to_str().expect("a path");
    let name = format!("{}_delegate", lab.name);
    Service::prepare();
    let deploy = || docker(&["stack", "deploy", "--compose-file", path, &lab.name]);
    deploy();
    let stack = lab.name.clone();
    let service = Service {
        lab: Lab::new("swarm-stack"),
        name,
    };
    let workload = |published: &str| service.upgrader(published).with("UPGRADER_WORKLOAD_NAME", &stack);
    for _ in 0..2 {
        eventually("the stack runs", PATIENCE, || service.running() == [image(V1)]);
        let run = workload(V2).run(&["once"]);
        assert_eq!(run.code, Some(0), "{}", run.text);
        assert_eq!(service.running(), [image(V2)]);
        docker(&["stack", "deploy", "--compose-file", path, &stack]);
    }
}
