//! Turns a target into the wanted image, or into the reason to keep the current one.

use crate::image::{ImageName, ImageReference, Target};
use crate::rollout::reason::Reason;

/// The image that should replace `image`, which a workload runs now, and whether that is the same reference, which counts
/// only if its registry now has another image for it.
///
/// # Errors
/// Why it keeps its image.
pub(crate) fn wanted(target: Target, image: &ImageName) -> Result<(ImageReference, bool), Reason> {
    Err(match target {
        Target::Replace(reference) => return Ok((reference, false)),
        Target::CheckDigest(reference) => return Ok((reference, true)),
        Target::Current => up_to_date(image),
        Target::HeldBack(image, max) => Reason::HeldBack {
            image: image.to_string(),
            max,
        },
        Target::NotPinned(image) => Reason::NotPinned {
            image: image.to_string(),
        },
        Target::CustomImage => Reason::CustomImage {
            image: image.to_string(),
        },
        Target::OtherGeneration(published) => Reason::OtherGeneration {
            image: published.to_string(),
        },
        Target::Unresolvable(problem) => not_comparable(image, problem),
    })
}

/// The reason if no question was about the image that it runs.
pub(crate) fn not_asked() -> Reason {
    Reason::AwaitingSchedule { published: None }
}

pub(crate) fn up_to_date(image: &ImageName) -> Reason {
    Reason::UpToDate {
        image: image.to_string(),
    }
}

pub(crate) fn not_comparable(image: &ImageName, problem: String) -> Reason {
    Reason::ImageNotComparable {
        image: image.to_string(),
        problem,
    }
}
