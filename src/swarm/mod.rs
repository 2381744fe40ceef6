//! Upgrades Swarm services that run delegates: reads a manager's documents, and updates the services' specs.
//!
//! `read` turns the documents into a [`Managed`](crate::managed::Managed), `spec` makes the next spec from the present one,
//! and `gate` makes a health check; all are pure. `orchestrate` talks to the manager.

mod gate;
mod orchestrate;
mod read;
mod spec;

pub use gate::{Gate, Tools, has_health_check};
pub use orchestrate::Swarm;
pub use read::{objects, read, version};
pub use spec::{Defaults, before, warnings, way_back, with_image, with_record, with_settings};
