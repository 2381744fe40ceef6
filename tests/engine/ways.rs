//! The ways to run the upgrader in `examples/`: each is run unchanged, and upgrades a delegate.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use crate::compose::compose_command;
use crate::readme_command::manager;
use kit::lab::servers::{ACCOUNT, TOKEN, publish};
use kit::lab::{Lab, PATIENCE, V1, V2, docker, eventually, expect, image, inspect, logs, project, running};

const SOCKET: &str = "/var/run/docker.sock";

/// A file with the token that only root and the upgrader's user may read.
fn token_file(lab: &Lab) -> PathBuf {
    let path = std::env::temp_dir().join(format!("{}-token", lab.name));
    fs::write(&path, TOKEN).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).expect("permissions");
    expect(Command::new("chown").arg("65532").arg(&path));
    path
}

fn upgrader_image(lab: &Lab) -> String {
    let image = format!("{}-upgrader:dev", lab.name);
    expect(Command::new(project().join("tests/lab/upgrader-image")).arg(&image));
    image
}

/// Whether the container of that name runs that image; between two renames no container has the name.
fn runs(name: &str, version: &str) -> bool {
    let rows = running("name", &format!("^/{name}$"));
    rows.first().is_some_and(|(_, of, _)| *of == image(version))
}

/// It works without root, capabilities or writable files.
fn assert_hardened(upgrader: &str) {
    let document = inspect(upgrader);
    let host = &document["HostConfig"];
    assert_eq!(host["ReadonlyRootfs"], true);
    assert_eq!(host["CapDrop"], serde_json::json!(["ALL"]));
    assert!(host["CapAdd"].is_null(), "{host}");
    assert!(
        host["SecurityOpt"][0]
            .as_str()
            .is_some_and(|option| option.starts_with("no-new-privileges")),
        "{host}"
    );
    assert_eq!(host["Privileged"], false);
    assert_eq!(host["Memory"], 100 * 1024 * 1024);
    assert_eq!(document["Config"]["User"], "65532:65532");
    eventually("its HEALTHCHECK passes", PATIENCE, || {
        inspect(upgrader)["State"]["Health"]["Status"] == "healthy"
    });
    let log = logs(upgrader);
    assert!(!log.contains(TOKEN) && !log.contains(" ERROR "), "{log}");
}

#[test]
fn log_and_doctor_warn_of_a_page_in_the_hosts_network() {
    let lab = Lab::new("host-network");
    let upgrader_image = upgrader_image(&lab);
    let listen = format!("LISTEN_ADDR=127.0.0.1:{}", kit::lab::servers::free_port());
    let ways = [
        (["--network", "host"].as_slice(), true),
        (&["--network", "host", "--env", &listen], false),
        (&[], false),
    ];
    for (number, (options, is_open)) in ways.into_iter().enumerate() {
        let (name, label) = (format!("{}-{number}", lab.name), lab.label());
        let workload = format!("UPGRADER_WORKLOAD_NAME={}", lab.name);
        let published = format!("PUBLISHED_IMAGE={}", image(V2));
        let mut run = vec![
            "run", "--detach", "--name", &name, "--label", &label, "--env", &workload,
        ];
        run.extend([
            "--env",
            &published,
            "--volume",
            "/var/run/docker.sock:/var/run/docker.sock",
        ]);
        run.extend(options);
        run.push(&upgrader_image);
        docker(&run);
        eventually("it runs", PATIENCE, || {
            logs(&name).contains("no container on this host has")
        });
        let doctor = Command::new("docker")
            .args(["exec", &name, "/delegate-upgrader", "doctor"])
            .output()
            .expect("it runs");
        for said in [logs(&name), String::from_utf8_lossy(&doctor.stdout).into_owned()] {
            let warns = said.contains("LISTEN_ADDR: 0.0.0.0:9464, the image's default, shows the page");
            assert_eq!(warns, is_open, "{options:?}: {said}");
        }
        docker(&["rm", "--force", &name]);
    }
    docker(&["rmi", "--force", &upgrader_image]);
}

#[test]
fn hardened_docker_run_upgrades_a_delegate() {
    let lab = Lab::new("docker-run");
    let (_, url) = manager(&lab);
    let delegate = lab.delegate("1", V1, &["--restart", "unless-stopped"]);
    let name = format!("{}-upgrader", lab.name);
    let token = token_file(&lab);
    let upgrader_image = upgrader_image(&lab);
    let mut run = Command::new(project().join("examples/docker-run"));
    run.args(["--label", &lab.label(), "--env", "UPGRADE_HEALTHY_TIME=2s"])
        .env("ACCOUNT_ID", ACCOUNT)
        .env("MANAGER_HOST_AND_PORT", url.as_str())
        .env("UPGRADER_WORKLOAD_NAME", &lab.name)
        .env("TOKEN_FILE", &token)
        .env("SCHEDULE", "*/5 * * * * *")
        .env("NAME", &name)
        .env("IMAGE", &upgrader_image);
    expect(&mut run);
    publish(&url, &image(V2));
    eventually("it is upgraded", PATIENCE, || runs(&delegate, V2));
    assert_hardened(&name);
    // Its volume has the audit log, which a command in its container finds.
    eventually("the log has the upgrade", PATIENCE, || {
        let history = docker(&["exec", &name, "/delegate-upgrader", "history"]);
        assert!(!history.contains("what containers show"), "{history}");
        history.contains("(proof") || history.contains("(pull")
    });

    // If a setting is missing, it says which one.
    let refused = Command::new(project().join("examples/docker-run"))
        .env("ACCOUNT_ID", ACCOUNT)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && said.contains("MANAGER_HOST_AND_PORT"),
        "{said}"
    );
    docker(&["rm", "--force", &name]);
    docker(&["volume", "rm", &format!("{name}-log")]);
    docker(&["rmi", "--force", &upgrader_image]);
    fs::remove_file(token).expect("its file");
}

fn compose(lab: &Lab, url: &str, file: &str, arguments: &[&str]) -> Command {
    let mut command = compose_command();
    let file = project().join("examples/compose").join(file);
    let group = expect(Command::new("stat").args(["-L", "-c", "%g", SOCKET]));
    command
        .args(["--project-name", &lab.name, "--file"])
        .arg(file)
        .args(arguments)
        .env("ACCOUNT_ID", ACCOUNT)
        .env("MANAGER_HOST_AND_PORT", url)
        .env("DELEGATE_NAME", &lab.name)
        .env("DELEGATE_IMAGE", image(V1))
        .env("UPGRADER_IMAGE", format!("{}-upgrader:dev", lab.name))
        .env(
            "TOKEN_FILE",
            std::env::temp_dir().join(format!("{}-token", lab.name)),
        )
        .env("SOCKET_GROUP", group)
        .env("SCHEDULE", "*/5 * * * * *")
        .env("UPGRADE_HEALTHY_TIME", "2s");
    command
}

#[test]
fn compose_file_upgrades_its_delegates_once() {
    let lab = Lab::new("compose-example");
    let (manager_name, published_at) = manager(&lab);
    // The Manager by its name, on the network that Compose creates.
    let url = format!("http://{manager_name}:8080");
    let token = token_file(&lab);
    let upgrader_image = upgrader_image(&lab);
    let run = |arguments: &[&str]| expect(&mut compose(&lab, &url, "direct.yml", arguments));
    run(&["up", "--detach"]);
    docker(&[
        "network",
        "connect",
        &format!("{}_default", lab.name),
        &manager_name,
    ]);
    let container = |service: &str| run(&["ps", "--quiet", service]);
    let upgrader = container("upgrader");
    publish(&published_at, &image(V2));
    let delegates = ["delegate-1", "delegate-2"];
    let project = format!("label=com.docker.compose.project={}", lab.name);
    let running = |service: &str| {
        let service = format!("label=com.docker.compose.service={service}");
        docker(&[
            "ps",
            "--all",
            "--filter",
            &project,
            "--filter",
            &service,
            "--format",
            "{{.Image}}",
        ])
    };
    // One container of each, and no old container that still drains.
    eventually("both are upgraded", PATIENCE, || {
        delegates.iter().all(|service| running(service) == image(V2))
    });
    assert_hardened(&upgrader);
    // Nothing has changed in their file.
    let upgraded = delegates.map(container);
    run(&["up", "--detach"]);
    assert_eq!(delegates.map(container), upgraded);
    docker(&["rm", "--force", &manager_name]);
    run(&["down", "--volumes", "--timeout", "1"]);
    docker(&["rmi", "--force", &upgrader_image]);
    fs::remove_file(token).expect("its file");
}

/// The proxy's image cannot be built here. Its patterns are those of the page, which `socket_proxies` tests.
#[test]
fn the_compose_proxy_hides_the_socket_and_allows_only_documented_patterns() {
    let lab = Lab::new("compose-proxy");
    let shown = expect(&mut compose(
        &lab,
        "https://manager.example",
        "compose.yml",
        &["config"],
    ));
    let (before, upgrader) = shown.split_once("\n  upgrader:").expect("the upgrader");
    assert!(before.contains("socket-proxy:"), "{shown}");
    let upgrader = upgrader.split("\nnetworks:").next().expect("its part");
    assert!(!upgrader.contains(SOCKET), "{upgrader}");
    assert!(upgrader.contains("tcp://socket-proxy:2375"), "{upgrader}");
    let page = fs::read_to_string(project().join("docs/usage/permissions.md")).expect("the page");
    let (_, upgrades) = page.split_once("<!-- upgrade -->").expect("the patterns");
    let (upgrades, _) = upgrades.split_once("<!-- /upgrade -->").expect("their end");
    let file = fs::read_to_string(project().join("examples/compose/compose.yml")).expect("the file");
    let patterns: Vec<&str> = upgrades
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with("- '-allow"))
        .collect();
    assert_eq!(patterns.len(), 4);
    for pattern in patterns {
        assert!(file.contains(pattern), "{pattern}");
    }
}
