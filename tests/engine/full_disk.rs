//! Pulls that fill the engine's disk, or would fill it. The test runs an engine of its own, with a small disk.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::image_records::has_containerd_store;
use crate::itself::{FIRST, upgrader_image};
use kit::lab::{Lab, PATIENCE, Signal, V1, V2, build, docker, eventually, expect, image, send};

const MIB: u64 = 1024 * 1024;

/// An engine with a small disk.
struct SmallEngine {
    directory: tempfile::TempDir,
    dockerd: Child,
    /// Its bridge, which no container uses.
    bridge: String,
}

impl SmallEngine {
    /// Starts a second engine like the lab's, with this configuration and a disk of this many MiB, in the root directory of the
    /// lab's engine if that has one. `None` if the engine is not the lab's own: then the test may not start another one.
    fn start(mib: u32, configuration: &str) -> Option<Self> {
        let lab = PathBuf::from(std::env::var_os("LAB_DIR")?);
        if !lab.join("start-engine").exists() || Command::new("dockerd").arg("--version").output().is_err() {
            eprintln!("skipped: this engine is not the lab's own; LAB_ENGINE=own brings one up");
            return None;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("data")).expect("a directory");
        fs::write(path("daemon.json"), configuration).expect("daemon.json");
        // It has its own bridge: an engine that starts with `--bridge none` removes the lab's `docker0`.
        let bridge = format!("smalldisk{mib}");
        ip(&["link", "add", &bridge, "type", "bridge"]);
        ip(&["address", "add", "192.0.2.1/24", "dev", &bridge]);
        let mut mount = in_the_root("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs"]);
        expect(mount.arg(path("data")));
        let log = File::create(path("log")).expect("a log");
        let dockerd = in_the_root("dockerd")
            .arg("--config-file")
            .arg(path("daemon.json"))
            .arg("--host")
            .arg(format!("unix://{}", path("socket").display()))
            .arg("--pidfile")
            .arg(path("pid"))
            .arg("--data-root")
            .arg(path("data"))
            .arg("--exec-root")
            .arg(path("exec"))
            .args(["--exec-opt", "native.cgroupdriver=cgroupfs"])
            .arg("--cgroup-parent")
            .arg(Path::new("/").join(lab.file_name().expect("a name")))
            .args(["--bridge", &bridge, "--iptables=false", "--ip6tables=false"])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("dockerd");
        let engine = Self {
            directory,
            dockerd,
            bridge,
        };
        eventually("the small engine answers", PATIENCE, || {
            let version = engine.command(&["version"]).output();
            version.is_ok_and(|version| version.status.success())
        });
        Some(engine)
    }

    fn host(&self) -> String {
        format!("unix://{}", self.directory.path().join("socket").display())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("docker");
        command.arg("--host").arg(self.host()).args(arguments);
        command
    }

    fn docker(&self, arguments: &[&str]) -> String {
        expect(&mut self.command(arguments))
    }

    /// The images, their disk use, and the files of layers and downloads.
    fn left(&self) -> (String, String, Vec<PathBuf>) {
        let data = self.directory.path().join("data");
        let mut files = Vec::new();
        for directory in [
            "tmp",
            "overlay2",
            "image/overlay2/layerdb/sha256",
            "image/overlay2/layerdb/tmp",
        ] {
            files.extend(entries(&data.join(directory)));
        }
        files.sort();
        let format = "{{.Repository}}:{{.Tag}} {{.Digest}} {{.ID}}";
        let images = self.docker(&["images", "--all", "--digests", "--no-trunc", "--format", format]);
        (images, self.docker(&["system", "df"]), files)
    }
}

/// A command in the root of the lab's engine, if it has one.
fn in_the_root(program: &str) -> Command {
    let Ok(pid) = fs::read_to_string("/run/lab/pid") else {
        return Command::new(program);
    };
    let mut command = Command::new("nsenter");
    command.args(["--target", pid.trim(), "--mount", "--", program]);
    command
}

fn ip(arguments: &[&str]) {
    expect(Command::new("ip").args(arguments));
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

impl Drop for SmallEngine {
    fn drop(&mut self) {
        send(Signal::TERM, &self.dockerd.id().to_string());
        let _ = self.dockerd.wait();
        let _ = in_the_root("umount")
            .arg("--lazy")
            .arg(self.directory.path().join("data"))
            .status();
        let _ = Command::new("ip").args(["link", "delete", &self.bridge]).status();
    }
}

/// Publishes an image with a layer of these bytes on top of a small layer.
fn publish(version: &str, bytes: &mut dyn io::Read) -> String {
    let context = tempfile::tempdir().expect("a directory");
    fs::write(context.path().join("small"), version).expect("a file");
    let mut large = File::create(context.path().join("large")).expect("a file");
    io::copy(&mut bytes.take(200 * MIB), &mut large).expect("a file");
    let lines = format!("FROM {}\nCOPY small /\nCOPY large /\n", image(V2));
    let name = image(version);
    build(&name, &lines, context.path(), &[]);
    docker(&["push", "--quiet", &name]);
    docker(&["rmi", &name]);
    name
}

/// The disk fills up in the middle of the download, and in the middle of unpacking the download.
#[test]
fn a_pull_that_fills_the_disk_leaves_nothing_behind() {
    let lab = Lab::new("full-disk");
    let Some(engine) = SmallEngine::start(128, "{}") else {
        return;
    };
    let old = image(V1);
    let (name, variable) = (format!("{}-1", lab.name), format!("DELEGATE_NAME={}", lab.name));
    engine.docker(&["pull", "--quiet", &old]);
    engine.docker(&[
        "run",
        "--detach",
        "--name",
        &name,
        "--network",
        "none",
        "--env",
        &variable,
        &old,
    ]);
    let before = engine.left();
    assert!(before.0.contains("harness/delegate"), "{before:?}");
    let download = publish(
        "26.22.10031",
        &mut File::open("/dev/urandom").expect("random data"),
    );
    let unpacking = publish("26.22.10032", &mut io::repeat(0));
    for published in [download, unpacking] {
        let upgrader = lab
            .upgrader(V2)
            .with("DOCKER_HOST", &engine.host())
            .with("PUBLISHED_IMAGE", &published);
        let run = upgrader.run(&["once"]);
        run.says("the engine's disk is full: ");
        // The engine removes unpacked layers in the background.
        eventually(&published, PATIENCE, || engine.left() == before);
    }
    assert_eq!(engine.docker(&["ps", "--all", "--format", "{{.Names}}"]), name);
    engine.docker(&["rm", "--force", &name]);
}

/// A container of the engine sees the disk of containerd's store. It has less than the 64 MiB that must stay free.
#[test]
fn an_image_too_large_for_the_containerd_store_is_not_pulled() {
    const STORE: &str = r#"{"features": {"containerd-snapshotter": true}}"#;
    if !has_containerd_store() {
        return;
    }
    let lab = Lab::new("small-store");
    crate::itself::build();
    let (old, upgrader) = (image(V1), upgrader_image(FIRST));
    let Some(engine) = SmallEngine::start(72, STORE) else {
        return;
    };
    let (name, variable) = (format!("{}-1", lab.name), format!("DELEGATE_NAME={}", lab.name));
    let run = [
        "run",
        "--detach",
        "--network",
        "none",
        "--name",
        &name,
        "--env",
        &variable,
        &old,
    ];
    engine.docker(&run);
    let socket = format!(
        "{}:/var/run/docker.sock",
        engine.directory.path().join("socket").display()
    );
    let workload = format!("UPGRADER_WORKLOAD_NAME={}", lab.name);
    let published = format!("PUBLISHED_IMAGE={}", image(V2));
    let says = |command: &str| {
        let inside = ["run", "--rm", "--network", "none", "--volume", &socket];
        let mut run = engine.command(&inside);
        let said = run.args(["--env", &workload, "--env", &published, &upgrader, command]);
        let said = said.output().expect("an upgrader");
        String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned()
    };
    let doctor = says("doctor");
    assert!(
        doctor.contains("MiB free for images, and the next one may need 6"),
        "{doctor}"
    );
    let once = says("once");
    assert!(once.contains("MiB are free on the engine's disk"), "{once}");
    engine.docker(&["rm", "--force", &name]);
}
