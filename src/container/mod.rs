//! Basic types for containers: ids, roles in a rollout, labels, states and documents.

pub mod compose;
mod id;
mod inspect;
pub(crate) mod json;
pub mod label;
mod request;
mod restart_policy;
mod role;
pub(crate) mod sets;
mod state;

pub use id::{ContainerId, ImageId};
pub use inspect::{HealthStatus, Inspected};
pub use request::Request;
pub use restart_policy::restart_policy_document;
pub use role::Role;
pub(crate) use state::SWARM_SERVICE;
pub use state::{ApiVersion, ContainerSummary, RunState, SWARM_TASK, is_listed};

/// The environment variable that names the delegate of which a container is a replica.
pub const DELEGATE_NAME_VARIABLE: &str = "DELEGATE_NAME";
/// The variable with the name of a Harness Delegate 3.x.
pub(crate) const HARNESS_NAME_VARIABLE: &str = "HARNESS_NAME";
/// The mark behind that name in a list of names.
pub(crate) const THIRD_GENERATION: &str = " (Harness Delegate 3.x)";

/// Instead of names in `UPGRADER_WORKLOAD_NAME`: every delegate.
pub const EVERY_WORKLOAD: &str = "*";

/// The environment variable with the Harness account of a delegate.
pub const ACCOUNT_ID_VARIABLE: &str = "ACCOUNT_ID";

/// The environment variable with the address on which an upgrader listens.
pub const LISTEN_ADDR_VARIABLE: &str = "LISTEN_ADDR";

/// The workload name of the upgrader's own containers, instead of a `DELEGATE_NAME`. It contains a comma, which separates
/// names in that setting, so no delegate can have this name.
pub const OWN_WORKLOAD: &str = "the upgrader, itself";
