//! Whole runs against a stand-in for the API server, which replaces pods at once: no cluster is needed.

use std::collections::HashMap;
use std::io::{BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};

use chrono::Utc;
use kit::lab::wire::Message;
use serde_json::{Value, json};

use crate::read::deployment;

const A: &str = "harness/delegate:26.10.1";
const B: &str = "harness/delegate:26.11.1";
/// An image that never becomes available.
const BROKEN: &str = "harness/delegate:26.12.1";
/// An image for which the namespace accepts no pod.
const REFUSED: &str = "harness/delegate:26.12.2";

/// An API server with one Deployment, a Manager, and a registry with its token server.
pub(crate) struct StandIn {
    pub(crate) state: Arc<Mutex<State>>,
    directory: tempfile::TempDir,
    pub(crate) port: u16,
}

pub(crate) struct State {
    pub(crate) document: Value,
    patches: Vec<Value>,
    /// The number of runs that must send their first patch before one is answered.
    together: usize,
    conflicts: usize,
    may_patch: bool,
    /// The status and the words with which a policy refuses each patch.
    pub(crate) policy: Option<(u16, &'static str)>,
    /// The CronJob of the upgrader, if there is one.
    cron_job: Value,
    /// The ReplicaSets of the Deployment, which hold its former pod templates.
    pub(crate) replica_sets: Vec<Value>,
    /// An admission policy gives this variable a value of its own.
    pub(crate) sets: Option<&'static str>,
    /// The paths of the requests to the Manager and the registry, each with its login.
    pub(crate) asked: Vec<String>,
    /// The registry's digest for each tag, and the host of its token server.
    pub(crate) registry: Option<(String, String)>,
    /// By path, the documents of the registry and of the server that it redirects to, and the addresses of redirects.
    pub(crate) documents: HashMap<String, Value>,
}

impl State {
    /// The status and the body of the API server's answer.
    fn answer(&mut self, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
        let other = match path {
            "/version" => Some(json!({ "major": "1", "minor": "33", "gitVersion": "v1.33.4" })),
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" => {
                Some(json!({ "status": { "allowed": true } }))
            }
            "/apis/batch/v1/namespaces/ns/cronjobs/delegate%2Dupgrader%2Djob" => Some(self.cron_job.clone()),
            _ if path.contains("/replicasets?labelSelector=") => Some(json!({ "items": self.replica_sets })),
            _ if path.starts_with("/api/upgrade-check/") => {
                self.asked.push(path.to_owned());
                Some(
                    json!({ "metaData": {}, "resource": { "imageTag": B, "shouldUpgrade": true }, "responseMessages": [] }),
                )
            }
            _ => None,
        };
        if let Some(other) = other.filter(|other| !other.is_null()) {
            return (200, other);
        }
        if !path.contains("/deployments/delegate") || (method == "PATCH" && !self.may_patch) {
            let message = "deployments.apps \"delegate\" is forbidden: User \"upgrader\" cannot patch resource \"deployments\"";
            return (403, json!({ "kind": "Status", "code": 403, "message": message }));
        }
        if method == "PATCH" {
            let patch: Value = serde_json::from_slice(body).unwrap();
            let (asked, version) = (
                &patch["metadata"]["resourceVersion"],
                &self.document["metadata"]["resourceVersion"],
            );
            if !asked.is_null() && asked != version {
                self.conflicts += 1;
                let message = "the object has been modified; please apply your changes to the latest version";
                return (
                    409,
                    json!({ "kind": "Status", "code": 409, "reason": "Conflict", "message": message }),
                );
            }
            if path.contains("dryRun=All") {
                let before = (self.document.clone(), self.replica_sets.clone());
                self.apply(&patch);
                let after = std::mem::replace(&mut self.document, before.0);
                self.replica_sets = before.1;
                return (200, after);
            }
            self.patches.push(patch.clone());
            if let Some((code, message)) = self.policy {
                return (
                    code,
                    json!({ "kind": "Status", "code": code, "message": message }),
                );
            }
            self.apply(&patch);
        }
        (200, self.document.clone())
    }

    /// The status, the header and the body of an answer from the registry or its token server.
    fn registry_answer(&mut self, path: &str, login: &str) -> Option<(u16, String, Value)> {
        let is_token = path.starts_with("/token?");
        if !is_token && !path.starts_with("/v2/") && !path.starts_with("/storage/") {
            return None;
        }
        self.asked.push(format!("{path} {login}"));
        let header = |name: &str, value: &str| format!("{name}: {value}\r\n");
        Some(match &self.registry {
            _ if is_token => (200, String::new(), json!({ "token": "t" })),
            _ if login.is_empty() && path.starts_with("/storage/") => {
                (200, String::new(), self.documents[path].clone())
            }
            None => (404, String::new(), Value::Null),
            Some(_) if login == "Bearer t" && self.documents.contains_key(path) => {
                match &self.documents[path] {
                    Value::String(location) => (307, header("Location", location), Value::Null),
                    document => (200, String::new(), document.clone()),
                }
            }
            Some((digest, _)) if login == "Bearer t" => {
                (200, header("Docker-Content-Digest", digest), Value::Null)
            }
            Some((_, host)) => {
                let challenge = format!(
                    "Bearer realm=\"http://{host}/token\",service=\"s\",scope=\"repository:other:push\""
                );
                (401, header("WWW-Authenticate", &challenge), Value::Null)
            }
        })
    }

    fn apply(&mut self, patch: &Value) {
        let template = self.document["spec"]["template"].clone();
        let document = &mut self.document;
        let version = document["metadata"]["resourceVersion"].clone();
        let next = version.as_str().unwrap().parse::<u64>().unwrap() + 1;
        document["metadata"]["resourceVersion"] = json!(next.to_string());
        let annotations = document["metadata"]["annotations"].as_object_mut().unwrap();
        for (name, value) in patch["metadata"]["annotations"].as_object().unwrap() {
            annotations.insert(name.clone(), value.clone());
        }
        annotations.retain(|_, value| !value.is_null());
        if let Some(image) = patch.pointer("/spec/template/spec/containers/0/image") {
            let revision = self.replica_sets.len() + 1;
            self.replica_sets.push(json!({
                "metadata": {
                    "annotations": { "deployment.kubernetes.io/revision": revision.to_string() },
                    "ownerReferences": [{ "uid": "7a5b" }],
                },
                "spec": { "template": template },
            }));
            let container = &mut document["spec"]["template"]["spec"]["containers"][1];
            container["image"] = image.clone();
            let env = patch.pointer("/spec/template/spec/containers/0/env");
            for new in env.and_then(Value::as_array).into_iter().flatten() {
                let env = container["env"].as_array_mut().unwrap();
                env.retain(|old| old["name"] != new["name"]);
                let is_set = self.sets == new["name"].as_str();
                match new.get("$patch") {
                    Some(_) => {}
                    None if is_set => env.push(json!({ "name": new["name"], "value": "of the policy" })),
                    None => env.push(new.clone()),
                }
            }
            let fails = container["env"]
                .as_array()
                .unwrap()
                .iter()
                .any(|it| it["name"] == "FAILS");
            let metadata = patch.pointer("/spec/template/metadata").cloned();
            if let Some(metadata) = metadata {
                document["spec"]["template"]["metadata"] = metadata;
            }
            let (reason, updated, available) = match image.as_str() {
                _ if fails => ("ProgressDeadlineExceeded", 2, 0),
                Some(BROKEN) => ("ProgressDeadlineExceeded", 2, 0),
                Some(REFUSED) => ("ProgressDeadlineExceeded", 0, 2),
                _ => ("NewReplicaSetAvailable", 2, 2),
            };
            let now = Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
            document["status"]["updatedReplicas"] = json!(updated);
            document["status"]["availableReplicas"] = json!(available);
            document["status"]["conditions"] = json!([
                { "type": "Progressing", "status": "True", "reason": reason, "lastUpdateTime": now },
                { "type": "ReplicaFailure", "status": if updated == 0 { "True" } else { "False" }, "reason": "FailedCreate",
                  "message": "pods \"delegate-6f-x7k2p\" is forbidden: violates PodSecurity \"restricted:latest\"",
                  "lastUpdateTime": now, "lastTransitionTime": now },
            ]);
        }
    }
}

fn serve(stream: &TcpStream, state: &Mutex<State>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let request = Message::read(&mut reader)?;
        let (method, path) = (request.method(), request.target());
        let agent = concat!("delegate-upgrader/", env!("CARGO_PKG_VERSION"));
        assert_eq!(request.header("user-agent"), Some(agent), "{method} {path}");
        let login = request.header("authorization").unwrap_or_default();
        if method == "PATCH" {
            let waits_since = std::time::Instant::now();
            {
                let mut state = state.lock().unwrap();
                state.together = state.together.saturating_sub(1);
            }
            while state.lock().unwrap().together > 0 {
                assert!(
                    waits_since.elapsed().as_secs() < 60,
                    "the other run sends no patch"
                );
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
        let mut state = state.lock().unwrap();
        let (status, header, answer) = state.registry_answer(path, login).unwrap_or_else(|| {
            let (status, answer) = state.answer(method, path, &request.body);
            // Since 1.25, the API server warns about unknown fields and about versions that will be removed.
            let warning = "Warning: 299 - \"unknown field \\\"spec.x\\\"\"\r\n";
            (status, warning.to_owned(), answer)
        });
        let answer = answer.to_string();
        let head = format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{header}");
        let body = if method == "HEAD" { "" } else { &answer };
        write!(&*stream, "{head}Content-Length: {}\r\n\r\n{body}", answer.len()).ok()?;
    }
}

impl StandIn {
    pub(crate) fn with(annotations: &Value) -> Self {
        let mut document = deployment();
        document["metadata"]["annotations"] = annotations.clone();
        document["spec"]["minReadySeconds"] = json!(0);
        let state = Arc::new(Mutex::new(State {
            document,
            patches: Vec::new(),
            together: 0,
            conflicts: 0,
            may_patch: true,
            policy: None,
            cron_job: Value::Null,
            replica_sets: Vec::new(),
            sets: None,
            asked: Vec::new(),
            registry: None,
            documents: HashMap::new(),
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

    /// Runs one command with this published image; returns its exit code and its output.
    pub(crate) fn run(&self, command: &str, published: &str) -> (Option<i32>, String) {
        self.run_with(command, "", &[("PUBLISHED_IMAGE", published)])
    }

    /// Runs one command, which ends with this code and has written these images; returns its output.
    fn ran(&self, command: &str, published: &str, code: i32, images: &[Option<&str>]) -> String {
        let (ended, text) = self.run(command, published);
        let written = self.written();
        let written: Vec<_> = written.iter().map(Option::as_deref).collect();
        assert_eq!((ended, &written[..]), (Some(code), images), "{text}");
        text
    }

    /// Runs one command with these lines in the file and these variables.
    pub(crate) fn run_with(
        &self,
        command: &str,
        lines: &str,
        variables: &[(&str, &str)],
    ) -> (Option<i32>, String) {
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
            .envs(variables.iter().copied())
            .env("UPGRADE_HEALTHY_TIME", "1s")
            // The registry of an image that is old by now is not asked.
            .env("HTTPS_PROXY", "http://127.0.0.1:9")
            .env("NO_PROXY", "127.0.0.1,localhost")
            .arg("kubernetes")
            .args(command.split(' '))
            .arg("--config")
            .arg(write(
                "config.yaml",
                &format!("workloadName: delegate\nnamespace: ns\n{lines}"),
            ))
            .output()
            .unwrap();
        let texts = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (output.status.code(), texts.concat())
    }

    /// The images written since the last call, in this order; `None` for a patch of annotations only.
    pub(crate) fn written(&self) -> Vec<Option<String>> {
        let patches = std::mem::take(&mut self.state.lock().unwrap().patches);
        let image = |patch: &Value| {
            let image = patch.pointer("/spec/template/spec/containers/0/image");
            image.and_then(Value::as_str).map(str::to_owned)
        };
        patches.iter().map(image).collect()
    }

    /// Gives the Deployment an image, as its owner does.
    pub(crate) fn give(&self, image: &str) {
        let document = &mut self.state.lock().unwrap().document;
        document["spec"]["template"]["spec"]["containers"][1]["image"] = json!(image);
    }

    /// The value of a variable of the Deployment.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        let document = &self.state.lock().unwrap().document;
        let env = document["spec"]["template"]["spec"]["containers"][1]["env"].clone();
        let variable = env.as_array().unwrap().iter().find(|it| it["name"] == name)?;
        Some(variable["value"].as_str().unwrap_or_default().to_owned())
    }

    fn annotation(&self, name: &str) -> Option<String> {
        let state = self.state.lock().unwrap();
        let annotations = &state.document["metadata"]["annotations"];
        annotations[name].as_str().map(str::to_owned)
    }
}

#[test]
fn a_run_upgrades_and_the_next_run_writes_nothing() {
    let cluster = StandIn::with(&json!({}));
    let text = cluster.ran("once", B, 0, &[Some(B)]);
    assert!(text.contains("updating it to harness/delegate:26.11.1"), "{text}");
    cluster.ran("once", B, 0, &[]);
    cluster.ran("rollback", B, 0, &[Some(A)]);
    let text = cluster.ran("rollback", B, 1, &[]);
    assert!(text.contains("was already rolled back from"), "{text}");
}

#[test]
fn a_failed_upgrade_is_rolled_back() {
    let cluster = StandIn::with(&json!({}));
    cluster.ran("once", BROKEN, 0, &[Some(BROKEN), Some(A), None]);
    let failed = cluster.annotation("io.delegate-upgrader.failed-image");
    assert_eq!(failed, Some(BROKEN.to_owned()));

    // The failure has used up a number, and the history is ordered by seconds.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let text = cluster.ran("once", B, 0, &[Some(B)]);
    for releases in [
        "release=2 last_successful_release=0",
        "release=2 last_successful_release=2",
    ] {
        assert!(text.contains(releases), "{text}");
    }
    let text = cluster.ran("rollback --to 1", B, 2, &[]);
    let words = "delegate has no release 1 that is known here; known: 0";
    assert!(text.contains(words), "{text}");
    cluster.ran("rollback --to 0", B, 0, &[Some(A)]);
    let text = cluster.ran("history", B, 0, &[]);
    let row = |line: &str| {
        let cells: Vec<_> = line.split_whitespace().collect();
        format!("{} {} {}", cells[0], cells[2], cells[4])
    };
    let rows: Vec<_> = text.lines().skip(1).map(row).collect();
    let expected = format!("✓ 0 {A}, ✗ 1 {BROKEN}, ✓ 2 {B}, ✓ 3 {A}");
    assert_eq!(rows.join(", "), expected);
    assert_eq!(text.matches("in service").count(), 1, "{text}");
}

/// Each run decides before the other's patch: the faster patch makes a new version, so the API server refuses the other one.
#[test]
fn two_runs_at_once_write_the_image_once() {
    for (published, last) in [(B, None), (BROKEN, Some(A))] {
        let cluster = StandIn::with(&json!({}));
        cluster.state.lock().unwrap().together = 2;
        let runs = std::thread::scope(|scope| {
            let runs = [(); 2].map(|()| scope.spawn(|| cluster.run("once", published)));
            runs.map(|run| run.join().unwrap())
        });
        assert!(runs.iter().all(|(code, _)| *code == Some(0)), "{runs:?}");
        let images: Vec<_> = cluster.written().into_iter().flatten().collect();
        let expected: Vec<_> = [Some(published), last].into_iter().flatten().collect();
        assert_eq!(images, expected, "{runs:?}");
        assert!(cluster.state.lock().unwrap().conflicts > 0, "{runs:?}");
    }
}

/// `kubectl rollout undo` brings back the annotations of that time; the ReplicaSet that was left has the later ones.
#[test]
fn a_rollout_that_someone_has_undone_is_not_repeated() {
    let cluster = StandIn::with(&json!({ "deployment.kubernetes.io/revision": "3" }));
    let set = json!({
        "annotations": {
            "deployment.kubernetes.io/revision": "2",
            "io.delegate-upgrader.release": "1",
            "io.delegate-upgrader.attempt-image": B,
            "io.delegate-upgrader.attempt-from": A,
            "io.delegate-upgrader.attempt-since": "2026-01-01T00:00:00Z",
            "io.delegate-upgrader.attempt-intent": "upgrade",
            "io.delegate-upgrader.attempt-applied": "true",
        },
        "ownerReferences": [{ "uid": "7a5b" }],
    });
    let set = json!({ "metadata": set });
    cluster.state.lock().unwrap().replica_sets.push(set);
    for _ in 0..2 {
        let (code, text) = cluster.run("once", B);
        assert!(code == Some(0) && text.contains("rolled back from"), "{text}");
    }
    // The note, once.
    assert_eq!(cluster.written(), [None]);
    let (_, text) = cluster.run("retry", B);
    assert_eq!(cluster.written().last(), Some(&Some(B.to_owned())), "{text}");
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

#[test]
fn an_admission_policys_refusal_ends_the_run() {
    for (code, words) in [
        (
            422,
            "Deployment.apps \"delegate\" is invalid: ValidatingAdmissionPolicy 'images' denied request: not our registry",
        ),
        (
            403,
            "admission webhook \"validation.gatekeeper.sh\" denied the request: [images] not our registry",
        ),
        (
            400,
            "admission webhook \"validate.kyverno.svc-fail\" denied the request: not our registry",
        ),
    ] {
        let cluster = StandIn::with(&json!({}));
        cluster.state.lock().unwrap().policy = Some((code, words));
        // Kubernetes would repeat a failed Job.
        let text = cluster.ran("once", B, 0, &[Some(B)]);
        for words in ["reason=\"create_refused\"", "not our registry"] {
            assert!(text.contains(words), "{text}");
        }
    }
}

/// A quota, a policy, or the namespace's required security refuses the pod. The account may read only the Deployment.
#[test]
fn an_image_is_not_blamed_if_no_pod_could_be_created() {
    let cluster = StandIn::with(&json!({}));
    for _ in 0..2 {
        let text = cluster.ran("once", REFUSED, 0, &[Some(REFUSED), Some(A), None]);
        assert!(text.contains("violates PodSecurity"), "{text}");
        assert!(!text.contains("by someone else"), "{text}");
        for label in ["failed-image", "rolled-back-from", "attempt-image"] {
            let noted = cluster.annotation(&format!("io.delegate-upgrader.{label}"));
            assert_eq!(noted, None, "{text}");
        }
    }
}

#[test]
fn a_dry_run_writes_nothing_and_does_not_announce_an_upgrader() {
    for (dry_run, call) in [(true, "/delegate?"), (false, "/delegate-v2?")] {
        let cluster = StandIn::with(&json!({}));
        let manager = format!(
            "delegateConfig: {{accountId: a, managerHost: 'http://127.0.0.1:{}'}}",
            cluster.port
        );
        let lines = format!("dryRun: {dry_run}\n{manager}\n");
        let token = ("UPGRADER_TOKEN", "000102030405060708090a0b0c0d0e0f");
        let (code, text) = cluster.run_with("once", &lines, &[token]);
        assert_eq!((code, cluster.written().is_empty()), (Some(0), dry_run), "{text}");
        let is_said = text.contains("dryRun is true, so nothing is written");
        assert_eq!(is_said, dry_run, "{text}");
        let asked = &cluster.state.lock().unwrap().asked;
        assert!(
            !asked.is_empty() && asked.iter().all(|path| path.contains(call)),
            "{asked:?}"
        );
    }
}

#[test]
fn never_rolls_out_an_image_of_another_product_generation() {
    for (present, published) in [
        (A, "harness/delegate:3.2.1"),
        ("mirror.example/harness/delegate:3.2.1", B),
    ] {
        let cluster = StandIn::with(&json!({}));
        cluster.give(present);
        let (code, text) = cluster.run("once", published);
        assert_eq!((code, cluster.written()), (Some(0), vec![]), "{text}");
        assert!(text.contains("reason=\"other_generation\""), "{text}");
    }
}

#[test]
fn doctor_warns_of_a_cron_job_too_rare_for_the_manager() {
    let cases = [
        ("0 */1 * * *", false, "reachable, Kubernetes v1.33.4"),
        (
            "0 */2 * * *",
            false,
            "warn  CronJob        delegate-upgrader-job: its schedule 0 */2 * * * leaves 2h between two runs",
        ),
        ("*/5 8-18 * * *", false, "leaves 13h5m between two runs"),
        (
            "@hourly",
            true,
            "delegate-upgrader-job: it is suspended, and the Manager shows AUTO UPGRADE OFF",
        ),
    ];
    let cluster = StandIn::with(&json!({}));
    for (schedule, suspend, says) in cases {
        cluster.state.lock().unwrap().cron_job = json!({
            "apiVersion": "batch/v1", "kind": "CronJob",
            "spec": { "schedule": schedule, "suspend": suspend, "timeZone": "Etc/UTC", "concurrencyPolicy": "Forbid" },
        });
        let (code, text) = cluster.run("doctor", A);
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains(says), "{says}\n{text}");
        assert_eq!(
            text.contains("AUTO UPGRADE OFF"),
            says.contains("delegate") || says.contains("leaves"),
            "{text}"
        );
    }
}

#[test]
fn a_moving_tag_is_pinned_to_its_registry_digest() {
    let cluster = StandIn::with(&json!({}));
    let [one, two] = ["1", "2"].map(|digit| format!("sha256:{}", digit.repeat(64)));
    let registry = format!("127.0.0.1:{}", cluster.port);
    let (image, elsewhere) = (
        format!("{registry}/harness/delegate:latest"),
        format!("localhost:{}", cluster.port),
    );
    let login = [
        ("PUBLISHED_IMAGE", image.as_str()),
        ("REGISTRY_USERNAME", "u"),
        ("REGISTRY_PASSWORD", "p"),
    ];
    cluster.give(&image);
    let (code, text) = cluster.run_with("once", "", &login);
    assert_eq!((code, cluster.written()), (Some(0), vec![]), "{text}");
    assert!(
        text.contains("digest_unknown") && text.contains("the registry answers 404"),
        "{text}"
    );
    // A token server with another name gets no login.
    let logins = [(&one, &registry, "Basic dTpw"), (&two, &elsewhere, "")];
    for (digest, token_server, login_sent) in logins {
        cluster.state.lock().unwrap().registry = Some((digest.clone(), token_server.clone()));
        let (code, text) = cluster.run_with("once", "", &login);
        assert_eq!(code, Some(0), "{text}");
        assert_eq!(cluster.written(), [Some(format!("{image}@{digest}"))], "{text}");
        let asked = std::mem::take(&mut cluster.state.lock().unwrap().asked);
        let expected = format!("/token?service=s&scope=repository%3Aharness%2Fdelegate%3Apull {login_sent}");
        assert!(asked.contains(&expected), "{asked:?}");
        let (code, text) = cluster.run_with("once", "", &login);
        assert_eq!((code, cluster.written()), (Some(0), vec![]), "{text}");
        cluster.state.lock().unwrap().asked.clear();
    }
    // A version tag is fixed, so the registry is not asked.
    cluster.give(&image.replace("latest", "26.10.1"));
    let fixed = image.replace("latest", "26.11.1");
    let (code, text) = cluster.run("once", &fixed);
    assert_eq!((code, cluster.written()), (Some(0), vec![Some(fixed)]), "{text}");
    assert_eq!(cluster.state.lock().unwrap().asked, [""; 0], "{text}");
}
