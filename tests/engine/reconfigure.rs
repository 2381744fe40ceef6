//! `reconfigure` by its page: a new token without a gap, with delegates that show theirs to a Manager all the time.

use std::collections::BTreeSet;
use std::io::{BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use kit::lab::wire::Message;
use kit::lab::{Lab, PATIENCE, Upgrader, V1, V2, docker, eventually, image_of, inspect, life, logs, project};

const OLD: &str = "0ld0ld0ld0ld0ld0ld";
const NEW: &str = "n3wn3wn3wn3wn3wn3w";

/// A Manager that accepts some tokens.
struct Manager {
    /// As a delegate's container reaches it.
    address: String,
    accepted: Arc<Mutex<BTreeSet<&'static str>>>,
}

impl Manager {
    fn that_accepts(tokens: &[&'static str]) -> Self {
        // The engine says only the network of its bridge, which has the first address in it.
        let format = "{{(index .IPAM.Config 0).Subnet}}";
        let network = docker(&["network", "inspect", "bridge", "--format", format]);
        let (network, _) = network.rsplit_once('.').expect("a network");
        let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let accepted = Arc::new(Mutex::new(tokens.iter().copied().collect::<BTreeSet<_>>()));
        let known = Arc::clone(&accepted);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let known = Arc::clone(&known);
                thread::spawn(move || answer(&stream, &known));
            }
        });
        Self {
            address: format!("{network}.1:{port}"),
            accepted,
        }
    }

    fn accept(&self, tokens: &[&'static str]) {
        *self.accepted.lock().expect("tokens") = tokens.iter().copied().collect();
    }

    fn delegate(&self, lab: &Lab, suffix: &str) -> String {
        let manager = format!("MANAGER={}", self.address);
        let token = format!("DELEGATE_TOKEN={OLD}");
        let arguments = [
            "--env",
            &manager,
            "--env",
            &token,
            "--restart",
            "unless-stopped",
            "--memory",
            "64m",
        ];
        let name = lab.delegate(suffix, V1, &arguments);
        eventually("its token is accepted", PATIENCE, || {
            logs(&name).contains("is accepted")
        });
        name
    }
}

/// Reads one request, and answers whether its token is known.
fn answer(mut stream: &TcpStream, known: &Mutex<BTreeSet<&'static str>>) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    let request = Message::read(&mut BufReader::new(stream));
    let token = request
        .as_ref()
        .and_then(|request| request.header("authorization"));
    let is_known = token.is_some_and(|token| known.lock().expect("tokens").contains(token));
    let status = if is_known { "200 OK" } else { "401 Unauthorized" };
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(answer.as_bytes());
}

/// The same upgrader, which gives a new container fifteen seconds.
fn soon_rejects(upgrader: &Upgrader) -> Upgrader {
    upgrader.clone().with("UPGRADE_HEALTHY_DEADLINE", "15s")
}

/// Whether its container says that the Manager refused its token.
fn was_refused(name: &str) -> bool {
    logs(name).contains("is refused")
}

fn variable(name: &str, variable: &str) -> Option<String> {
    let document = inspect(name);
    let env = document["Config"]["Env"].as_array().expect("variables");
    let prefix = format!("{variable}=");
    env.iter()
        .find_map(|entry| Some(entry.as_str()?.strip_prefix(&prefix)?.to_owned()))
}

#[test]
fn a_token_is_rotated_by_the_page_without_a_gap() {
    let page = std::fs::read_to_string(project().join("docs/usage/rotate-a-token.md")).expect("the page");
    let manager = Manager::that_accepts(&[OLD, NEW]);
    let lab = Lab::new("rotate");
    let names = ["1", "2"].map(|suffix| manager.delegate(&lab, suffix));
    let old = names.each_ref().map(|name| life(name));
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), format!("{NEW}\n")).expect("the token");
    let audit = tempfile::NamedTempFile::new().expect("an audit log");
    let upgrader = lab
        .upgrader(V1)
        .with("AUDIT_LOG", &audit.path().display().to_string());
    let secret = format!("DELEGATE_TOKEN={}", file.path().display());
    assert!(
        page.contains("reconfigure --workload docker-delegate --secret DELEGATE_TOKEN="),
        "{page}"
    );
    let command = ["reconfigure", "--workload", &lab.name, "--secret", &secret];

    let plan = upgrader
        .run(&[
            "plan",
            "reconfigure",
            "--workload",
            &lab.name,
            "--secret",
            &secret,
        ])
        .ended(0);
    plan.says("DELEGATE_TOKEN changes; recreate it, start-first");
    assert_eq!(
        names.each_ref().map(|name| life(name)),
        old,
        "a plan changes nothing"
    );

    let run = upgrader.run(&command).ended(0);
    let records = std::fs::read_to_string(audit.path()).expect("the audit log");
    assert!(
        records.contains("changed the settings env.DELEGATE_TOKEN"),
        "{records}"
    );
    for text in [&plan.text, &run.text, &records] {
        assert!(!text.contains(NEW) && !text.contains(OLD), "{text}");
    }
    for name in &names {
        assert_eq!(variable(name, "DELEGATE_TOKEN").as_deref(), Some(NEW));
        assert_eq!(inspect(name)["HostConfig"]["Memory"], 64 << 20);
        let labels = inspect(name)["Config"]["Labels"].to_string();
        assert!(!labels.contains(NEW) && !labels.contains(OLD), "{labels}");
    }
    assert!(!names.iter().any(|name| was_refused(name)));
    upgrader
        .run(&command)
        .ended(0)
        .says("these settings are in force already");

    // The old token is revoked; nothing notices, and a daemon's run leaves all as it is.
    manager.accept(&[NEW]);
    let changed = names.each_ref().map(|name| life(name));
    upgrader.run(&["once"]).ended(0);
    thread::sleep(Duration::from_secs(3));
    assert_eq!(names.each_ref().map(|name| life(name)), changed);
    assert!(
        !names.iter().any(|name| was_refused(name)),
        "the new token is accepted"
    );

    // Now the former settings cannot prove themselves.
    let back = soon_rejects(&upgrader).run(&["rollback", &names[0]]).ended(1);
    back.says("with the new settings env.DELEGATE_TOKEN was rejected");
    assert_eq!(life(&names[0]), changed[0]);
    assert_eq!(variable(&names[0], "DELEGATE_TOKEN").as_deref(), Some(NEW));
    upgrader
        .run(&["history", &names[0]])
        .ended(0)
        .says("changed the settings env.DELEGATE_TOKEN");
    // The image is not in quarantine, and an upgrade keeps the new token.
    lab.upgrader(V2).run(&["once"]).ended(0);
    for name in &names {
        assert_eq!(image_of(name), kit::lab::image(V2));
        assert_eq!(variable(name, "DELEGATE_TOKEN").as_deref(), Some(NEW));
    }
    assert_eq!(lab.names(), ["1", "2"]);
}

#[test]
fn a_wrong_token_reaches_one_replica_and_serves_on_none() {
    let manager = Manager::that_accepts(&[OLD, NEW]);
    let lab = Lab::new("wrong-token");
    let names = ["1", "2"].map(|suffix| manager.delegate(&lab, suffix));
    let before = names.each_ref().map(|name| life(name));
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "wr0ngwr0ngwr0ng").expect("the token");
    let secret = format!("DELEGATE_TOKEN={}", file.path().display());
    let run = soon_rejects(&lab.upgrader(V1))
        .run(&["reconfigure", "--workload", &lab.name, "--secret", &secret])
        .ended(1);
    run.says("was rejected");
    run.says("halted");
    run.never_says("wr0ng");
    assert_eq!(names.each_ref().map(|name| life(name)), before);
    // Either may be the canary: that is the one with fewer tasks, as far as both have said.
    let rejected = lab.names().into_iter().find(|name| name.ends_with(".failed-1"));
    assert!(rejected.is_some() && lab.names().len() == 3, "{:?}", lab.names());
    assert!(!names.iter().any(|name| was_refused(name)));
}

#[test]
fn a_change_that_cannot_be_kept_is_refused_by_name() {
    let lab = Lab::new("no-reconfigure");
    let name = lab.delegate("1", V1, &[]);
    let before = life(&name);
    let upgrader = lab.upgrader(V1);
    for (given, code, words) in [
        (
            &["--env", "DELEGATE_TOKEN=abc"][..],
            2,
            "use --secret DELEGATE_TOKEN=FILE",
        ),
        (
            &["--env", "DELEGATE_NAME=other"],
            1,
            "it would be another delegate",
        ),
        (&["--env", "JAVA_OPTS"], 2, "expected NAME=…"),
        (
            &["--label", "io.delegate-upgrader.replaces=x"],
            2,
            "recreate the delegate",
        ),
        (
            &["--unset", "UPGRADER_TOKEN"],
            2,
            "a setting of delegate-upgrader",
        ),
        (&["--memory", "much"], 2, "expected a size such as 3g"),
        (&["--secret", "A=/nowhere"], 2, "--secret A: no such file"),
        (&["--env", "A=1", "--unset", "A"], 2, "A is given twice"),
        (&[], 2, "nothing to change"),
        (&["--memory", "4m"], 1, "memory limit"),
        (&["--unset", "PATH"], 1, "sets env.PATH in another way"),
    ] {
        let arguments = [&["reconfigure", name.as_str()], given].concat();
        upgrader.run(&arguments).ended(code).says(words);
        assert_eq!(life(&name), before, "{given:?}");
    }
    assert_eq!(lab.names(), ["1"]);
}
