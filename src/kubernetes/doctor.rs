//! `kubernetes doctor`: checks the permissions of this pod's account, and the conditions that an upgrade would meet.

use serde_json::{Value, json};

use super::cluster::Cluster;
use super::own;
use super::settings::ClusterSettings;
use crate::doctor::Checks;
use crate::doctor::oldest::KUBERNETES;
use crate::host;
use crate::managed::Refusal;

const SELF: &str = "SELF_UPGRADE does nothing";

/// The calls that the account needs: group, resource, verb, and the loss without the call if the rest still works.
const CALLS: [(&str, &str, &str, Option<&str>); 7] = [
    ("apps", "deployments", "get", None),
    ("apps", "deployments", "patch", None),
    ("", "pods", "list", Some("reports do not say why pods fail")),
    (
        "",
        "pods/log",
        "get",
        Some("the last log lines of a pod that fails are not shown"),
    ),
    (
        "apps",
        "replicasets",
        "list",
        Some("`kubernetes reconfigure` is refused, and `kubectl rollout undo` is not noticed"),
    ),
    ("batch", "cronjobs", "get", Some(SELF)),
    ("batch", "cronjobs", "patch", Some(SELF)),
];

/// Checks the API server, and the permissions for each Deployment.
pub(crate) async fn check(
    cluster: &Cluster,
    settings: &ClusterSettings,
    namespace: &str,
    checks: &mut Checks,
) {
    match cluster.get("/version").await {
        Ok(version) => {
            let version = version["gitVersion"].as_str().unwrap_or("of an unknown version");
            let warning = KUBERNETES.warning(version);
            checks.judged("API server", format!("reachable, Kubernetes {version}"), warning);
        }
        // An account may lack the permission for this request.
        Err(Refusal::NotPermitted(_)) => checks.ok("API server", "reachable"),
        Err(error) => {
            checks.fail("API server", error.to_string());
            return;
        }
    }
    for name in &settings.common.workload_names {
        check_permissions(cluster, settings, (namespace, name), checks).await;
    }
    // Outside a pod, use the name that the manifest and the chart give the CronJob: NAME-upgrader-job.
    let pod = host::name();
    let names = settings
        .common
        .workload_names
        .first()
        .map(|name| format!("{name}-upgrader-job"));
    if let Some(name) = own::cronjob_of(&pod).or(names.as_deref())
        && let Some(warning) = own::silence(cluster, namespace, name).await
    {
        checks.warn("CronJob", warning);
    }
}

async fn check_permissions(
    cluster: &Cluster,
    ClusterSettings { common, dry_run, .. }: &ClusterSettings,
    (namespace, name): (&str, &str),
    checks: &mut Checks,
) {
    let reads_only = *dry_run || common.policy.health_only;
    let mut permitted = Vec::new();
    for (group, resource, verb, without) in CALLS {
        if (resource == "cronjobs" && !common.self_upgrade) || (reads_only && verb == "patch") {
            continue;
        }
        let object = if resource == "deployments" { name } else { "" };
        let what = format!("{verb} {resource}");
        match (may(cluster, namespace, (group, resource, verb, object)).await, without) {
            (Ok(true), _) => permitted.push(what),
            (Ok(false), None) => checks.fail(
                "permissions",
                format!(
                    "the account may not {what} in {namespace}, for {name}: grant it in the Role, and check that the RoleBinding binds the Role \
                     to this account"
                ),
            ),
            (Ok(false), Some(loss)) => {
                checks.warn("permissions", format!("the account may not {what}: {loss}"));
            }
            (Err(error), _) => {
                checks.warn("permissions", format!("cannot check whether the account may {what}: {error}"));
            }
        }
    }
    if !permitted.is_empty() {
        checks.ok("permissions", format!("{name}: {}", permitted.join(", ")));
    }
}

/// Whether this account has the permission. Every account may ask this.
async fn may(
    cluster: &Cluster,
    namespace: &str,
    (group, resource, verb, name): (&str, &str, &str, &str),
) -> Result<bool, Refusal> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": { "resourceAttributes": {
            "namespace": namespace, "group": group, "resource": resource, "subresource": subresource,
            "verb": verb, "name": name,
        } },
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let answer = cluster.create(path, &review).await?;
    Ok(answer.pointer("/status/allowed").and_then(Value::as_bool) == Some(true))
}
