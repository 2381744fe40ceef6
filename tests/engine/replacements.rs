//! Replacements that succeed.

use kit::lab::{
    CRASHES, Lab, PATIENCE, V1, V2, WITH_HEALTHCHECK, docker, eventually, follow, image, image_of, inspect,
    life,
};

#[test]
fn start_first_replaces_a_delegate_and_lets_the_old_one_finish() {
    let lab = Lab::new("start-first");
    let name = lab.delegate("1", V1, &["--env", "DRAIN_SECONDS=4", "--restart", "always"]);
    let old = follow(&name);
    let before = life(&name);
    lab.upgrader(V2).run(&["once"]).ended(0);
    assert_eq!(lab.names(), ["1"]);
    assert_eq!(image_of(&name), image(V2));
    let after = life(&name);
    assert_ne!(before.0, after.0);
    assert_eq!((after.2, after.3.as_str()), (true, "always"));
    assert!(
        old.end().contains("drained in full"),
        "the old one was not given its time"
    );
    lab.upgrader(V2).run(&["once"]).ended(0);
    assert_eq!(life(&name), after, "a second pass finds nothing to do");
}

#[test]
fn the_images_own_healthcheck_decides_if_it_has_one() {
    let lab = Lab::new("healthcheck");
    let name = lab.delegate("1", V1, &[]);
    let run = lab.upgrader(WITH_HEALTHCHECK).run(&["once"]).ended(0);
    assert_eq!(image_of(&name), image(WITH_HEALTHCHECK));
    run.says("its HEALTHCHECK passes");
}

#[test]
fn replaces_delegate_with_published_port_stop_first() {
    let lab = Lab::new("port");
    let name = lab.delegate(
        "1",
        V1,
        &["--publish", "127.0.0.1:43461:3460", "--restart", "unless-stopped"],
    );
    let plan = lab.upgrader(V2).run(&["plan"]);
    assert!(
        plan.text.contains("stop-first") && plan.text.contains("43461"),
        "{}",
        plan.text
    );
    lab.upgrader(V2).run(&["once"]).ended(0);
    assert_eq!(lab.names(), ["1"]);
    assert_eq!(image_of(&name), image(V2));
    let (_, _, running, policy) = life(&name);
    assert_eq!((running, policy.as_str()), (true, "unless-stopped"));
    assert!(docker(&["port", &name]).contains("127.0.0.1:43461"));
}

#[test]
fn a_host_network_delegate_is_replaced_stop_first() {
    let lab = Lab::new("host-network");
    // An engine that maps users shares the host's network only with containers that are exempt from the mapping.
    let options = ["--network", "host", "--userns", "host", "--env", "PORT=43462"];
    let name = lab.delegate("1", V1, &options);
    let run = lab
        .upgrader(V2)
        .with("HEALTH_PORT", "43462")
        .run(&["once"])
        .ended(0);
    run.says("stop-first");
    assert_eq!(lab.names(), ["1"]);
    assert_eq!(image_of(&name), image(V2));
    let host = &inspect(&name)["HostConfig"];
    assert_eq!(host["NetworkMode"], "host");
    assert_eq!(host["UsernsMode"], "host");
}

#[test]
fn upgrades_replicas_one_at_a_time_and_ignores_other_containers() {
    let lab = Lab::new("replicas");
    let first = lab.delegate("1", V1, &[]);
    let second = lab.delegate("2", V1, &[]);
    let other = format!("DELEGATE_NAME={}-other", lab.name);
    let other = lab.container("other", &["--env", &other, &image(V1)]);
    let foreign = lab.container("foreign", &[&image(V1)]);
    let opted_out = lab.delegate("3", V1, &["--label", "io.delegate-upgrader.enable=false"]);
    let stopped = lab.delegate("4", V1, &[]);
    docker(&["stop", &stopped]);
    let untouched = [&other, &foreign, &opted_out, &stopped].map(|name| life(name));
    let run = lab.upgrader(V2).run(&["once"]).ended(0);
    for name in [&first, &second] {
        assert_eq!(image_of(name), image(V2));
    }
    assert_eq!(
        [&other, &foreign, &opted_out, &stopped].map(|name| life(name)),
        untouched
    );
    let promoted =
        [&first, &second].map(|name| run.text.find(&format!("to {name} ")).expect("its promotion"));
    let created = run.text.rfind("creating the candidate").expect("a candidate");
    assert!(
        *promoted.iter().min().expect("two") < created,
        "one waits for the other:\n{}",
        run.text
    );
    assert_eq!(lab.names(), ["1", "2", "3", "4", "foreign", "other"]);
}

/// The engine refuses to rename a container that is between two lives.
#[test]
fn a_delegate_that_keeps_crashing_is_replaced() {
    let lab = Lab::new("crashing");
    let name = lab.delegate("1", CRASHES, &["--restart", "always"]);
    eventually("it is between two lives", PATIENCE, || {
        let container = inspect(&name);
        container["State"]["Restarting"] == true && container["RestartCount"].as_u64() >= Some(5)
    });
    let run = lab.upgrader(V2).run(&["once"]).ended(0);
    // It may end between an observation and the following rename, but not every time.
    let refused = run.text.matches("engine call failed").count();
    assert!(refused <= 2, "{}", run.text);
    assert_eq!((lab.names(), image_of(&name)), (vec!["1".to_owned()], image(V2)));
    assert_eq!(life(&name).3, "always");
}

#[test]
fn debug_level_logs_every_call_but_no_secrets() {
    const TOKEN: &str = "00112233445566778899aabbccddeeff";
    let lab = Lab::new("debug");
    let name = lab.delegate("1", V1, &["--env", &format!("DELEGATE_TOKEN={TOKEN}")]);
    let run = lab.upgrader(V2).with("LOG_LEVEL", "debug").run(&["once"]);
    assert_eq!((run.code, image_of(&name)), (Some(0), image(V2)), "{}", run.text);
    for call in [
        &["GET /v", "/containers/json"],
        &["GET /v", "/containers/", "/json"],
        &["GET /v", "/images/", "/json"],
        &["POST /v", "/images/create?fromImage="],
        &["POST /v", "/containers/create?name="],
        &["POST /containers/", "/start"],
        &["POST /containers/", "/rename?name="],
        &["POST /containers/", "/stop?t="],
        &["DELETE /containers/"],
    ] as [&[&str]; 9]
    {
        let is_logged = |line: &str| {
            line.contains("engine call=\"")
                && line.contains(" ms=")
                && call.iter().all(|part| line.contains(part))
        };
        assert!(
            run.text.lines().any(is_logged),
            "{call:?} is not in:\n{}",
            run.text
        );
    }
    run.says("decision=\"create\"");
    run.never_says(TOKEN);
}

/// A sidecar in the delegate's network would lose it with the old container.
#[test]
fn a_delegate_with_a_sidecar_in_its_network_is_left_alone() {
    let lab = Lab::new("sidecar");
    let name = lab.delegate("1", V1, &[]);
    let network = format!("container:{name}");
    // They share one network, so the sidecar needs another port.
    let sidecar = lab.container(
        "sidecar",
        &["--network", &network, "--env", "PORT=3461", &image(V1)],
    );
    let run = lab.upgrader(V2).run(&["once"]).ended(1);
    let why = format!("container {sidecar} shares its network and would lose it");
    run.says(&why);
    assert_eq!(image_of(&name), image(V1));
}
