//! A pull that fills the engine's disk, on an engine of the test's own whose disk is small.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use kit::lab::{Lab, Signal, V1, V2, build, docker, eventually, expect, image, send};

const MIB: u64 = 1024 * 1024;

/// The small engine's bridge, which no container uses.
const BRIDGE: &str = "smalldisk0";

/// An engine with a disk of 128 MiB.
struct SmallEngine {
    directory: tempfile::TempDir,
    dockerd: Child,
}

impl SmallEngine {
    /// `None` where this engine is not the lab's own: then the test may not start one.
    fn start() -> Option<Self> {
        let lab = PathBuf::from(std::env::var_os("LAB_DIR")?);
        if !lab.join("start-engine").exists() || Command::new("dockerd").arg("--version").output().is_err() {
            eprintln!("skipped: this engine is not the lab's own; LAB_ENGINE=own brings one up");
            return None;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let path = |name: &str| directory.path().join(name);
        fs::create_dir(path("data")).expect("a directory");
        fs::write(path("daemon.json"), "{}").expect("daemon.json");
        // Without a bridge of its own, it would take the lab's away: an engine that starts with `--bridge none` removes
        // `docker0`.
        ip(&["link", "add", BRIDGE, "type", "bridge"]);
        ip(&["address", "add", "192.0.2.1/24", "dev", BRIDGE]);
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=128m", "tmpfs"]);
        expect(mount.arg(path("data")));
        let log = File::create(path("log")).expect("a log");
        let dockerd = Command::new("dockerd")
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
            .args(["--bridge", BRIDGE, "--iptables=false", "--ip6tables=false"])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("dockerd");
        let engine = Self { directory, dockerd };
        eventually("the small engine answers", Duration::from_secs(60), || {
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

    /// All images, what they take, and the files of layers and of downloads.
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
        let _ = Command::new("umount")
            .arg("--lazy")
            .arg(self.directory.path().join("data"))
            .status();
        let _ = Command::new("ip").args(["link", "delete", BRIDGE]).status();
    }
}

/// An image in the registry with a layer of these bytes on top of a small one.
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

/// The disk is full in the middle of the download, and in the middle of unpacking what was downloaded.
#[test]
fn a_pull_that_fills_the_disk_leaves_nothing_behind() {
    let lab = Lab::new("full-disk");
    let Some(engine) = SmallEngine::start() else {
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
        // Layers that were unpacked go in the background.
        let end = Instant::now() + Duration::from_secs(20);
        while engine.left() != before && Instant::now() < end {
            sleep(Duration::from_millis(500));
        }
        assert_eq!(engine.left(), before, "{published}");
    }
    assert_eq!(engine.docker(&["ps", "--all", "--format", "{{.Names}}"]), name);
    engine.docker(&["rm", "--force", &name]);
}
