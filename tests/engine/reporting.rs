//! The audit log, a webhook, metrics, the status and `history` agree on upgrades, rejected images, rollbacks and pauses.

use std::io::{BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kit::lab::wire::{Message, get};
use kit::lab::{Lab, NEVER_HEALTHY, PATIENCE, Signal, Upgrader, V1, V2, eventually, image};
use serde_json::Value;
use tempfile::TempDir;

/// 24 bytes, as the scheme requires.
const KEY: [u8; 24] = *b"a-key-of-24-bytes-hunter";
/// A secret that no output may contain.
const PLANTED: &str = "hunter2-hunter2";

/// A receiver that accepts and remembers requests that are signed with [`KEY`].
struct Receiver {
    url: String,
    received: Arc<Mutex<Vec<Value>>>,
}

impl Receiver {
    fn on(listener: TcpListener) -> Self {
        let address = listener.local_addr().expect("an address");
        let received = Arc::default();
        let sink = Arc::clone(&received);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                accept(&stream.expect("a connection"), &sink);
            }
        });
        Self {
            // The path is a secret, as in the URLs of chat services.
            url: format!("http://{address}/{PLANTED}"),
            received,
        }
    }

    fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").expect("a port"))
    }

    fn ids(&self) -> Vec<String> {
        let received = self.received.lock().expect("it is so");
        received.iter().map(|event| text(event, "id")).collect()
    }
}

fn accept(stream: &TcpStream, sink: &Mutex<Vec<Value>>) {
    let Some(request) = Message::read(&mut BufReader::new(stream)) else {
        return;
    };
    let [id, timestamp, signature] =
        ["id", "timestamp", "signature"].map(|part| request.header(&format!("webhook-{part}")).expect(part));
    let signed = [id.as_bytes(), b".", timestamp.as_bytes(), b".", &request.body].concat();
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &KEY);
    let expected = BASE64_STANDARD.encode(ring::hmac::sign(&key, &signed));
    let is_good = signature == format!("v1,{expected}");
    let status = if is_good {
        "204 No Content"
    } else {
        "401 Unauthorized"
    };
    let mut stream = stream;
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    if is_good {
        let event: Value = request.json();
        assert_eq!(text(&event, "id"), id);
        sink.lock().expect("it is so").push(event);
    }
}

fn text(event: &Value, field: &str) -> String {
    event[field].as_str().unwrap_or_default().to_owned()
}

/// All fields except the time and the duration: each process reports the duration that it saw itself.
fn what(event: &Value) -> Value {
    let mut event = event.clone();
    let fields = event.as_object_mut().expect("an event");
    fields.retain(|name, _| name != "time" && name != "seconds");
    event
}

fn records(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a record"))
        .collect()
}

fn actions(records: &[Value]) -> Vec<String> {
    records.iter().map(|record| text(record, "action")).collect()
}

/// An upgrader that reports to a receiver and an audit log.
fn reporting(lab: &Lab, published: &str, url: &str) -> (Upgrader, PathBuf, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("audit.log");
    let upgrader = lab
        .upgrader(published)
        .with("AUDIT_LOG", path.to_str().expect("UTF-8"))
        .with("WEBHOOK_URL", url)
        .with(
            "WEBHOOK_SECRET",
            &format!("whsec_{}", BASE64_STANDARD.encode(KEY)),
        )
        .with("LOG_LEVEL", "trace");
    (upgrader, path, directory)
}

/// The commands end before the work is done, and a daemon does the rest.
#[test]
fn all_reports_name_the_person_who_asked() {
    let lab = Lab::new("asked");
    let name = lab.delegate("1", V1, &[]);
    let receiver = Receiver::start();
    let (upgrader, audit, _directory) = reporting(&lab, V2, &receiver.url);
    let upgrader = upgrader.with("SCHEDULE", "0 0 1 1 *");
    let mut daemon = upgrader.start();
    daemon.says("delegate is healthy", PATIENCE);
    let log = daemon.log();
    let (_, rest) = log.split_once("status at http://").expect("an address");
    let address = rest.split('/').next().expect("an address").to_owned();
    let command = upgrader.with("LISTEN_ADDR", &address).with("SUDO_USER", "carol");
    let heard = |count: usize| {
        eventually("the webhook hears of it", PATIENCE, || {
            receiver.ids().len() == count
        });
    };
    let until = ["--until", "2126-12-01"];
    let asked = ["--by", "ada", "--reason", "a freeze\u{1b}[31m"];
    command
        .run(&[&["pause", &name], &until[..], &asked].concat())
        .ended(0);
    heard(1);
    command.run(&["resume", &name, "--by", "bob"]).ended(0);
    heard(2);
    let retry = ["retry", &name, "--no-wait", "--reason", "fixes the proxy"];
    command.run(&retry).ended(0);
    daemon.says("the old container is gone", PATIENCE);
    heard(3);
    let known = records(&audit);
    let said = known.iter().map(|record| {
        let by = record["request"]["by"].as_str().unwrap_or_default();
        format!("{} {} {by}", text(record, "actor"), text(record, "action"))
    });
    let expected = [
        "operator paused ada",
        "operator resumed bob",
        "operator upgraded carol",
    ];
    assert_eq!(said.collect::<Vec<_>>(), expected, "{known:#?}");
    for (event, record) in receiver.received.lock().expect("it is so").iter().zip(&known) {
        assert_eq!(what(&event["data"]), what(record));
    }
    let ends = [
        "; requested by ada: a freeze",
        "; requested by bob",
        "; requested by carol: fixes the proxy",
    ];
    for (record, end) in known.iter().zip(ends) {
        assert!(text(record, "message").ends_with(end), "{record:#}");
    }
    command
        .run(&["history"])
        .says("requested by carol: fixes the proxy");
    let metrics = get(&format!("http://{address}/metrics"));
    for action in ["paused", "resumed", "upgraded"] {
        let counted = format!("delegate_upgrader_outcomes_total{{action=\"{action}\"}} 1\n");
        assert!(metrics.contains(&counted), "{metrics}");
    }
    daemon.signal(Signal::TERM);

    // Another process that knows only the log reports none of it again, and without a daemon a command reports by itself.
    let mut next = command.clone().with("LISTEN_ADDR", "127.0.0.1:0").start();
    next.says("delegate is healthy", PATIENCE);
    next.signal(Signal::TERM);
    let nobody = command.clone().with("SUDO_USER", "root");
    nobody.run(&["pause", &name]).ended(0);
    heard(4);
    let known = records(&audit);
    assert_eq!(
        (known.len(), &known[3]["request"]),
        (4, &Value::Object(serde_json::Map::new()))
    );
    command.run(&["resume", &name]).ended(0);
}

#[test]
fn all_reports_of_outcomes_agree() {
    let lab = Lab::new("reporting");
    let environment = format!("DATABASE={PLANTED}");
    let name = lab.delegate("1", V1, &["--env", &environment]);
    let receiver = Receiver::start();
    let (upgrader, audit, _directory) = reporting(&lab, V2, &receiver.url);
    let mut first = upgrader.clone().with("RUN_ON_START", "true").start();
    first.says("the old container is gone", PATIENCE);
    eventually("the webhook hears of it", PATIENCE, || receiver.ids().len() == 1);
    let first_log = first.log();
    first.signal(Signal::KILL);

    let second = lab
        .upgrader(NEVER_HEALTHY)
        .with("AUDIT_LOG", audit.to_str().expect("UTF-8"))
        .with("WEBHOOK_URL", &receiver.url)
        .with(
            "WEBHOOK_SECRET",
            &format!("whsec_{}", BASE64_STANDARD.encode(KEY)),
        )
        .with("LOG_LEVEL", "trace")
        .with("RUN_ON_START", "true")
        .with("UPGRADE_HEALTHY_DEADLINE", "6s")
        .with("HEALTH_INTERVAL", "1s")
        .start();
    second.says("was rejected", PATIENCE);
    let log = second.log();
    let (_, rest) = log.split_once("status at http://").expect("an address");
    let address = rest.split('/').next().expect("an address").to_owned();
    // A daemon answers there, and reports the command's events.
    let back = upgrader
        .clone()
        .with("LISTEN_ADDR", &address)
        .run(&["rollback", &name])
        .ended(0);

    let records_now = records(&audit);
    assert_eq!(
        actions(&records_now),
        ["upgraded", "rejected", "rolled_back"],
        "{records_now:#?}"
    );
    let ids: Vec<String> = records_now.iter().map(|record| text(record, "id")).collect();
    eventually("the webhook hears of all", PATIENCE, || receiver.ids() == ids);
    for (event, record) in receiver
        .received
        .lock()
        .expect("it is so")
        .iter()
        .zip(&records_now)
    {
        assert_eq!(what(&event["data"]), what(record));
        assert_eq!(
            text(event, "type"),
            format!("io.delegate-upgrader.{}", text(record, "action"))
        );
        assert_eq!(text(event, "subject"), name);
    }
    let actors: Vec<String> = records_now.iter().map(|record| text(record, "actor")).collect();
    assert_eq!(actors, ["SYSTEM", "SYSTEM", "operator"]);
    assert_eq!(text(&records_now[0], "to"), image(V2));
    assert_eq!(text(&records_now[1], "to"), image(NEVER_HEALTHY));
    assert_eq!(text(&records_now[2], "to"), image(V1));

    let url = &format!("http://{address}/");
    let counted = |metrics: &str, action: &str, count: u64| {
        metrics.contains(&format!(
            "delegate_upgrader_outcomes_total{{action=\"{action}\"}} {count}\n"
        ))
    };
    eventually("the metrics count both", PATIENCE, || {
        let metrics = get(&format!("{url}metrics"));
        counted(&metrics, "rejected", 1) && counted(&metrics, "rolled_back", 1)
    });
    let delivered = "delegate_upgrader_webhook_deliveries_total{result=\"delivered\"} 2\n";
    eventually("they count the deliveries", PATIENCE, || {
        get(&format!("{url}metrics")).contains(delivered)
    });
    let metrics = get(&format!("{url}metrics"));
    let status: Value = serde_json::from_str(&get(&format!("{url}status"))).expect("JSON");
    assert_eq!(status["outcomes"]["rejected"], 1, "{status:#}");

    let history = upgrader.run(&["history", &name, "--json"]);
    let json: Value = serde_json::from_str(&history.text).expect("JSON");
    assert_eq!(json[0]["events"], Value::from(records_now.clone()));
    let table = upgrader.run(&["history"]);
    for words in [
        "as its owner",
        "replaced",
        "was rejected",
        "rolled back from",
        "in service",
    ] {
        let is_there = words == "as its owner" || table.text.contains(words);
        assert!(is_there, "no {words:?} in\n{}", table.text);
    }
    let page = get(url);
    for (what, output) in [
        ("the first log", first_log),
        ("the second log", second.log()),
        ("the rollback", back.text),
        (
            "the audit log",
            std::fs::read_to_string(&audit).expect("it is so"),
        ),
        ("the metrics", metrics),
        ("the status", status.to_string()),
        ("the history", history.text + &table.text),
        ("the page", page),
        ("the settings", upgrader.run(&["config"]).text),
        (
            "the webhook",
            format!("{:?}", receiver.received.lock().expect("it is so")),
        ),
    ] {
        assert!(!output.contains(PLANTED), "{what} has a secret:\n{output}");
        assert!(
            !output.contains(&BASE64_STANDARD.encode(KEY)),
            "{what} has the key:\n{output}"
        );
    }
}
