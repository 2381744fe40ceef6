//! Images whose records in the engine's store have changed: the same manifest under another index, a tag that was
//! pulled again, a layer in another compression. With containerd's store, an image's id is the digest of its index.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use kit::lab::{Lab, V1, V2, docker, env, image, image_of, inspect, life};
use serde_json::{Value, json};

/// Whether the lab's engine keeps its images in containerd's store.
pub(crate) fn has_containerd_store() -> bool {
    std::env::var("LAB_STORE").as_deref() == Ok("containerd")
}

/// Docker pushes either kind, depending on its store.
const MANIFEST: &str =
    "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// A repository of this test in the lab's registry.
struct Repository {
    path: String,
}

impl Repository {
    /// Creates it with these versions of the delegate.
    fn with(lab: &Lab, versions: &[&str]) -> Self {
        let repository = Self {
            path: format!("{}/harness/delegate", lab.name),
        };
        for version in versions {
            let reference = repository.reference(version);
            docker(&["tag", &image(version), &reference]);
            docker(&["push", "--quiet", &reference]);
            docker(&["rmi", &reference]);
        }
        repository
    }

    fn reference(&self, tag: &str) -> String {
        format!("{}/{}:{tag}", env("LAB_REGISTRY"), self.path)
    }

    /// Returns status, header lines and body of the registry's answer.
    fn ask(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> (u16, String, Vec<u8>) {
        let registry = env("LAB_REGISTRY");
        let path = path
            .strip_prefix(&format!("http://{registry}"))
            .map_or_else(|| format!("/v2/{}/{path}", self.path), str::to_owned);
        let mut stream = TcpStream::connect(&registry).expect("the registry");
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .expect("a limit");
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: {registry}\r\nAccept: {kind}\r\nContent-Type: {kind}\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("a request");
        stream.write_all(body).expect("a body");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        let end = answer
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .expect("headers");
        let body = answer.split_off(end + 4);
        let head = String::from_utf8_lossy(&answer).into_owned();
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|word| word.parse().ok())
            .expect("a status");
        assert!(
            status < 400,
            "{method} {path}: {head}{}",
            String::from_utf8_lossy(&body)
        );
        (status, head, body)
    }

    /// The digest and the bytes of a version's manifest.
    fn manifest(&self, tag: &str) -> (String, Vec<u8>) {
        let (_, head, body) = self.ask("GET", &format!("manifests/{tag}"), MANIFEST, b"");
        (header(&head, "docker-content-digest"), body)
    }

    /// Pushes an index of this manifest under the tag `latest`; the note makes it differ from another index.
    fn push_index(&self, manifest: &(String, Vec<u8>), note: &str) {
        let platform = json!({ "architecture": "amd64", "os": "linux" });
        let entry = json!({
            "mediaType": kind_of(&manifest.1), "digest": manifest.0, "size": manifest.1.len(), "platform": platform,
        });
        let index = json!({
            "schemaVersion": 2, "mediaType": INDEX, "manifests": [entry], "annotations": { "note": note },
        });
        self.ask("PUT", "manifests/latest", INDEX, index.to_string().as_bytes());
    }

    /// Uploads a blob and returns its digest.
    fn push_blob(&self, blob: &[u8]) -> String {
        let sum = String::from_utf8(piped("sha256sum", &[], blob)).expect("text");
        let digest = format!("sha256:{}", sum.split_whitespace().next().expect("a sum"));
        let (_, head, _) = self.ask("POST", "blobs/uploads/", "application/json", b"");
        let location = header(&head, "location");
        let and = if location.contains('?') { '&' } else { '?' };
        self.ask(
            "PUT",
            &format!("{location}{and}digest={digest}"),
            "application/octet-stream",
            blob,
        );
        digest
    }
}

/// The media type of a manifest.
fn kind_of(manifest: &[u8]) -> String {
    let manifest: Value = serde_json::from_slice(manifest).expect("a manifest");
    manifest["mediaType"].as_str().expect("a media type").to_owned()
}

fn header(head: &str, name: &str) -> String {
    let value = head.lines().find_map(|line| {
        let (key, value) = line.split_once(": ")?;
        key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    });
    value.unwrap_or_else(|| panic!("no {name} in {head}"))
}

/// The output of a program that reads these bytes.
fn piped(program: &str, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().expect("a program");
    let (mut stdin, input) = (child.stdin.take().expect("a pipe"), input.to_vec());
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("its end");
    writer.join().expect("a thread").expect("all is written");
    output.stdout
}

fn delegate(lab: &Lab, reference: &str) -> String {
    let variable = format!("DELEGATE_NAME={}", lab.name);
    docker(&["pull", "--quiet", reference]);
    lab.container("1", &["--env", &variable, reference])
}

#[test]
fn a_changed_index_with_the_same_manifest_is_not_a_new_image() {
    let lab = Lab::new("same-manifest");
    let repository = Repository::with(&lab, &[V1]);
    let manifest = repository.manifest(V1);
    let latest = repository.reference("latest");
    repository.push_index(&manifest, "one");
    let name = delegate(&lab, &latest);
    let before = life(&name);
    repository.push_index(&manifest, "two");
    for _ in 0..2 {
        let run = lab
            .upgrader(V1)
            .with("PUBLISHED_IMAGE", &latest)
            .run(&["once"])
            .ended(0);
        assert_eq!(
            (life(&name), lab.names()),
            (before.clone(), vec!["1".to_owned()]),
            "{}",
            run.text
        );
    }
}

/// On 26.1, containerd's store then has no record of the image that runs.
#[test]
fn an_image_that_a_pull_left_untagged_is_still_recognised() {
    let lab = Lab::new("moved-tag");
    let repository = Repository::with(&lab, &[V1, V2]);
    let latest = repository.reference("latest");
    repository.push_index(&repository.manifest(V1), "old");
    let name = delegate(&lab, &latest);
    let old = inspect(&name)["Image"].clone();
    repository.push_index(&repository.manifest(V2), "new");
    docker(&["pull", "--quiet", &latest]);
    let run = lab
        .upgrader(V1)
        .with("PUBLISHED_IMAGE", &latest)
        .run(&["once"])
        .ended(0);
    assert_ne!(inspect(&name)["Image"], old, "{}", run.text);
    assert_eq!((image_of(&name), lab.names()), (latest, vec!["1".to_owned()]));
}

/// Docker 28.5 to 29 then shows neither environment, nor command, nor stop signal.
#[test]
fn an_image_reported_without_configuration_pins_no_defaults() {
    if !has_containerd_store() {
        return;
    }
    let lab = Lab::new("other-gzip");
    let repository = Repository::with(&lab, &[V1, V2]);
    let mut manifest: Value = serde_json::from_slice(&repository.manifest(V1).1).expect("a manifest");
    for layer in manifest["layers"].as_array_mut().expect("layers") {
        let digest = layer["digest"].as_str().expect("a digest").to_owned();
        let (.., packed) = repository.ask("GET", &format!("blobs/{digest}"), "*/*", b"");
        let again = piped("gzip", &["-1", "-n"], &piped("gzip", &["-dc"], &packed));
        layer["size"] = json!(again.len());
        layer["digest"] = json!(repository.push_blob(&again));
    }
    let manifest = manifest.to_string();
    let reference = repository.reference("26.01.10009");
    repository.ask(
        "PUT",
        "manifests/26.01.10009",
        &kind_of(manifest.as_bytes()),
        manifest.as_bytes(),
    );
    let name = delegate(&lab, &reference);
    let image = inspect(&name)["Image"].as_str().expect("an id").to_owned();
    let shown: Value = serde_json::from_str(&docker(&["image", "inspect", &image])).expect("JSON");
    let is_known = shown[0]["Os"] == "linux";
    let before = life(&name);
    let run = lab.upgrader(V2).run(&["once"]);
    if is_known {
        assert_eq!(run.code, Some(0), "{}", run.text);
        return;
    }
    run.says("Docker shows the old image without its configuration");
    assert_eq!(
        (life(&name), lab.names()),
        (before, vec!["1".to_owned()]),
        "{}",
        run.text
    );
    assert_eq!(run.code, Some(1), "{}", run.text);
}
