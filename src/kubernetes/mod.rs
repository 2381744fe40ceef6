//! Kubernetes Deployments that are delegates: read from the API server's documents, and updated by patches.
//!
//! The decisions are those of [`managed`](crate::managed), as for the services of a Swarm. `read` makes a
//! [`Managed`](crate::managed::Managed) of a Deployment, `patch` makes a patch of a step, `pods` finds out why pods fail, and
//! `file` reads the configuration that the documented manifest and the chart mount; all of these are pure. `cluster` talks to
//! the API server, and `deployments` is what [the driver](crate::reconcile::driver) needs of it.

pub mod cluster;
pub mod deployments;
pub mod doctor;
pub mod file;
pub mod own;
pub mod patch;
pub mod pods;
pub mod read;
pub(crate) mod registry;
pub mod settings;

/// By this name the API server remembers which fields this program has written.
pub const FIELD_MANAGER: &str = "delegate-upgrader";

/// Where an object of this kind and name is.
pub(crate) fn path(group: &str, namespace: &str, kind: &str, name: &str) -> String {
    let encode = |text| percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC);
    let prefix = if group.contains('/') { "apis" } else { "api" };
    format!(
        "/{prefix}/{group}/namespaces/{}/{kind}/{}",
        encode(namespace),
        encode(name)
    )
}
