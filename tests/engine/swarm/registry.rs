//! The registry's answers before anything is changed.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use kit::lab::{V1, V2, docker, env, expect, image, project, static_binary};
use serde_json::{Value, json};

use super::Service;
use crate::private_registry::{PASSWORD, PrivateRegistry};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// Asks the registry; returns the digest that it names and the length of the body.
fn ask(method: &str, tag: &str, media_type: &str, body: &str) -> (String, usize) {
    let mut registry = TcpStream::connect(env("LAB_REGISTRY")).expect("the registry");
    let length = body.len();
    let request = format!(
        "{method} /v2/harness/delegate/manifests/{tag} HTTP/1.0\r\nAccept: {media_type}\r\n\
         Content-Type: {media_type}\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    registry.write_all(request.as_bytes()).expect("a request");
    let mut answer = String::new();
    registry.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer with a head");
    let digest = head
        .lines()
        .find_map(|line| line.strip_prefix("Docker-Content-Digest: "));
    (
        digest.unwrap_or_else(|| panic!("{answer}")).to_owned(),
        body.len(),
    )
}

/// Publishes an index of these manifests, each with its platform; returns its digest.
fn publish_index(tag: &str, manifests: &[(&str, &str, &str)]) -> String {
    let listed = manifests.iter().map(|(version, os, architecture)| {
        let (digest, size) = ask("GET", version, MANIFEST, "");
        json!({
            "mediaType": MANIFEST, "digest": digest, "size": size,
            "platform": { "os": os, "architecture": architecture },
        })
    });
    let listed: Vec<Value> = listed.collect();
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": listed });
    ask("PUT", tag, INDEX, &index.to_string()).0
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn an_image_that_the_registry_does_not_have_changes_nothing() {
    let service = Service::new("swarm-absent", &[]);
    let version = service.document()["Version"].clone();
    let run = service.run("26.99.1", &["once"]).ended(1);
    run.says("digest_unknown");
    assert_eq!(service.document()["Version"], version);
    assert_eq!(service.running(), [image(V1), image(V1)]);
}

/// As builders create it: an attestation is listed beside the image, with an unknown platform.
#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn an_index_is_pinned_by_its_own_digest() {
    let service = Service::new("swarm-index", &[]);
    let manifests = [
        (V1, "unknown", "unknown"),
        (V2, "linux", "amd64"),
        (V1, "linux", "arm64"),
    ];
    let digest = publish_index("26.02.20002", &manifests);
    service.run("26.02.20002", &["once"]).ended(0);
    assert_eq!(service.image(), format!("{}@{digest}", image("26.02.20002")));
    let run = service.run("26.02.20002", &["once"]);
    run.says("runs the published image");
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn an_index_that_lacks_the_platform_of_a_node_changes_nothing() {
    let service = Service::new("swarm-platform", &[]);
    publish_index(
        "26.02.20003",
        &[(V2, "linux", "s390x"), (V1, "unknown", "unknown")],
    );
    let version = service.document()["Version"].clone();
    let run = service.run("26.02.20003", &["once"]).ended(1);
    run.says("reason=\"wrong_platform\"");
    assert_eq!(service.document()["Version"], version);
}

/// Swarm would recreate all tasks for such an update.
#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn same_image_under_another_tag_is_not_an_update() {
    let service = Service::new("swarm-same", &[]);
    let other = image("26.01.10009");
    docker(&["tag", &image(V1), &other]);
    docker(&["push", "--quiet", &other]);
    let version = service.document()["Version"].clone();
    let run = service.run("26.01.10009", &["once"]).ended(0);
    run.says("reason=\"same_image\"");
    assert_eq!(service.document()["Version"], version);
}

/// The registry has the manifest, but a blob is gone: each task says that the image does not exist.
#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn an_image_that_no_node_can_pull_is_rolled_back_and_reported() {
    let service = Service::new("swarm-no-layers", &[]);
    let before = service.image();
    let tag = "26.02.20004";
    let mut build = std::process::Command::new(project().join("tests/lab/images"));
    expect(build.arg(static_binary("delegate")).arg(tag));
    let (digest, _) = ask("GET", tag, MANIFEST, "");
    let config = docker(&["inspect", "--format", "{{.Id}}", &image(tag)]);
    docker(&["image", "rm", &image(tag)]);
    let hash = config.trim_start_matches("sha256:");
    let blobs = format!("{}/registry/docker/registry/v2/blobs/sha256", env("LAB_DIR"));
    std::fs::remove_dir_all(format!("{blobs}/{}/{hash}", &hash[..2]))
        .expect("the blob of the image's configuration");
    service.run(tag, &["once"]).ended(1);
    assert_eq!(service.image(), before);
    assert_eq!(
        service.label("failed-image"),
        Some(format!("{}@{digest}", image(tag)))
    );
    let cause = service.label("failed-cause").unwrap();
    assert!(cause.contains("No such image"), "{cause}");
}

/// The node itself has no login, so it pulls with the one that comes with the update.
#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn a_registry_that_wants_a_login_gets_it_with_the_update() {
    let service = Service::new("swarm-login", &[]);
    let registry = PrivateRegistry::start(false);
    let published = registry.publish(V2);
    let upgrader = service.upgrader(V2).with("PUBLISHED_IMAGE", &published);
    let run = upgrader.run(&["once"]).ended(1);
    run.says("REGISTRY_USERNAME");
    assert_eq!(service.running(), [image(V1), image(V1)]);
    let login = registry.with_auth("login");
    let run = upgrader
        .with("DOCKER_CONFIG", &login.to_string_lossy())
        .run(&["once"])
        .ended(0);
    let pinned = format!("{published}@sha256:");
    assert!(service.image().starts_with(&pinned), "{}", service.image());
    assert_eq!(service.running(), [published.as_str(), published.as_str()]);
    let document = service.document().to_string();
    assert!(
        !document.contains(PASSWORD) && !run.text.contains(PASSWORD),
        "{}",
        run.text
    );
}
