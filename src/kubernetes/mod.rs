//! Upgrades Kubernetes Deployments that run delegates: reads the API server's documents, and patches them.
//!
//! [`managed`](crate::managed) makes the decisions, as it does for Swarm services. `read` turns a Deployment into a
//! [`Managed`](crate::managed::Managed), `patch` turns a step into a patch, `pods` finds out why pods fail, `replica_sets`
//! finds former settings, and `file` reads the configuration file that the documented manifest and the chart mount; all of these are pure. `cluster` talks to the
//! API server, and `deployments` gives [the driver](crate::reconcile::driver) access to Deployments.

pub mod cluster;
pub mod deployments;
pub mod doctor;
pub mod file;
pub mod own;
pub mod patch;
pub mod pods;
pub mod read;
pub(crate) mod registry;
pub mod replica_sets;
pub mod settings;
pub mod warnings;

use percent_encoding::{NON_ALPHANUMERIC, PercentEncode, utf8_percent_encode};

fn encode(text: &str) -> PercentEncode<'_> {
    utf8_percent_encode(text, NON_ALPHANUMERIC)
}

/// Returns the API path of an object of this kind and name.
pub(crate) fn path(group: &str, namespace: &str, kind: &str, name: &str) -> String {
    let prefix = if group.contains('/') { "apis" } else { "api" };
    format!(
        "/{prefix}/{group}/namespaces/{}/{kind}/{}",
        encode(namespace),
        encode(name)
    )
}
