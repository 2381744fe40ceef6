//! Replacements that fail: the old container stays as it was, and the reason is reported.

use kit::lab::{CRASHES, Lab, NEVER_HEALTHY, V1, V2, build, docker, image, image_of, life};

/// Runs `once` twice towards a bad image, with these times for its health; the delegate is not touched.
fn rejected(test: &str, version: &str, (healthy, deadline): (&str, &str), words: &str) {
    let lab = Lab::new(test);
    let name = lab.delegate("1", V1, &["--restart", "unless-stopped"]);
    let before = life(&name);
    let upgrader = lab.upgrader(version);
    let upgrader = upgrader
        .with("UPGRADE_HEALTHY_TIME", healthy)
        .with("UPGRADE_HEALTHY_DEADLINE", deadline);
    let run = upgrader.run(&["once"]).ended(1);
    run.says(words);
    assert_eq!(life(&name), before, "the old one was touched");
    assert_eq!(lab.names(), ["1", "1.failed-1"]);
    let evidence = life(&format!("{name}.failed-1"));
    assert_eq!(
        (evidence.2, evidence.3.as_str()),
        (false, "no"),
        "evidence is kept stopped"
    );
    let again = upgrader.run(&["once"]).ended(1);
    again.says("next attempt after");
    let doctor = upgrader.run(&["doctor"]).ended(0);
    let is_warned_of = |line: &str| line.starts_with("warn") && line.contains("next attempt after");
    assert!(doctor.text.lines().any(is_warned_of), "{}", doctor.text);
    assert_eq!(life(&name), before);
    assert_eq!(lab.names(), ["1", "1.failed-1"]);
    lab.upgrader(V2).run(&["once"]).ended(0);
    assert_eq!((lab.names(), image_of(&name)), (vec!["1".to_owned()], image(V2)));
}

#[test]
fn a_candidate_that_crashes_is_rejected() {
    // The third crash comes long before the deadline.
    rejected("crashes", CRASHES, ("2s", "60s"), "keeps crashing");
}

#[test]
fn a_candidate_that_never_gets_healthy_is_rejected() {
    rejected(
        "never-healthy",
        NEVER_HEALTHY,
        ("2s", "6s"),
        "not healthy for 2s without a break within 6s",
    );
}

/// The delegate's image with further lines, pushed under a tag that only this test uses.
pub(super) fn push_image(lab: &Lab, number: usize, lines: &str) -> String {
    let version = format!("26.08.{}{number}", std::process::id());
    let reference = image(&version);
    let context = tempfile::tempdir().expect("a directory for an image");
    std::fs::write(context.path().join("plain"), "text\n").expect("a file");
    let dockerfile = format!("FROM {}\nLABEL of={}\n{lines}\n", image(V1), lab.name);
    build(&reference, &dockerfile, context.path(), &[]);
    docker(&["push", "--quiet", &reference]);
    version
}

#[test]
fn image_that_cannot_be_started_is_rejected_with_its_cause() {
    for (number, (lines, words)) in [
        (
            "ENTRYPOINT [\"/nonexistent\"]",
            "Docker could not start it: its entrypoint does not exist in the image: ",
        ),
        (
            "COPY plain /plain\nENTRYPOINT [\"/plain\"]",
            "Docker could not start it: its entrypoint is not executable: ",
        ),
        (
            "USER nobody-here",
            "Docker could not start it: its user does not exist in the image: ",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let lab = Lab::new(&format!("refused-{number}"));
        let version = push_image(&lab, number, lines);
        let name = lab.delegate("1", V1, &[]);
        let before = life(&name);
        let run = lab.upgrader(&version).run(&["once"]).ended(1);
        run.says(words);
        assert_eq!(life(&name), before, "{}", run.text);
        assert_eq!(lab.names(), ["1", "1.failed-1"], "{}", run.text);
    }
}

/// The delegate in service holds the last free address, so a second container cannot get one.
#[test]
fn a_delegate_with_its_networks_last_address_is_replaced_stop_first() {
    let lab = Lab::new("no-address");
    let network = format!("{}-tiny", lab.name);
    let subnet = "10.231.77.0/30";
    docker(&[
        "network",
        "create",
        "--label",
        &lab.label(),
        "--subnet",
        subnet,
        &network,
    ]);
    let name = lab.delegate("1", V1, &["--network", &network]);
    let run = lab.upgrader(V2).run(&["once"]).ended(0);
    run.says("no available IPv4 addresses");
    assert_eq!((image_of(&name), lab.names()), (image(V2), vec!["1".to_owned()]));
    docker(&["rm", "--force", &name]);
}

#[test]
fn delegate_whose_bind_mount_is_gone_is_left_alone() {
    let lab = Lab::new("no-source");
    let source = tempfile::tempdir().expect("a directory");
    let mount = format!("type=bind,source={},target=/shared", source.path().display());
    let name = lab.delegate("1", V1, &["--mount", &mount]);
    let before = life(&name);
    drop(source);
    let run = lab.upgrader(V2).run(&["once"]).ended(1);
    run.says("bind source path does not exist");
    assert_eq!((life(&name), lab.names()), (before, vec!["1".to_owned()]));
}

#[test]
fn a_pull_that_fails_changes_nothing() {
    let lab = Lab::new("pull");
    let name = lab.delegate("1", V1, &[]);
    let before = life(&name);
    let run = lab.upgrader("26.99.1").run(&["once"]).ended(1);
    run.says("cannot pull ");
    run.says("not found");
    assert_eq!((life(&name), lab.names()), (before, vec!["1".to_owned()]));
}

#[test]
fn a_canary_that_fails_halts_the_other_replicas() {
    let lab = Lab::new("canary");
    let names = ["1", "2"].map(|suffix| lab.delegate(suffix, V1, &[]));
    let before = names.clone().map(|name| life(&name));
    let run = lab.upgrader(CRASHES).run(&["once"]).ended(1);
    run.says("halted");
    assert_eq!(names.map(|name| life(&name)), before);
    // The one whose health endpoint answers later is tried later.
    let tried = [["1", "1.failed-1", "2"], ["1", "2", "2.failed-1"]];
    assert!(
        tried.iter().any(|names| lab.names() == *names),
        "{:?}",
        lab.names()
    );
}

#[test]
fn reports_a_name_conflict_and_touches_neither_container() {
    let lab = Lab::new("taken");
    let name = lab.delegate("1", V1, &[]);
    let squatter = lab.container("1.candidate", &[&image(V1)]);
    let before = (life(&name), life(&squatter));
    let run = lab.upgrader(V2).run(&["once"]).ended(1);
    run.says("1.candidate, which the new container needs");
    assert_eq!((life(&name), life(&squatter)), before);
}

#[test]
fn an_unavailable_engine_exits_with_69() {
    let lab = Lab::new("no-engine");
    let away = lab
        .upgrader(V2)
        .with("DOCKER_HOST", "unix:///nonexistent/docker.sock");
    for command in ["once", "plan"] {
        let run = away.run(&[command]).ended(69);
        run.says("/nonexistent/docker.sock");
    }
}

#[test]
fn a_wrong_workload_name_is_reported() {
    let lab = Lab::new("nobody");
    let run = lab.upgrader(V2).run(&["once"]).ended(0);
    let words = format!("no container on this host has DELEGATE_NAME={}", lab.name);
    run.says(&words);
}
