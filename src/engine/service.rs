//! An update of a Swarm service.

use serde_json::Value;

use crate::image::ImageReference;

/// A service's new spec.
#[derive(Clone, Copy, Debug)]
pub struct ServiceUpdate<'a> {
    /// The id of the service.
    pub id: &'a str,
    /// The observed version. The update is refused if the version has changed since.
    pub version: u64,
    /// The whole new spec.
    pub spec: &'a Value,
    /// The image that is new in the spec. The login for its registry is sent along, if there is one. Without an image, Swarm
    /// keeps the login that it has.
    pub image: Option<&'a ImageReference>,
}
