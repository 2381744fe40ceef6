//! Image references, and from the published image to the target: pure.

mod expiry;
mod pins;
mod reference;
mod target;
mod version;

pub use expiry::Expiry;
pub use pins::{Forbidden, MaxVersion, Pins};
use reference::{DEFAULT_REGISTRY, DEFAULT_TAG, compose};
pub use reference::{ImageReference, ReferenceError, ReferenceProblem};
pub use target::{
    Target, TargetSettings, as_manager_knows, check_mirror, check_repository, is_moving, resolve,
};
pub use version::Version;
