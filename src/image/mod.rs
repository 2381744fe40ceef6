//! Image references, and how the target image follows from the published one. All functions are pure.

mod name;
mod policy;
mod reference;
mod support;
mod target;
mod version;

pub use name::ImageName;
pub use policy::{ImagePolicy, Pull};
use reference::{DEFAULT_REGISTRY, DEFAULT_TAG, compose};
pub use reference::{ImageReference, ReferenceError};
pub use support::{CountedFrom, Expiry, release_day};
pub use target::{
    Target, TargetSettings, check_mirror, check_repository, is_delegate_image, is_harness, is_mutable_tag,
    manager_reference, resolve, resolve_upgrader,
};
pub use version::{PIN_ACCEPTED, Version};
