//! People stop containers while a delegate is being replaced: that judges no image, and what they stopped stays stopped.

use std::time::Duration;

use kit::lab::{Lab, V1, V2, docker, eventually, image, image_of, life};

/// Enough for a step of a replacement, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What somebody does to a candidate in the middle of its proof.
fn while_it_proves_itself(test: &str, arguments: &[&str], act: &[&str]) {
    let lab = Lab::new(test);
    let name = lab.delegate("1", V1, arguments);
    let before = life(&name);
    let mut once = lab
        .upgrader(V2)
        .with("HEALTHY_TIME", "20s")
        .with("HEALTHY_DEADLINE", "40s")
        .begin("once");
    once.says("reason=\"proving\"", PATIENCE);
    docker(&[act, &[&format!("{name}.candidate")]].concat());
    let run = once.wait();
    assert!(run.text.contains("somebody"), "{}", run.text);
    assert_eq!(life(&name), before, "{}", run.text);
    assert_eq!(lab.names(), ["1"], "{}", run.text);
    let run = lab.upgrader(V2).run(&["once"]);
    assert_eq!(
        (run.code, image_of(&name), lab.names()),
        (Some(0), image(V2), vec!["1".to_owned()]),
        "{}",
        run.text
    );
}

#[test]
fn a_candidate_that_somebody_stops_is_tried_again_in_the_next_run() {
    while_it_proves_itself("stop-candidate", &["--restart", "always"], &["stop"]);
}

#[test]
fn a_candidate_that_somebody_kills_is_tried_again_in_the_next_run() {
    while_it_proves_itself("kill-candidate", &[], &["kill"]);
}

#[test]
fn an_rm_candidate_that_somebody_removes_is_tried_again_in_the_next_run() {
    while_it_proves_itself("rm-candidate", &["--rm"], &["rm", "--force"]);
}

#[test]
fn a_candidate_that_somebody_pauses_is_tried_again_in_the_next_run() {
    while_it_proves_itself("pause-candidate", &["--restart", "always"], &["pause"]);
}

#[test]
fn a_delegate_that_its_owner_stops_during_the_proof_stays_stopped() {
    for arguments in [["--restart", "always"], ["--restart", "no"]] {
        let lab = Lab::new("stop-serving");
        let name = lab.delegate("1", V1, &arguments);
        let id = life(&name).0;
        let mut once = lab.upgrader(V2).with("HEALTHY_TIME", "12s").begin("once");
        once.says("reason=\"proving\"", PATIENCE);
        docker(&["stop", &name]);
        let run = once.wait();
        assert!(
            run.text.contains("asked it or its replacement to stop"),
            "{}",
            run.text
        );
        let (now, _, running, _) = life(&name);
        assert_eq!(
            (now, running, lab.names()),
            (id, false, vec!["1".to_owned()]),
            "{}",
            run.text
        );
        eventually("it stays so", PATIENCE, || !life(&name).2);
    }
}
