//! Swarm services that are delegates: read from the documents of a manager, and updated by their specs.
//!
//! `read` makes a [`Managed`](crate::managed::Managed) of the documents, `spec` makes the next spec of the present one, `gate` the
//! health check that goes with it; all are pure. `orchestrate` talks to the manager.

mod gate;
mod orchestrate;
mod read;
mod spec;

pub use gate::{Gate, Tools, has_health_check, way_back, with_health_check};
pub use orchestrate::Swarm;
pub use read::{objects, read};
pub use spec::{Defaults, warnings, with_image, with_record};
