//! Replacements that fail: the old one is as it was, and the reason is reported.

use kit::lab::{CRASHES, FLAPS, Lab, NEVER_HEALTHY, V1, V2, docker, image, image_of, life};

/// Runs `once` towards an image that is no good, twice, with these times for its health; the delegate must not notice.
fn rejected(test: &str, version: &str, (healthy, deadline): (&str, &str), words: &str) {
    let lab = Lab::new(test);
    let name = lab.delegate("1", V1, &["--restart", "unless-stopped"]);
    let before = life(&name);
    let upgrader = lab.upgrader(version);
    let upgrader = upgrader
        .with("HEALTHY_TIME", healthy)
        .with("HEALTHY_DEADLINE", deadline);
    let run = upgrader.run(&["once"]);
    assert_eq!(run.code, Some(1), "{}", run.text);
    assert!(run.text.contains(words), "{words:?} is not in:\n{}", run.text);
    assert!(
        run.text.contains(" log: "),
        "its last words are not in:\n{}",
        run.text
    );
    assert_eq!(life(&name), before, "the old one was touched");
    assert_eq!(lab.names(), ["1", "1.failed-1"]);
    let evidence = life(&format!("{name}.failed-1"));
    assert_eq!(
        (evidence.2, evidence.3.as_str()),
        (false, "no"),
        "evidence is kept stopped"
    );
    let again = upgrader.run(&["once"]);
    assert_eq!(again.code, Some(1));
    assert!(again.text.contains("next attempt after"), "{}", again.text);
    assert_eq!(life(&name), before);
    assert_eq!(lab.names(), ["1", "1.failed-1"]);
    let better = lab.upgrader(V2).run(&["once"]);
    assert_eq!(
        better.code,
        Some(0),
        "another image lifts the quarantine:\n{}",
        better.text
    );
    assert_eq!((lab.names(), image_of(&name)), (vec!["1".to_owned()], image(V2)));
}

#[test]
fn a_candidate_that_crashes_is_rejected() {
    // Its third crash comes long before the deadline.
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

#[test]
fn a_candidate_that_flaps_is_rejected() {
    // In five seconds it has one unhealthy turn of two at least.
    let words = "not healthy for 5s without a break within 16s";
    rejected("flaps", FLAPS, ("5s", "16s"), words);
}

#[test]
fn a_pull_that_fails_changes_nothing() {
    let lab = Lab::new("pull");
    let name = lab.delegate("1", V1, &[]);
    let before = life(&name);
    let run = lab.upgrader("26.99.1").run(&["once"]);
    assert_eq!(run.code, Some(1), "{}", run.text);
    assert!(run.text.contains("cannot pull "), "{}", run.text);
    assert!(
        run.text.contains("not found"),
        "the registry's words are missing:\n{}",
        run.text
    );
    assert_eq!((life(&name), lab.names()), (before, vec!["1".to_owned()]));
}

#[test]
fn a_registry_that_is_away_changes_nothing() {
    let lab = Lab::new("registry-away");
    let name = lab.delegate("1", V1, &[]);
    let before = life(&name);
    let run = lab
        .upgrader(V1)
        .with("PUBLISHED_IMAGE", "127.0.0.1:9/harness/delegate:26.02.1")
        .run(&["once"]);
    assert_eq!(run.code, Some(1), "{}", run.text);
    assert!(run.text.contains("connection refused"), "{}", run.text);
    assert_eq!((life(&name), lab.names()), (before, vec!["1".to_owned()]));
}

#[test]
fn stop_first_restores_the_old_one_itself() {
    let lab = Lab::new("restore");
    let name = lab.delegate(
        "1",
        V1,
        &["--publish", "127.0.0.1:43463:3460", "--restart", "always"],
    );
    let before = life(&name);
    let run = lab.upgrader(CRASHES).run(&["once"]);
    assert_eq!(run.code, Some(1), "{}", run.text);
    let after = life(&name);
    assert_eq!(
        (&after.0, after.2, &after.3),
        (&before.0, true, &before.3),
        "{}",
        run.text
    );
    assert_eq!(lab.names(), ["1", "1.failed-1"]);
}

#[test]
fn a_canary_that_fails_halts_the_other_replicas() {
    let lab = Lab::new("canary");
    let names = ["1", "2"].map(|suffix| lab.delegate(suffix, V1, &[]));
    let before = names.clone().map(|name| life(&name));
    let run = lab.upgrader(CRASHES).run(&["once"]);
    assert_eq!(run.code, Some(1), "{}", run.text);
    assert!(run.text.contains("halted"), "{}", run.text);
    assert_eq!(names.map(|name| life(&name)), before);
    assert_eq!(lab.names(), ["1", "1.failed-1", "2"]);
}

#[test]
fn a_taken_name_is_reported_and_left_alone() {
    let lab = Lab::new("taken");
    let name = lab.delegate("1", V1, &[]);
    let squatter = lab.container("1.candidate", &[&image(V1)]);
    let before = (life(&name), life(&squatter));
    let run = lab.upgrader(V2).run(&["once"]);
    assert_eq!(run.code, Some(1), "{}", run.text);
    assert!(
        run.text.contains("1.candidate, which the new container needs"),
        "{}",
        run.text
    );
    assert_eq!((life(&name), life(&squatter)), before);
}

#[test]
fn a_custom_image_is_never_replaced_by_the_stock_one() {
    let lab = Lab::new("custom");
    let custom = format!("{}-custom:1.2.3", lab.name);
    docker(&["tag", &image(V1), &custom]);
    let variable = format!("DELEGATE_NAME={}", lab.name);
    let name = lab.container("1", &["--env", &variable, &custom]);
    let before = life(&name);
    let run = lab
        .upgrader(V2)
        .with("PUBLISHED_IMAGE", "harness/delegate:26.02.10002")
        .run(&["once"]);
    assert_eq!(run.code, Some(0), "{}", run.text);
    assert!(
        run.text.contains("IMAGE_REPOSITORY"),
        "the reason says what to set:\n{}",
        run.text
    );
    assert_eq!(life(&name), before);
    docker(&["rmi", &custom]);
}

#[test]
fn wrong_settings_are_reported_all_at_once_and_nothing_is_done() {
    let lab = Lab::new("settings-wrong");
    let name = lab.delegate("1", V1, &[]);
    let before = life(&name);
    let run = lab
        .upgrader(V2)
        .without("PUBLISHED_IMAGE")
        .with("SCHEDULE", "every hour")
        .with("UPGRADER_TOKEN", "5up3rs3cr3t")
        .with("HEALTHY_TIME", "soon")
        .run(&["once"]);
    assert_eq!(run.code, Some(78), "{}", run.text);
    for variable in [
        "SCHEDULE",
        "UPGRADER_TOKEN",
        "HEALTHY_TIME",
        "ACCOUNT_ID",
        "MANAGER_HOST_AND_PORT",
    ] {
        assert!(
            run.text.contains(variable),
            "{variable} is not told:\n{}",
            run.text
        );
    }
    assert!(!run.text.contains("5up3rs3cr3t"), "{}", run.text);
    assert_eq!(life(&name), before);
}

#[test]
fn an_engine_that_is_away_is_exit_69() {
    let lab = Lab::new("no-engine");
    let away = lab
        .upgrader(V2)
        .with("DOCKER_HOST", "unix:///nonexistent/docker.sock");
    for command in ["once", "plan"] {
        let run = away.run(&[command]);
        assert_eq!(run.code, Some(69), "{command}: {}", run.text);
        assert!(
            run.text.contains("/nonexistent/docker.sock"),
            "the socket is named:\n{}",
            run.text
        );
    }
}

#[test]
fn a_wrong_workload_name_is_reported() {
    let lab = Lab::new("nobody");
    let run = lab.upgrader(V2).run(&["once"]);
    assert_eq!(run.code, Some(0), "{}", run.text);
    let words = format!("no container on this host has DELEGATE_NAME={}", lab.name);
    assert!(run.text.contains(&words), "{}", run.text);
}
