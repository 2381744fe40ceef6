//! A registry that requires a login.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kit::lab::servers::{Server, fixture};
use kit::lab::{Lab, V1, V2, docker, expect, image, image_of, inspect, project};

const USER: &str = "ci";
/// Its base64 in the usual alphabet contains both characters that the URL-safe alphabet lacks.
pub(crate) const PASSWORD: &str = "~>?~~>>??~+/:p w";
/// The bcrypt hash of it.
const HASHED: &str = "$2b$05$mc30WOk3OqTWuwkxmcqI6e7XvWRaMj8pg1zzJ0c90lQnIXsbrJS62";

/// Engines accept a registry on their own host without a trusted certificate.
pub(crate) struct PrivateRegistry {
    server: Server,
    /// `host:port`.
    address: String,
}

impl PrivateRegistry {
    pub(crate) fn start(has_tls: bool) -> Self {
        let server = Server::start(|directory, port| {
            let at = directory.display();
            fs::write(directory.join("htpasswd"), format!("{USER}:{HASHED}\n")).expect("htpasswd");
            let (certificate, key) = (fixture("server.pem"), fixture("server.key"));
            let tls = if has_tls {
                format!(", tls: {{certificate: '{certificate}', key: '{key}'}}")
            } else {
                String::new()
            };
            let config = format!(
                "version: 0.1\nlog: {{accesslog: {{disabled: true}}}}\nstorage: {{filesystem: {{rootdirectory: {at}/data}}}}\n\
                 auth: {{htpasswd: {{realm: lab, path: {at}/htpasswd}}}}\nhttp: {{addr: '127.0.0.1:{port}'{tls}}}\n"
            );
            let file = directory.join("registry.yml");
            fs::write(&file, config).expect("registry.yml");
            let mut command = Command::new("docker-registry");
            command.arg("serve").arg(&file);
            command
        });
        let address = server.address();
        Self { server, address }
    }

    /// A directory for `DOCKER_CONFIG` with this `config.json`.
    fn config(&self, name: &str, json: &str) -> PathBuf {
        let directory = self.server.path(name);
        fs::create_dir(&directory).expect("a directory");
        fs::write(directory.join("config.json"), json).expect("config.json");
        directory
    }

    pub(crate) fn with_auth(&self, name: &str) -> PathBuf {
        let auth = STANDARD.encode(format!("{USER}:{PASSWORD}"));
        let address = &self.address;
        self.config(
            name,
            &format!(r#"{{"auths": {{"https://{address}/v2/": {{"auth": "{auth}"}}}}}}"#),
        )
    }

    /// Pushes an image there, and removes its name from the host.
    pub(crate) fn publish(&self, version: &str) -> String {
        let name = format!("{}/harness/delegate:{version}", self.address);
        let login = self.with_auth("push");
        docker(&["tag", &image(version), &name]);
        expect(
            Command::new("docker")
                .arg("--config")
                .arg(login)
                .args(["push", "--quiet", &name]),
        );
        docker(&["rmi", &name]);
        name
    }
}

#[test]
fn a_wrong_registry_login_keeps_the_delegate_and_logs_the_fix() {
    stays_without_the_right_login("no-login", false);
}

#[test]
fn a_wrong_login_to_a_tls_registry_keeps_the_delegate() {
    stays_without_the_right_login("no-login-tls", true);
}

fn stays_without_the_right_login(test: &str, has_tls: bool) {
    let lab = Lab::new(test);
    let registry = PrivateRegistry::start(has_tls);
    let name = lab.delegate("1", V1, &[]);
    let published = registry.publish(V2);
    let before = inspect(&name)["Id"].clone();
    let upgrader = lab.upgrader(V2).with("PUBLISHED_IMAGE", &published);
    let broken = registry.config("broken", r#"{"auths": "hunter2""#);
    let helper = registry.config("helper", r#"{"credsStore": "of-somewhere-else"}"#);
    let in_config = |directory: &Path| {
        upgrader
            .clone()
            .with("DOCKER_CONFIG", &directory.to_string_lossy())
    };
    let what_to_do = format!(
        "put a login for {} into REGISTRY_USERNAME and REGISTRY_PASSWORD",
        registry.address
    );
    let wrong = upgrader
        .clone()
        .with("REGISTRY_USERNAME", USER)
        .with("REGISTRY_PASSWORD", "hunter2");
    for (upgrader, told) in [
        (upgrader.clone(), what_to_do.as_str()),
        (wrong, what_to_do.as_str()),
        (
            in_config(&broken),
            "config.json is not what `docker login` writes: line 1",
        ),
        (
            in_config(&helper),
            "docker-credential-of-somewhere-else, which is not installed",
        ),
    ] {
        let run = upgrader.run(&["once"]).ended(1);
        // The engine asks a registry on loopback again by plain HTTP, and then reports only that outcome.
        let is_masked = has_tls && run.text.contains("connection reset by peer");
        if !is_masked {
            run.says(told);
        }
        run.never_says("hunter2");
        assert_eq!(inspect(&name)["Id"], before);
        assert_eq!(lab.names(), ["1"]);
        if told != what_to_do {
            let doctor = upgrader.run(&["doctor"]);
            doctor.says(told);
        }
    }
}

#[test]
fn a_public_image_is_pulled_despite_a_broken_login() {
    let lab = Lab::new("public");
    let directory = tempfile::tempdir().expect("a directory");
    for config in [r#"{"credsStore": "desktop"}"#, r#"{"auths": "hunter2""#] {
        fs::write(directory.path().join("config.json"), config).expect("config.json");
        let name = lab.delegate("1", V1, &[]);
        lab.upgrader(V2)
            .with("DOCKER_CONFIG", &directory.path().to_string_lossy())
            .run(&["once"])
            .ended(0);
        assert_eq!(image_of(&name), image(V2));
        docker(&["rm", "--force", &name]);
    }
}

#[test]
fn says_what_to_do_about_a_moving_tag_without_a_registry_login() {
    let lab = Lab::new("no-login-moving");
    let registry = PrivateRegistry::start(false);
    let moving = format!("{}/harness/delegate:latest", registry.address);
    docker(&["tag", &image(V1), &moving]);
    let variable = format!("DELEGATE_NAME={}", lab.name);
    let name = lab.container("1", &["--env", &variable, &moving]);
    let run = lab
        .upgrader(V1)
        .with("PUBLISHED_IMAGE", &moving)
        .run(&["once"])
        .ended(1);
    for told in [
        "cannot resolve the tag",
        &format!("put a login for {} into REGISTRY_USERNAME", registry.address),
    ] {
        run.says(told);
    }
    docker(&["rm", "--force", &name]);
    docker(&["rmi", &moving]);
}

#[test]
fn the_walk_through_ends_as_documented() {
    let said = expect(Command::new(project().join("examples/private-registry")).current_dir(project()));
    assert!(said.lines().any(|line| line.starts_with("As promised")), "{said}");
}

#[test]
fn every_kind_of_login_works() {
    let lab = Lab::new("login");
    let registry = PrivateRegistry::start(true);
    let published = registry.publish(V2);
    let upgrader = lab.upgrader(V2).with("PUBLISHED_IMAGE", &published);
    let file = registry.server.path("password");
    fs::write(&file, format!("{PASSWORD}\n")).expect("a password file");
    let bin = registry.server.path("bin");
    fs::create_dir(&bin).expect("a directory");
    let helper = bin.join("docker-credential-lab");
    let answer = format!(r#"{{"Username":"{USER}","Secret":"{PASSWORD}"}}"#);
    fs::write(&helper, format!("#!/bin/sh\necho '{answer}'\n")).expect("a helper");
    fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).expect("an executable helper");
    let helpers = registry.config(
        "helpers",
        &format!(r#"{{"credHelpers": {{"{}": "lab"}}}}"#, registry.address),
    );
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let auths = registry.with_auth("auths");
    for upgrader in [
        upgrader
            .clone()
            .with("REGISTRY_USERNAME", USER)
            .with("REGISTRY_PASSWORD", PASSWORD),
        upgrader
            .clone()
            .with("REGISTRY_USERNAME", USER)
            .with("REGISTRY_PASSWORD_FILE", &file.to_string_lossy()),
        upgrader.clone().with("DOCKER_CONFIG", &auths.to_string_lossy()),
        upgrader
            .clone()
            .with("DOCKER_CONFIG", &helpers.to_string_lossy())
            .with("PATH", &path),
    ] {
        let name = lab.delegate("1", V1, &[]);
        let run = upgrader.with("LOG_LEVEL", "trace").run(&["once"]).ended(0);
        assert_eq!(image_of(&name), published);
        let encoded = STANDARD.encode(PASSWORD);
        assert!(
            !run.text.contains(PASSWORD) && !run.text.contains(&encoded),
            "{}",
            run.text
        );
        docker(&["rm", "--force", &name]);
        docker(&["rmi", &published]);
    }
}
