//! Named volumes without contents. Their labels store data.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A named volume, with only the fields that this program reads.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Volume {
    /// Its name.
    #[serde(rename = "Name")]
    pub name: String,
    /// Its labels. If there are none, an engine writes `null`.
    #[serde(rename = "Labels", default, deserialize_with = "labels")]
    pub labels: BTreeMap<String, String>,
}

fn labels<'de, D: serde::Deserializer<'de>>(source: D) -> Result<BTreeMap<String, String>, D::Error> {
    Ok(Option::deserialize(source)?.unwrap_or_default())
}
