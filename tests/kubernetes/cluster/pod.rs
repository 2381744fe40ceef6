//! The upgrader in a pod, as the documented manifest and the chart run it: no command, a mounted file, the account's own token.

use std::process::Command;
use std::sync::OnceLock;

use kit::lab::servers::{TOKEN, fixture, nginx, own_certificate, squid};
use kit::lab::{env, eventually, expect};

use super::site::{A, B, PATIENCE, Site, image};

/// The address at which pods reach the node.
const NODE: &str = "172.30.0.1";

/// The image for clusters, which the node has.
fn upgrader() -> &'static str {
    const IMAGE: &str = "delegate-upgrader-kubernetes:test";
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        let script = kit::lab::project().join("tests/lab/upgrader-image");
        expect(
            Command::new(script)
                .args([IMAGE, &env("LAB_KUBERNETES_UPGRADER")])
                .env("FOR", "kubernetes"),
        );
    });
    IMAGE
}

/// The parts of an upgrader's pod in addition to the documented manifest.
#[derive(Default)]
struct Extra {
    variables: Vec<(&'static str, String)>,
    /// Secrets and their mount points.
    secrets: Vec<(&'static str, &'static str)>,
}

/// The file and the token.
fn settings(site: &Site) -> String {
    let lines = site.file(NODE);
    let lines = lines.lines().map(|line| format!("    {line}\n"));
    let file: String = lines.collect();
    format!(
        "apiVersion: v1
kind: Secret
metadata: {{name: delegate-upgrader-token}}
stringData: {{UPGRADER_TOKEN: '{TOKEN}'}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: delegate-upgrader-config}}
data:
  config.yaml: |
{file}---
"
    )
}

/// A pod's `spec`, on one line.
fn pod(arguments: &str, restart: &str, extra: &Extra) -> String {
    let variables = extra.variables.iter();
    let variables: Vec<String> = variables
        .map(|(name, value)| format!(", {{name: {name}, value: '{value}'}}"))
        .collect();
    let secrets = extra.secrets.iter();
    let mounts: Vec<String> = secrets
        .clone()
        .map(|(name, path)| format!(", {{name: {name}, mountPath: {path}, readOnly: true}}"))
        .collect();
    let volumes: Vec<String> = secrets
        .map(|(name, _)| format!(", {{name: {name}, secret: {{secretName: {name}}}}}"))
        .collect();
    let (variables, mounts, volumes) = (variables.concat(), mounts.concat(), volumes.concat());
    format!(
        "{{serviceAccountName: upgrader, restartPolicy: {restart}, \
         securityContext: {{runAsNonRoot: true, runAsUser: 65532}}, \
         containers: [{{name: upgrader, image: '{}', imagePullPolicy: IfNotPresent, {arguments} \
         securityContext: {{readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}, \
         envFrom: [{{secretRef: {{name: delegate-upgrader-token}}}}], \
         env: [{{name: UPGRADE_HEALTHY_TIME, value: 2s}}{variables}], \
         volumeMounts: [{{name: config-volume, mountPath: /etc/config}}{mounts}]}}], \
         volumes: [{{name: config-volume, configMap: {{name: delegate-upgrader-config}}}}{volumes}]}}",
        upgrader()
    )
}

/// A cron job as in the documented manifest; 1.20 knows it as batch/v1beta1.
fn cron_job(site: &Site, extra: &Extra) -> String {
    format!(
        "{}apiVersion: batch/v1beta1
kind: CronJob
metadata: {{name: delegate-upgrader-job}}
spec:
  schedule: '0 */1 * * *'
  suspend: true
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 20
  jobTemplate:
    spec:
      template:
        spec: {}
",
        settings(site),
        pod("", "Never", extra)
    )
}

/// Runs the job once; returns its pod's log.
fn run_job(site: &Site, name: &str) -> String {
    site.kubectl(&["create", "job", "--from=cronjob/delegate-upgrader-job", name]);
    eventually("the job has ended", PATIENCE, || {
        let status = site.kubectl(&[
            "get",
            "job",
            name,
            "--output",
            "jsonpath={.status.succeeded}{.status.failed}",
        ]);
        !status.is_empty()
    });
    let log = site.kubectl(&["logs", &format!("job/{name}")]);
    let succeeded = site.kubectl(&["get", "job", name, "--output", "jsonpath={.status.succeeded}"]);
    assert_eq!(succeeded, "1", "{log}");
    log
}

#[test]
#[ignore = "needs a cluster: make kubernetes"]
fn the_documented_cron_job_upgrades_with_only_its_image_changed() {
    let mut site = Site::new("cron-job");
    site.publish(B);
    site.apply(&cron_job(&site, &Extra::default()));
    let log = run_job(&site, "first");
    assert_eq!(site.image(), image(B), "{log}");
    assert!(
        log.contains(&format!("updating it to {}", image(B))) || log.contains("about to be tried"),
        "{log}"
    );
    let log = run_job(&site, "second");
    assert!(log.contains("runs the published image"), "{log}");
    assert_eq!(site.images_written(), [image(B)]);
    site.publish(A);
    site.apply(&cron_job(&site, &Extra::default()));
    let log = run_job(&site, "third");
    assert_eq!(site.image(), image(A), "{log}");
}

/// Everything that the chart can put in the way: a proxy that requires a login, a server that requires a client
/// certificate, and a self-signed certificate. Requests to the API server do not use the proxy.
#[test]
#[ignore = "needs a cluster: make kubernetes"]
fn reaches_the_manager_by_authenticated_proxy_and_client_certificate() {
    const PASSWORD: &str = "p~a>s?s+/@:%41";
    let mut site = Site::new("ways");
    site.publish(B);
    let manager = site.manager("127.0.0.1").replace("http://", "");
    let (certificate, key) = own_certificate(site.directory(), NODE);
    let tls = nginx(&manager, (&certificate, &key), Some(&fixture("ca.pem")));
    let proxy = squid("delegate+upgrader", PASSWORD);
    site.kubectl(&[
        "create",
        "secret",
        "generic",
        "ca",
        &format!("--from-file=ca.pem={certificate}"),
    ]);
    let files = ["client.pem", "client.key"].map(|name| (name.replace("pem", "crt"), fixture(name)));
    let [crt, key] = files.map(|(name, path)| format!("--from-file={name}={path}"));
    site.kubectl(&["create", "secret", "generic", "mtls", &crt, &key]);
    site.manager_host = Some(format!("https://{NODE}:{}", tls.port));
    let port = proxy.port;
    let with_proxy = format!(
        "proxyManager: true\nproxyScheme: http\nproxyHost: {NODE}\nproxyPort: {port}\n\
         proxyUser: delegate+upgrader\nproxyPassword: {PASSWORD}\n"
    );
    let certified = "clientCertificateFilePath: /etc/mtls/client.crt\n\
                     clientCertificateKeyFilePath: /etc/mtls/client.key\n";
    let extra = Extra {
        variables: vec![("LOG_LEVEL", "debug".to_owned())],
        secrets: vec![("ca", "/ca-bundle"), ("mtls", "/etc/mtls")],
    };
    // Without a client certificate it says so, and changes nothing.
    site.keys.clone_from(&with_proxy);
    site.apply(&cron_job(&site, &extra));
    let log = run_job(&site, "without");
    assert!(log.contains("CLIENT_CERT"), "{log}");
    assert_eq!(site.image(), image(A), "{log}");
    site.keys = format!("{with_proxy}{certified}");
    site.apply(&cron_job(&site, &extra));
    let log = run_job(&site, "with") + &log;
    assert_eq!(site.image(), image(B), "{log}");
    let asked = proxy.read("access.log");
    // The check whether the proxy listens sent no request.
    let is_request = |line: &&str| !line.contains("transaction-end-before-headers");
    let requests: Vec<&str> = asked.lines().filter(is_request).collect();
    assert!(!requests.is_empty());
    let target = format!("CONNECT {NODE}:{} ", tls.port);
    for request in requests {
        assert!(
            request.contains(&target) && request.contains("delegate+upgrader"),
            "{request}"
        );
    }
    let written: String = site.requests().iter().map(ToString::to_string).collect();
    for secret in [PASSWORD, TOKEN] {
        assert!(!log.contains(secret) && !written.contains(secret), "{log}");
    }
}

/// The upgrader's own Deployment runs all the time, on a schedule; if its pod is deleted, another pod continues.
#[test]
#[ignore = "needs a cluster: make kubernetes"]
fn a_deployment_of_the_upgrader_runs_on_its_schedule() {
    let mut site = Site::new("scheduled");
    site.publish(B);
    let extra = Extra {
        variables: vec![
            ("SCHEDULE", "*/5 * * * * *".to_owned()),
            ("LISTEN_ADDR", "0.0.0.0:9464".to_owned()),
        ],
        secrets: Vec::new(),
    };
    let arguments = "args: [kubernetes, run], \
                     readinessProbe: {httpGet: {path: /readyz, port: 9464}, periodSeconds: 1}, \
                     livenessProbe: {httpGet: {path: /livez, port: 9464}, periodSeconds: 1},";
    let manifest = |site: &Site| {
        format!(
            "{}apiVersion: apps/v1
kind: Deployment
metadata: {{name: upgrader}}
spec:
  strategy: {{type: Recreate}}
  selector: {{matchLabels: {{app: upgrader}}}}
  template:
    metadata: {{labels: {{app: upgrader}}}}
    spec: {}
",
            settings(site),
            pod(arguments, "Always", &extra)
        )
    };
    site.apply(&manifest(&site));
    site.kubectl(&["rollout", "status", "deployment/upgrader", "--timeout=60s"]);
    eventually("its first run upgrades", PATIENCE, || {
        site.running() == [image(B)]
    });
    let log = || site.kubectl(&["logs", "deployment/upgrader"]);
    eventually("a later run has nothing to do", PATIENCE, || {
        log().contains("runs the published image")
    });
    // One pod starts the next image, and another pod follows it.
    let mut site = site;
    site.publish(A);
    site.apply(&manifest(&site));
    site.kubectl(&["rollout", "restart", "deployment/upgrader"]);
    eventually("the next one begins", PATIENCE, || site.image() == image(A));
    site.kubectl(&["delete", "pod", "--selector", "app=upgrader", "--now"]);
    eventually("the delegate runs it", PATIENCE, || site.running() == [image(A)]);
    site.kubectl(&["rollout", "status", "deployment/upgrader", "--timeout=60s"]);
    let log = || site.kubectl(&["logs", "deployment/upgrader"]);
    eventually("a later run has nothing to do", PATIENCE, || {
        log().contains("runs the published image")
    });
    assert_eq!(site.images_written(), [image(B), image(A)]);
    let restarts = "jsonpath={.items[0].status.containerStatuses[0].restartCount}";
    let pods = ["get", "pods", "--selector", "app=upgrader", "--output", restarts];
    assert_eq!(site.kubectl(&pods), "0", "{}", log());
}

/// The run that Kubernetes itself starts gives its own CronJob another image, and the next run has that image.
#[test]
#[ignore = "needs a cluster: make kubernetes"]
fn a_cron_job_follows_the_image_of_the_upgrader() {
    let mut site = Site::new("self-upgrade");
    site.publish(A);
    let next = "delegate-upgrader-kubernetes:next";
    let extra = Extra {
        variables: vec![("SELF_UPGRADE", next.to_owned())],
        secrets: Vec::new(),
    };
    let manifest = cron_job(&site, &extra)
        .replace("suspend: true", "suspend: false")
        .replace("0 */1 * * *", "* * * * *");
    kit::lab::docker(&["tag", upgrader(), next]);
    site.apply(&manifest);
    let cron = |path: &str| {
        let output = format!("jsonpath={{{path}}}");
        site.kubectl(&["get", "cronjob", "delegate-upgrader-job", "--output", &output])
    };
    let image = ".spec.jobTemplate.spec.template.spec.containers[0].image";
    let minutes = PATIENCE * 2;
    eventually("the CronJob has the next image", minutes, || cron(image) == next);
    assert_eq!(
        cron(".metadata.annotations.io\\.delegate-upgrader\\.previous-image"),
        upgrader()
    );
    eventually("a run of the next image has ended well", minutes, || {
        let path =
            "jsonpath={range .items[?(@.status.phase==\"Succeeded\")]}{.spec.containers[0].image} {end}";
        site.kubectl(&["get", "pods", "--output", path]).contains(next)
    });
    assert_eq!(site.image(), super::site::image(A));
}
