//! What a Manager, or whatever stands in its place, may do to a question: the running daemon touches nothing, says
//! why on one line, and upgrades in the next run once the Manager answers.

use std::net::TcpListener;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::proxy::Proxy;
use kit::lab::front::{Fault, Front, answer_of};
use kit::lab::servers::{Server, asking, fixture, manager, nginx, unknown_certificate};
use kit::lab::{Daemon, Lab, PATIENCE, Signal, V1, V2, expect, image, image_of, static_binary};

struct Case {
    /// The daemon that it happens to. Those of one daemon happen to it in turn.
    daemon: &'static str,
    name: &'static str,
    fault: fn(&Scene) -> Fault,
    /// What the delegate's line says of it.
    says: &'static str,
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    // What is not retried within a run.
    case("1", "garbage", |_| says("200 OK", "", "\u{0}\u{1b}[2J}{"), "this does not look like a Manager's answer (not JSON"),
    case("1", "a page", |_| says("200 OK", "", "<html>Sign in"), "this does not look like a Manager's answer (not JSON"),
    case("1", "nothing", |_| says("200 OK", "", ""), "this does not look like a Manager's answer (empty)"),
    case("1", "wrong types", |_| says("200 OK", "", WRONG_TYPES), "no imageTag in its resource"),
    case("2", "no resource", |_| says("200 OK", "", "{}"), "this does not look like a Manager's answer (no resource"),
    case("2", "no image", |_| says("200 OK", "", NO_IMAGE), "the Manager published an invalid image reference"),
    case("2", "100 MB", |scene| scene.endless("Content-Length: 104857600\r\n"), "the answer exceeds 65536 bytes"),
    case("2", "no end", |scene| scene.endless(""), "the answer exceeds 65536 bytes"),
    case("3", "a redirect", Scene::redirect, "redirects are not followed; set MANAGER_HOST_AND_PORT"),
    // More than a question waits out, and little enough for the run after it: what is left then may be reported, too.
    case("3", "429", |scene| says("429 Slow", "Retry-After: 26\r\n", &scene.right), "(429), which asks to wait 2"),
    case("3", "expired", |_| refuses("EXPIRED_TOKEN"), "this host's clock is 2h ahead of the Manager's; synchronise"),
    case("3", "revoked", |_| refuses("REVOKED_TOKEN"), "the token was revoked (REVOKED_TOKEN); set UPGRADER_TOKEN"),
    case("tls", "an unknown CA", |scene| Fault::Leads(scene.not_trusted.clone()), "add a private CA to CA_BUNDLE"),
    // What is retried, for up to half a minute.
    case("4", "500", |scene| says("500 Oops", "", &scene.right), "the Manager failed (500): "),
    case("5", "broken off", |scene| Fault::Says(scene.begun("Content-Length: 500\r\n")), "end of file before message length"),
    case("6", "no HTTP", |_| Fault::Says(b"SSH-2.0-OpenSSH_9.2\r\n".into()), "invalid HTTP version parsed"),
    case("7", "closed", |_| Fault::Says(Vec::new()), "connection closed before message completed"),
    case("8", "refused", |_| Fault::Refused, "tcp connect error: Connection refused"),
    case("9", "a body that drips", |scene| Fault::Drips(scene.begun("")), "the Manager did not answer within 30s"),
    case("10", "a head that drips", |_| Fault::Drips(b"HTTP/1.1 200 OK\r\nX:".into()), "the Manager did not answer within 30s"),
];

const WRONG_TYPES: &str = r#"{"resource":{"imageTag":["a:1"]}}"#;
const NO_IMAGE: &str = r#"{"resource":{"imageTag":"a b; rm -rf /"}}"#;

const fn case(
    daemon: &'static str,
    name: &'static str,
    fault: fn(&Scene) -> Fault,
    says: &'static str,
) -> Case {
    Case {
        daemon,
        name,
        fault,
        says,
    }
}

/// What a case may use.
struct Scene {
    /// The body of an answer that would be right, publishing the other version.
    right: String,
    /// Where nobody must come.
    elsewhere: String,
    /// The same Manager, with a certificate that nobody trusts.
    not_trusted: String,
}

impl Scene {
    /// A right answer whose length is not given, or is wrong.
    fn begun(&self, headers: &str) -> Vec<u8> {
        format!(
            "HTTP/1.1 200 OK\r\nConnection: close\r\n{headers}\r\n{}",
            self.right
        )
        .into()
    }

    fn endless(&self, headers: &str) -> Fault {
        Fault::Endless(self.begun(headers))
    }

    fn redirect(&self) -> Fault {
        let location = format!("Location: http://{}/\r\n", self.elsewhere);
        says("302 Found", &location, &self.right)
    }
}

fn says(status: &str, headers: &str, body: &str) -> Fault {
    Fault::Says(answer_of(status, headers, body))
}

/// As a Manager does whose clock is two hours behind.
fn refuses(code: &str) -> Fault {
    let then = chrono::Utc::now() - chrono::TimeDelta::hours(2);
    let date = format!("Date: {}\r\n", then.format("%a, %d %b %Y %H:%M:%S GMT"));
    let body = format!(
        r#"{{"resource":null,"responseMessages":[{{"code":"{code}","level":"ERROR","message":"no"}}]}}"#
    );
    says("401 Unauthorized", &date, &body)
}

#[test]
fn each_fault_of_a_manager_touches_nothing_logs_one_line_and_the_next_run_upgrades() {
    let mut daemons: Vec<&str> = CASES.iter().map(|case| case.daemon).collect();
    daemons.dedup();
    thread::scope(|scope| {
        for daemon in daemons {
            scope.spawn(move || in_turn(daemon));
        }
    });
}

/// All that happens to one daemon.
fn in_turn(number: &str) {
    let lab = Lab::new(&format!("fault-{number}"));
    let name = lab.delegate("1", V1, &[]);
    let manager = manager(V1);
    let elsewhere = TcpListener::bind("127.0.0.1:0").expect("a port");
    elsewhere.set_nonblocking(true).expect("a socket");
    let (certificate, key) = (fixture("server.pem"), fixture("server.key"));
    let directory = tempfile::tempdir().expect("a directory");
    let (unknown, unknown_key) = unknown_certificate(directory.path());
    let has_tls = number == "tls";
    let tls = has_tls.then(|| {
        [(&certificate, &key), (&unknown, &unknown_key)]
            .map(|(certificate, key)| nginx(&manager.address(), (certificate, key), None))
    });
    let [well, not_trusted] = tls.as_ref().map_or_else(
        || [manager.address(), String::new()],
        |both| both.each_ref().map(Server::address),
    );
    let well = Fault::Leads(well);
    let front = Front::that(well.clone());
    let engine = Proxy::that_allows(|_| true);
    let scheme = if has_tls { "https" } else { "http" };
    let mut daemon = asking(&lab, &format!("{scheme}://{}", front.address))
        .with("DOCKER_HOST", &engine.host())
        .with("SCHEDULE", "*/2 * * * * *")
        .with("UPGRADE_HEALTHY_TIME", "1s")
        .with("UPGRADE_HEALTHY_DEADLINE", "60s")
        .with("CA_BUNDLE", &fixture("ca.pem"))
        .start();
    daemon.says("runs the published image", PATIENCE);
    let mut versions = [V2, V1].into_iter().cycle();
    for case in CASES.iter().filter(|case| case.daemon == number) {
        let next = image(versions.next().expect("a version"));
        let scene = Scene {
            right: format!(r#"{{"resource":{{"imageTag":"{next}","shouldUpgrade":true}}}}"#),
            elsewhere: elsewhere.local_addr().expect("a port").to_string(),
            not_trusted: not_trusted.clone(),
        };
        let before = (daemon.log().len(), engine.writes());
        front.set((case.fault)(&scene));
        let told = says_after(&daemon, before.0, "cannot determine the published image", case);
        let publish = ["publish", "--at", &format!("http://{}", manager.address()), &next];
        expect(Command::new(static_binary("manager")).args(publish));
        // Until then it observes the delegate once more.
        says_after(&daemon, told, "scheduled run", case);
        assert_eq!(engine.writes(), before.1, "{}: {}", case.name, daemon.log());
        assert_one_line_per_run(daemon.log().split_at(before.0).1, &name, case);
        assert!(
            elsewhere.accept().is_err(),
            "{}: the redirect was followed",
            case.name
        );
        let healed = daemon.log().len();
        front.set(well.clone());
        says_after(&daemon, healed, "replaced; the old container is gone", case);
        assert_eq!(image_of(&name), next, "{}", case.name);
        assert_ne!(engine.writes(), before.1, "what is written is not seen");
        let log = daemon.log();
        // Ticks during the pull say nothing.
        let (until_then, _) = log.split_at(healed).1.split_once("pulling ").expect("a pull");
        let passes = until_then.matches("scheduled run").count();
        // One may have been due when the Manager recovered, and have asked before. While the Manager wants no question, all
        // wait for the answer to the same one.
        assert!(
            passes <= 2 || case.name == "429",
            "{}: {passes} passes until it was upgraded:\n{log}",
            case.name
        );
    }
    let (code, _) = daemon.signal(Signal::TERM);
    assert_eq!(
        (code, daemon.log().contains("panicked")),
        (Some(0), false),
        "{}",
        daemon.log()
    );
}

/// Where in the log it says so, from this position on.
fn says_after(daemon: &Daemon, position: usize, text: &str, case: &Case) -> usize {
    let begun = Instant::now();
    loop {
        let log = daemon.log();
        if let Some(found) = log.split_at(position).1.find(text) {
            return position + found;
        }
        let is_late = begun.elapsed() > PATIENCE;
        assert!(!is_late, "{}: the daemon did not say {text:?}:\n{log}", case.name);
        thread::sleep(Duration::from_millis(20));
    }
}

/// The end of support, which has nothing to do with it, is warned of too.
fn assert_one_line_per_run(log: &str, delegate: &str, case: &Case) {
    for pass in log.split("scheduled run") {
        let lines: Vec<&str> = pass
            .lines()
            .filter(|line| line.contains(" WARN ") || line.contains(" ERROR ") || line.contains("not known"))
            .filter(|line| !line.contains("its end of "))
            .collect();
        assert!(lines.len() <= 1, "{}: {lines:#?}", case.name);
        let is_right =
            |line: &&str| line.contains(case.says) && line.contains(&format!("container=\"{delegate}\""));
        assert!(
            lines.iter().all(is_right),
            "{}: {:?} is not in {lines:#?}",
            case.name,
            case.says
        );
    }
}
