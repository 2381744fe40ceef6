//! The ways in which an owner may name the image.

use serde_json::json;

use crate::row::Row;
use crate::surroundings::Surroundings;

pub(crate) fn rows(around: &Surroundings) -> Vec<Row> {
    let digest = |kind: usize| json!({ "Image": around.documents[kind][0]["RepoDigests"][0] });
    vec![
        Row::new("image by digest", digest(0)),
        Row::new("image by digest, image with defaults", digest(1)).rich(),
    ]
}
