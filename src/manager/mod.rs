//! Who says which image is published: a Harness Manager, or a fixed reference.

use std::future::Future;

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

/// Why the published image is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishedError {
    /// Placeholder until the client is here.
    #[error("{0}")]
    Other(String),
}
