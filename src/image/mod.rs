//! Image references, and how the target image follows from the published one. All functions are pure.

mod name;
pub mod pin;
mod policy;
mod reference;
mod support;
mod target;
mod version;

pub use name::ImageName;
pub use pin::Pin;
pub use policy::{ImagePolicy, MaxVersion, Pull};
use reference::{DEFAULT_REGISTRY, DEFAULT_TAG, compose};
pub use reference::{ImageReference, ReferenceError, ReferenceProblem};
pub use support::{CountedFrom, Expiry, release_day};
pub use target::{
    Target, TargetSettings, check_mirror, check_repository, is_delegate_image, is_harness, is_mutable_tag,
    manager_reference, resolve, resolve_upgrader,
};
pub use version::Version;
