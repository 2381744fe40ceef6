//! The platform of an image, and of a container whose image store keeps several platforms.

use serde_json::Value;

use super::{Images, Obstacle};
use crate::container::Inspected;
use crate::container::json::{has_configuration, list_at, text_at};
use crate::text::one_line;

/// The longest platform to show, in characters. The image's author chooses its text.
const MAX_PLATFORM: usize = 60;

/// Refuses a new image for a different platform than the old one.
pub(super) fn check(images: Images<'_>) -> Result<(), Obstacle> {
    match (image_platform(images.old), image_platform(images.new)) {
        (Some(old), Some(new)) if old != new => Err(Obstacle::OtherPlatform { old, new }),
        _ => Ok(()),
    }
}

/// Whether two documents describe the same image. If only the attestations of an image are rebuilt, its manifest is in
/// several indexes, and the containerd store uses an index's digest as the image's id.
pub(crate) fn is_same_image(one: &Value, other: &Value) -> bool {
    let parts = [
        "Config",
        "RootFS",
        "Created",
        "Architecture",
        "Os",
        "Variant",
        "Author",
        "Comment",
    ];
    let has_layers = one.pointer("/RootFS/Layers").and_then(Value::as_array);
    has_configuration(one)
        && has_layers.is_some_and(|layers| !layers.is_empty())
        && parts.iter().all(|part| one.get(part) == other.get(part))
}

/// Returns `os/architecture` of an image. Omits the variant, which many images do not declare.
pub(crate) fn image_platform(image: &Value) -> Option<String> {
    platform(text_at(image, "/Os"), text_at(image, "/Architecture"))
}

/// Returns `os/architecture` with Docker's names, or `None` if either is empty.
pub(crate) fn platform(os: &str, architecture: &str) -> Option<String> {
    let architecture = match architecture {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let is_known = !os.is_empty() && !architecture.is_empty();
    is_known.then(|| one_line(&format!("{os}/{architecture}"), MAX_PLATFORM))
}

/// Returns the platforms of the image in the registry, in the form of [`image_platform`], or `None` if it lists none.
pub(crate) fn offered_platforms(distribution: &Value) -> Option<Vec<String>> {
    let platforms = list_at(distribution, "/Platforms").iter();
    let offered: Vec<String> = platforms
        .filter_map(|entry| platform(text_at(entry, "/os"), text_at(entry, "/architecture")))
        .collect();
    Some(offered).filter(|offered| !offered.is_empty())
}

/// Returns the platform of the container's manifest, with its variant. Stores with several platforms show it (API 1.48).
pub(super) fn stored(container: &Inspected) -> Option<String> {
    let parts = ["os", "architecture", "variant"]
        .map(|name| container.text(&format!("/ImageManifestDescriptor/platform/{name}")));
    let known: Vec<&str> = parts.into_iter().take_while(|part| !part.is_empty()).collect();
    (known.len() >= 2).then(|| known.join("/"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_same_manifest_under_another_index_is_the_same_image() {
        let image = json!({
            "Id": "sha256:1", "RepoDigests": ["d@sha256:1"], "Os": "linux", "Architecture": "amd64",
            "Created": "2026-01-01T00:00:00Z", "RootFS": { "Type": "layers", "Layers": ["sha256:a"] },
            "Config": { "Env": ["A=1"] }, "Descriptor": { "digest": "sha256:1" },
        });
        let changed = |pointer: &str, value: Value| {
            let mut other = image.clone();
            *other.pointer_mut(pointer).unwrap() = value;
            other
        };
        for other in [
            changed("/Id", json!("sha256:2")),
            changed("/RepoDigests", json!([])),
            changed("/Descriptor/digest", json!("sha256:2")),
        ] {
            assert!(is_same_image(&image, &other), "{other}");
        }
        for other in [
            changed("/Config/Env", json!(["A=2"])),
            changed("/RootFS/Layers", json!(["sha256:b"])),
            changed("/Created", json!("2026-01-02T00:00:00Z")),
            changed("/Architecture", json!("arm64")),
        ] {
            assert!(!is_same_image(&image, &other), "{other}");
        }
        // Two unknown images are not the same.
        let unknown = json!({ "Id": "sha256:1", "Os": "", "Config": {}, "RootFS": {} });
        assert!(!is_same_image(&unknown, &unknown));
    }
}
