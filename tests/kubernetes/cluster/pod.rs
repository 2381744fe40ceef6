//! In a pod, as the documented manifest and the chart run it: no command, a mounted file, the account's own token.

use std::process::Command;

use kit::lab::servers::TOKEN;
use kit::lab::{env, eventually, expect};

use super::site::{A, B, PATIENCE, Site, image};

/// A cron job as in the documented manifest; 1.20 has it as batch/v1beta1.
fn cron_job(site: &Site, upgrader: &str) -> String {
    let file: Vec<String> = site
        .file("172.30.0.1")
        .lines()
        .map(|line| format!("    {line}\n"))
        .collect();
    let file = file.concat();
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
apiVersion: batch/v1beta1
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
        spec:
          serviceAccountName: upgrader
          restartPolicy: Never
          securityContext: {{runAsNonRoot: true, runAsUser: 65532}}
          containers:
          - name: upgrader
            image: {upgrader}
            imagePullPolicy: IfNotPresent
            securityContext: {{readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}
            envFrom: [{{secretRef: {{name: delegate-upgrader-token}}}}]
            env: [{{name: HEALTHY_TIME, value: 2s}}]
            volumeMounts: [{{name: config-volume, mountPath: /etc/config}}]
          volumes: [{{name: config-volume, configMap: {{name: delegate-upgrader-config}}}}]
"
    )
}

/// Runs the job once; what its pod logged.
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
    let upgrader = "delegate-upgrader-kubernetes:test";
    let script = kit::lab::project().join("tests/lab/upgrader-image");
    expect(
        Command::new(script)
            .args([upgrader, &env("LAB_KUBERNETES_UPGRADER")])
            .env("FOR", "kubernetes"),
    );
    site.apply(&cron_job(&site, upgrader));
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
    site.apply(&cron_job(&site, upgrader));
    let log = run_job(&site, "third");
    assert_eq!(site.image(), image(A), "{log}");
}
