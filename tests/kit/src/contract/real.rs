//! A real engine as a lab: the engine that `DOCKER_HOST` names.

use std::env;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, SystemTime};

use delegate_upgrader::container::ContainerId;
use delegate_upgrader::engine::{Credentials, DockerEngine, Engine as _, EngineHost};
use futures_util::FutureExt;
use serde_json::{Value, json};
use tokio::process::Command;

use super::lab::Lab;
use crate::lab::LABEL;
use crate::twin::{Behaviour, OnStop, OperatorAction, Wellness};

/// A statically linked busybox.
const BUSYBOX: &str = "/bin/busybox";

/// A real engine; the lab removes everything that it created there.
pub struct RealLab {
    engine: DockerEngine,
    run: String,
    serial: AtomicU16,
}

impl RealLab {
    /// Runs a check in a lab of its own and cleans up after it, however the check ends.
    pub async fn check(name: &str, check: impl AsyncFnOnce(&Self)) {
        let lab = Self::connect(name);
        let outcome = AssertUnwindSafe(check(&lab)).catch_unwind().await;
        lab.clean_up().await;
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
    }

    fn connect(name: &str) -> Self {
        let address = env::var("DOCKER_HOST").unwrap_or_default();
        let host = host(&address).unwrap_or_else(|| {
            panic!(
                "these tests need a real engine: DOCKER_HOST is {address:?}, not unix://PATH or tcp://HOST:PORT. \
                 `make test` finds or starts one"
            )
        });
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let name = name.replace('_', "-");
        Self {
            engine: DockerEngine::connect(&host, Credentials::default()).unwrap(),
            run: format!("{}-{name}", since.as_micros() % 1_000_000_000_000),
            serial: AtomicU16::new(0),
        }
    }

    fn next(&self) -> u16 {
        self.serial.fetch_add(1, Ordering::Relaxed)
    }

    /// The label by which a run's containers, images and networks are found and removed.
    fn label(&self) -> String {
        format!("{LABEL}={}", self.run)
    }

    fn fragile(&self) -> PathBuf {
        env::temp_dir().join(format!("contract-{}", self.run))
    }

    /// Failures here must not hide the failure that a test found.
    async fn clean_up(&self) {
        let filter = format!("label={}", self.label());
        for (list, remove) in [
            (&["ps", "--all"][..], &["rm", "--force", "--volumes"][..]),
            (&["network", "ls"], &["network", "rm"]),
            (&["images", "--all"], &["rmi", "--force"]),
        ] {
            let found = docker(&[list, &["--quiet", "--filter", &filter]].concat()).await;
            for id in found.unwrap_or_default().lines() {
                let _gone = docker(&[remove, &[id]].concat()).await;
            }
            // The engine made a directory in its place.
            let _gone = std::fs::remove_dir(self.fragile());
        }
    }
}

impl Lab for RealLab {
    type Engine = DockerEngine;

    fn engine(&self) -> &DockerEngine {
        &self.engine
    }

    fn name(&self, base: &str) -> String {
        format!("contract-{}-{base}", self.run)
    }

    async fn image_named(&self, reference: &str, behaviour: Behaviour) {
        let directory = tempfile::tempdir().expect("a directory");
        write_files(directory.path(), &behaviour);
        let command = format!("CMD {}", json!(command(&behaviour)));
        let label = format!("LABEL {}", self.label());
        let place = directory.path().to_str().expect("a path");
        let layer = format!("{place}/layer.tar");
        let pack = [
            "--directory",
            place,
            "--owner=0",
            "--group=0",
            "--create",
            "--file",
            &layer,
            "bin",
        ];
        let packed = run("tar", &pack).await;
        packed.unwrap_or_else(|error| panic!("tar: {error}"));
        let made = docker(&[
            "import",
            "--change",
            &command,
            "--change",
            "ENV PATH=/bin",
            "--change",
            &label,
            &layer,
            reference,
        ])
        .await;
        made.unwrap_or_else(|error| panic!("the image {reference}: {error}"));
    }

    async fn image(&self, behaviour: Behaviour) -> String {
        let reference = format!("contract/{}-{}:1", self.run, self.next());
        self.image_named(&reference, behaviour).await;
        reference
    }

    async fn copy_in(&self, id: &ContainerId, path: &str) {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join(path.trim_start_matches('/'));
        std::fs::create_dir_all(file.parent().expect("a directory")).expect("a directory");
        std::fs::write(&file, "content").expect("a file");
        // A directory that the image has keeps its other files.
        let first = path.split('/').nth(1).unwrap_or_default();
        let from = format!("{}/{first}", directory.path().display());
        let sent = docker(&["cp", &from, &format!("{}:/", id.as_str())]).await;
        sent.unwrap_or_else(|error| panic!("{path} into {id}: {error}"));
    }

    async fn by_hand(&self, action: OperatorAction) -> Result<(), String> {
        let command = match action {
            OperatorAction::Create(name, body) => {
                let created = self.engine.create(&name, None, &body).await;
                return created.map(|_| ()).map_err(|error| error.to_string());
            }
            OperatorAction::Remove(name) => format!("rm --force {name}"),
            OperatorAction::Rename(from, to) => format!("rename {from} {to}"),
            OperatorAction::Stop(name) => format!("stop {name}"),
            OperatorAction::Start(name) => format!("start {name}"),
            OperatorAction::Restart(name) => format!("restart {name}"),
            OperatorAction::Kill(name) => format!("kill {name}"),
            OperatorAction::Pause(name) => format!("pause {name}"),
            OperatorAction::Unpause(name) => format!("unpause {name}"),
            OperatorAction::SetMemory(name, bytes) => format!("update --memory {bytes} {name}"),
            OperatorAction::SetRestartPolicy(name, policy) => format!("update --restart {policy} {name}"),
            OperatorAction::Connect(name, network) => format!("network connect {network} {name}"),
            OperatorAction::Disconnect(name, network) => format!("network disconnect {network} {name}"),
            OperatorAction::RemoveImage(image) => format!("rmi --force {image}"),
            OperatorAction::Tag(image, reference) => format!("tag {image} {reference}"),
            OperatorAction::PruneContainers => {
                format!("container prune --force --filter label={}", self.label())
            }
            OperatorAction::PruneImages => panic!("no rule prunes the images of a real engine"),
        };
        docker(&command.split(' ').collect::<Vec<_>>()).await.map(|_| ())
    }

    async fn network(&self) -> String {
        let name = format!("contract-{}-{}", self.run, self.next());
        let made = docker(&["network", "create", "--label", &self.label(), &name]).await;
        made.unwrap_or_else(|error| panic!("{name}: {error}"));
        name
    }

    fn body(&self, reference: &str) -> Value {
        json!({
            "Image": reference,
            "Labels": { LABEL: self.run },
            "Env": [],
            "HostConfig": {},
        })
    }

    fn fragile_binds(&self) -> Value {
        let file = self.fragile();
        std::fs::write(&file, "").expect("a file");
        json!([format!("{}:/fragile", file.display())])
    }

    fn take_away(&self) {
        std::fs::remove_file(self.fragile()).expect("a file");
    }
}

fn host(address: &str) -> Option<EngineHost> {
    if let Some(path) = address.strip_prefix("unix://") {
        return Some(EngineHost::Unix(PathBuf::from(path)));
    }
    let address = address.strip_prefix("tcp://")?.trim_end_matches('/').to_owned();
    Some(EngineHost::Tcp { address, tls: None })
}

/// The command that gives a container its behaviour.
fn command(behaviour: &Behaviour) -> Vec<String> {
    if behaviour.start_error.is_some() {
        return vec!["/bin/there-is-no-such-program".to_owned()];
    }
    let seconds = |time: Duration| time.as_secs_f64();
    let on_stop = match behaviour.on_stop {
        OnStop::Drain(time) => format!("trap 'sleep {}; exit 0' TERM", seconds(time)),
        OnStop::Ignore => "trap '' TERM".to_owned(),
    };
    let mut prints = String::new();
    for (line, stream) in behaviour.prints.iter().zip(["1", "2"].into_iter().cycle()) {
        // Lines that arrive at the same time on two streams have no order.
        prints.extend(["echo '", line, "' >&", stream, "; sleep 0.1; "]);
    }
    let life = match behaviour.exits {
        Some(exit) => format!("sleep {} & wait $!; exit {}", seconds(exit.after), exit.code),
        None => "while :; do sleep 1 & wait $!; done".to_owned(),
    };
    vec![
        "/bin/sh".to_owned(),
        "-c".to_owned(),
        format!("{on_stop}; {prints}{life}"),
    ]
}

/// Writes a busybox, and a probe with the result that the behaviour says.
fn write_files(root: &Path, behaviour: &Behaviour) {
    let healthy = match behaviour.health {
        Wellness::Steady => true,
        Wellness::Never => false,
        Wellness::Flaps { .. } | Wellness::For(_) => panic!("a real probe does not change its mind"),
    };
    let bin = root.join("bin");
    std::fs::create_dir(&bin).expect("a directory");
    let copied = std::fs::copy(BUSYBOX, bin.join("busybox"));
    copied.unwrap_or_else(|error| panic!("{BUSYBOX}: {error}; the package busybox-static has it"));
    let probe = bin.join("probe");
    std::fs::write(&probe, format!("#!/bin/sh\nexit {}\n", i32::from(!healthy))).expect("a probe");
    std::fs::set_permissions(&probe, PermissionsExt::from_mode(0o755)).expect("a probe");
    for name in ["sh", "sleep"] {
        symlink("busybox", bin.join(name)).expect("a link");
    }
}

async fn docker(arguments: &[&str]) -> Result<String, String> {
    run("docker", arguments).await
}

/// Runs a command of this machine. The error is what it says.
async fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().await;
    let output = output.map_err(|error| error.to_string())?;
    let text = |bytes| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr))
    }
}
