//! The source of published images.

use std::future::Future;

use super::error::ManagerError;
use super::requests::ManagerRequests;
use crate::image::ImageReference;

/// A source of published images: a Harness Manager, or a fixed reference.
pub trait ImageSource: Send + Sync + 'static {
    /// The image published for delegates of `workload` that run `current`.
    ///
    /// `current` is sent as it is: see [`manager_reference`](crate::image::manager_reference).
    fn published(
        &self,
        current: &ImageReference,
        workload: &str,
    ) -> impl Future<Output = Result<ImageReference, ManagerError>> + Send;

    /// The image published for upgraders, one of which runs `current`; `None` where the source publishes no such images.
    fn published_upgrader(
        &self,
        _current: &ImageReference,
    ) -> impl Future<Output = Option<Result<ImageReference, ManagerError>>> + Send {
        std::future::ready(None)
    }

    /// Whether a Manager is behind it, which must receive a request for each workload from time to time.
    fn needs_check_in(&self) -> bool {
        true
    }

    /// Why the last attempt to answer failed, while further attempts are made.
    fn last_error(&self) -> Option<ManagerError> {
        None
    }

    /// The requests so far, if they are counted.
    fn requests(&self) -> ManagerRequests {
        ManagerRequests::default()
    }
}

/// One question: which image is published for this workload, whose delegates run that image?
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Query {
    /// The delegates' `DELEGATE_NAME`.
    pub workload: String,
    /// The image they run, as the Manager knows it.
    pub image: ImageReference,
}
