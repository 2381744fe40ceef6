//! Services of a real Swarm with one node. A Swarm belongs to the whole engine, so these tests are ignored if others use
//! the engine: `make test` gives them a lab of their own.

mod failures;
mod page;
mod people;
mod proof;
mod registry;
mod settings;
mod upgrades;

use std::process::Command;
use std::sync::{Mutex, PoisonError};

use kit::lab::{Lab, Run, Upgrader, V1, build_images, docker, eventually, image};
use serde_json::Value;

pub(crate) use kit::lab::PATIENCE;

/// A service of a test, which is removed with it.
pub(crate) struct Service {
    lab: Lab,
    pub(crate) name: String,
}

/// Makes the engine leave its Swarm, if it is in one.
pub(crate) fn leave() {
    let _ = Command::new("docker")
        .args(["swarm", "leave", "--force"])
        .output();
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = Command::new("docker")
            .args(["service", "rm", &self.name])
            .output();
    }
}

impl Service {
    /// A service with two tasks of the first version and further arguments of `docker service create`.
    fn new(test: &str, arguments: &[&str]) -> Self {
        Self::create(test, &[&["--replicas", "2"], arguments].concat())
    }

    /// A service with this many tasks of the first version.
    pub(crate) fn with_replicas(test: &str, replicas: u32) -> Self {
        Self::create(test, &["--replicas", &replicas.to_string()])
    }

    /// Makes the engine a Swarm, if it is not one yet, and builds the images.
    fn prepare() {
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        build_images();
        if docker(&["info", "--format", "{{.Swarm.LocalNodeState}}"]) != "active" {
            docker(&["swarm", "init", "--advertise-addr", "127.0.0.1"]);
        }
    }

    /// A service of the first version with these arguments of `docker service create`.
    fn create(test: &str, arguments: &[&str]) -> Self {
        Self::prepare();
        Self::of(Lab::new(test), "service", arguments)
    }

    /// A service of this workload with the first version, on an existing Swarm.
    pub(crate) fn of(lab: Lab, suffix: &str, arguments: &[&str]) -> Self {
        let name = format!("{}-{suffix}", lab.name);
        let variable = format!("DELEGATE_NAME={}", lab.name);
        let image = image(V1);
        let mut all = vec![
            "service", "create", "--quiet", "--name", &name, "--env", &variable,
        ];
        all.extend(arguments);
        all.push(&image);
        docker(&all);
        Self { lab, name }
    }

    /// Another service of the same workload.
    fn beside(&self, suffix: &str, arguments: &[&str]) -> Self {
        let name = self.lab.name.clone();
        Self::of(Lab { name }, suffix, arguments)
    }

    /// Runs `docker service update` with these arguments, without waiting.
    pub(crate) fn update(&self, arguments: &[&str]) {
        let begin = ["service", "update", "--quiet", "--detach"];
        docker(&[&begin, arguments, &[&self.name]].concat());
    }

    /// The service as the command shows it, with defaults filled in.
    pub(crate) fn document(&self) -> Value {
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

    /// The tasks that should run, in this format of `docker service ps`.
    pub(crate) fn tasks(&self, format: &str) -> Vec<String> {
        let wanted = "desired-state=running";
        let tasks = docker(&[
            "service", "ps", &self.name, "--filter", wanted, "--format", format,
        ]);
        tasks.lines().map(str::to_owned).collect()
    }

    /// The images of the tasks that run.
    pub(crate) fn running(&self) -> Vec<String> {
        let mut tasks = self.tasks("{{.CurrentState}} {{.Image}}");
        tasks.retain(|line| line.starts_with("Running"));
        let image = |line: &String| line.rsplit(' ').next().map(str::to_owned);
        tasks.iter().filter_map(image).collect()
    }

    /// Waits until tasks of these versions run, and no others.
    pub(crate) fn will_run(&self, versions: &[&str]) {
        let images: Vec<String> = versions.iter().map(|version| image(version)).collect();
        eventually(&format!("{versions:?} run"), PATIENCE, || {
            self.running() == images
        });
    }

    /// Removes a label.
    pub(crate) fn forget(&self, label: &str) {
        let label = format!("io.delegate-upgrader.{label}");
        docker(&["service", "update", "--quiet", "--label-rm", &label, &self.name]);
    }

    pub(crate) fn upgrader(&self, published: &str) -> Upgrader {
        self.lab.upgrader(published).with("SWARM", "true")
    }

    pub(crate) fn run(&self, published: &str, arguments: &[&str]) -> Run {
        self.upgrader(published).run(arguments)
    }
}
