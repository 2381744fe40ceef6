//! Upgrades the upgrader's own image in its CronJob, so that the next run uses the image that is published for upgraders.
//! Never rolls back: either a run proves the new image, or the CronJob's owner sees that the run failed.

use chrono::{DateTime, TimeDelta};
use serde_json::{Value, json};
use tracing::debug;

use super::cluster::Cluster;
use super::path;
use crate::container::label;
use crate::host;
use crate::image::{ImageReference, Target, TargetSettings, resolve_upgrader};
use crate::manager::ImageSource;
use crate::schedule::Schedule;
use crate::schedule::zone::Zone;
use crate::text::duration;
use crate::text::redact::Redactor;

/// The API versions that have CronJobs, newest first. Kubernetes 1.20 has only the older one, 1.25 only the newer one.
const GROUPS: [&str; 2] = ["batch/v1", "batch/v1beta1"];
/// The number of characters that the API server appends to a generated name.
const RANDOM: usize = 5;
/// The longest name to which the API server appends them: see k8s.io/apiserver/pkg/storage/names.
const LONGEST_BASE: usize = 58;
/// How many runs to check: about a day of runs each minute, or two months of runs each hour.
const RUNS: usize = 1500;

/// Sets the CronJob of this pod to the image for upgraders, and returns that image. `None` if nothing needs to change.
///
/// # Errors
/// The reason why this is impossible, as a sentence.
pub async fn follow<M: ImageSource>(
    cluster: &Cluster,
    source: &M,
    settings: &TargetSettings,
) -> Result<Option<String>, String> {
    let pod = host::name();
    let name = cronjob_of(&pod).ok_or_else(|| format!("{pod} does not belong to a CronJob"))?;
    let (path, document) = find(cluster, &cluster.namespace, name).await?;
    let Some((container, image)) = own_container(&document) else {
        return Err(format!(
            "the CronJob {name} has several containers, or none with an image"
        ));
    };
    let current: ImageReference = image.parse().map_err(|error| format!("{image}: {error}"))?;
    let published = match source.published_upgrader(&current).await {
        Some(Ok(published)) => published,
        Some(Err(error)) => return Err(error.to_string()),
        None => return Err("nobody publishes the upgrader's image; SELF_UPGRADE can name it".to_owned()),
    };
    let target = match resolve_upgrader(&published, &current, settings) {
        Target::Replace(target) => target,
        Target::Unresolvable(problem) => return Err(problem),
        other => {
            debug!(?other, "the upgrader's own image stays");
            return Ok(None);
        }
    };
    let target = target.to_string();
    let patch = patch(&document, container, &image, &target);
    let patched = cluster.patch(&path, (&patch, &Redactor::default())).await;
    patched.map_err(|error| error.to_string())?;
    Ok(Some(target))
}

/// Returns the patch that gives a CronJob another image. The patch names the observed version.
pub fn patch(document: &Value, container: &str, from: &str, to: &str) -> Value {
    let containers = json!({ "containers": [{ "name": container, "image": to }] });
    json!({
        "metadata": {
            "resourceVersion": document.pointer("/metadata/resourceVersion"),
            "annotations": { label::PREVIOUS_IMAGE: from },
        },
        "spec": { "jobTemplate": { "spec": { "template": { "spec": containers } } } },
    })
}

/// Returns why the Manager may not see this CronJob running. `None` if it runs often enough or cannot be read.
pub(super) async fn silence(cluster: &Cluster, namespace: &str, name: &str) -> Option<String> {
    let (_, document) = find(cluster, namespace, name).await.ok()?;
    let schedule = document.pointer("/spec/schedule")?.as_str()?;
    let runs = Schedule::parse(schedule, Zone::utc()).ok()?;
    let runs = runs.next_runs(DateTime::UNIX_EPOCH, RUNS);
    let apart = runs.windows(2).map(|two| two[1] - two[0]);
    let problem = if document.pointer("/spec/suspend").and_then(Value::as_bool) == Some(true) {
        "it is suspended".to_owned()
    } else {
        let longest = apart.max().filter(|longest| *longest > TimeDelta::minutes(90))?;
        format!(
            "its schedule {schedule} leaves {} between two runs",
            duration::text(longest.to_std().ok()?)
        )
    };
    Some(format!(
        "{name}: {problem}, and the Manager shows AUTO UPGRADE OFF after 90 minutes without a run; schedule one every hour"
    ))
}

async fn find(cluster: &Cluster, namespace: &str, name: &str) -> Result<(String, Value), String> {
    let mut problem = String::new();
    for group in GROUPS {
        let path = path(group, namespace, "cronjobs", name);
        match cluster.get(&path).await {
            Ok(document) => return Ok((path, document)),
            Err(error) => problem = error.to_string(),
        }
    }
    Err(problem)
}

/// Returns the CronJob of a pod, whose job and pod names both add a part. A job created by hand shows no CronJob.
pub fn cronjob_of(pod: &str) -> Option<&str> {
    let base = pod.get(..pod.len().checked_sub(RANDOM)?)?;
    // The API server shortens the job's name, which ends with the minute, to make room for its own five characters.
    let (job, least) = match base.strip_suffix('-') {
        Some(job) => (job, 8),
        None if base.len() == LONGEST_BASE => (base, 5),
        None => return None,
    };
    let (name, minute) = job.rsplit_once('-')?;
    let is_minute = minute.len() >= least && minute.bytes().all(|byte| byte.is_ascii_digit());
    is_minute.then_some(name)
}

/// Returns the only container of a CronJob, with its image.
fn own_container(document: &Value) -> Option<(&str, String)> {
    let containers = document.pointer("/spec/jobTemplate/spec/template/spec/containers")?;
    match containers.as_array()?.as_slice() {
        [only] => Some((only["name"].as_str()?, only["image"].as_str()?.to_owned())),
        _ => None,
    }
}
