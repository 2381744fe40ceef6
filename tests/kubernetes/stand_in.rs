//! Whole runs against a stand-in for the API server, which replaces pods at once: no cluster is needed.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};

use chrono::Utc;
use serde_json::{Value, json};

use crate::read::deployment;

const A: &str = "harness/delegate:26.10.1";
const B: &str = "harness/delegate:26.11.1";
/// Never becomes available.
const BROKEN: &str = "harness/delegate:26.12.1";
const HOLDER: &str = "io.delegate-upgrader.holder";

/// An API server with one Deployment.
struct StandIn {
    state: Arc<Mutex<State>>,
    directory: tempfile::TempDir,
    port: u16,
}

struct State {
    document: Value,
    patches: Vec<Value>,
    may_patch: bool,
}

impl State {
    /// The status and the body of an answer.
    fn answer(&mut self, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
        if !path.contains("/deployments/delegate") || (method == "PATCH" && !self.may_patch) {
            let message = "deployments.apps \"delegate\" is forbidden: User \"upgrader\" cannot patch resource \"deployments\"";
            return (403, json!({ "kind": "Status", "code": 403, "message": message }));
        }
        if method == "PATCH" {
            let patch: Value = serde_json::from_slice(body).unwrap();
            self.apply(&patch);
            self.patches.push(patch);
        }
        (200, self.document.clone())
    }

    fn apply(&mut self, patch: &Value) {
        let document = &mut self.document;
        let version = document["metadata"]["resourceVersion"].clone();
        assert_eq!(patch["metadata"]["resourceVersion"], version, "an older version");
        let next = version.as_str().unwrap().parse::<u64>().unwrap() + 1;
        document["metadata"]["resourceVersion"] = json!(next.to_string());
        let annotations = document["metadata"]["annotations"].as_object_mut().unwrap();
        for (name, value) in patch["metadata"]["annotations"].as_object().unwrap() {
            annotations.insert(name.clone(), value.clone());
        }
        annotations.retain(|_, value| !value.is_null());
        if let Some(image) = patch.pointer("/spec/template/spec/containers/0/image") {
            document["spec"]["template"]["spec"]["containers"][1]["image"] = image.clone();
            let (reason, available) = match image.as_str() {
                Some(BROKEN) => ("ProgressDeadlineExceeded", 0),
                _ => ("NewReplicaSetAvailable", 2),
            };
            let now = Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
            document["status"]["availableReplicas"] = json!(available);
            document["status"]["conditions"] =
                json!([{ "type": "Progressing", "status": "True", "reason": reason, "lastUpdateTime": now }]);
        }
    }
}

fn serve(stream: &TcpStream, state: &Mutex<State>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut first = String::new();
        reader.read_line(&mut first).ok()?;
        let mut words = first.split_whitespace();
        let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut length = 0;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).ok()?;
            let header = header.trim().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let (status, answer) = state.lock().unwrap().answer(&method, &path, &body);
        let answer = answer.to_string();
        let head = format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n");
        write!(&*stream, "{head}Content-Length: {}\r\n\r\n{answer}", answer.len()).ok()?;
    }
}

impl StandIn {
    fn with(annotations: &Value) -> Self {
        let mut document = deployment();
        document["metadata"]["annotations"] = annotations.clone();
        document["spec"]["minReadySeconds"] = json!(0);
        let state = Arc::new(Mutex::new(State {
            document,
            patches: Vec::new(),
            may_patch: true,
        }));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, state) = (stream.unwrap(), Arc::clone(&shared));
                std::thread::spawn(move || serve(&stream, &state));
            }
        });
        let directory = tempfile::tempdir().unwrap();
        Self {
            state,
            directory,
            port,
        }
    }

    /// One command, with this image published: its exit code and its output.
    fn run(&self, command: &str, published: &str) -> (Option<i32>, String) {
        let write = |name: &str, text: &str| {
            let path = self.directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let kubeconfig = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{}'}}}}]\n\
             users: [{{name: u, user: {{}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: u, namespace: ns}}}}]\n",
            self.port
        );
        let output = Command::new(env!("CARGO_BIN_EXE_delegate-upgrader"))
            .env_clear()
            .env("KUBECONFIG", write("kubeconfig", &kubeconfig))
            .env("PUBLISHED_IMAGE", published)
            .env("UPGRADE_HEALTHY_TIME", "1s")
            .arg("kubernetes")
            .args(command.split(' '))
            .arg("--config")
            .arg(write("config.yaml", "workloadName: delegate\nnamespace: ns\n"))
            .output()
            .unwrap();
        let texts = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (output.status.code(), texts.concat())
    }

    /// The images that were written since the last look, in this order; `None` for a patch of annotations only.
    fn written(&self) -> Vec<Option<String>> {
        let patches = std::mem::take(&mut self.state.lock().unwrap().patches);
        let image = |patch: &Value| {
            let image = patch.pointer("/spec/template/spec/containers/0/image");
            image.and_then(Value::as_str).map(str::to_owned)
        };
        patches.iter().map(image).collect()
    }

    fn annotation(&self, name: &str) -> Option<String> {
        let state = self.state.lock().unwrap();
        let annotations = &state.document["metadata"]["annotations"];
        annotations[name].as_str().map(str::to_owned)
    }
}

#[test]
fn a_run_that_is_over_leaves_no_lock_and_the_next_one_writes_nothing() {
    let cluster = StandIn::with(&json!({}));
    let (code, text) = cluster.run("once", B);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("updating it to harness/delegate:26.11.1"), "{text}");
    assert_eq!(cluster.written(), [Some(B.to_owned()), None], "{text}");
    assert_eq!(cluster.annotation(HOLDER), None);
    let (code, text) = cluster.run("once", B);
    assert_eq!((code, cluster.written()), (Some(0), vec![]), "{text}");
    let (code, text) = cluster.run("rollback", B);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(cluster.written(), [Some(A.to_owned()), None], "{text}");
    let (code, text) = cluster.run("rollback", B);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("was already rolled back from"), "{text}");
}

#[test]
fn a_failure_goes_back_and_its_last_patch_takes_the_lock_away() {
    let cluster = StandIn::with(&json!({}));
    let (code, text) = cluster.run("once", BROKEN);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(
        cluster.written(),
        [Some(BROKEN.to_owned()), Some(A.to_owned()), None],
        "{text}"
    );
    assert_eq!(cluster.annotation(HOLDER), None);
    let failed = cluster.annotation("io.delegate-upgrader.failed-image");
    assert_eq!(failed, Some(BROKEN.to_owned()));

    // The failure has taken a number.
    let (code, text) = cluster.run("once", B);
    assert_eq!(
        (code, cluster.written()),
        (Some(0), vec![Some(B.to_owned()), None]),
        "{text}"
    );
    for releases in [
        "release=2 last_successful_release=0",
        "release=2 last_successful_release=2",
    ] {
        assert!(text.contains(releases), "{text}");
    }
    let (code, text) = cluster.run("rollback --to 1", B);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("delegate has no release 1 that is known here; known: 0"),
        "{text}"
    );
    let (code, text) = cluster.run("rollback --to 0", B);
    assert_eq!(
        (code, cluster.written()),
        (Some(0), vec![Some(A.to_owned()), None]),
        "{text}"
    );
    let (code, text) = cluster.run("history", B);
    let rows = text
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let rows: Vec<_> = rows
        .map(|cells| format!("{} {} {}", cells[0], cells[2], cells[4]))
        .collect();
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(
        rows,
        [
            format!("✓ 0 {A}"),
            format!("✗ 1 {BROKEN}"),
            format!("✓ 2 {B}"),
            format!("✓ 3 {A}")
        ]
    );
    assert_eq!(text.matches("in service").count(), 1, "{text}");
}

#[test]
fn the_lock_of_a_process_that_is_gone_holds_back_nothing_once_nothing_is_in_progress() {
    // Someone went back from what was tried.
    let cluster = StandIn::with(&json!({
        HOLDER: "gone/1", "io.delegate-upgrader.holder-renewed": "3",
        "io.delegate-upgrader.attempt-image": B, "io.delegate-upgrader.attempt-from": A,
        "io.delegate-upgrader.attempt-since": "2026-11-24T11:30:00Z",
        "io.delegate-upgrader.attempt-intent": "upgrade", "io.delegate-upgrader.attempt-applied": "true",
    }));
    let (code, text) = cluster.run("once", B);
    assert_eq!(code, Some(0), "{text}");
    assert!(!text.contains("stands by"), "{text}");
    assert!(text.contains("rolled back from"), "{text}");
    assert_eq!(
        (cluster.written(), cluster.annotation(HOLDER)),
        (vec![None], None)
    );
}

#[test]
fn a_missing_permission_is_reported_once_by_its_name() {
    let cluster = StandIn::with(&json!({}));
    cluster.state.lock().unwrap().may_patch = false;
    let (code, text) = cluster.run("once", B);
    assert_eq!(code, Some(1), "{text}");
    assert_eq!(text.matches("WARN").count(), 1, "{text}");
    assert!(text.contains("reason=\"not_permitted\""), "{text}");
    assert!(text.contains("cannot patch resource \"deployments\""), "{text}");
}
