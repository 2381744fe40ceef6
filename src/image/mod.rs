//! Image references, and from the published image to the target: pure.

mod policy;
mod reference;
mod support;
mod target;
mod version;

pub use policy::{Forbidden, MaxVersion, Pins};
use reference::{DEFAULT_REGISTRY, DEFAULT_TAG, compose};
pub use reference::{ImageReference, ReferenceError, ReferenceProblem};
pub use support::Expiry;
pub use target::{
    Target, TargetSettings, as_manager_knows, check_mirror, check_repository, is_moving, resolve,
};
pub use version::Version;
