//! A change of a Swarm service.

use serde_json::Value;

use crate::image::ImageReference;

/// A service's new spec.
#[derive(Clone, Copy, Debug)]
pub struct ServiceUpdate<'a> {
    /// Its id.
    pub id: &'a str,
    /// The version that was observed: the update is refused if the version has changed.
    pub version: u64,
    /// The whole new spec.
    pub spec: &'a Value,
    /// The image that is new in the spec: its registry's login goes along, if there is one. Without one Swarm keeps the
    /// login that it has.
    pub image: Option<&'a ImageReference>,
}
