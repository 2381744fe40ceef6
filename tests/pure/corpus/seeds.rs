//! The corpus has every recorded container in it. With `UPDATE_GOLDEN=1` they are rewritten.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::corpus;

/// The engine and the minor number of its API version.
const ENGINES: [(&str, u16); 2] = [("docker-20.10", 41), ("docker-28.5", 51)];

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// What is looked at of a document, and no more: a corpus is better small.
fn only(document: &Value, parts: &[&str]) -> Value {
    let parts = parts.iter().filter_map(|part| {
        let value = document.get(part)?;
        Some(((*part).to_owned(), value.clone()))
    });
    Value::Object(parts.collect::<Map<_, _>>())
}

fn container(path: &Path) -> Value {
    let document = read(path);
    let mut seed = only(
        &document,
        &["Id", "Config", "HostConfig", "Mounts", "ImageManifestDescriptor"],
    );
    seed["NetworkSettings"] = only(&document["NetworkSettings"], &["Networks"]);
    seed
}

#[test]
fn every_recorded_container_is_in_the_corpus() {
    for (engine, api) in ENGINES {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden")
            .join(engine);
        let image = |name: &str| {
            let path = root.join("images").join(name).with_extension("json");
            only(&read(&path), &["Os", "Architecture", "Config"])
        };
        for entry in fs::read_dir(&root).unwrap() {
            let directory = entry.unwrap().path();
            let name = directory.file_name().unwrap().to_str().unwrap();
            if name == "images" {
                continue;
            }
            let container = container(&directory.join("container.json"));
            let (old, new) = match container["Config"]["Image"].as_str() {
                Some(stock) if stock.starts_with("harness/") => ("v1", "v2"),
                _ => ("tools-v1", "tools-v2"),
            };
            let seed = json!({"api": api, "container": container, "old": image(old), "new": image(new)});
            let path = corpus("document").join(format!("{engine}-{name}.json"));
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                fs::write(&path, seed.to_string()).unwrap();
            }
            assert_eq!(seed, read(&path), "{}", path.display());
        }
    }
}
