//! Who says which image is published: a Harness Manager, or a fixed reference.

mod client;
mod client_config;
mod error;
mod fixed;
pub(crate) mod heartbeat;
pub mod response;
pub mod token;
mod transport_error;

use std::future::Future;

pub use client::HttpManager;
pub use client_config::{ManagerConfig, ManagerSetupError, Timing};
pub use error::ManagerError;
pub(crate) use error::clock_problem;
pub use fixed::FixedImage;

use crate::image::ImageReference;

/// The source of the published image.
pub trait ImageSource: Send + Sync + 'static {
    /// The image published for a delegate that runs `current` under the name `delegate_name`.
    ///
    /// `current` is sent as it is: see [`manager_reference`](crate::image::as_manager_knows).
    fn published(
        &self,
        current: &ImageReference,
        delegate_name: &str,
    ) -> impl Future<Output = Result<ImageReference, ManagerError>> + Send;

    /// Whether there is a Manager behind it, which hears of those who ask.
    fn needs_check_in(&self) -> bool {
        true
    }
}
