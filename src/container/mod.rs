//! Plain nouns of a container: ids, names as parts of a rollout, labels, states, its document.

pub mod compose;
mod id;
mod inspect;
pub(crate) mod json;
pub mod label;
mod restart_policy;
mod role;
pub(crate) mod sets;
mod state;

pub use id::{ContainerId, ImageId};
pub use inspect::{Healthcheck, HealthcheckStatus, Inspected};
pub use restart_policy::restart_policy_document;
pub use role::Role;
pub use state::{ApiVersion, ContainerSummary, RunState, SWARM_TASK, is_listed};

/// The environment variable by which a container says which delegate it is a replica of.
pub const DELEGATE_NAME_VARIABLE: &str = "DELEGATE_NAME";

/// The environment variable that says which Harness account a delegate belongs to.
pub const ACCOUNT_ID_VARIABLE: &str = "ACCOUNT_ID";

/// The environment variable that says where an upgrader listens.
pub const LISTEN_ADDR_VARIABLE: &str = "LISTEN_ADDR";

/// Takes the place of `DELEGATE_NAME` for the upgrader's own containers. The setting separates names by commas, so this
/// names no delegate.
pub const OWN_WORKLOAD: &str = "the upgrader, itself";
