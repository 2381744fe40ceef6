//! `kubernetes doctor`: what the account of this pod may do, and what an upgrade would meet.

use serde_json::{Value, json};

use super::cluster::{Cluster, ClusterError};
use super::settings::ClusterSettings;
use crate::doctor::Checks;

/// The consequence of a call that is not permitted.
enum Without {
    /// Nothing can be upgraded.
    All,
    /// This is less good.
    This(&'static str),
}

use Without::{All, This};

const PODS: &str = "reports do not say why pods fail";
const LOGS: &str = "the last log lines of a pod that fails are not shown";
const SELF: &str = "SELF_UPGRADE does nothing";

/// The calls that the account should be permitted: group, resource and verb.
const CALLS: [(&str, &str, &str, Without); 6] = [
    ("apps", "deployments", "get", All),
    ("apps", "deployments", "patch", All),
    ("", "pods", "list", This(PODS)),
    ("", "pods/log", "get", This(LOGS)),
    ("batch", "cronjobs", "get", This(SELF)),
    ("batch", "cronjobs", "patch", This(SELF)),
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
            let version = version["gitVersion"]
                .as_str()
                .unwrap_or("an unknown version")
                .to_owned();
            checks.ok("API server", format!("reachable, Kubernetes {version}"));
        }
        // Nobody has to be permitted to ask for that.
        Err(ClusterError::Forbidden(_)) => checks.ok("API server", "reachable"),
        Err(error) => {
            checks.fail("API server", error.to_string());
            return;
        }
    }
    for name in &settings.common.workload_names {
        check_permissions(cluster, settings, (namespace, name), checks).await;
    }
}

async fn check_permissions(
    cluster: &Cluster,
    ClusterSettings { common, dry_run, .. }: &ClusterSettings,
    (namespace, name): (&str, &str),
    checks: &mut Checks,
) {
    let reads_only = *dry_run || common.disable_auto_upgrade;
    let mut permitted = Vec::new();
    for (group, resource, verb, without) in CALLS {
        if (resource == "cronjobs" && !common.self_upgrade) || (reads_only && verb == "patch") {
            continue;
        }
        let object = if resource == "deployments" { name } else { "" };
        let what = format!("{verb} {resource}");
        match (may(cluster, namespace, (group, resource, verb, object)).await, without) {
            (Ok(true), _) => permitted.push(what),
            (Ok(false), All) => checks.fail(
                "permissions",
                format!(
                    "the account may not {what} in {namespace}: let its Role permit that, and look whether the RoleBinding names that \
                     Role and this account"
                ),
            ),
            (Ok(false), This(loss)) => {
                checks.warn("permissions", format!("the account may not {what}: {loss}"));
            }
            (Err(error), _) => {
                checks.warn("permissions", format!("cannot find out whether the account may {what}: {error}"));
            }
        }
    }
    if !permitted.is_empty() {
        checks.ok("permissions", permitted.join(", "));
    }
}

/// Whether this account may do that. Everybody may ask.
async fn may(
    cluster: &Cluster,
    namespace: &str,
    (group, resource, verb, name): (&str, &str, &str, &str),
) -> Result<bool, ClusterError> {
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
