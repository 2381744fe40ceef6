//! People work on the containers of a delegate while it is being replaced.

use std::time::Duration;

use kit::lab::{Daemon, Lab, V1, V2, docker, image, image_of, life};

/// Enough for a step of a replacement, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A delegate whose candidate is proving itself.
struct Proving {
    lab: Lab,
    name: String,
    candidate: String,
    once: Daemon,
}

impl Proving {
    fn begin(test: &str, arguments: &[&str]) -> Self {
        let lab = Lab::new(test);
        let name = lab.delegate("1", V1, arguments);
        let upgrader = lab
            .upgrader(V2)
            .with("UPGRADE_HEALTHY_TIME", "20s")
            .with("UPGRADE_HEALTHY_DEADLINE", "40s");
        let once = upgrader.begin("once");
        once.says("reason=\"proving\"", PATIENCE);
        let candidate = format!("{name}.candidate");
        Self {
            lab,
            name,
            candidate,
            once,
        }
    }
}

/// A verdict is cheap: the image is tried again after an hour, or when an operator asks for it.
#[test]
fn candidate_that_someone_ends_is_rejected_with_its_ending_until_retry() {
    for (action, ending) in [("stop", "exited with code 0"), ("kill", "exited with code 137")] {
        let mut proving = Proving::begin(&format!("{action}-candidate"), &[]);
        let before = life(&proving.name);
        docker(&[action, &proving.candidate]);
        let run = proving.once.wait();
        assert_eq!(run.code, Some(1), "{}", run.text);
        run.says(&format!("{ending} before it had proven itself"));
        assert_eq!(life(&proving.name), before, "{}", run.text);
        assert_eq!(proving.lab.names(), ["1", "1.failed-1"], "{}", run.text);
        let upgrader = proving.lab.upgrader(V2);
        let retried = upgrader.run(&["retry", &proving.name]).ended(0);
        assert_eq!(image_of(&proving.name), image(V2), "{}", retried.text);
    }
}

#[test]
fn delegate_that_its_owner_stops_during_the_proof_stays_stopped() {
    for policy in ["always", "no"] {
        let mut proving = Proving::begin("stop-serving", &["--restart", policy]);
        let id = life(&proving.name).0;
        docker(&["stop", &proving.name]);
        let run = proving.once.wait();
        let (now, _, is_running, _) = life(&proving.name);
        assert_eq!((now, is_running), (id, false), "{}", run.text);
        assert_eq!(proving.lab.names(), ["1"], "{}", run.text);
        run.says("only running delegates are upgraded");
    }
}

#[test]
fn candidate_takes_over_when_someone_removes_the_delegate() {
    let mut proving = Proving::begin("rm-serving", &["--restart", "always"]);
    let candidate = life(&proving.candidate);
    docker(&["rm", "--force", &proving.name]);
    let run = proving.once.wait();
    assert_eq!(run.code, Some(0), "{}", run.text);
    assert_eq!(life(&proving.name), candidate, "{}", run.text);
    assert_eq!(proving.lab.names(), ["1"], "{}", run.text);
}
