//! One namespace with a delegate, an account for the upgrader, and a Manager that publishes an image.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use chrono::{DateTime, Utc};
use kit::lab::servers::{Server, TOKEN};
use kit::lab::{Run, env, eventually, expect, program, project, static_binary};
use serde_json::Value;
use tempfile::TempDir;

use super::rights::DOCUMENTED;
pub(crate) use kit::lab::PATIENCE;

/// The registry from which the cluster pulls.
pub(crate) const REGISTRY: &str = "127.0.0.1:5000";
pub(crate) const A: &str = "26.10.1";
pub(crate) const B: &str = "26.11.1";
/// An image that ends at once.
pub(crate) const C: &str = "26.12.1";
pub(crate) const ACCOUNT: &str = "acct-TEST_000000000000";

pub(crate) struct Site {
    pub(crate) namespace: String,
    directory: TempDir,
    manager: Option<Server>,
    /// The start of this run: an earlier run may have used the same namespace in a cluster that was left running.
    since: DateTime<Utc>,
    /// `workloadName`.
    pub(crate) workload: String,
    /// `containerName`.
    pub(crate) container: String,
    /// The value of `managerHost`, if it is not the Manager's own address.
    pub(crate) manager_host: Option<String>,
    /// The keys of the file in addition to the documented ones.
    pub(crate) keys: String,
    /// The variables of the process in addition to the token.
    pub(crate) variables: Vec<(String, String)>,
}

pub(crate) fn image(version: &str) -> String {
    format!("{REGISTRY}/harness/delegate:{version}")
}

fn images() {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        expect(&mut Command::new(project().join("tests/lab/kubernetes-images")));
    });
}

impl Site {
    /// A delegate with one pod that runs A, and the documented Role.
    pub(crate) fn new(test: &str) -> Self {
        Self::with(test, 1, DOCUMENTED)
    }

    pub(crate) fn with(test: &str, replicas: u64, rules: &str) -> Self {
        images();
        let site = Self {
            namespace: test.to_owned(),
            directory: tempfile::tempdir().expect("a directory"),
            manager: None,
            since: Utc::now(),
            workload: "delegate".to_owned(),
            container: "delegate".to_owned(),
            manager_host: None,
            keys: String::new(),
            variables: Vec::new(),
        };
        eventually("the namespace of an earlier run is gone", PATIENCE, || {
            let created = Command::new("kubectl")
                .args(["create", "namespace", test])
                .output();
            created.is_ok_and(|created| created.status.success())
        });
        site.apply(&deployment(replicas));
        site.permit(rules);
        eventually("the delegate runs", PATIENCE, || {
            let status = site.get();
            status["status"]["availableReplicas"].as_u64().unwrap_or_default() == replicas
        });
        site
    }

    /// Creates the upgrader's account, with these rules in its Role.
    pub(crate) fn permit(&self, rules: &str) {
        let manifest = self.write("rbac.yaml", &rbac(rules));
        let lab = env("LAB_KUBERNETES");
        let file = manifest.to_string_lossy().into_owned();
        let path = expect(Command::new(lab).args(["kubeconfig", &self.namespace, "upgrader", &file]));
        fs::copy(path.lines().last().unwrap_or_default(), self.kubeconfig()).expect("a kubeconfig");
    }

    /// A directory for the test's files.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, text).expect("a file");
        path
    }

    pub(crate) fn apply(&self, manifest: &str) {
        let path = self.write("manifest.yaml", manifest);
        self.kubectl(&["apply", "-f", &path.to_string_lossy()]);
    }

    /// `kubectl` as the administrator, in this namespace.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> String {
        expect(
            Command::new("kubectl")
                .args(["--namespace", &self.namespace])
                .args(arguments),
        )
    }

    pub(crate) fn get(&self) -> Value {
        let text = self.kubectl(&["get", "deployment", "delegate", "--output", "json"]);
        serde_json::from_str(&text).expect("a Deployment")
    }

    /// The image of the delegate's container.
    pub(crate) fn image(&self) -> String {
        let document = self.get();
        let image = &document["spec"]["template"]["spec"]["containers"][0]["image"];
        image.as_str().expect("an image").to_owned()
    }

    pub(crate) fn annotation(&self, name: &str) -> Option<String> {
        let name = format!("io.delegate-upgrader.{name}");
        Some(self.get()["metadata"]["annotations"][name].as_str()?.to_owned())
    }

    /// The images of the ready pods.
    pub(crate) fn running(&self) -> Vec<String> {
        let text = self.kubectl(&["get", "pods", "--selector", "app=delegate", "--output", "json"]);
        let list: Value = serde_json::from_str(&text).expect("a list");
        let pods = list["items"].as_array().expect("items").iter();
        let is_ready = |pod: &&Value| {
            let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
            pod["metadata"]["deletionTimestamp"].is_null() && ready.any(|ready| ready["status"] == "True")
        };
        let images = pods.filter(is_ready);
        images
            .map(|pod| {
                pod["spec"]["containers"][0]["image"]
                    .as_str()
                    .expect("an image")
                    .to_owned()
            })
            .collect()
    }

    /// Makes the Manager publish this version of the stock image.
    pub(crate) fn publish(&mut self, version: &str) {
        self.publish_image(&format!("harness/delegate:{version}"));
    }

    pub(crate) fn publish_image(&mut self, image: &str) {
        self.manager = Some(Server::start(|_, port| {
            let mut command = Command::new(static_binary("manager"));
            command
                .args(["serve", "--listen", &format!("0.0.0.0:{port}")])
                .args(["--account", ACCOUNT, "--token", TOKEN])
                .args(["--published", image]);
            command
        }));
    }

    /// The URL of the Manager, at this address of the node.
    pub(crate) fn manager(&self, host: &str) -> String {
        let manager = self.manager.as_ref().expect("something is published");
        format!("http://{host}:{}", manager.port)
    }

    /// The output of the Manager.
    pub(crate) fn asked(&self) -> String {
        self.manager
            .as_ref()
            .map(|manager| manager.read("output"))
            .unwrap_or_default()
    }

    /// The file in the chart's form.
    pub(crate) fn file(&self, host: &str) -> String {
        format!(
            "mode: Delegate\nworkloadName: {}\nnamespace: {}\ncontainerName: {}\n\
             delegateConfig:\n  accountId: {ACCOUNT}\n  managerHost: {}\nregistryMirror: {REGISTRY}\n{}",
            self.workload,
            self.namespace,
            self.container,
            self.manager_host.clone().unwrap_or_else(|| self.manager(host)),
            self.keys,
        )
    }

    /// The program with this account.
    pub(crate) fn command(&self, kubeconfig: &Path, arguments: &[&str]) -> Command {
        let file = self.write("config.yaml", &self.file("127.0.0.1"));
        let mut command = Command::new(program());
        command
            .env_clear()
            .env("KUBECONFIG", kubeconfig)
            .env("UPGRADER_TOKEN", TOKEN)
            .env("UPGRADE_HEALTHY_TIME", "2s")
            .env("UPGRADE_HEALTHY_DEADLINE", "60s")
            .env("LOG_LEVEL", "debug")
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .arg("kubernetes")
            .args(arguments)
            .args(["--config", &file.to_string_lossy()])
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        let output = self
            .command(&self.kubeconfig(), arguments)
            .output()
            .expect("the program");
        let texts = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Run {
            code: output.status.code(),
            text: texts.concat(),
        }
    }

    /// Starts the program, with its output in a file of this name.
    pub(crate) fn start(&self, kubeconfig: &Path, output: &str, arguments: &[&str]) -> Child {
        let file = fs::File::create(self.directory.path().join(output)).expect("a file");
        let mut command = self.command(kubeconfig, arguments);
        command.stdout(file.try_clone().expect("a file")).stderr(file);
        command.spawn().expect("the program")
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.directory.path().join(name)).unwrap_or_default()
    }

    /// The requests of the upgrader's account to the API server so far: verb, path, status and body.
    pub(crate) fn requests(&self) -> Vec<Value> {
        let user = format!("system:serviceaccount:{}:upgrader", self.namespace);
        let log = fs::read_to_string(env("LAB_KUBERNETES_AUDIT")).expect("the audit log");
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let is_new = |line: &Value| {
            let at = line["requestReceivedTimestamp"].as_str().unwrap_or_default();
            at.parse::<DateTime<Utc>>().is_ok_and(|at| at >= self.since)
        };
        lines
            .filter(|line| line["user"]["username"] == user.as_str() && is_new(line))
            .collect()
    }

    /// The writes of the upgrader's account.
    pub(crate) fn writes(&self) -> Vec<Value> {
        let mut requests = self.requests();
        requests.retain(|request| {
            !["get", "list", "watch"].contains(&request["verb"].as_str().unwrap_or_default())
        });
        requests
    }

    /// The images that the upgrader wrote, in this order.
    pub(crate) fn images_written(&self) -> Vec<String> {
        let writes = self.writes();
        let images = writes
            .iter()
            .filter(|write| write["responseStatus"]["code"] == 200)
            .filter_map(|write| {
                let containers = write.pointer("/requestObject/spec/template/spec/containers")?;
                Some(containers[0]["image"].as_str()?.to_owned())
            });
        images.collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = Command::new("kubectl")
            .args(["delete", "namespace", &self.namespace, "--wait=false"])
            .output();
    }
}

/// A delegate with a sidecar, as the chart creates it, but ready sooner.
pub(crate) fn deployment(replicas: u64) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: delegate, labels: {{app: delegate}}}}
spec:
  replicas: {replicas}
  minReadySeconds: 1
  progressDeadlineSeconds: 25
  selector: {{matchLabels: {{app: delegate}}}}
  template:
    metadata: {{labels: {{app: delegate}}}}
    spec:
      terminationGracePeriodSeconds: 20
      containers:
      - name: delegate
        image: {}
        imagePullPolicy: IfNotPresent
        env: [{{name: DELEGATE_NAME, value: kubernetes-delegate}}, {{name: DELEGATE_TOKEN, value: {TOKEN}}}]
        startupProbe: {{httpGet: {{path: /api/health, port: 3460}}, periodSeconds: 1, failureThreshold: 30}}
        livenessProbe: {{httpGet: {{path: /api/health, port: 3460}}, periodSeconds: 2}}
      - name: sidecar
        image: kubernetes-lab/busybox:1
        imagePullPolicy: IfNotPresent
        command: [sleep, '100000']
",
        image(A)
    )
}

fn rbac(rules: &str) -> String {
    format!(
        "apiVersion: v1
kind: ServiceAccount
metadata: {{name: upgrader}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: upgrader}}
rules:{rules}---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: upgrader}}
subjects: [{{kind: ServiceAccount, name: upgrader}}]
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: upgrader}}
"
    )
}
