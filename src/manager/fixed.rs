//! A fixed image reference instead of a Manager, for air-gapped hosts, the demo and tests.

use super::error::ManagerError;
use super::source::ImageSource;
use crate::image::ImageReference;

/// Publishes the same image for all delegates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedImage(pub ImageReference);

impl ImageSource for FixedImage {
    async fn published(
        &self,
        _current: &ImageReference,
        _workload: &str,
    ) -> Result<ImageReference, ManagerError> {
        Ok(self.0.clone())
    }

    fn needs_check_in(&self) -> bool {
        false
    }
}
