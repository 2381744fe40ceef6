//! Finds out why pods fail from their documents, if pods may be read. Pure.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::encode;
use super::read::{LONGEST, condition, container_of, settings, variables};
use crate::managed::TaskFailure;
use crate::text::redact::Redactor;
use crate::text::{one_line, time};

/// How many lines of a log to request.
const LOG_LINES: usize = 10;

/// Returns the URL-encoded selector of a Deployment's pods. `None` if it is not a plain list of labels.
pub fn selector(deployment: &Value) -> Option<String> {
    let selector = deployment.pointer("/spec/selector")?;
    let is_plain = selector["matchExpressions"].as_array().is_none_or(Vec::is_empty);
    let labels = selector["matchLabels"].as_object().filter(|_| is_plain)?;
    let pairs = labels
        .iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", value.as_str()?)));
    let pairs = pairs.collect::<Vec<_>>().join(",");
    Some(encode(&pairs).to_string())
}

/// A pod that failed.
pub struct Failing {
    /// The name of the pod.
    pub pod: String,
    /// The last failure of its container.
    pub failure: TaskFailure,
    /// Hides the values of its container's environment in the pod's document, which omits those of a Secret.
    redactor: Redactor,
}

/// Returns the pod that failed last, whatever its image.
pub fn last_failure(pods: &[Value], container: &str) -> Option<Failing> {
    let failing = pods.iter().filter_map(|pod| {
        let redactor = Redactor::new(variables(pod, container).environment());
        Some(Failing {
            pod: pod.pointer("/metadata/name")?.as_str()?.to_owned(),
            failure: failure(pod, container, &redactor)?,
            redactor,
        })
    });
    failing.max_by_key(|failing| failing.failure.at)
}

impl Failing {
    /// Returns the queries for its log, in order of preference: the failed run is usually the previous one by now.
    pub fn log_queries(&self, container: &str) -> [String; 2] {
        let query = format!("container={}&tailLines={LOG_LINES}", encode(container));
        [format!("{query}&previous=true"), query]
    }

    /// Returns the lines of its log without the values of its environment.
    pub fn redacted(&self, log: &str) -> Vec<String> {
        log.lines().map(|line| self.redactor.line(line)).collect()
    }
}

/// Redacts a termination message like the log, since it may be the end of the log.
fn failure(pod: &Value, container: &str, redactor: &Redactor) -> Option<TaskFailure> {
    let statuses = pod.pointer("/status/containerStatuses").and_then(Value::as_array);
    let mut statuses = statuses.into_iter().flatten();
    let image = container_of(pod, container)?["image"].as_str()?;
    let created = time::of(&pod["metadata"]["creationTimestamp"]);
    let of = |at: Option<DateTime<Utc>>, error: String| {
        Some(TaskFailure {
            at: at.or(created)?,
            image: image.to_owned(),
            settings: settings(pod).release,
            error: one_line(&redactor.line(&error), LONGEST),
            ran_for: None,
        })
    };
    if let Some(status) = statuses.find(|status| status["name"].as_str() == Some(container)) {
        let ended = [&status["state"]["terminated"], &status["lastState"]["terminated"]];
        let ended = ended.into_iter().find(|ended| ended.is_object());
        let waiting = &status["state"]["waiting"];
        let reason = waiting["reason"].as_str().unwrap_or_default();
        let is_failure = reason.ends_with("BackOff")
            || reason.ends_with("Error")
            || reason.starts_with("Err")
            || reason.starts_with("Invalid");
        if is_failure && (reason != "CrashLoopBackOff" || ended.is_none()) {
            let message = waiting["message"].as_str().unwrap_or_default();
            let ready_since =
                condition(pod, "Ready").and_then(|ready| time::of(&ready["lastTransitionTime"]));
            return of(ready_since, format!("{reason}: {message}"));
        }
        if let Some(ended) = ended {
            return of(time::of(&ended["finishedAt"]), ending(ended));
        }
    }
    let scheduled = condition(pod, "PodScheduled")?;
    if scheduled["status"].as_str() != Some("False") {
        return None;
    }
    let message = scheduled["message"].as_str().unwrap_or_default();
    let reason = scheduled["reason"].as_str().unwrap_or("not scheduled");
    of(
        time::of(&scheduled["lastTransitionTime"]),
        format!("{reason}: {message}"),
    )
}

fn ending(ended: &Value) -> String {
    let code = ended["exitCode"].as_i64().unwrap_or_default();
    let reason = match ended["reason"].as_str() {
        Some("OOMKilled") => "it ran out of memory, ",
        _ => "",
    };
    let message = ended["message"].as_str().map(|message| format!(": {message}"));
    format!("{reason}exit code {code}{}", message.unwrap_or_default())
}
