//! The source of published images.

use std::future::Future;

use super::error::ManagerError;
use super::requests::ManagerRequests;
use crate::image::ImageReference;

/// A source of published images: a Harness Manager, or a fixed reference.
pub trait ImageSource: Send + Sync + 'static {
    /// Returns the image that is published for delegates of `workload` that run `current`.
    ///
    /// `current` is sent unchanged: see [`manager_reference`](crate::image::manager_reference).
    fn published(
        &self,
        current: &ImageReference,
        workload: &str,
    ) -> impl Future<Output = Result<ImageReference, ManagerError>> + Send;

    /// Returns the image for upgraders that run `current`. `None` if the source publishes no images for upgraders.
    fn published_upgrader(
        &self,
        _current: &ImageReference,
    ) -> impl Future<Output = Option<Result<ImageReference, ManagerError>>> + Send {
        std::future::ready(None)
    }

    /// Whether the source is a Manager, which must receive a request for each workload from time to time.
    fn needs_check_in(&self) -> bool {
        true
    }

    /// Returns the error of the last attempt, while further attempts are made.
    fn last_error(&self) -> Option<ManagerError> {
        None
    }

    /// Returns the counters of the requests made so far, if the requests are counted.
    fn requests(&self) -> ManagerRequests {
        ManagerRequests::default()
    }
}

/// One question to a source: which image is published for this workload, whose delegates run this image?
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Query {
    /// The delegates' `DELEGATE_NAME`.
    pub workload: String,
    /// The image that they run, in the form that the Manager knows.
    pub image: ImageReference,
}
