//! Named volumes without contents. Their labels store data.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Deserialize;

use crate::text::time;

/// A named volume, as far as it is read.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Volume {
    /// Its name.
    #[serde(rename = "Name")]
    pub name: String,
    /// Its labels. If there are none, an engine writes `null`.
    #[serde(rename = "Labels", default, deserialize_with = "labels")]
    pub labels: BTreeMap<String, String>,
}

impl Volume {
    /// A volume with these labels.
    pub fn new<'a>(name: String, labels: impl IntoIterator<Item = (&'a str, String)>) -> Self {
        let labels = labels.into_iter().map(|(key, value)| (key.to_owned(), value));
        Self {
            name,
            labels: labels.collect(),
        }
    }

    /// The time on a label.
    pub fn time(&self, label: &str) -> Option<DateTime<Utc>> {
        time::parse(self.labels.get(label)?)
    }
}

fn labels<'de, D: serde::Deserializer<'de>>(source: D) -> Result<BTreeMap<String, String>, D::Error> {
    Ok(Option::deserialize(source)?.unwrap_or_default())
}
