//! Upgraders started by Compose or with `--rm` replace themselves on a real engine.

use std::fs;

use serde_json::Value;

use crate::compose::Project;
use crate::itself::{
    FIRST, SECOND, SHORT, Watch, build, own_port, run, runs, settings, status, upgrader_image,
};
use kit::lab::engine::engine_socket;
use kit::lab::{Lab, PATIENCE, V2, docker, eventually, image, image_of, inspect};

/// Writes the compose file of an upgrader of this version that wants to run the second version.
fn write(project: &Project, version: &str, lines: &str) {
    let variables = [
        format!("UPGRADER_WORKLOAD_NAME={}", project.lab.name),
        format!("PUBLISHED_IMAGE={}", image(V2)),
        format!("SELF_UPGRADE={}", upgrader_image(SECOND)),
    ];
    let variables: Vec<&str> = variables.iter().map(String::as_str).chain(SHORT).collect();
    let text = format!(
        "services:\n  upgrader:\n    image: {}\n    labels: ['{}']\n    restart: unless-stopped\n    \
         volumes: ['{}:/var/run/docker.sock']\n    healthcheck: {{interval: 1s}}\n    environment: {variables:?}\n{lines}",
        upgrader_image(version),
        project.lab.label(),
        engine_socket(),
    );
    fs::write(&project.file, text).expect("a compose file");
}

/// The ids of the containers that Compose takes for its own. It lists them first, and fails if one is gone when it looks at it.
fn container(project: &Project) -> String {
    let mut ids = String::new();
    eventually("Compose lists them", PATIENCE, || {
        let listed = project.command(&["ps", "--quiet", "upgrader"]).output();
        let listed = listed.expect("docker-compose");
        String::from_utf8_lossy(&listed.stdout)
            .trim()
            .clone_into(&mut ids);
        listed.status.success()
    });
    ids
}

/// Waits until the upgrader is of the second version, and alone.
fn is_replaced(project: &Project) -> String {
    eventually("it has replaced itself", PATIENCE, || {
        let all = project.all();
        let of_second = format!("ancestor={}", upgrader_image(SECOND));
        !all.contains('\n')
            && docker(&["ps", "--all", "--quiet", "--no-trunc", "--filter", &of_second]).contains(&all)
    });
    project.all()
}

fn name_of(id: &str) -> String {
    docker(&["inspect", "--format", "{{.Name}}", id])
        .trim_start_matches('/')
        .to_owned()
}

/// The labels by which Compose knows its containers.
fn labels_of_compose(document: &Value) -> Vec<(String, Value)> {
    let labels = document["Config"]["Labels"].as_object().expect("labels");
    let of_compose = labels
        .iter()
        .filter(|(name, _)| name.starts_with("com.docker.compose."));
    of_compose
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

#[test]
fn compose_still_manages_an_upgrader_that_replaced_itself() {
    let ports = own_port();
    let ports = format!("    ports: ['{}']\n", ports[1]);
    for (way, lines) in ["", &ports].into_iter().enumerate() {
        build();
        let project = Project::of(Lab::new(&format!("itself-compose-{way}")));
        write(&project, FIRST, lines);
        // Once it runs, it replaces itself.
        project.compose(&["up", "--no-start"]);
        let old = inspect(&project.all());
        project.compose(&["up", "--detach"]);
        let new = is_replaced(&project);
        assert_ne!(Value::from(new.as_str()), old["Id"]);
        assert_eq!(container(&project), new, "Compose knows it");
        let document = inspect(&new);
        assert_eq!(document["Name"], old["Name"]);
        assert_eq!(settings(&document), settings(&old));
        assert_eq!(labels_of_compose(&document), labels_of_compose(&old));
        // The file still names the old image, and so do the labels: Compose has nothing to do.
        project.compose(&["up", "--detach"]);
        assert_eq!((container(&project), project.all()), (new.clone(), new.clone()));
        project.compose(&["stop"]);
        assert_eq!(inspect(&new)["State"]["Status"], "exited");
        project.compose(&["start"]);
        eventually("it continues", PATIENCE, || {
            status(&name_of(&new))["report"]["upgrader"]["reason"] == "up_to_date" || way == 1
        });
        // A container that Compose recreates has the file's image, and replaces itself again.
        project.compose(&["up", "--no-start", "--force-recreate"]);
        let recreated = project.all();
        assert_ne!(recreated, new);
        assert_eq!(image_of(&recreated), upgrader_image(FIRST));
        project.compose(&["up", "--detach"]);
        let again = is_replaced(&project);
        // One day, the file also names the new image.
        write(&project, SECOND, lines);
        project.compose(&["up", "--detach"]);
        let by_compose = container(&project);
        assert_ne!(by_compose, again);
        assert_eq!(image_of(&by_compose), upgrader_image(SECOND));
        assert_eq!(project.all(), by_compose);
    }
}

/// The old container vanishes when it stops. Its successor is created without `--rm`, and has a label instead.
#[test]
fn upgrader_with_rm_replaces_itself_too() {
    for has_port in [false, true] {
        let lab = Lab::new(&format!("itself-rm-{has_port}"));
        let port = own_port();
        let mut arguments = vec!["--rm"];
        arguments.extend(port.iter().map(String::as_str).filter(|_| has_port));
        let upgrader = run(&lab, SECOND, &engine_socket(), &arguments);
        let before = settings(&inspect(&upgrader));
        let watch = (!has_port).then(|| Watch::begin(&lab));
        eventually("it has replaced itself", PATIENCE, || runs(&upgrader, SECOND));
        eventually("only the new one is left", PATIENCE, || {
            lab.names() == ["upgrader"]
        });
        if let Some(watch) = watch {
            watch.found_one_at_every_moment(&upgrader);
        }
        let after = inspect(&upgrader);
        assert_eq!(settings(&after), before);
        assert_eq!(after["HostConfig"]["AutoRemove"], false);
        assert_eq!(
            after["Config"]["Labels"]["io.delegate-upgrader.auto-remove"],
            "true"
        );
    }
}
