//! Runs the command of the documentation unchanged, against the local Manager.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use kit::commands::{Block, assignment, blocks, words};
use kit::lab::servers::{ACCOUNT, TOKEN as KEY, publish};
use kit::lab::{
    Lab, PATIENCE, V1, V2, build, docker, eventually, expect, follow, image, image_of, inspect, life, logs,
    project, running, static_binary,
};

/// The page with the command that Harness documents.
const PAGE: &str = "docs/usage/run.md";
/// The Manager's token as its UI shows it.
const TOKEN: &str = "MDAwMTAyMDMwNDA1MDYwNzA4MDkwYTBiMGMwZDBlMGY=";

/// Starts the Manager in a container beside the upgrader; returns its name and address.
pub(crate) fn manager(lab: &Lab) -> (String, String) {
    manager_with(lab, &[])
}

fn manager_with(lab: &Lab, further: &[&str]) -> (String, String) {
    let tag = format!("{}-manager:dev", lab.name);
    let context = tempfile::tempdir().expect("a directory");
    std::fs::copy(static_binary("manager"), context.path().join("manager")).expect("the Manager's binary");
    let dockerfile = "FROM scratch\nCOPY manager /manager\nENTRYPOINT [\"/manager\"]\n";
    build(&tag, dockerfile, context.path(), &[]);
    let published = image(V1);
    let listen = [&tag, "--listen", "0.0.0.0:8080", "--account", ACCOUNT];
    let publish = ["--token", KEY, "--published", &published];
    let name = lab.container("manager", &[&listen, publish.as_slice(), further].concat());
    eventually("the Manager listens", PATIENCE, || {
        logs(&name).contains("listening on")
    });
    let address = docker(&["inspect", "--format", "{{.NetworkSettings.IPAddress}}", &name]);
    (name, format!("http://{address}:8080"))
}

/// Runs the `docker run` of a page with this number, unchanged except for the values (or other arguments), the image, the name, and
/// the label by which the test cleans up. The page must set each of the values.
fn run_as_shown(lab: &Lab, (page, number): (&str, usize), values: &[(&str, &str)], image: &str) -> String {
    let text = std::fs::read_to_string(project().join(page)).expect("the page");
    let commands = blocks(&text).iter().flat_map(Block::commands).collect::<Vec<_>>();
    let mut shown = commands
        .iter()
        .filter(|command| command.starts_with("docker run "));
    let command = shown.nth(number).expect("a docker run");
    // A placeholder such as <delegate token> is one word.
    let command = command.replace("<delegate token>", "<token>");
    let mut left: BTreeMap<&str, &str> = values.iter().copied().collect();
    let mut arguments: Vec<String> = words(&command).split_off(2);
    for argument in &mut arguments {
        if let Some(other) = left.remove(argument.as_str()) {
            other.clone_into(argument);
        } else if let Some((name, _)) = assignment(argument)
            && let Some(value) = left.remove(name)
        {
            *argument = format!("{name}={value}");
        }
    }
    // The lab gives it a name.
    if let Some(name) = arguments.iter().position(|argument| argument == "--name") {
        arguments.drain(name..name + 2);
    }
    assert!(left.is_empty(), "{page} does not set {left:?}: {command}");
    assert_eq!(arguments.pop().as_deref(), Some("delegate-upgrader:latest"));
    arguments.push(image.to_owned());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    lab.container(&format!("upgrader{number}"), &arguments)
}

/// Looks ten times a second and keeps the fewest delegates that were in service at once.
///
/// A delegate is in service while its container runs under its name, or the proven candidate between two renames.
fn watch(lab: &Lab, names: [String; 2], stop: &Arc<AtomicBool>) -> thread::JoinHandle<(usize, usize)> {
    let (label, stop) = (lab.label(), Arc::clone(stop));
    thread::spawn(move || {
        let (mut fewest, mut samples) = (usize::MAX, 0);
        while !stop.load(Ordering::Relaxed) {
            let rows = running("label", &label);
            let up: Vec<&str> = rows.iter().map(|(name, _, _)| name.as_str()).collect();
            let in_service = names.iter().filter(|name| {
                let candidate = format!("{name}.candidate");
                let retired = format!("{name}.retired");
                up.contains(&name.as_str())
                    || (up.contains(&candidate.as_str()) && up.contains(&retired.as_str()))
            });
            fewest = fewest.min(in_service.count());
            samples += 1;
            thread::sleep(Duration::from_millis(200));
        }
        (fewest, samples)
    })
}

#[test]
fn the_documented_command_keeps_two_delegates_running_while_upgrading() {
    let lab = Lab::new("documented");
    let [upgrader_image, newer] =
        ["1.0.0", "1.1.0"].map(|version| format!("{}-upgrader:{version}", lab.name));
    expect(Command::new(project().join("tests/lab/upgrader-image")).arg(&upgrader_image));
    let (manager_name, manager_url) = manager_with(&lab, &["--published-upgrader", &newer]);
    let limits = ["--env", "DRAIN_SECONDS=10", "--restart", "unless-stopped"];
    let names = ["1", "2"].map(|suffix| lab.delegate(suffix, V1, &limits));
    let drains = names.clone().map(|name| follow(&name));
    let other = lab.container("other", &["--env", "DELEGATE_NAME=somebody-elses", &image(V1)]);
    let foreign = lab.container("foreign", &["--entrypoint", "/delegate", &image(V1)]);
    let strangers = [&other, &foreign].map(|name| life(name));

    let values = [
        ("ACCOUNT_ID", ACCOUNT),
        ("MANAGER_HOST_AND_PORT", &manager_url),
        ("UPGRADER_WORKLOAD_NAME", &lab.name),
        ("UPGRADER_TOKEN", TOKEN),
        ("SCHEDULE", "*/10 * * * * *"),
    ];
    let upgrader = run_as_shown(&lab, (PAGE, 0), &values, &upgrader_image);
    eventually("the delegates are seen to be current", PATIENCE, || {
        logs(&upgrader).matches("runs the published image").count() >= 2
    });

    let stop = Arc::new(AtomicBool::new(false));
    let watcher = watch(&lab, names.clone(), &stop);
    publish(&manager_url, &image(V2));
    eventually(
        "both run version 2 and the old ones are gone",
        Duration::from_secs(400),
        || {
            lab.names() == ["1", "2", "foreign", "manager", "other", "upgrader0"]
                && names.iter().all(|name| image_of(name) == image(V2))
        },
    );
    stop.store(true, Ordering::Relaxed);
    let (fewest, samples) = watcher.join().expect("the watcher");
    assert_eq!(
        fewest,
        2,
        "fewer than two in service, of {samples} samples:\n{}",
        logs(&upgrader)
    );
    assert!(samples > 100, "{samples} samples are no watch");
    for drain in drains {
        let log = drain.end();
        assert!(
            log.contains("draining 10 s") && log.contains("drained in full"),
            "{log}"
        );
    }
    assert_eq!(
        [&other, &foreign].map(|name| life(name)),
        strangers,
        "strangers were touched"
    );
    eventually("its HEALTHCHECK passes", PATIENCE, || {
        inspect(&upgrader)["State"]["Health"]["Status"] == "healthy"
    });
    let asked = logs(&manager_name);
    assert!(
        asked.contains("delegate-v2") && asked.contains(&lab.name),
        "{asked}"
    );
    let said = format!("delegate-upgrader {} (newer: {newer})", env!("CARGO_PKG_VERSION"));
    let status = docker(&["exec", &upgrader, "/delegate-upgrader", "status"]);
    let host = docker(&["info", "--format", "{{.Name}}"]);
    assert!(status.contains(&format!("{said} on {host},")), "{status}");
    let log = logs(&upgrader);
    assert!(
        log.contains("a newer version of the upgrader is published"),
        "{log}"
    );
    assert!(
        !log.contains(TOKEN) && !log.contains(KEY),
        "the token is in the log"
    );
    docker(&["stop", "--time", "10", &upgrader]);
    let exit = docker(&["inspect", "--format", "{{.State.ExitCode}}", &upgrader]);
    assert_eq!(exit, "0", "it ends by itself on SIGTERM");
    for image in [upgrader_image, format!("{}-manager:dev", lab.name)] {
        let _ = Command::new("docker").args(["rmi", "--force", &image]).output();
    }
}

#[test]
fn the_documented_health_only_command_reports_and_changes_nothing() {
    let lab = Lab::new("documented-health");
    let upgrader_image = format!("{}-upgrader:dev", lab.name);
    expect(Command::new(project().join("tests/lab/upgrader-image")).arg(&upgrader_image));
    let name = lab.delegate("1", V1, &[]);
    let before = life(&name);
    let values = [("UPGRADER_WORKLOAD_NAME", lab.name.as_str())];
    let upgrader = run_as_shown(&lab, (PAGE, 1), &values, &upgrader_image);
    eventually("it reports", PATIENCE, || {
        logs(&upgrader).contains("delegate is healthy")
    });
    let log = logs(&upgrader);
    assert!(log.contains("mode=\"health-only\""), "{log}");
    assert_eq!(life(&name), before);
    docker(&["rm", "--force", &upgrader]);
    docker(&["rmi", "--force", &upgrader_image]);
}

#[test]
fn the_first_command_of_the_readme_runs_a_daemon_with_a_page() {
    let lab = Lab::new("readme");
    let upgrader_image = format!("{}-upgrader:dev", lab.name);
    expect(Command::new(project().join("tests/lab/upgrader-image")).arg(&upgrader_image));
    let (_, manager_url) = manager(&lab);
    lab.delegate("1", V1, &[]);
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("token"), KEY).expect("a file");
    let mount = format!("{}:/etc/delegate-upgrader:ro", directory.path().display());
    let values = [
        ("ACCOUNT_ID", ACCOUNT),
        ("MANAGER_HOST_AND_PORT", &manager_url),
        ("UPGRADER_WORKLOAD_NAME", &lab.name),
        ("/etc/delegate-upgrader:/etc/delegate-upgrader:ro", &mount),
        ("127.0.0.1:9464:9464", "127.0.0.1:43469:9464"),
    ];
    let upgrader = run_as_shown(&lab, ("README.md", 0), &values, &upgrader_image);
    eventually("it is current", PATIENCE, || {
        logs(&upgrader).contains("runs the published image")
    });
    eventually("the page answers", PATIENCE, || {
        std::net::TcpStream::connect("127.0.0.1:43469").is_ok()
    });
    let policy = &inspect(&upgrader)["HostConfig"]["RestartPolicy"]["Name"];
    assert_eq!(policy, "unless-stopped");
    assert!(
        !inspect(&upgrader).to_string().contains(KEY),
        "the token is in docker inspect"
    );
    docker(&["rm", "--force", &upgrader]);
    docker(&["rmi", "--force", &upgrader_image]);
}

#[test]
fn the_documented_search_command_finds_a_delegate() {
    let lab = Lab::new("documented-search");
    let name = lab.delegate("1", V1, &[]);
    let page = std::fs::read_to_string(project().join("docs/usage/troubleshooting.md")).expect("the page");
    let commands = blocks(&page).iter().flat_map(Block::commands).collect::<Vec<_>>();
    let command = commands.iter().find(|command| command.starts_with("docker ps "));
    // Containers of other tests may end between the command's two calls.
    eventually("it finds it", PATIENCE, || {
        let found = Command::new("sh")
            .args(["-c", command.expect("the command")])
            .output();
        let found = String::from_utf8_lossy(&found.expect("it runs").stdout).into_owned();
        let variable = format!("DELEGATE_NAME={}\n", lab.name);
        found.contains(&format!("/{name} ")) && found.contains(&variable)
    });
}
