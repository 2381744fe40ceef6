//! Delegates whose image or companions are no longer what they were, or that do not run: what there is to go by, and
//! what is left alone.

use std::process::Command;

use kit::lab::{Lab, V1, V2, docker, env, expect, image, image_of, inspect, life};

/// An image of this test with one variable of its own, and no other name.
fn own_image(lab: &Lab, value: &str) -> String {
    let context = tempfile::tempdir().expect("a directory for an image");
    let dockerfile = format!("FROM {}\nENV DELEGATE_IMAGE_VERSION={value}\n", image(V1));
    std::fs::write(context.path().join("Dockerfile"), dockerfile).expect("a Dockerfile");
    let reference = format!("{}/harness/delegate:{}", env("LAB_REGISTRY"), lab.name);
    expect(
        Command::new("docker")
            .env("DOCKER_BUILDKIT", "0")
            .args(["build", "--quiet", "--tag", &reference])
            .arg(context.path()),
    );
    reference
}

#[test]
fn an_old_image_without_its_tag_is_read_by_its_id() {
    let lab = Lab::new("tag-lost");
    let tag = own_image(&lab, "of-the-old-image");
    let variable = format!("DELEGATE_NAME={}", lab.name);
    let name = lab.container("1", &["--env", &variable, &tag]);
    // The name goes to another image, and then to none.
    docker(&["tag", &image(V2), &tag]);
    docker(&["rmi", &tag]);
    let run = lab.upgrader(V2).run(&["once"]);
    assert_eq!(run.code, Some(0), "{}", run.text);
    assert_eq!(image_of(&name), image(V2));
    let found = inspect(&name)["Config"]["Env"].to_string();
    assert!(!found.contains("of-the-old-image"), "{found}");
    assert!(found.contains(V2), "{found}");
}

#[test]
fn a_delegate_of_an_image_s_id_is_left_alone() {
    let lab = Lab::new("image-id");
    let id = docker(&["inspect", "--format", "{{.Id}}", &image(V1)]);
    let variable = format!("DELEGATE_NAME={}", lab.name);
    let name = lab.container("1", &["--env", &variable, &id]);
    let before = life(&name);
    let run = lab.upgrader(V2).run(&["once"]);
    assert_eq!(run.code, Some(1), "{}", run.text);
    assert!(run.text.contains("image_not_comparable"), "{}", run.text);
    assert_eq!(life(&name), before);
}

#[test]
fn stopped_created_and_paused_delegates_are_left_alone() {
    let lab = Lab::new("not-running");
    let stopped = lab.delegate("stopped", V1, &["--restart", "always"]);
    docker(&["stop", &stopped]);
    let once = lab.delegate("once", V1, &["--restart", "on-failure"]);
    docker(&["stop", &once]);
    let paused = lab.delegate("paused", V1, &[]);
    docker(&["pause", &paused]);
    let created = format!("{}-created", lab.name);
    let (label, variable) = (lab.label(), format!("DELEGATE_NAME={}", lab.name));
    docker(&[
        "create",
        "--name",
        &created,
        "--label",
        &label,
        "--env",
        &variable,
        &image(V1),
    ]);
    let all = [&stopped, &once, &paused, &created];
    let state = || all.map(|name| (life(name), inspect(name)["State"]["Status"].clone()));
    let before = state();
    let run = lab.upgrader(V2).run(&["once"]);
    assert_eq!(run.code, Some(0), "{}", run.text);
    assert_eq!(state(), before);
    assert_eq!(lab.names(), ["created", "once", "paused", "stopped"]);
}

/// It runs on, and could never be started again: neither the successor nor the old one.
#[test]
fn a_delegate_in_a_namespace_of_a_container_that_is_gone_is_left_alone() {
    for (what, shared) in [("network", "network"), ("ipc", "IPC namespace")] {
        let lab = Lab::new(&format!("borrowed-{what}"));
        let companion = || {
            let more = ["--ipc", "shareable", "--env", "PORT=3461", &image(V1)];
            lab.container("companion", &more)
        };
        let companion_name = companion();
        let mode = format!("container:{companion_name}");
        let name = lab.delegate("1", V1, &[&format!("--{what}"), &mode]);
        // Docker keeps a network's container by its id, and that of other namespaces as it was written.
        docker(&["rm", "--force", &companion_name]);
        if what == "network" {
            companion();
        }
        let before = life(&name);
        let run = lab.upgrader(V2).run(&["once"]);
        assert_eq!(run.code, Some(1), "{}", run.text);
        assert!(
            run.text.contains(&format!("it shares the {shared} of")),
            "{}",
            run.text
        );
        assert_eq!(life(&name), before, "{}", run.text);
    }
}

#[test]
fn a_delegate_with_the_volumes_of_a_container_that_is_gone_is_left_alone() {
    let lab = Lab::new("volumes-from");
    let source = lab.container("source", &["--volume", "/shared", &image(V1)]);
    let name = lab.delegate("1", V1, &["--volumes-from", &source]);
    let volume = inspect(&name)["Mounts"][0]["Name"].clone();
    docker(&["rm", "--force", &source]);
    let before = life(&name);
    let run = lab.upgrader(V2).run(&["once"]);
    assert_eq!(run.code, Some(1), "{}", run.text);
    assert!(run.text.contains("it uses the volumes of"), "{}", run.text);
    assert_eq!(life(&name), before);
    assert_eq!(lab.names(), ["1"]);
    docker(&["rm", "--force", &name]);
    docker(&["volume", "rm", volume.as_str().expect("a volume's name")]);
}
