//! Hosts that cannot start any new container: a running delegate keeps running, and is not asked to stop.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use kit::lab::{Lab, PATIENCE, Signal, V1, V2, docker, eventually, expect, image, image_of, life, send};
use serde_json::{Value, json};

use crate::failures::push_image;

const STOP_FIRST: [&str; 2] = ["--label", "io.delegate-upgrader.update-order=stop-first"];

/// A delegate is stopped only once everything works that the next container needs for its start.
fn survives(lab: &Lab, version: &str, options: &[&str], words: &str, breaks: impl Fn(), mends: impl Fn()) {
    let options = [options, &STOP_FIRST].concat();
    let name = lab.delegate("1", V1, &options);
    let before = life(&name);
    breaks();
    let run = lab.upgrader(version).run(&["once"]).ended(1);
    run.says("not stopped, since Docker cannot start the new container: ");
    run.says(words);
    assert_eq!(
        (life(&name), lab.names()),
        (before, vec!["1".to_owned()]),
        "{}",
        run.text
    );
    mends();
    let run = lab.upgrader(version).run(&["once"]).ended(0);
    assert_eq!(
        (image_of(&name), lab.names()),
        (image(version), vec!["1".to_owned()]),
        "{}",
        run.text
    );
}

/// Adds a runtime of this name that runs the file; `false` if this engine is not the lab's own.
fn add_runtime(name: &str, path: &Path) -> bool {
    let Some(lab) = std::env::var_os("LAB_DIR") else {
        return false;
    };
    let (file, pid) = (
        Path::new(&lab).join("daemon.json"),
        Path::new(&lab).join("docker.pid"),
    );
    let Ok(pid) = fs::read_to_string(pid) else {
        return false;
    };
    let text = fs::read_to_string(&file).expect("daemon.json");
    let mut configuration: Value = serde_json::from_str(&text).expect("JSON");
    configuration["runtimes"][name] = json!({ "path": path });
    fs::write(file, configuration.to_string()).expect("daemon.json");
    send(Signal::HUP, &pid);
    eventually("the engine knows the runtime", PATIENCE, || {
        docker(&["info", "--format", "{{json .Runtimes}}"]).contains(name)
    });
    true
}

#[test]
fn delegate_whose_runtime_fails_is_not_stopped() {
    let lab = Lab::new("runtime");
    let directory = tempfile::tempdir().expect("a directory");
    let runtime = directory.path().join("runtime");
    let write = |text: &str| {
        fs::write(&runtime, text).expect("a runtime");
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755)).expect("a runtime");
    };
    let works = || write("#!/bin/sh\nexec runc \"$@\"\n");
    works();
    let name = lab.name.clone();
    if !add_runtime(&name, &runtime) {
        eprintln!("skipped: this engine is not the lab's own; LAB_ENGINE=own brings one up");
        return;
    }
    // An update of the runtime that the host cannot run, and an update that removed it.
    for breaks in [Some("#!/bin/sh\nexit 1\n"), None] {
        let lab = Lab::new("runtime-fails");
        let breaks = || match breaks {
            Some(text) => write(text),
            None => fs::remove_file(&runtime).expect("a runtime"),
        };
        survives(
            &lab,
            V2,
            &["--runtime", &name],
            "OCI runtime create failed",
            breaks,
            works,
        );
    }
}

#[test]
fn delegate_whose_bound_file_was_renamed_is_not_stopped() {
    let lab = Lab::new("renamed");
    let directory = tempfile::tempdir().expect("a directory");
    let (file, other) = (directory.path().join("file"), directory.path().join("other"));
    fs::write(&file, "text").expect("a file");
    // The image has a file at that path.
    let version = push_image(&lab, 9, "COPY plain /plain");
    let bind = format!("{}:/plain", file.display());
    let breaks = || fs::rename(&file, &other).expect("a file");
    let mends = || {
        // The engine has created a directory in its place.
        fs::remove_dir(&file).expect("a directory");
        fs::rename(&other, &file).expect("a file");
    };
    survives(
        &lab,
        &version,
        &["--volume", &bind],
        "not a directory",
        breaks,
        mends,
    );
}

#[test]
fn delegate_whose_device_is_gone_is_not_stopped() {
    let lab = Lab::new("device");
    let directory = tempfile::tempdir().expect("a directory");
    let device = directory.path().join("device");
    let make = || {
        expect(Command::new("mknod").arg(&device).args(["c", "1", "3"]));
    };
    make();
    let option = format!("{}:/dev/it", device.display());
    let breaks = || fs::remove_file(&device).expect("a device");
    survives(
        &lab,
        V2,
        &["--device", &option],
        "a device that it needs is missing on this host",
        breaks,
        make,
    );
}
