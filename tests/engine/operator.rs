//! `rollback` and `retry`: an operator's commands for one delegate.

use kit::lab::{Lab, V1, V2, WITH_HEALTHCHECK, image, image_of, life};

#[test]
fn a_rollback_holds_until_a_newer_image_is_published() {
    let lab = Lab::new("rollback");
    let name = lab.delegate("1", V1, &["--restart", "unless-stopped"]);
    let other = lab.delegate("2", V1, &[]);
    let upgrader = lab.upgrader(V2);
    upgrader.run(&["once"]).ended(0);
    let beside = life(&other);

    upgrader.run(&["rollback", &name]).ended(0);
    assert_eq!(image_of(&name), image(V1));
    let (_, _, running, policy) = life(&name);
    assert_eq!((running, policy.as_str()), (true, "unless-stopped"));
    assert_eq!(life(&other), beside, "the other replica is not asked about");
    assert_eq!(lab.names(), ["1", "2"]);

    let before = life(&name);
    let again = upgrader.run(&["once"]).ended(0);
    again.says("reason=\"rolled_back\"");
    let plan = upgrader.run(&["plan"]);
    assert!(
        plan.text.contains("rolled back from") && !plan.text.contains("replace"),
        "{}",
        plan.text
    );
    assert_eq!(life(&name), before, "it stays");

    // By the id that `docker ps` shows.
    let twice = upgrader.run(&["rollback", &before.0[..12]]).ended(1);
    twice.says("was already rolled back from");
    assert_eq!(life(&name), before, "a rollback is not rolled back");

    lab.upgrader(WITH_HEALTHCHECK).run(&["once"]).ended(0);
    for name in [&name, &other] {
        assert_eq!(image_of(name), image(WITH_HEALTHCHECK));
    }
}

#[test]
fn an_impossible_rollback_says_why_and_touches_nothing() {
    let lab = Lab::new("no-rollback");
    let name = lab.delegate("1", V1, &[]);
    let before = life(&name);
    let unknown = format!("{}-9", lab.name);
    let nothing = "nothing to roll back: delegate-upgrader has not upgraded";
    for (container, code, words) in [
        (name.as_str(), 1, nothing.to_owned()),
        (unknown.as_str(), 2, format!("; managed: {name}")),
    ] {
        let run = lab.upgrader(V2).run(&["rollback", container]).ended(code);
        run.says(&words);
    }
    let only_looks = lab.upgrader(V2).with("DISABLE_AUTO_UPGRADE", "true");
    for command in ["rollback", "retry"] {
        let run = only_looks.run(&[command, &name]).ended(78);
        run.says("DISABLE_AUTO_UPGRADE");
    }
    assert_eq!((life(&name), lab.names()), (before, vec!["1".to_owned()]));
}

#[test]
fn a_retry_tries_a_rejected_image_at_once() {
    let lab = Lab::new("retry");
    let name = lab.delegate("1", V1, &[]);
    let before = life(&name);
    let slow = lab.image_with("26.08.9", "START_SECONDS=40");
    let hasty = lab.upgrader(&slow).with("UPGRADE_HEALTHY_DEADLINE", "3s");
    hasty.run(&["once"]).ended(1);
    assert_eq!(lab.names(), ["1", "1.failed-1"]);

    let bad = hasty.run(&["retry", &name]).ended(1);
    bad.says("was rejected");
    assert_eq!(lab.names(), ["1", "1.failed-2"], "the attempts are counted");
    assert_eq!(life(&name), before);

    // The image was fine.
    let patient = lab.upgrader(&slow).with("UPGRADE_HEALTHY_DEADLINE", "2m");
    patient.run(&["retry", &name]).ended(0);
    assert_eq!(
        (lab.names(), image_of(&name)),
        (vec!["1".to_owned()], image(&slow))
    );
    let done = life(&name);
    patient.run(&["retry", &name]).ended(0);
    assert_eq!(life(&name), done, "nothing is left to do");
}
