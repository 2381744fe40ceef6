//! A fixed reference instead of a Manager: air-gapped hosts, the demo, tests.

use super::error::ManagerError;
use super::source::ImageSource;
use crate::image::ImageReference;

/// The same published image for everyone.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn everyone_gets_the_fixed_reference() {
        let fixed: ImageReference = "harness/delegate:26.03.1".parse().unwrap();
        let source = FixedImage(fixed.clone());
        for current in ["harness/delegate:26.02.1", "corp/other:1"] {
            let answer = source.published(&current.parse().unwrap(), "any").await;
            assert_eq!(answer, Ok(fixed.clone()));
        }
    }
}
