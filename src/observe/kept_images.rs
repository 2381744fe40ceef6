//! The former images that stay on the host, so that a delegate can return to them, and the ones to remove.

use crate::container::{ImageId, Inspected, label};
use crate::rollout::{Member, Memory, Rollout};

/// Notes the former images of a container: the last `KEEP_IMAGES`, and the outdated ones before them.
pub(super) fn note(member: &mut Member, container: &Inspected, keep_images: usize, memory: &Memory) {
    let former = container.label(label::FORMER_IMAGES).unwrap_or_default();
    let former = former.split(',').filter(|id| !id.is_empty()).map(ImageId::new);
    member.former_images = former.collect();
    let kept = member.former_images.len().min(keep_images);
    let outdated = member.former_images.split_off(kept).into_iter();
    member.outdated_images = outdated
        .filter(|image| !memory.discarded.contains(image))
        .collect();
}

/// The images that a delegate keeps: those that it runs and ran before, and, as far as another delegate can know, those
/// of each container that may still come back.
pub(super) fn of<'a>(rollout: &'a Rollout, own: &Rollout) -> impl Iterator<Item = ImageId> + 'a {
    let others = rollout.old.iter().chain(&rollout.candidate);
    let is_other = rollout.name != own.name;
    let members = rollout.serving.iter().chain(others.filter(move |_| is_other));
    let images = members.flat_map(|member| {
        let previous = member.previous.as_ref().map(|previous| &previous.id);
        let former = previous.into_iter().chain(&member.former_images);
        std::iter::once(&member.image_id).chain(former)
    });
    images.cloned()
}
