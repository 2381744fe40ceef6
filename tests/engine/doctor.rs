//! `doctor` with a real engine, registry and local Manager. Each line is one check; a failed one says what to do.

use chrono::{TimeDelta, Utc};
use serde_json::{Value, json};

use crate::proxy::Proxy;
use kit::lab::servers::{REVOKED, Server, TOKEN, asking, manager, publish, set_answer};
use kit::lab::{Lab, Run, Upgrader, V1, V2, build, docker, env, image, inspect, static_binary};

/// The lines of the output: severity, subject and message. Leaves out the lines about support: the lab's images have none.
fn lines(run: &Run) -> Vec<(&str, &str, &str)> {
    run.text
        .lines()
        .map(|line| {
            let (severity, rest) = line.split_once(' ').expect("a severity");
            let (subject, message) = rest.trim_start().split_once(' ').expect("a subject");
            (severity, subject, message.trim_start())
        })
        .filter(|(_, subject, _)| *subject != "support")
        .collect()
}

/// The lines that are not `ok`.
fn not_ok(run: &Run) -> Vec<(&str, &str, &str)> {
    let mut lines = lines(run);
    lines.retain(|(severity, ..)| *severity != "ok");
    lines
}

/// Exactly one check fails, on this subject, with these words in its message.
fn assert_only_failure(run: &Run, subject: &str, words: &[&str]) {
    assert_eq!(run.code, Some(1), "{}", run.text);
    let found = not_ok(run);
    assert!(
        matches!(found[..], [("FAIL", found, _)] if found == subject),
        "only {subject} should fail:\n{}",
        run.text
    );
    for word in words {
        assert!(found[0].2.contains(word), "{word:?} is not in:\n{}", run.text);
    }
}

fn upgrader(lab: &Lab, manager: &Server) -> Upgrader {
    asking(lab, &manager.url())
}

#[test]
fn doctor_finds_nothing_wrong_and_is_not_counted_as_an_upgrader() {
    let lab = Lab::new("doctor-well");
    let (old, new) = (
        lab.delegate("1", V1, &["--env", "CANARY=kept"]),
        lab.delegate("2", V2, &[]),
    );
    let before = ([inspect(&old), inspect(&new)], lab.names());
    let manager = manager(V2);
    let upgrader = upgrader(&lab, &manager);
    let run = upgrader.run(&["doctor"]).ended(0);
    let (v1, v2) = (image(V1), image(V2));
    let (old_target, new_target) = (
        format!("runs {v1}, its target is {v2}"),
        format!("runs the published image {v2}"),
    );
    let (published, registry) = (
        format!("reachable, token accepted; published image: {v2}"),
        format!("it has {v2}, for {old}"),
    );
    for expected in [
        ("configuration", "all settings are valid"),
        ("delegates", &format!("{old}, {new}")),
        (old.as_str(), &old_target),
        (new.as_str(), &new_target),
        ("manager", &published),
        ("clock", "this host's clock and the Manager's agree"),
        ("registry", &registry),
    ] {
        let (subject, message) = expected;
        assert!(
            lines(&run).contains(&("ok", subject, message)),
            "{subject}: {message} is not in:\n{}",
            run.text
        );
    }
    for (subject, words) in [
        ("engine", format!("linux/amd64, at {}", env("DOCKER_HOST"))),
        ("permissions", "API calls are permitted".to_owned()),
        ("disk", "iB free for images".to_owned()),
    ] {
        let is_it = |(severity, found, message): &(&str, &str, &str)| {
            *severity == "ok" && *found == subject && message.contains(&words)
        };
        assert!(lines(&run).iter().any(is_it), "{subject}: {words}:\n{}", run.text);
    }
    assert_eq!(lines(&run).len(), 10, "{}", run.text);

    let as_json = upgrader.run(&["doctor", "--json"]).ended(0);
    let found: Vec<Value> = serde_json::from_str(&as_json.text).expect("a list in JSON");
    let checks: Vec<(&str, &str)> = found
        .iter()
        .map(|line| {
            (
                line["severity"].as_str().expect("a severity"),
                line["subject"].as_str().expect("a subject"),
            )
        })
        .filter(|(_, subject)| *subject != "support")
        .collect();
    let same: Vec<(&str, &str)> = lines(&run)
        .into_iter()
        .map(|(severity, subject, _)| (severity, subject))
        .collect();
    assert_eq!(checks, same);

    let asked = manager.read("output");
    assert!(asked.contains(" delegate "), "{asked}");
    assert!(
        !asked.contains("delegate-v2"),
        "the Manager's UI would show AUTO UPGRADE ON:\n{asked}"
    );
    assert!(!run.text.contains(TOKEN) && !as_json.text.contains(TOKEN));
    assert_eq!(([inspect(&old), inspect(&new)], lab.names()), before);
}

#[test]
fn doctor_says_what_to_do_about_the_manager_and_never_prints_the_token() {
    let lab = Lab::new("doctor-manager");
    lab.delegate("1", V1, &[]);
    let manager = manager(V2);
    let base = upgrader(&lab, &manager);
    let unknown = "ffffffffffffffffffffffffffffffff";
    for (variable, value, words) in [
        (
            "UPGRADER_TOKEN",
            unknown,
            "set UPGRADER_TOKEN to a delegate token of this ACCOUNT_ID",
        ),
        (
            "UPGRADER_TOKEN",
            REVOKED,
            "set UPGRADER_TOKEN to a valid delegate token",
        ),
        ("ACCOUNT_ID", "somebody-else", "check ACCOUNT_ID"),
        (
            "MANAGER_HOST_AND_PORT",
            "http://127.0.0.1:9",
            "check MANAGER_HOST_AND_PORT",
        ),
    ] {
        let upgrader = base.clone().with(variable, value).with("LOG_LEVEL", "trace");
        for run in [upgrader.run(&["doctor"]), upgrader.run(&["doctor", "--json"])] {
            assert_eq!(run.code, Some(1), "{}", run.text);
            for secret in [TOKEN, REVOKED, unknown] {
                run.never_says(secret);
            }
            run.says(words);
            if !run.text.starts_with('[') {
                assert_only_failure(&run, "manager", &[words]);
            }
        }
    }
    let asked = manager.read("output");
    assert!(!asked.contains("delegate-v2"), "{asked}");
}

#[test]
fn doctor_reports_the_clock_skew() {
    let lab = Lab::new("doctor-clock");
    lab.delegate("1", V1, &[]);
    let manager = manager(V2);
    let answers = |fault| set_answer(&manager, &fault);
    let upgrader = upgrader(&lab, &manager);
    // Half a minute more than the message says, so that the test may take its time.
    for (ahead, words) in [
        (TimeDelta::seconds(7_410), "is 2h3m behind the Manager's"),
        (TimeDelta::seconds(-7_350), "is 2h2m ahead of the Manager's"),
    ] {
        let answer = json!({
            "metaData": {}, "resource": { "imageTag": image(V2), "shouldUpgrade": true }, "responseMessages": [],
        });
        let date = || (Utc::now() + ahead).format("%a, %d %b %Y %H:%M:%S GMT");
        let headers = || json!({ "Date": date().to_string() });
        answers(json!({ "status": 200, "body": answer.to_string(), "headers": headers() }));
        let run = upgrader.run(&["doctor"]);
        assert_only_failure(&run, "clock", &[words, "synchronise it (NTP)"]);
        run.says("reachable, token accepted");

        answers(json!({ "status": 401, "code": "EXPIRED_TOKEN", "headers": headers() }));
        let run = upgrader.run(&["doctor"]).ended(1);
        let found = not_ok(&run);
        assert!(
            matches!(
                found[..],
                [("FAIL", "manager", manager), ("FAIL", "clock", clock)]
                    if manager.contains(words) && clock.contains(words)
            ),
            "{}",
            run.text
        );
    }
}

#[test]
fn doctor_reports_an_image_missing_from_the_registry_or_for_its_platform() {
    let lab = Lab::new("doctor-registry");
    let name = lab.delegate("1", V1, &[]);
    let manager = manager("26.99.1");
    let upgrader = upgrader(&lab, &manager);
    let run = upgrader.run(&["doctor"]);
    let lacks = format!(
        "{} does not have {}, for {name}",
        env("LAB_REGISTRY"),
        image("26.99.1")
    );
    assert_only_failure(
        &run,
        "registry",
        &[&lacks, "push it there, or publish another image"],
    );

    publish(&manager.url(), "127.0.0.1:9/harness/delegate:26.99.1");
    let run = upgrader.run(&["doctor"]);
    assert_only_failure(&run, "registry", &["check that the engine can reach 127.0.0.1:9"]);

    let foreign = image("26.98.1");
    let context = tempfile::tempdir().expect("a directory");
    std::fs::copy(static_binary("delegate"), context.path().join("delegate")).expect("the binary");
    let platform = ["--platform", "linux/arm64"];
    build(
        &foreign,
        "FROM scratch\nCOPY delegate /\n",
        context.path(),
        &platform,
    );
    docker(&["push", "--quiet", &foreign]);
    docker(&["rmi", &foreign]);
    publish(&manager.url(), &foreign);
    let run = upgrader.run(&["doctor"]);
    let why = format!("{foreign} is built for linux/arm64, but the delegate runs on linux/amd64");
    let what = format!("{why}, for {name}: publish one for linux/amd64");
    assert_only_failure(&run, "platform", &[&what]);
    let run = upgrader.run(&["once"]);
    run.says(&why);
}

#[test]
fn doctor_reports_configuration_errors_first_and_a_dead_engine_on_one_line() {
    let lab = Lab::new("doctor-nowhere");
    let manager = manager(V2);
    let upgrader = upgrader(&lab, &manager);
    let run = upgrader
        .clone()
        .with("DOCKER_HOST", "unix:///nowhere/docker.sock")
        .run(&["doctor"]);
    assert_only_failure(
        &run,
        "engine",
        &[
            "unix:///nowhere/docker.sock: No such file",
            "check that Docker is running",
        ],
    );
    run.says("reachable, token accepted");

    let nothing = Proxy::with_rules(|_, _| false);
    let run = upgrader
        .clone()
        .with("DOCKER_HOST", &nothing.host())
        .run(&["doctor"]);
    assert_only_failure(
        &run,
        "engine",
        &["(403): 403 Forbidden By rule.", "permits the call"],
    );

    let run = upgrader.with("SCHEDULE", "never").run(&["doctor"]).ended(78);
    assert!(run.text.starts_with("SCHEDULE: "), "{}", run.text);
}

#[test]
fn doctor_names_refused_calls_and_changes_nothing() {
    let lab = Lab::new("doctor-permissions");
    let name = lab.delegate("1", V1, &[]);
    let before = (inspect(&name), lab.names());
    let refused = [
        ("POST", "/containers/create"),
        ("GET", "/info"),
        ("DELETE", "/containers/{id}"),
    ];
    let proxy = Proxy::that_allows(move |right| !refused.contains(&(right.method, right.path)));
    let run = lab
        .upgrader(V2)
        .with("DOCKER_HOST", &proxy.host())
        .run(&["doctor"])
        .ended(1);
    for words in [
        "FAIL  permissions    POST /containers/create is refused (403",
        "FAIL  permissions    DELETE /containers/{id} is refused (403",
        "warn  permissions    GET /info is refused (403",
    ] {
        run.says(words);
    }
    assert_eq!(run.text.matches("is refused").count(), 3, "{}", run.text);
    assert_eq!((inspect(&name), lab.names()), before);
}

#[test]
fn doctor_finds_the_same_delegates_as_an_upgrade() {
    let lab = Lab::new("doctor-parts");
    let name = lab.delegate("1", V1, &[]);
    let opted_out = lab.delegate("2", V1, &["--label", "io.delegate-upgrader.enable=false"]);
    let rejected = [
        format!("io.delegate-upgrader.name={name}"),
        format!("io.delegate-upgrader.replaces={}", "0123456789abcdef".repeat(4)),
        "io.delegate-upgrader.release=1".to_owned(),
    ];
    let rejected: Vec<&str> = rejected.iter().flat_map(|label| ["--label", label]).collect();
    lab.delegate("1.failed-1", V1, &rejected);
    // A container of the owner with such a name: it has none of our labels, so it is a delegate.
    let owners = lab.delegate("3.candidate", V1, &[]);
    let run = lab.upgrader(V2).run(&["doctor"]).ended(0);
    let found = lines(&run);
    for line in [
        ("ok", "delegates", format!("{name}, {opted_out}, {owners}")),
        (
            "ok",
            opted_out.as_str(),
            "its owner opted out with the label io.delegate-upgrader.enable=false".to_owned(),
        ),
        (
            "ok",
            "registry",
            format!("it has {}, for {name}, {owners}", image(V2)),
        ),
    ] {
        assert!(
            found.contains(&(line.0, line.1, &line.2)),
            "{line:?}:\n{}",
            run.text
        );
    }
    run.never_says("failed-1");
}

#[test]
fn doctor_and_plan_agree_on_delegates_and_their_obstacles() {
    let lab = Lab::new("doctor-plan");
    lab.delegate("1", V1, &[]);
    let opted_out = lab.delegate("2", V1, &["--label", "io.delegate-upgrader.enable=false"]);
    let task = lab.delegate("3", V1, &["--label", "com.docker.swarm.task.id=task"]);
    let stopped = lab.delegate("4", V1, &[]);
    docker(&["stop", &stopped]);
    let theirs = lab.delegate("5", V1, &["--env", "ACCOUNT_ID=theirs"]);
    let of_service = lab.delegate("6", V1, &["--label", "com.docker.swarm.service.name=delegates"]);
    let manager = manager(V2);
    let upgrader = upgrader(&lab, &manager);
    let pause = upgrader.run(&["pause", &of_service]).ended(2);
    pause.says("run `delegate-upgrader pause delegates` on a manager");
    let plan = upgrader.run(&["plan", "--json"]);
    let plan: Vec<Value> = serde_json::from_str(&plan.text).expect("a list");
    let names: Vec<&str> = plan
        .iter()
        .map(|row| row["container"].as_str().unwrap())
        .collect();
    let doctor = upgrader.run(&["doctor"]);
    let found = lines(&doctor);
    assert!(
        found.contains(&("ok", "delegates", &names.join(", "))),
        "{names:?}:\n{}",
        doctor.text
    );
    for (severity, name) in [
        ("ok", opted_out),
        ("FAIL", task),
        ("ok", stopped),
        ("warn", theirs),
        ("ok", of_service),
    ] {
        let row = plan.iter().find(|row| row["container"] == name).expect("a row");
        let words = row["message"].as_str().unwrap();
        assert!(
            found.contains(&(severity, &name, words)),
            "{name}, {words}:\n{}",
            doctor.text
        );
    }
}

/// A label that cannot be read keeps a delegate from the next image, also while it runs the present one.
#[test]
fn doctor_fails_for_an_invalid_label_as_plan_does() {
    let lab = Lab::new("doctor-label");
    let label = ["--label", "io.delegate-upgrader.pin=newest"];
    let (old, new) = (lab.delegate("1", V1, &label), lab.delegate("2", V2, &label));
    let manager = manager(V2);
    let upgrader = upgrader(&lab, &manager);
    let plan = upgrader.run(&["plan"]).ended(1);
    let word = "invalid_label: ";
    let (_, words) = plan.text.split_once(word).expect(&plan.text);
    let words = words.lines().next().expect("a sentence").trim_end();
    let doctor = upgrader.run(&["doctor"]).ended(1);
    let begin = "the label io.delegate-upgrader.pin=newest is not ";
    for (name, expected) in [(&old, words), (&new, begin)] {
        let is_it = |(severity, subject, message): &(&str, &str, &str)| {
            *severity == "FAIL" && subject == name && message.starts_with(expected)
        };
        assert!(
            lines(&doctor).iter().any(is_it),
            "{name}, {expected}:\n{}",
            doctor.text
        );
    }
}

/// A gate before a rollout must not pass a misspelt name, nor fail for a delegate that its owner stopped.
#[test]
fn doctor_fails_without_a_delegate_but_not_for_a_stopped_one() {
    let lab = Lab::new("doctor-none");
    let run = lab.upgrader(V2).run(&["doctor"]).ended(1);
    run.says("FAIL  delegates");
    docker(&["stop", "--time", "1", &lab.delegate("1", V1, &[])]);
    std::thread::sleep(std::time::Duration::from_secs(4));
    let impatient = lab.upgrader(V2).with("UPGRADE_HEALTHY_TIME", "1s");
    impatient
        .with("UPGRADE_HEALTHY_DEADLINE", "2s")
        .run(&["doctor"])
        .ended(0);
}

#[test]
fn a_moving_tag_requires_registry_access() {
    let lab = Lab::new("doctor-moving");
    let moving = image(&format!("moving-{}", std::process::id()));
    docker(&["tag", &image(V1), &moving]);
    docker(&["push", "--quiet", &moving]);
    let variable = format!("DELEGATE_NAME={}", lab.name);
    lab.container("1", &["--env", &variable, &moving]);
    let upgrader = lab.upgrader(V1).with("PUBLISHED_IMAGE", &moving);
    upgrader.run(&["doctor"]).ended(0);

    let blind = Proxy::that_allows(|right| right.path != "/distribution/{name}/json");
    let upgrader = upgrader.with("DOCKER_HOST", &blind.host());
    let run = upgrader.run(&["doctor"]).ended(1);
    let found = not_ok(&run);
    assert!(
        matches!(
            found[..],
            [("FAIL", "permissions", refused), ("FAIL", _, delegate)]
                if refused.starts_with("GET /distribution/{name}/json is refused")
                    && refused.ends_with("permit it in the socket proxy")
                    && delegate.contains(&moving)
        ),
        "{}",
        run.text
    );
    let once = upgrader.run(&["once"]).ended(1);
    once.says("cannot resolve the tag");
    docker(&["rm", "--force", &format!("{}-1", lab.name)]);
    docker(&["rmi", &moving]);
}

#[test]
fn doctor_warns_about_a_second_updater_of_the_same_delegates() {
    let lab = Lab::new("doctor-others");
    // A scope of its own, so that this Watchtower watches no delegate of another test.
    let scope = format!("com.centurylinklabs.watchtower.scope={}", lab.name);
    let watched = lab.delegate("1", V1, &["--label", &scope]);
    let watchtower = "com.centurylinklabs.watchtower.enable=false";
    let ours = "io.delegate-upgrader.enable=true";
    lab.delegate(
        "2",
        V1,
        &["--label", &scope, "--label", watchtower, "--label", ours],
    );
    let fork = format!("{}/watchtower:1", lab.name);
    docker(&["tag", &image(V1), &fork]);
    let scope = format!("WATCHTOWER_SCOPE={}", lab.name);
    let updater = lab.container("updater", &["--entrypoint", "/delegate", "--env", &scope, &fork]);
    let run = lab.upgrader(V2).run(&["doctor"]).ended(0);
    let warned: Vec<_> = lines(&run)
        .into_iter()
        .filter(|(_, subject, _)| *subject == "updaters")
        .collect();
    let [(severity, _, message)] = warned.as_slice() else {
        panic!("{}", run.text);
    };
    let begins = format!("Watchtower ({updater}) may also replace {watched}, and stops a container before");
    assert!(
        *severity == "warn" && message.starts_with(&begins),
        "{}",
        run.text
    );
    docker(&["stop", "--time", "1", &updater]);
    let run = lab.upgrader(V2).run(&["doctor"]);
    run.never_says("updaters");
    docker(&["rmi", "--force", &fork]);
}
