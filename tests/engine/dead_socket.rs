//! A socket that was mounted as a file, after a restart of an engine whose containers keep running.

use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::restarts::Engine;
use kit::lab::{Lab, Signal, V1, V2, docker, eventually, expect, image, image_of, inspect, project};

const SOCKET: &str = "/var/run/docker.sock";

/// The inode of the socket as a process sees it.
fn socket_of(process: &str) -> u64 {
    let seen = std::fs::metadata(format!("/proc/{process}/root{SOCKET}"));
    seen.expect("a socket").ino()
}

/// This takes over five minutes, which no setting shortens.
#[test]
#[ignore = "restarts the engine and takes six minutes; make dead-socket runs it"]
fn exits_on_a_dead_socket_so_that_a_restart_mounts_the_new_one() {
    Engine::with(true, |engine| {
        let lab = Lab::new("dead-socket");
        let tag = format!("{}-upgrader:dev", lab.name);
        expect(Command::new(project().join("tests/lab/upgrader-image")).arg(&tag));
        let mount = format!("{SOCKET}:{SOCKET}");
        let variables = [
            format!("UPGRADER_WORKLOAD_NAME={}", lab.name),
            format!("PUBLISHED_IMAGE={}", image(V2)),
        ];
        let options = "--env RUN_ON_START=true --env UPGRADE_HEALTHY_TIME=2s --env HEALTH_INTERVAL=5s \
                       --restart unless-stopped --volume";
        let mut arguments: Vec<&str> = options.split(' ').chain([mount.as_str()]).collect();
        arguments.extend(variables.iter().flat_map(|variable| ["--env", variable]));
        arguments.push(&tag);
        let upgrader = lab.container("upgrader", &arguments);
        let state = || inspect(&upgrader)["State"].clone();
        let socket = || socket_of(&state()["Pid"].to_string());
        // The reported problem; empty if `/livez` is fine.
        let livez = || {
            let asked = ["exec", &upgrader, "/delegate-upgrader", "healthcheck"];
            let output = Command::new("docker").args(asked).output();
            String::from_utf8_lossy(&output.expect("docker exec").stderr).into_owned()
        };
        eventually("it lives", Duration::from_secs(30), || livez().is_empty());
        assert_eq!(socket(), socket_of("self"));

        let begun = state()["StartedAt"].clone();
        engine.restart(Signal::TERM);
        let restarted = Instant::now();
        assert_eq!(state()["StartedAt"], begun, "live-restore keeps it running");
        assert_ne!(socket(), socket_of("self"), "a file stays what it was");
        let name = lab.delegate("1", V1, &[]);
        eventually("/livez fails", Duration::from_secs(120), || {
            livez().contains("nothing has answered at the mounted")
        });
        eprintln!("/livez failed {:?} after the restart", restarted.elapsed());
        assert_eq!(state()["StartedAt"], begun);
        eventually("it is started again", Duration::from_secs(360), || {
            inspect(&upgrader)["RestartCount"] == 1
        });
        let lasted = restarted.elapsed();
        eprintln!("it was started again {lasted:?} after the restart");
        assert!(lasted.as_secs() >= 280, "{lasted:?}");
        let events = "events --since 10m --until 0s --filter event=die --format {{.Actor.Attributes.exitCode}} --filter";
        let of = format!("container={upgrader}");
        let words: Vec<&str> = events.split(' ').chain([of.as_str()]).collect();
        assert_eq!(docker(&words), "69");
        eventually("it works again", Duration::from_secs(90), || {
            image_of(&name) == image(V2)
        });
        assert_eq!(livez(), "");
        assert_eq!(socket(), socket_of("self"));
        docker(&["rm", "--force", &upgrader]);
        docker(&["rmi", &tag]);
    });
}
