//! Delegates whose image or companions have changed or are gone, or that do not run, and which of them are left alone.

use kit::lab::{Lab, V1, V2, build, docker, env, image, image_of, inspect, life};

/// An image of this test with one variable of its own and no other name.
fn own_image(lab: &Lab, value: &str) -> String {
    let context = tempfile::tempdir().expect("a directory for an image");
    let dockerfile = format!("FROM {}\nENV DELEGATE_IMAGE_VERSION={value}\n", image(V1));
    let reference = format!("{}/harness/delegate:{}", env("LAB_REGISTRY"), lab.name);
    build(&reference, &dockerfile, context.path(), &[]);
    reference
}

#[test]
fn an_old_image_that_lost_its_tag_is_inspected_by_id() {
    let lab = Lab::new("tag-lost");
    let tag = own_image(&lab, "of-the-old-image");
    let variable = format!("DELEGATE_NAME={}", lab.name);
    let name = lab.container("1", &["--env", &variable, &tag]);
    // The tag moves to another image, and then disappears.
    docker(&["tag", &image(V2), &tag]);
    docker(&["rmi", &tag]);
    lab.upgrader(V2).run(&["once"]).ended(0);
    assert_eq!(image_of(&name), image(V2));
    let found = inspect(&name)["Config"]["Env"].to_string();
    assert!(!found.contains("of-the-old-image"), "{found}");
    assert!(found.contains(V2), "{found}");
}

#[test]
fn a_delegate_created_from_an_image_id_is_left_alone() {
    let lab = Lab::new("image-id");
    let id = docker(&["inspect", "--format", "{{.Id}}", &image(V1)]);
    let variable = format!("DELEGATE_NAME={}", lab.name);
    let name = lab.container("1", &["--env", &variable, &id]);
    let before = life(&name);
    let run = lab.upgrader(V2).run(&["once"]).ended(1);
    run.says("image_not_comparable");
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
    lab.upgrader(V2).run(&["once"]).ended(0);
    assert_eq!(state(), before);
    assert_eq!(lab.names(), ["created", "once", "paused", "stopped"]);
}

/// It still runs, but could never start again, and neither could a successor. Docker stores the container of a shared
/// network by its id, and those of other namespaces as they were written.
#[test]
fn a_delegate_sharing_with_a_removed_container_is_left_alone() {
    for (option, mode, says) in [
        ("network", "container:", "it shares the network of"),
        ("ipc", "container:", "it shares the IPC namespace of"),
        ("volumes-from", "", "it uses the volumes of"),
    ] {
        let lab = Lab::new(&format!("borrowed-{option}"));
        let companion = || {
            let more = [
                "--ipc",
                "shareable",
                "--volume",
                "/shared",
                "--env",
                "PORT=3461",
                &image(V1),
            ];
            lab.container("companion", &more)
        };
        let companion_name = companion();
        let shared = format!("{mode}{companion_name}");
        let name = lab.delegate("1", V1, &[&format!("--{option}"), &shared]);
        docker(&["rm", "--force", "--volumes", &companion_name]);
        if option == "network" {
            companion();
        }
        let before = life(&name);
        let run = lab.upgrader(V2).run(&["once"]).ended(1);
        run.says(says);
        assert_eq!(life(&name), before, "{}", run.text);
        docker(&["rm", "--force", "--volumes", &name]);
    }
}
