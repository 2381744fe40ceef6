//! The settings of a new container that we choose: its image and our labels.

use serde_json::{Map, Value};

use crate::container::json::object_at;
use crate::container::{ImageId, Inspected, label};

/// The settings in which a container that we create differs from its original.
#[derive(Clone, Copy, Debug)]
pub struct Overrides<'a> {
    /// The image, as the owner would write it.
    pub reference: &'a str,
    /// The id of the image, if `reference` does not or no longer point to that image. The container is then created by id,
    /// and a label stores the reference.
    pub by_id: Option<&'a ImageId>,
    /// Our labels for this release. Those of the previous release are removed.
    pub labels: &'a [(&'static str, String)],
}

impl Overrides<'_> {
    /// Applies the overrides. `connect` are the endpoints that a create call does not accept.
    pub(super) fn apply_to_config(
        &self,
        config: &mut Map<String, Value>,
        old: &Inspected,
        new_image: &Value,
        connect: &[(String, Value)],
    ) {
        let image = self.by_id.map_or(self.reference, ImageId::as_str);
        config.insert("Image".to_owned(), Value::from(image));

        let slot = config.entry("Labels").or_insert(Value::Null);
        if slot.is_null() {
            *slot = Value::Object(Map::new());
        }
        let Value::Object(labels) = slot else { return };
        labels.retain(|name, _| !label::OURS.contains(&name.as_str()));
        // An image that was committed from one of our containers has our labels. The successor would inherit them, so it
        // gets empty values, which count as not set.
        let of_image = object_at(new_image, "/Config/Labels");
        let is_on_image = |name: &&str| of_image.is_some_and(|labels| labels.contains_key(*name));
        for name in label::OURS.into_iter().filter(is_on_image) {
            labels.insert(name.to_owned(), Value::from(""));
        }
        for (name, value) in self.labels {
            labels.insert((*name).to_owned(), Value::from(value.as_str()));
        }
        if self.by_id.is_some() {
            labels.insert(label::IMAGE.to_owned(), Value::from(self.reference));
        }
        if old.auto_remove() || old.emulates_auto_remove() {
            labels.insert(label::AUTO_REMOVE.to_owned(), Value::from("true"));
        }
        if !connect.is_empty() {
            let networks: Value = connect.iter().cloned().collect();
            labels.insert(label::NETWORKS.to_owned(), Value::from(networks.to_string()));
        }
    }
}
