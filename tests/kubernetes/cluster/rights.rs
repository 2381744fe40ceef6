//! The rights of the account, and the effect if each of them is missing.

use super::site::{A, B, Site, image};

/// The rights in the documented manifest.
pub(crate) const DOCUMENTED: &str = "
- {apiGroups: [batch, apps, extensions], resources: [cronjobs], verbs: [get, list, watch, update, patch]}
- {apiGroups: [extensions, apps], resources: [deployments], verbs: [get, list, watch, create, update, patch]}
";
/// The minimum for an upgrade.
const LEAST: &str = "
- {apiGroups: [apps], resources: [deployments], resourceNames: [delegate], verbs: [get, patch]}
";
/// The minimum and the rights that make reports better.
pub(crate) const DETAILED: &str = "
- {apiGroups: [apps], resources: [deployments], resourceNames: [delegate], verbs: [get, patch]}
- {apiGroups: [''], resources: [pods], verbs: [list]}
- {apiGroups: [''], resources: [pods/log], verbs: [get]}
- {apiGroups: [apps], resources: [replicasets], verbs: [list]}
";

#[test]
#[ignore = "needs a cluster: make kubernetes"]
fn reading_and_patching_the_deployment_suffices() {
    let mut site = Site::with("least", 1, LEAST);
    site.publish(B);
    let run = site.run(&["doctor"]).ended(0);
    run.says("get deployments, patch deployments");
    run.says("may not list pods");
    let run = site.run(&["once"]);
    assert_eq!((run.code, site.image()), (Some(0), image(B)), "{}", run.text);
}

#[test]
#[ignore = "needs a cluster: make kubernetes"]
fn a_missing_verb_is_named() {
    for missing in ["get", "patch"] {
        let rules = LEAST.replace(missing, "").replace("[, ", "[").replace(", ]", "]");
        let mut site = Site::with(&format!("without-{missing}"), 1, &rules);
        site.publish(B);
        let run = site.run(&["once"]);
        assert_eq!((run.code, site.image()), (Some(1), image(A)), "{}", run.text);
        run.says(&format!("cannot {missing} resource \"deployments\""));
        let run = site.run(&["doctor"]).ended(1);
        run.says(&format!("may not {missing} deployments in without-{missing}"));
    }
}

#[test]
#[ignore = "needs a cluster: make kubernetes"]
fn names_missing_or_misconfigured_objects() {
    let mut site = Site::with(
        "not-as-it-should-be",
        1,
        "
- {apiGroups: [apps], resources: [deployments, statefulsets], verbs: [get, patch]}
",
    );
    site.publish(B);
    let says = |site: &Site, code: i32, words: &str| {
        let run = site.run(&["once"]);
        assert_eq!(run.code, Some(code), "{}", run.text);
        assert!(run.text.contains(words), "{words}\n{}", run.text);
    };
    site.workload = "nobody".to_owned();
    says(
        &site,
        1,
        "there is no Deployment nobody in the namespace not-as-it-should-be; workloadName has to be",
    );
    site.apply(
        "apiVersion: apps/v1
kind: StatefulSet
metadata: {name: stateful}
spec:
  replicas: 0
  serviceName: stateful
  selector: {matchLabels: {app: stateful}}
  template:
    metadata: {labels: {app: stateful}}
    spec: {containers: [{name: delegate, image: kubernetes-lab/busybox:1}]}
",
    );
    site.workload = "stateful".to_owned();
    says(&site, 0, "never upgraded, since it is a StatefulSet");
    site.workload = "delegate".to_owned();
    site.container = "delegat".to_owned();
    says(
        &site,
        1,
        "has no container \"delegat\" (it has delegate, sidecar); correct containerName",
    );
    assert_eq!(site.writes().len(), 0);
}
