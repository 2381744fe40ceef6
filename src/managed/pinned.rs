//! Pins a wanted image to the digest that its registry has for the tag now.

use serde_json::Value;

use crate::document::offered_platforms;
use crate::image::{ImageName, ImageReference};
use crate::net::retry::Retry;
use crate::rollout::reason::Reason;
use crate::rollout::wanted::up_to_date;

/// Returns the reference with the digest of its index, if the registry has the image for all needed platforms. `current` is
/// the image in the workload's spec.
///
/// # Errors
/// The reason why the image is not wanted.
pub fn pinned(
    current: &ImageName,
    reference: &ImageReference,
    distribution: &Value,
    platforms: &[String],
) -> Result<ImageReference, Reason> {
    let image = || reference.to_string();
    let unknown = |problem: &str| Reason::DigestUnknown {
        image: image(),
        problem: problem.to_owned(),
        retry: Retry::Never,
    };
    let digest = distribution.pointer("/Descriptor/digest").and_then(Value::as_str);
    let digest = digest.filter(|digest| !digest.is_empty());
    let digest = digest.ok_or_else(|| unknown("it answers without a digest"))?;
    match current.reference() {
        Ok(same) if same.digest() == Some(digest) && same.tag() == reference.tag() => {
            return Err(up_to_date(current));
        }
        Ok(same) if same.digest() == Some(digest) => return Err(Reason::SameImage { image: image() }),
        _ => {}
    }
    if let Some(offered) = offered_platforms(distribution)
        && let Some(needed) = platforms.iter().find(|needed| !offered.contains(needed))
    {
        return Err(Reason::WrongPlatform {
            image: image(),
            offered: offered.join(", "),
            needed: needed.clone(),
        });
    }
    let written = image();
    let name = written.split_once('@').map_or(written.as_str(), |(name, _)| name);
    let pinned = format!("{name}@{digest}").parse();
    pinned.map_err(|_| unknown("its digest is not one"))
}
