//! Who says which image is published: a Harness Manager, or a fixed reference.

mod answer;
mod error;
mod fixed;
mod http;
pub mod token;

use std::future::Future;

pub use error::PublishedError;
pub use fixed::FixedPublished;
pub use http::{HttpManager, ManagerConfig, ManagerSetupError, Timing};

use crate::image::ImageReference;

/// The source of the published image.
pub trait Published: Send + Sync + 'static {
    /// The image published for a delegate that runs `current` under the name `delegate_name`.
    fn published(
        &self,
        current: &ImageReference,
        delegate_name: &str,
    ) -> impl Future<Output = Result<ImageReference, PublishedError>> + Send;
}
