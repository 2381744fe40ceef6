//! Named volumes without contents, whose labels say something.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A named volume, as far as it is read.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Volume {
    /// Its name.
    #[serde(rename = "Name")]
    pub name: String,
    /// Its labels. An engine writes none as `null`.
    #[serde(rename = "Labels", default, deserialize_with = "labels")]
    pub labels: BTreeMap<String, String>,
}

fn labels<'de, D: serde::Deserializer<'de>>(source: D) -> Result<BTreeMap<String, String>, D::Error> {
    Ok(Option::deserialize(source)?.unwrap_or_default())
}
