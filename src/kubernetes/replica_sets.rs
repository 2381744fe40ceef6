//! Finds what a Deployment had before in the ReplicaSets that Kubernetes keeps of it (`revisionHistoryLimit`). Pure.

use serde_json::Value;

use super::read::{REVISION, annotation, container_of, settings};
use crate::managed::Record;

fn own<'a>(all: &'a [Value], deployment: &Value) -> impl Iterator<Item = &'a Value> {
    let uid = &deployment["metadata"]["uid"];
    all.iter().filter(move |set| {
        let owners = set["metadata"]["ownerReferences"].as_array();
        owners.into_iter().flatten().any(|owner| owner["uid"] == *uid)
    })
}

fn revision(set: &Value) -> Option<u64> {
    annotation(set, REVISION)?.parse().ok()
}

/// Returns the record with the most attempts that an earlier ReplicaSet has. Kubernetes copies a Deployment's annotations to the present one.
pub fn latest_record(all: &[Value], deployment: &Value) -> Record {
    let record = |set: &Value| Record::read(|name| annotation(set, name));
    let earlier = own(all, deployment).filter(|set| revision(set) != revision(deployment));
    let latest = earlier.max_by_key(|set| (record(set).release, revision(set)));
    latest.map(record).unwrap_or_default()
}

/// Returns the pod template that a Deployment had last with the same image and other settings. `None` if someone else has changed the
/// template since: then there are several with the present settings.
pub fn former<'a>(all: &'a [Value], deployment: &Value, container: &str) -> Option<&'a Value> {
    let image = |pod: &Value| Some(container_of(pod, container)?["image"].clone());
    let now = &deployment["spec"]["template"];
    let is_of_image = |set: &&Value| image(&set["spec"]["template"]) == image(now);
    let is_present = |set: &&Value| settings(&set["spec"]["template"]) == settings(now);
    let (present, former): (Vec<_>, Vec<_>) = own(all, deployment).filter(is_of_image).partition(is_present);
    let former = former.into_iter().max_by_key(|set| revision(set))?;
    (present.len() < 2).then_some(&former["spec"]["template"])
}
