//! The corpus contains every recorded container. With `UPDATE_GOLDEN=1` these files are rewritten.

use std::fs;

use serde_json::{Map, Value, json};

use super::corpus;
use crate::document::golden::{read, recorded};

/// Only the parts of a document that the target reads: a small corpus is better.
fn only(document: &Value, parts: &[&str]) -> Value {
    let parts = parts.iter().filter_map(|part| {
        let value = document.get(part)?;
        Some(((*part).to_owned(), value.clone()))
    });
    Value::Object(parts.collect::<Map<_, _>>())
}

fn container(document: &Value) -> Value {
    let parts = ["Id", "Config", "HostConfig", "Mounts", "ImageManifestDescriptor"];
    let mut seed = only(document, &parts);
    seed["NetworkSettings"] = only(&document["NetworkSettings"], &["Networks"]);
    seed
}

#[test]
fn every_recorded_container_is_in_the_corpus() {
    for case in recorded() {
        let [old, new] =
            [&case.old_image, &case.new_image].map(|image| only(image, &["Os", "Architecture", "Config"]));
        let seed =
            json!({"api": case.api.minor, "container": container(&case.container), "old": old, "new": new});
        let name = case.directory.file_name().unwrap().to_str().unwrap();
        let path = corpus("document").join(format!("{}-{name}.json", case.engine));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, seed.to_string()).unwrap();
        }
        assert_eq!(seed, read(&path), "{}", path.display());
    }
}
