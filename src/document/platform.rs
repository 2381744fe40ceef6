//! Platforms: the one that an image is built for, and the one that a container runs of a store that keeps several.

use serde_json::Value;

use super::{Images, Obstacle};
use crate::container::Inspected;
use crate::container::json::text_at;
use crate::text::one_line;

/// The longest platform that is shown, in characters: its words come from the image's author.
const MAX_PLATFORM: usize = 60;

/// Refuses a new image that is built for another platform than the old one.
pub(super) fn check(images: Images<'_>) -> Result<(), Obstacle> {
    match (image_platform(images.old), image_platform(images.new)) {
        (Some(old), Some(new)) if old != new => Err(Obstacle::OtherPlatform { old, new }),
        _ => Ok(()),
    }
}

/// `os/architecture` of an image. The variant is left out: images often do not say it.
pub(crate) fn image_platform(image: &Value) -> Option<String> {
    platform(text_at(image, "/Os"), text_at(image, "/Architecture"))
}

/// `os/architecture` in Docker's words; `None` where one of the two is empty.
pub(crate) fn platform(os: &str, architecture: &str) -> Option<String> {
    let architecture = match architecture {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let is_known = !os.is_empty() && !architecture.is_empty();
    is_known.then(|| one_line(&format!("{os}/{architecture}"), MAX_PLATFORM))
}

/// The platforms of the image in the registry, in the words of [`image_platform`]; `None` where it names none.
pub(crate) fn offered_platforms(distribution: &Value) -> Option<Vec<String>> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let platforms = distribution.get("Platforms")?.as_array()?;
    let offered: Vec<String> = platforms
        .iter()
        .filter_map(|entry| platform(&text(entry, "os")?, &text(entry, "architecture")?))
        .collect();
    Some(offered).filter(|offered| !offered.is_empty())
}

/// The platform of the container's manifest, with its variant. Only stores that keep several platforms show one
/// (API 1.48).
pub(super) fn stored(container: &Inspected) -> Option<String> {
    let part = |name: &str| {
        let text = container.text(&format!("/ImageManifestDescriptor/platform/{name}"));
        (!text.is_empty()).then_some(text)
    };
    let (os, architecture) = (part("os")?, part("architecture")?);
    Some(match part("variant") {
        Some(variant) => format!("{os}/{architecture}/{variant}"),
        None => format!("{os}/{architecture}"),
    })
}
