//! A Manager or a registry that answers wrongly, or not at all: health is reported, a replacement continues, `/status` is
//! complete and the process ends, as if the answers were right.

#![allow(
    clippy::print_stdout,
    reason = "the times are for whoever reads the log of the tests"
)]

use std::net::UdpSocket;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use kit::lab::front::{Fault, Front, answer_of};
use kit::lab::servers::{asking, fixture, manager};
use kit::lab::{
    Daemon, Lab, STOP_TIME, Signal, Upgrader, V1, V2, docker, eventually, expect, image, image_of,
    static_binary,
};

/// For one step on a busy machine. Waiting for the missing answer would take at least half a minute.
const PATIENCE: Duration = Duration::from_secs(25);
/// For the steps before the fault sets in.
const SET_UP: Duration = kit::lab::PATIENCE;

/// The Manager's right answer, after this time.
fn slow(seconds: u64) -> Fault {
    let right = format!(
        r#"{{"resource":{{"imageTag":"{}","shouldUpgrade":true}}}}"#,
        image(V2)
    );
    Fault::Slow(Duration::from_secs(seconds), answer_of("200 OK", "", &right))
}

/// The names of the cases, and the Manager's fault in each.
fn faults() -> Vec<(&'static str, Fault)> {
    vec![
        ("hangs", Fault::Silent),
        ("slow", slow(25)),
        ("cut", Fault::Says(Vec::new())),
        ("500", Fault::Says(answer_of("500 Oops", "", "{}"))),
        (
            "429",
            Fault::Says(answer_of("429 Slow", "Retry-After: 3600\r\n", "{}")),
        ),
    ]
}

/// Prints how long a step took.
fn print(case: &str, what: &str, since: Instant) {
    println!("{case:8}  {what:32}  {:5.1} s", since.elapsed().as_secs_f64());
}

/// The address at which it serves its status.
pub(crate) fn address(daemon: &Daemon) -> String {
    daemon.says("status at http://", PATIENCE);
    let log = daemon.log();
    let (_, rest) = log.split_once("status at http://").expect("an address");
    rest.split('/').next().expect("an address").to_owned()
}

/// The delegates of a complete status, once it is there: the container, its health and the reason.
pub(crate) fn status(upgrader: &Upgrader, address: &str) -> Vec<(String, String, String)> {
    let asking = upgrader
        .clone()
        .with("LISTEN_ADDR", address)
        .run(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&asking.text).unwrap_or_default();
    let delegates = status["report"]["delegates"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    delegates
        .iter()
        .map(|row| {
            (
                word(&row["container"]),
                word(&row["health"]),
                word(&row["reason"]),
            )
        })
        .collect()
}

/// The status is complete at once after the start, a delegate that loses its health is reported, and the process ends.
fn reports_from_its_start_on(case: &str, lab: &Lab, upgrader: &Upgrader) {
    let first = lab.delegate("1", V1, &[]);
    lab.delegate("2", V1, &[]);
    let begun = Instant::now();
    let mut daemon = upgrader.start();
    let address = address(&daemon);
    let healthy = |rows: &[(String, String, String)]| {
        rows.len() == 2 && rows.iter().all(|(_, health, _)| health == "healthy")
    };
    eventually(case, PATIENCE, || healthy(&status(upgrader, &address)));
    print(case, "status is complete", begun);
    let begun = Instant::now();
    docker(&["pause", &first]);
    eventually(case, PATIENCE, || {
        let rows = status(upgrader, &address);
        rows.iter()
            .any(|(name, health, _)| *name == first && health == "unhealthy")
    });
    docker(&["unpause", &first]);
    print(case, "lost health is reported", begun);
    let (code, took) = daemon.signal(Signal::TERM);
    assert_eq!(code, Some(0), "{case}: {}", daemon.log());
    assert!(took < STOP_TIME, "{case}: {took:?}");
    println!("{case:8}  {:32}  {:5.1} s", "ends on SIGTERM", took.as_secs_f64());
}

/// A replacement that has started continues to its end, though every later run waits for an answer.
fn finishes_what_was_begun(case: &str, fault: Fault) {
    let lab = Lab::new(&format!("begun-{case}"));
    let name = lab.delegate("1", V1, &["--env", "DRAIN_SECONDS=2"]);
    let manager = manager(V1);
    let front = Front::that(Fault::Leads(manager.address()));
    let daemon = asking(&lab, &format!("http://{}", front.address))
        .with("SCHEDULE", "*/2 * * * * *")
        .start();
    daemon.says("runs the published image", SET_UP);
    let publish = ["publish", "--at", &manager.url(), &image(V2)];
    expect(Command::new(static_binary("manager")).args(publish));
    daemon.says("started", SET_UP);
    front.set(fault);
    let begun = Instant::now();
    // If each step waited for an answer, all of them would take minutes.
    daemon.says("replaced; the old container is gone", PATIENCE * 3);
    print(case, "proof, commit, drain and removal", begun);
    assert_eq!((image_of(&name), lab.names()), (image(V2), vec!["1".to_owned()]));
}

#[test]
fn an_unresponsive_manager_blocks_nothing() {
    for (case, fault) in faults() {
        let front = Front::that(fault.clone());
        let lab = Lab::new(&format!("reports-{case}"));
        let upgrader = asking(&lab, &format!("http://{}", front.address));
        reports_from_its_start_on(case, &lab, &upgrader);
        finishes_what_was_begun(case, fault);
    }
}

#[test]
fn endless_tls_handshake_blocks_nothing() {
    let front = Front::that(Fault::Silent);
    let lab = Lab::new("handshake");
    let upgrader = asking(&lab, &format!("https://{}", front.address)).with("CA_BUNDLE", &fixture("ca.pem"));
    reports_from_its_start_on("TLS", &lab, &upgrader);
}

#[test]
fn an_unresponsive_name_server_blocks_nothing() {
    let silent = UdpSocket::bind("127.0.0.77:53").expect("a name server");
    let directory = tempfile::tempdir().expect("a directory");
    let resolver = directory.path().join("resolv.conf");
    std::fs::write(&resolver, "nameserver 127.0.0.77\n").expect("a file");
    let lab = Lab::new("dns");
    let mount = r#"mount --bind "$0" /etc/resolv.conf && exec "$@""#;
    let upgrader = asking(&lab, "http://manager.example.com").run_by(&[
        "/usr/bin/unshare",
        "--mount",
        "/bin/sh",
        "-c",
        mount,
        &resolver.to_string_lossy(),
    ]);
    reports_from_its_start_on("DNS", &lab, &upgrader);
    drop(silent);
}

/// A registry that hangs is asked for the image of a mutable tag.
#[test]
fn an_unresponsive_registry_blocks_nothing() {
    let front = Front::that(Fault::Silent);
    let lab = Lab::new("registry-hangs");
    let latest = format!("{}/harness/delegate:latest", front.address);
    docker(&["tag", &image(V1), &latest]);
    let variable = format!("DELEGATE_NAME={}", lab.name);
    let name = lab.container("1", &["--env", &variable, &latest]);
    let upgrader = lab.upgrader(V2).with("PUBLISHED_IMAGE", &latest);
    let begun = Instant::now();
    let mut daemon = upgrader.start();
    let address = address(&daemon);
    let awaited = (name.clone(), "healthy".to_owned(), "awaiting_answer".to_owned());
    eventually("it is reported", PATIENCE, || {
        status(&upgrader, &address) == [awaited.clone()]
    });
    print("registry", "status is complete", begun);
    daemon.says(&format!("waiting for the registry {}", front.address), PATIENCE);
    let (code, took) = daemon.signal(Signal::TERM);
    assert_eq!(code, Some(0), "{}", daemon.log());
    assert!(took < STOP_TIME, "{took:?}");
    thread::sleep(Duration::from_millis(200));
    docker(&["rm", "--force", &name]);
    docker(&["rmi", &latest]);
}

/// The file with the registry logins never ends when it is read, as on a file system that hangs.
#[test]
fn a_hanging_registry_login_file_blocks_nothing() {
    let lab = Lab::new("logins-hang");
    let directory = tempfile::tempdir().expect("a directory");
    expect(Command::new("mkfifo").arg(directory.path().join("config.json")));
    let name = lab.delegate("1", V1, &[]);
    let daemon = lab
        .upgrader(V2)
        .with("DOCKER_CONFIG", &directory.path().to_string_lossy())
        .with("RUN_ON_START", "true")
        .start();
    let address = address(&daemon);
    daemon.says("pulling", SET_UP);
    let upgrader = lab.upgrader(V2);
    let begun = Instant::now();
    eventually("it is reported", PATIENCE, || {
        let rows = status(&upgrader, &address);
        matches!(&rows[..], [(container, health, _)] if *container == name && health == "healthy")
    });
    docker(&["pause", &name]);
    eventually("lost health is reported", PATIENCE, || {
        status(&upgrader, &address)
            .iter()
            .any(|(_, health, _)| health == "unhealthy")
    });
    docker(&["unpause", &name]);
    print("logins", "lost health is reported", begun);
    // This registry needs no login.
    daemon.says("replaced; the old container is gone", SET_UP);
    assert_eq!(image_of(&name), image(V2));
}

#[test]
fn once_and_plan_say_what_they_wait_for() {
    // A wait is reported after two seconds, and a plan waits for four.
    let front = Front::that(slow(3));
    let lab = Lab::new("says-so");
    let name = lab.delegate("1", V1, &[]);
    let upgrader = asking(&lab, &format!("http://{}", front.address));
    let plan = upgrader.run(&["plan"]).ended(0);
    plan.says("waiting for the Manager for ");
    plan.says("replace ");
    front.set(Fault::Silent);
    let mut once = upgrader.begin("once");
    once.says("waiting for the Manager", PATIENCE);
    front.set(slow(0));
    let once = once.wait().ended(0);
    let told = once.text.matches("waiting for the Manager").count();
    assert_eq!(told, 1, "{}", once.text);
    assert_eq!(image_of(&name), image(V2));
}
