//! Documents recorded from real engines, with the resulting bodies, reviewed as text.
//!
//! `container.json` is a running container, `successor.json` is the body for creating its successor, and
//! `recreated.json` is the engine's document of that successor before its start. With `UPDATE_GOLDEN=1` the bodies are
//! rewritten.

use std::fs;
use std::path::{Path, PathBuf};

use delegate_upgrader::container::{ApiVersion, label};
use delegate_upgrader::document::{self, Difference, Images, Overrides, create_request};
use serde_json::{Value, json};

use kit::document::inspected;

const ENGINES: [(&str, ApiVersion); 2] = [
    ("docker-20.10", ApiVersion::new(1, 41)),
    ("docker-28.5", ApiVersion::new(1, 51)),
];

pub(crate) struct Recorded {
    pub(crate) engine: &'static str,
    pub(crate) directory: PathBuf,
    pub(crate) api: ApiVersion,
    pub(crate) container: Value,
    recreated: Value,
    pub(crate) old_image: Value,
    pub(crate) new_image: Value,
}

impl Recorded {
    fn images(&self) -> Images<'_> {
        Images {
            old: &self.old_image,
            new: &self.new_image,
        }
    }

    /// The differences between the container and a document of its recreated self.
    fn differences(&self, recreated: &Value) -> Vec<Difference> {
        document::differences(&inspected(&self.container), &inspected(recreated), self.images())
    }

    /// Whether a change of its recreated self is noticed.
    fn notices(&self, change: impl FnOnce(&mut Value)) -> bool {
        let mut changed = self.recreated.clone();
        change(&mut changed);
        !self.differences(&changed).is_empty()
    }

    fn name(&self) -> String {
        self.directory.display().to_string()
    }
}

pub(crate) fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

pub(crate) fn recorded() -> Vec<Recorded> {
    let mut all = Vec::new();
    for (engine, api) in ENGINES {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden")
            .join(engine);
        let image = |name: &str| read(&root.join("images").join(name).with_extension("json"));
        for entry in fs::read_dir(&root).unwrap() {
            let directory = entry.unwrap().path();
            if directory.ends_with("images") {
                continue;
            }
            let container = read(&directory.join("container.json"));
            let stock = container["Config"]["Image"]
                .as_str()
                .unwrap()
                .starts_with("harness/");
            let (old, new) = if stock {
                ("v1", "v2")
            } else {
                ("tools-v1", "tools-v2")
            };
            all.push(Recorded {
                engine,
                api,
                recreated: read(&directory.join("recreated.json")),
                old_image: image(old),
                new_image: image(new),
                container,
                directory,
            });
        }
    }
    assert!(all.len() >= 13, "only {} recordings found", all.len());
    all
}

#[test]
fn every_recorded_container_leads_to_the_reviewed_body() {
    for case in recorded() {
        let labels = [
            (label::RELEASE, "1".to_owned()),
            (label::REPLACES, case.container["Id"].as_str().unwrap().to_owned()),
        ];
        let reference = case.recreated["Config"]["Image"].as_str().unwrap();
        let overrides = Overrides {
            reference,
            by_id: None,
            labels: &labels,
        };
        let made = create_request(&inspected(&case.container), case.images(), &overrides, case.api).unwrap();
        let made = json!({"body": made.body, "platform": made.platform, "connect": made.connect});
        let path = case.directory.join("successor.json");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, serde_json::to_string_pretty(&made).unwrap() + "\n").unwrap();
        }
        assert_eq!(made, read(&path), "{}", case.name());
    }
}

/// A part that an engine does not show is unknown, which is not the same as empty.
#[test]
fn incomplete_document_gives_the_same_body_or_none() {
    let mut refused = 0;
    for case in recorded() {
        let overrides = super::rules::overrides();
        let body = |container: &Value, old: &Value, new: &Value| {
            let images = Images { old, new };
            create_request(&inspected(container), images, &overrides, case.api).map(|made| made.body)
        };
        let documents = [&case.container, &case.old_image, &case.new_image];
        let whole = body(documents[0], documents[1], documents[2]).unwrap();
        for (index, document) in documents.iter().enumerate() {
            let parts = document.as_object().unwrap().keys();
            for part in parts.filter(|part| *part != "Id") {
                for missing in [true, false] {
                    let mut documents = documents.map(Value::clone);
                    let fields = documents[index].as_object_mut().unwrap();
                    if missing {
                        fields.remove(part);
                    } else {
                        fields.insert(part.clone(), Value::Null);
                    }
                    match body(&documents[0], &documents[1], &documents[2]) {
                        Ok(body) => {
                            assert_eq!(body, whole, "{}: document {index} without {part}", case.name());
                        }
                        Err(_) => refused += 1,
                    }
                }
            }
        }
    }
    assert!(refused > 0, "no part is needed");
}

/// Leaves out what Docker 29 leaves out, by its changelog, with any store and at any version of the API.
fn as_docker_29_shows(document: &Value) -> Value {
    const GONE: [&str; 7] = [
        "GraphDriver",
        "Container",
        "ContainerConfig",
        "Parent",
        "DockerVersion",
        "Author",
        "Comment",
    ];
    const OF_IMAGES: [&str; 8] = [
        "Hostname",
        "Domainname",
        "AttachStdin",
        "AttachStdout",
        "AttachStderr",
        "Tty",
        "OpenStdin",
        "StdinOnce",
    ];
    let mut shown = document.clone();
    let fields = shown.as_object_mut().unwrap();
    fields.retain(|field, _| !GONE.contains(&field.as_str()));
    fields.insert(
        "ImageManifestDescriptor".to_owned(),
        json!({ "digest": "sha256:0" }),
    );
    fields.insert(
        "Storage".to_owned(),
        json!({ "RootFS": { "Snapshot": { "Name": "overlayfs" } } }),
    );
    if let Some(networks) = fields.get_mut("NetworkSettings").and_then(Value::as_object_mut) {
        networks
            .retain(|field, _| matches!(field.as_str(), "SandboxID" | "SandboxKey" | "Ports" | "Networks"));
    } else {
        let config = fields["Config"].as_object_mut().unwrap();
        let is_empty = |value: &Value| matches!(value.to_string().as_str(), "null" | "[]" | "{}" | "\"\"");
        config.retain(|field, value| !OF_IMAGES.contains(&field.as_str()) && !is_empty(value));
    }
    shown
}

#[test]
fn docker_29_documents_give_the_same_body_without_differences() {
    for case in recorded().into_iter().filter(|case| case.api == ENGINES[1].1) {
        let [container, recreated, old, new] =
            [&case.container, &case.recreated, &case.old_image, &case.new_image].map(as_docker_29_shows);
        let reference = case.recreated["Config"]["Image"].as_str().unwrap();
        let overrides = Overrides {
            reference,
            ..super::rules::overrides()
        };
        let body = |container: &Value, images: Images<'_>| {
            create_request(&inspected(container), images, &overrides, case.api)
                .unwrap()
                .body
        };
        let images = Images { old: &old, new: &new };
        assert_eq!(
            body(&container, images),
            body(&case.container, case.images()),
            "{}",
            case.name()
        );
        let differences = document::differences(&inspected(&container), &inspected(&recreated), images);
        assert_eq!(differences, [], "{}", case.name());
    }
}

#[test]
fn recorded_successors_have_no_unexplained_differences() {
    for case in recorded() {
        let differences = case.differences(&case.recreated);
        assert_eq!(differences, [], "{}", case.name());
    }
}

/// Every place in a document that holds a plain value or an empty list or map.
fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                let key = key.replace('~', "~0").replace('/', "~1");
                leaves(value, &format!("{path}/{key}"), found);
            }
        }
        Value::Array(entries) if !entries.is_empty() => {
            for (index, value) in entries.iter().enumerate() {
                leaves(value, &format!("{path}/{index}"), found);
            }
        }
        _ => found.push(path.to_owned()),
    }
}

#[test]
fn any_single_change_of_a_recorded_successor_is_noticed() {
    let mut tried = 0;
    for case in recorded() {
        let borrowed = case.container["HostConfig"]["NetworkMode"]
            .as_str()
            .unwrap()
            .starts_with("container:");
        let mut paths = Vec::new();
        for part in ["Config", "HostConfig"] {
            leaves(&case.recreated[part], &format!("/{part}"), &mut paths);
        }
        for path in paths {
            // The new image, our own labels, and the names of the container whose network it shares.
            if path == "/Config/Image"
                || path.starts_with("/Config/Labels/io.delegate-upgrader.")
                || (borrowed && (path == "/Config/Hostname" || path == "/Config/Domainname"))
                // These are sets; the next test covers them.
                || path.starts_with("/Config/ExposedPorts")
                || path.starts_with("/Config/Volumes")
            {
                continue;
            }
            let is_noticed = case.notices(|it| *it.pointer_mut(&path).unwrap() = json!("CHANGED=changed"));
            assert!(is_noticed, "{}: {path}", case.name());
            tried += 1;
        }
    }
    assert!(tried > 1000, "only {tried} changes tried");
}

#[test]
fn any_added_or_removed_entry_is_detected() {
    for case in recorded() {
        for field in ["ExposedPorts", "Volumes", "Labels"] {
            let entries = case.recreated["Config"][field].as_object();
            for key in entries.into_iter().flat_map(|entries| entries.keys()) {
                let is_noticed = case.notices(|it| {
                    it["Config"][field].as_object_mut().unwrap().remove(key);
                });
                let is_ours = label::OURS.contains(&key.as_str());
                assert_eq!(is_noticed, !is_ours, "{}: without {key}", case.name());
            }
        }
        for part in ["ExposedPorts", "Volumes", "Labels", "Healthcheck", "Unknown"] {
            let is_noticed = case.notices(|it| it["Config"][part]["more"] = json!("more"));
            assert!(is_noticed, "{}: more in {part}", case.name());
        }
    }
}

#[test]
fn a_lost_network_setting_is_noticed() {
    for case in recorded() {
        for network in ["tasks", "storage", "build"] {
            for field in ["Aliases", "IPAMConfig", "Links", "DriverOpts", "GwPriority"] {
                let pointer = format!("/NetworkSettings/Networks/{network}/{field}");
                let Some(value) = case.recreated.pointer(&pointer) else {
                    continue;
                };
                let blank = matches!(value, Value::Null) || *value == json!(0) || *value == json!({});
                // An alias that the engine itself adds is not a loss.
                let id = case.recreated["Id"].as_str().unwrap();
                let own = value.as_array().is_some_and(|aliases| {
                    aliases
                        .iter()
                        .all(|alias| id.starts_with(alias.as_str().unwrap()))
                });
                if blank || own {
                    continue;
                }
                let is_noticed = case.notices(|it| *it.pointer_mut(&pointer).unwrap() = Value::Null);
                assert!(is_noticed, "{}: {pointer}", case.name());
            }
        }
    }
}

#[test]
fn notices_a_lost_mount_and_a_different_volume() {
    for case in recorded() {
        let mounts = case.recreated["Mounts"].as_array().unwrap().clone();
        for (index, mount) in mounts.iter().enumerate() {
            // This mount is new in the new image.
            if mount["Destination"] == "/new" {
                continue;
            }
            let is_noticed = case.notices(|it| {
                it["Mounts"].as_array_mut().unwrap().remove(index);
            });
            assert!(is_noticed, "{}: without {mount}", case.name());
            let is_noticed = case.notices(|it| it["Mounts"][index]["Name"] = json!("another"));
            let is_volume = mount["Type"] == "volume";
            assert!(
                is_noticed || !is_volume,
                "{}: another volume in place of {mount}",
                case.name()
            );
        }
    }
}
