//! Turns a step into the patch that carries it out. Pure.
//!
//! Each patch names the observed version of the Deployment, so the API server refuses it if the Deployment has changed. It is
//! safe to repeat, and its container is sure to exist: a strategic merge would otherwise add it. Only the image, or other
//! variables with their mark, are written to the pod template; everything else goes to the Deployment itself.

use chrono::{DateTime, Utc};
use serde_json::{Map, Value, json};

use crate::document::NewSettings;
use crate::managed::label::SETTINGS;
use crate::managed::{Object, Step};
use crate::text::time;

/// The annotation that `kubectl rollout history` shows.
const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";
/// On a Deployment: the image that was most recently seen for the first time.
pub const FIRST_SEEN_IMAGE: &str = "io.delegate-upgrader.first-seen-image";
/// On a Deployment: when that image was first seen. See [`FIRST_SEEN_IMAGE`].
pub const FIRST_SEEN_AT: &str = "io.delegate-upgrader.first-seen-at";
/// On a Deployment: `true`, or the time until which no upgrade starts.
pub const PAUSED: &str = "io.delegate-upgrader.paused";

/// Returns the patch that carries out a step.
pub fn patch(
    Object { managed, document }: &Object,
    container: &str,
    step: &Step,
    now: DateTime<Utc>,
) -> Value {
    if let Step::NoteFirstSeen { image } = step {
        let (image, at) = (image.clone(), time::text(now));
        return annotate(
            document,
            [(FIRST_SEEN_IMAGE, Some(image)), (FIRST_SEEN_AT, Some(at))],
        );
    }
    let (record, image) = step.writes(managed, now);
    let mut annotations = record.write();
    if let Some(image) = &image {
        let cause = format!("delegate-upgrader: {} to {image}", managed.image);
        annotations.push((CHANGE_CAUSE, Some(cause)));
    }
    let mut patch = annotate(document, annotations);
    if let Some(image) = image {
        patch["spec"] = json!({
            "template": { "spec": { "containers": [{ "name": container, "image": image }] } },
        });
    }
    patch
}

/// Adds other variables to a patch of the image, with the mark of this change, if there is one.
pub fn add_settings(patch: &mut Value, new: &NewSettings, mark: Option<&str>) {
    let entry = |(name, value): (&String, &Option<String>)| match value {
        Some(value) => json!({ "name": name, "value": value }),
        None => json!({ "name": name, "$patch": "delete" }),
    };
    let template = &mut patch["spec"]["template"];
    template["metadata"] = json!({ "annotations": { SETTINGS: mark } });
    template["spec"]["containers"][0]["env"] = new.env.iter().map(entry).collect();
}

/// Returns the patch that sets these annotations, or removes those without a value.
pub(super) fn annotate(
    document: &Value,
    annotations: impl IntoIterator<Item = (&'static str, Option<String>)>,
) -> Value {
    let version = document.pointer("/metadata/resourceVersion").cloned();
    let present = document
        .pointer("/metadata/annotations")
        .and_then(Value::as_object);
    let is_there = |name: &str| present.is_some_and(|present| present.contains_key(name));
    let annotations: Map<String, Value> = annotations
        .into_iter()
        .filter(|(name, value)| value.is_some() || is_there(name))
        .map(|(name, value)| (name.to_owned(), value.map_or(Value::Null, Value::String)))
        .collect();
    json!({ "metadata": { "resourceVersion": version, "annotations": annotations } })
}
