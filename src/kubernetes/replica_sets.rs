//! Finds the former settings of a Deployment in the ReplicaSets that Kubernetes keeps of it (`revisionHistoryLimit`). Pure.

use serde_json::Value;

use super::read::{annotation, container_of, settings};

/// On a ReplicaSet: the number of the Deployment's change that used it last.
const REVISION: &str = "deployment.kubernetes.io/revision";

/// Returns the pod template that a Deployment had last with the same image and other settings. `None` if someone else has changed the
/// template since: then there are several with the present settings.
pub fn former<'a>(all: &'a [Value], deployment: &Value, container: &str) -> Option<&'a Value> {
    let image = |pod: &Value| Some(container_of(pod, container)?["image"].clone());
    let now = &deployment["spec"]["template"];
    let is_own = |set: &&Value| {
        let mut owners = set["metadata"]["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten();
        owners.any(|owner| owner["uid"] == deployment["metadata"]["uid"])
    };
    let is_of_image = |set: &&Value| image(&set["spec"]["template"]) == image(now);
    let is_present = |set: &&Value| settings(&set["spec"]["template"]) == settings(now);
    let revision = |set: &&Value| annotation(set, REVISION)?.parse::<u64>().ok();
    let own = all.iter().filter(is_own).filter(is_of_image);
    let (present, former): (Vec<_>, Vec<_>) = own.partition(is_present);
    let former = former.into_iter().max_by_key(revision)?;
    (present.len() < 2).then_some(&former["spec"]["template"])
}
