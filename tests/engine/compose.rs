//! Delegates that Compose created.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use kit::lab::{Daemon, Lab, PATIENCE, Signal, V1, V2, docker, eventually, expect, image, image_of, inspect};

/// The version that the lab asked for; otherwise `docker compose`, or `docker-compose` if there is no plugin.
pub(crate) fn compose_command() -> Command {
    if let Some(binary) = std::env::var_os("LAB_COMPOSE_BINARY") {
        return Command::new(binary);
    }
    let plugin = Command::new("docker").args(["compose", "version"]).output();
    if plugin.is_ok_and(|output| output.status.success()) {
        let mut command = Command::new("docker");
        command.arg("compose");
        command
    } else {
        Command::new("docker-compose")
    }
}

/// A compose file, and the command that reads it.
pub(crate) struct Project {
    pub(crate) lab: Lab,
    pub(crate) file: PathBuf,
}

impl Project {
    /// A project whose file is not written yet.
    pub(crate) fn of(lab: Lab) -> Self {
        let file = std::env::temp_dir().join(format!("{}.yml", lab.name));
        Self { lab, file }
    }

    fn new(lab: Lab, version: &str) -> Self {
        let project = Self::of(lab);
        project.write(version);
        project
    }

    fn write(&self, version: &str) {
        self.write_with(version, "", &[]);
    }

    /// Adds lines to the service and variables to its environment; the image stays the old one.
    fn add(&self, lines: &str, variables: &[&str]) {
        self.write_with(V1, lines, variables);
    }

    fn write_with(&self, version: &str, lines: &str, variables: &[&str]) {
        let variables = [&[format!("DELEGATE_NAME: {}", self.lab.name).as_str()], variables]
            .concat()
            .join(", ");
        let label = self.lab.label();
        let image = image(version);
        let text = format!(
            "services:\n  delegate:\n    image: {image}\n    labels: ['{label}']\n    restart: always\n    \
             environment: {{{variables}}}\n    networks: {{default: {{aliases: [worker]}}}}\n{lines}"
        );
        fs::write(&self.file, text).expect("a compose file");
    }

    pub(crate) fn compose(&self, arguments: &[&str]) -> String {
        expect(&mut self.command(arguments))
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = compose_command();
        command
            .args(["--project-name", &self.lab.name, "--file"])
            .arg(&self.file);
        command.args(arguments);
        command
    }

    fn container(&self) -> String {
        self.compose(&["ps", "--quiet", "delegate"])
    }

    /// The ids of all containers of this test, whether Compose knows them or not.
    pub(crate) fn all(&self) -> String {
        let filter = format!("label={}", self.lab.label());
        docker(&["ps", "--all", "--quiet", "--no-trunc", "--filter", &filter])
    }

    fn state(&self) -> String {
        docker(&["inspect", "--format", "{{.State.Status}}", &self.container()])
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        let _ = self.command(&["down"]).output();
        let _ = fs::remove_file(&self.file);
    }
}

#[test]
fn compose_still_manages_an_upgraded_delegate() {
    let project = Project::new(Lab::new("compose"), V1);
    project.compose(&["up", "--detach"]);
    let old = project.container();
    project.lab.upgrader(V2).run(&["once"]).ended(0);
    let new = project.container();
    assert_ne!(new, old);
    assert_eq!(image_of(&new), image(V2));
    // The file still names the old image, and so do the container's labels: Compose has nothing to do.
    project.compose(&["up", "--detach"]);
    assert_eq!(project.container(), new);
    project.compose(&["stop"]);
    assert_eq!(inspect(&new)["State"]["Status"], "exited");
    project.compose(&["start"]);
    assert_eq!(project.state(), "running");
    // One day, the file also names the published image.
    project.write(V2);
    project.compose(&["up", "--detach"]);
    assert_eq!(image_of(&project.container()), image(V2));
    assert_eq!(project.state(), "running");
}

/// A project whose delegate is being replaced: its candidate is proving itself.
fn while_it_proves_itself(test: &str, lines: &str, variables: &[&str]) -> (Project, Daemon) {
    let project = Project::new(Lab::new(test), V1);
    project.add(lines, variables);
    project.compose(&["up", "--detach"]);
    let once = project
        .lab
        .upgrader(V2)
        .with("UPGRADE_HEALTHY_TIME", "60s")
        .begin("once");
    once.says("reason=\"proving\"", PATIENCE);
    (project, once)
}

/// Compose finds two containers of one service, and removes one of them.
#[test]
fn one_delegate_is_left_when_compose_removes_one_of_two() {
    let (project, mut once) = while_it_proves_itself("compose-twins", "", &[]);
    project.compose(&["up", "--detach"]);
    let run = once.wait();
    assert!(!project.all().contains('\n'), "{}", run.text);
    project.lab.upgrader(V2).run(&["once"]).ended(0);
    let all = project.all();
    assert_eq!((project.container(), image_of(&all)), (all.clone(), image(V2)));
    assert_eq!(project.state(), "running");
    let name = docker(&["inspect", "--format", "{{.Name}}", &all]);
    assert!(!name.contains(".candidate"), "{name}");
}

#[test]
fn nothing_comes_back_after_compose_down() {
    let (project, mut once) = while_it_proves_itself(
        "compose-down",
        "    stop_grace_period: 60s\n",
        &["DRAIN_SECONDS: '5'"],
    );
    project.compose(&["down"]);
    let run = once.wait();
    assert_eq!(project.all(), "", "{}", run.text);
    let mut daemon = project.lab.upgrader(V2).with("SCHEDULE", "* * * * * *").start();
    // Longer than an ended container is left to its owner.
    std::thread::sleep(Duration::from_secs(20));
    daemon.signal(Signal::TERM);
    assert_eq!(project.all(), "", "{}", daemon.log());
}

/// Compose recreates it from a changed file, and its old container takes longer to stop than the new image to prove itself.
#[test]
fn a_delegate_compose_recreates_mid_upgrade_keeps_its_new_settings() {
    let slow = "    stop_grace_period: 90s\n";
    let (project, mut once) = while_it_proves_itself("compose-recreate", slow, &["DRAIN_SECONDS: '75'"]);
    project.add(slow, &["MADE: again"]);
    project.compose(&["up", "--detach"]);
    let run = once.wait();
    let environment = docker(&["inspect", "--format", "{{.Config.Env}}", &project.container()]);
    assert!(environment.contains("MADE=again"), "{environment}\n{}", run.text);
    project.lab.upgrader(V2).run(&["once"]).ended(0);
    let new = project.container();
    assert_eq!((image_of(&new), project.all()), (image(V2), new.clone()));
    assert_eq!(project.state(), "running");
    let environment = docker(&["inspect", "--format", "{{.Config.Env}}", &new]);
    assert!(environment.contains("MADE=again"), "{environment}");
}

/// Each act of Compose at each stage of a replacement, in either order: no delegate is lost and nothing is left over.
#[test]
#[ignore = "it needs minutes: make compose"]
fn no_compose_command_loses_a_delegate_mid_replacement() {
    const ACTS: [&[&str]; 6] = [
        &["up", "--detach"],
        &["up", "--detach", "--force-recreate"],
        &["up", "--detach", "--scale", "delegate=2"],
        &["restart"],
        &["pull"],
        &["down"],
    ];
    // With stop-first, the old container drains before the new one starts.
    let stages = [
        ("start-first", "reason=\"proving\""),
        ("start-first", "to stop within"),
        ("stop-first", "to stop within"),
        ("stop-first", "reason=\"proving\""),
    ];
    for (order, stage) in stages {
        std::thread::scope(|scope| {
            for act in ACTS {
                scope.spawn(move || compose_does(act, order, stage));
            }
        });
    }
}

fn compose_does(act: &[&str], order: &str, stage: &str) {
    let case = format!("{order}, {stage}, {}", act.join(" "));
    let number = case
        .bytes()
        .fold(7_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let project = Project::new(Lab::new(&format!("act-{number}")), V1);
    project.add("    stop_grace_period: 60s\n", &["DRAIN_SECONDS: '5'"]);
    project.compose(&["up", "--detach"]);
    let upgrader = project.lab.upgrader(V2).with("UPDATE_ORDER", order);
    let mut daemon = upgrader.clone().with("RUN_ON_START", "true").start();
    daemon.says(stage, PATIENCE);
    // Compose itself fails if a container that it chose to keep ends; only the outcome counts.
    let mut acts = vec![act];
    if act == ["pull"] {
        acts.push(&["up", "--detach"]);
    }
    for act in acts {
        project.command(act).output().expect("Compose");
    }
    std::thread::sleep(Duration::from_secs(5));
    daemon.signal(Signal::TERM);
    let run = upgrader.run(&["once"]);
    let log = format!("{case}\n{}\n{}", daemon.log(), run.text);
    let all = project.all();
    let number = all.lines().count();
    match act {
        ["down"] => assert_eq!(all, "", "{log}"),
        // Compose also counts the container that drains.
        [.., "delegate=2"] => assert!((1..=2).contains(&number), "{number}: {log}"),
        _ => assert_eq!(number, 1, "{log}"),
    }
    assert_eq!(run.code, Some(0), "{log}");
    for id in all.lines() {
        let state = docker(&["inspect", "--format", "{{.State.Status}} {{.Name}}", id]);
        assert_eq!(image_of(id), image(V2), "{log}");
        assert!(
            state.starts_with("running ") && !state.contains(".candidate"),
            "{state}: {log}"
        );
    }
}

/// Does by hand what Compose does since 2.23.1: it copies an inline config into the container before it starts it.
#[test]
fn a_delegate_with_an_inline_config_is_left_alone() {
    let lab = Lab::new("config");
    let name = format!("{}-1", lab.name);
    let (label, variable) = (lab.label(), format!("DELEGATE_NAME={}", lab.name));
    let (image_v1, by_compose) = (image(V1), "com.docker.compose.project=site");
    docker(&[
        "create", "--name", &name, "--label", &label, "--label", by_compose, "--env", &variable, &image_v1,
    ]);
    let config = std::env::temp_dir().join(format!("{name}.yml"));
    fs::write(&config, "key: value\n").expect("a config");
    let source = config.to_string_lossy().into_owned();
    docker(&["cp", &source, &format!("{name}:/config.yml")]);
    fs::remove_file(&config).expect("the config");
    docker(&["start", &name]);
    let id = docker(&["inspect", "--format", "{{.Id}}", &name]);
    let planned = lab.upgrader(V2).run(&["plan"]);
    let run = lab.upgrader(V2).run(&["once"]);
    for run in [planned, run] {
        assert_eq!(run.code, Some(1), "{}", run.text);
        run.says("/config.yml was copied into the container");
    }
    assert_eq!(
        docker(&["inspect", "--format", "{{.Id}} {{.State.Status}}", &name]),
        format!("{id} running")
    );
}

/// `docker compose stop`, or a backup that stops everything, while the old container drains.
#[test]
fn respects_a_compose_stop_during_a_drain_without_blaming_the_image() {
    for policy in ["always", "unless-stopped"] {
        let project = Project::new(Lab::new(&format!("compose-stop-{policy}")), V1);
        project.add("    stop_grace_period: 2s\n", &["DRAIN_SECONDS: '45'"]);
        let text = fs::read_to_string(&project.file).expect("the file");
        let text = text.replace("restart: always", &format!("restart: {policy}"));
        fs::write(&project.file, text).expect("a compose file");
        project.compose(&["up", "--detach"]);
        let mut daemon = project.lab.upgrader(V2).with("RUN_ON_START", "true").start();
        daemon.says("to stop within", PATIENCE);
        project.compose(&["stop"]);
        // Longer than ended containers are left to anyone who may start them again.
        std::thread::sleep(Duration::from_secs(20));
        let states = || {
            let filter = format!("label={}", project.lab.label());
            docker(&["ps", "--all", "--format", "{{.State}}", "--filter", &filter])
        };
        assert_eq!(states(), "exited\nexited", "{policy}: {}", daemon.log());
        // Compose starts both, and may be late for the old container, which is removed once the new one works.
        for id in project.all().lines().rev() {
            let _ = std::process::Command::new("docker").args(["start", id]).output();
        }
        eventually("one delegate serves again", 2 * PATIENCE, || {
            states() == "running"
        });
        let all = project.all();
        assert_eq!(
            (image_of(&all), project.container()),
            (image(V2), all.clone()),
            "{}",
            daemon.log()
        );
        daemon.signal(Signal::TERM);
        assert!(!daemon.log().contains("rejected"), "{}", daemon.log());
    }
}

/// One `env_file` for all services, and a one-off command (`compose run`) in the delegate's image.
#[test]
fn leaves_sidecars_and_commands_with_the_delegates_environment_alone() {
    let project = Project::new(Lab::new("compose-sidecar"), V1);
    let sidecar = format!("{}/sidecar:1", kit::lab::env("LAB_REGISTRY"));
    docker(&["tag", &image(V1), &sidecar]);
    let (label, name) = (project.lab.label(), project.lab.name.clone());
    let lines = format!(
        "  sidecar:\n    image: {sidecar}\n    labels: ['{label}']\n    environment: {{DELEGATE_NAME: {name}, PORT: '81'}}\n"
    );
    project.add(&lines, &[]);
    project.compose(&["up", "--detach"]);
    let delegate = project.container();
    project.compose(&["run", "--detach", "delegate"]);
    let all = project.all();
    let others: Vec<&str> = all.lines().filter(|id| *id != delegate).collect();
    assert_eq!(others.len(), 2, "{all}");
    let looks = || -> Vec<String> {
        let look = |id: &&str| {
            docker(&[
                "inspect",
                "--format",
                "{{.Name}} {{.State.Status}} {{.State.StartedAt}}",
                id,
            ])
        };
        others.iter().map(look).collect()
    };
    let before = looks();
    let upgrader = project.lab.upgrader(V2).with("HEALTH_ACTION", "restart");
    for command in ["plan", "doctor"] {
        let run = upgrader.run(&[command]);
        let named = run.text.lines().filter(|line| line.contains("left alone: "));
        assert_eq!(named.count(), 2, "{}", run.text);
    }
    for probe in ["auto", "running"] {
        upgrader
            .clone()
            .with("HEALTH_PROBE", probe)
            .run(&["once"])
            .ended(0);
        assert_eq!(looks(), before, "{probe}");
    }
    let all = project.all();
    let new: Vec<&str> = all.lines().filter(|id| !others.contains(id)).collect();
    assert_eq!((new.len(), image_of(new[0])), (1, image(V2)));
}
