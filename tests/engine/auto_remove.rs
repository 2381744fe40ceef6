//! Delegates that were started with `--rm`: the engine removes them as soon as they stop.

use std::process::{Child, Command};
use std::thread::sleep;
use std::time::Duration;

use kit::lab::{CRASHES, Lab, V1, V2, docker, eventually, follow, image, image_of, inspect, life};
use rustix::process::Signal;

/// Both ways of replacing it.
const WAYS: [(&str, &str); 2] = [("rm-start", "start-first"), ("rm-stop", "stop-first")];

fn delegate(lab: &Lab, strategy: &str) -> String {
    let strategy = format!("io.delegate-upgrader.strategy={strategy}");
    lab.delegate(
        "1",
        V1,
        &["--rm", "--env", "DRAIN_SECONDS=2", "--label", &strategy],
    )
}

fn is_auto_removed(name: &str) -> bool {
    inspect(name)["HostConfig"]["AutoRemove"] == true
}

#[test]
fn it_is_replaced_both_ways_and_nothing_is_left_over() {
    for (test, way) in WAYS {
        let lab = Lab::new(test);
        let name = delegate(&lab, way);
        let old = follow(&name);
        let run = lab.upgrader(V2).run(&["once"]);
        assert_eq!(run.code, Some(0), "{}", run.text);
        assert!(
            run.text.contains("creating a standby copy") && run.text.contains(way),
            "{way}:\n{}",
            run.text
        );
        assert_eq!(
            (lab.names(), image_of(&name)),
            (vec!["1".to_owned()], image(V2)),
            "{way}"
        );
        assert!(is_auto_removed(&name) && life(&name).2, "{way}");
        assert!(old.end().contains("drained in full"), "{way}");
    }
}

#[test]
fn a_bad_image_costs_neither_the_delegate_nor_its_rm() {
    for (test, way) in WAYS {
        let lab = Lab::new(&format!("{test}-bad"));
        let name = delegate(&lab, way);
        let before = life(&name).0;
        let upgrader = lab.upgrader(CRASHES);
        let run = upgrader.run(&["once"]);
        assert_eq!(run.code, Some(1), "{way}:\n{}", run.text);
        assert!(
            run.text.contains("rejecting the candidate"),
            "{way}:\n{}",
            run.text
        );
        assert_eq!(lab.names(), ["1", "1.failed-1"], "{way}:\n{}", run.text);
        assert_eq!((image_of(&name), life(&name).2), (image(V1), true), "{way}");
        assert!(is_auto_removed(&name), "{way}");
        if way == "start-first" {
            assert_eq!(life(&name).0, before, "the old one was touched");
        }
        let mark = format!("{name}.failed-1");
        let state = docker(&["inspect", "--format", "{{.State.Status}}", &mark]);
        assert_eq!(
            (state.as_str(), image_of(&mark)),
            ("created", image(CRASHES)),
            "{way}"
        );

        let serving = life(&name);
        let again = upgrader.run(&["once"]);
        assert!(
            again.text.contains("reason=\"quarantined\""),
            "{way}:\n{}",
            again.text
        );
        assert_eq!((again.code, life(&name)), (Some(1), serving), "{way}");

        let better = lab.upgrader(V2).run(&["once"]);
        assert_eq!(better.code, Some(0), "{way}:\n{}", better.text);
        assert_eq!(
            (lab.names(), image_of(&name), is_auto_removed(&name)),
            (vec!["1".to_owned()], image(V2), true),
            "{way}"
        );
    }
}

/// What the engine does with containers of an image from now on. It keeps the last 256 events only, so they are followed.
struct Events {
    process: Child,
    log: tempfile::NamedTempFile,
}

impl Events {
    fn follow(image: &str) -> Self {
        let filter = format!("image={image}");
        let now = docker(&["info", "--format", "{{.SystemTime}}"]);
        let log = tempfile::NamedTempFile::new().expect("a file");
        let format = "{{.Action}} {{.Actor.Attributes.name}}";
        let process = Command::new("docker")
            .args(["events", "--since", &now, "--filter", &filter, "--format", format])
            .stdout(log.reopen().expect("a file"))
            .spawn()
            .expect("docker events");
        Self { process, log }
    }

    fn end(mut self) -> String {
        let _ = self.process.kill();
        let _ = self.process.wait();
        std::fs::read_to_string(self.log.path()).expect("a file")
    }
}

/// A run every second, and the upgrader killed again and again: the candidate dies at once and leaves nothing behind but
/// its marker.
#[test]
fn a_bad_image_is_tried_once_however_often_the_upgrader_runs_and_is_killed() {
    for (test, way) in WAYS {
        let lab = Lab::new(&format!("{test}-killed"));
        let name = delegate(&lab, way);
        let events = Events::follow(&image(CRASHES));
        let upgrader = lab.upgrader(CRASHES).with("SCHEDULE", "* * * * * *");
        for milliseconds in [400, 700, 1000, 1300, 1600, 2000, 2500, 3000] {
            let mut daemon = upgrader.start();
            sleep(Duration::from_millis(milliseconds));
            daemon.signal(Signal::KILL);
        }
        let mut daemon = upgrader.start();
        let quarantine = || lab.names() == ["1", "1.failed-1"] && life(&name).2;
        eventually(
            "the delegate is back, and the image in quarantine",
            Duration::from_secs(30),
            quarantine,
        );
        sleep(Duration::from_secs(3));
        daemon.signal(Signal::TERM);
        let events = events.end();
        let count = |action: &str| events.matches(&format!("{action} {name}.")).count();
        let context = format!("{way}:\n{events}\n{}", daemon.log());
        assert_eq!(count("create"), 2, "the candidate and its marker, {context}");
        assert!(count("start") <= 1, "{context}");
        assert_eq!(
            (image_of(&name), is_auto_removed(&name)),
            (image(V1), true),
            "{way}"
        );
        assert!(!daemon.log().contains("replaced"), "{context}");
    }
}
