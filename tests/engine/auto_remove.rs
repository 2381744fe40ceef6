//! Delegates that were started with `--rm`. Their successors are created without it, so that a failed one leaves its
//! log; the upgrader removes a successor ten seconds after it has ended, as Docker would have done.

use kit::lab::{CRASHES, Lab, PATIENCE, V1, V2, docker, eventually, follow, image, image_of, inspect, life};
use rustix::process::Signal;

/// Both ways to replace such a delegate.
const WAYS: [(&str, &str); 2] = [("rm-start", "start-first"), ("rm-stop", "stop-first")];

fn delegate(lab: &Lab, strategy: &str) -> String {
    let strategy = format!("io.delegate-upgrader.update-order={strategy}");
    let arguments = ["--rm", "--env", "DRAIN_SECONDS=2", "--label", &strategy];
    lab.delegate("1", V1, &arguments)
}

/// Whether Docker removes the container once it has ended, and whether the upgrader does.
fn removed_by(name: &str) -> (bool, bool) {
    let document = inspect(name);
    let label = &document["Config"]["Labels"]["io.delegate-upgrader.auto-remove"];
    (document["HostConfig"]["AutoRemove"] == true, label == "true")
}

#[test]
fn the_upgrader_removes_an_exited_successor() {
    for (test, way) in WAYS {
        let lab = Lab::new(test);
        let name = delegate(&lab, way);
        let old = follow(&name);
        let run = lab.upgrader(V2).run(&["once"]).ended(0);
        run.says(way);
        let names = lab.names();
        assert_eq!(
            (names, image_of(&name)),
            (vec!["1".to_owned()], image(V2)),
            "{way}"
        );
        assert!(old.end().contains("drained in full"), "{way}");
        assert_eq!(removed_by(&name), (false, true), "{way}");

        // A restarted container stays; only a container that ended ten seconds ago is removed.
        docker(&["restart", &name]);
        let mut daemon = lab.upgrader(V2).with("RUN_ON_START", "true").start();
        daemon.says("runs the published image", PATIENCE);
        assert!(life(&name).2, "{way}");
        docker(&["stop", &name]);
        assert_eq!(lab.names(), ["1"], "{way}");
        eventually("it is removed", PATIENCE, || lab.names().is_empty());
        daemon.signal(Signal::TERM);
    }
}

#[test]
fn bad_image_leaves_a_delegate_in_service() {
    for (test, way) in WAYS {
        let lab = Lab::new(&format!("{test}-bad"));
        let name = delegate(&lab, way);
        let before = life(&name);
        let upgrader = lab.upgrader(CRASHES);
        let run = upgrader.run(&["once"]);
        let text = format!("{way}:\n{}", run.text);
        assert_eq!(run.code, Some(1), "{text}");
        assert_eq!(lab.names(), ["1", "1.failed-1"], "{text}");
        assert_eq!((image_of(&name), life(&name).2), (image(V1), true), "{text}");
        if way == "start-first" {
            assert_eq!(life(&name), before, "the old one was touched: {text}");
        } else {
            // Docker removed the old container, so it was recreated from its successor.
            assert_eq!(removed_by(&name), (false, true), "{text}");
        }
        assert_eq!(image_of(&format!("{name}.failed-1")), image(CRASHES));

        let serving = life(&name);
        let again = upgrader.run(&["once"]);
        again.says("reason=\"quarantined\"");
        assert_eq!((again.code, life(&name)), (Some(1), serving), "{way}");
        lab.upgrader(V2).run(&["once"]).ended(0);
        assert_eq!((lab.names(), image_of(&name)), (vec!["1".to_owned()], image(V2)));
    }
}

/// Docker removes the old container of a stop-first change, so its former settings are in `NAME.former` alone.
#[test]
fn settings_change_and_come_back_and_end_with_the_delegate() {
    for (test, way) in WAYS {
        let lab = Lab::new(&format!("{test}-settings"));
        let name = delegate(&lab, way);
        let has = |variable: &str| inspect(&name)["Config"]["Env"].to_string().contains(variable);
        let upgrader = lab.upgrader(V1);
        let failing = ["reconfigure", &name, "--env", "CRASH_AFTER_SECONDS=1"];
        upgrader.run(&failing).ended(1).says("was rejected");
        assert!(life(&name).2 && !has("CRASH_AFTER_SECONDS"), "{way}");
        let command = ["reconfigure", &name, "--env", "JAVA_OPTS=-Xmx1g"];
        upgrader.run(&command).ended(0);
        assert!(life(&name).2 && has("JAVA_OPTS=-Xmx1g"), "{way}");
        upgrader.run(&["rollback", &name]).ended(0);
        assert!(life(&name).2 && !has("JAVA_OPTS"), "{way}");
        assert_eq!(removed_by(&name), (false, true), "{way}");
        docker(&["stop", &name]);
        let mut daemon = upgrader.with("RUN_ON_START", "true").start();
        eventually("all of it is removed", PATIENCE, || lab.names().is_empty());
        daemon.signal(Signal::TERM);
    }
}

/// While Docker restarts a container with `--rm`, inspect shows it without that option.
#[test]
fn a_restart_during_replacement_keeps_the_rm_option() {
    let lab = Lab::new("rm-restart");
    let name = lab.delegate("1", V1, &["--rm", "--env", "DRAIN_SECONDS=8"]);
    let mut daemon = lab
        .upgrader(V2)
        .with("UPGRADE_HEALTHY_TIME", "12s")
        .with("UPGRADE_HEALTHY_DEADLINE", "60s")
        .with("RUN_ON_START", "true")
        .start();
    daemon.says("reason=\"proving\"", PATIENCE);
    docker(&["restart", "--time", "20", &name]);
    eventually("it is replaced", PATIENCE, || {
        lab.names() == ["1"] && image_of(&name) == image(V2)
    });
    assert_eq!(removed_by(&name), (false, true), "{}", daemon.log());
    daemon.signal(Signal::TERM);
    assert!(!daemon.log().contains("settings"), "{}", daemon.log());
}
