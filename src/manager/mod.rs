//! The published image, and the Harness Manager as its source.

mod client;
mod client_config;
mod error;
pub(crate) mod heartbeat;
mod requests;
pub mod response;
mod source;
pub mod token;
mod transport_error;
mod upgrader_image;

pub use crate::net::dns::Resolver;
pub use client::HttpManager;
pub use client_config::{ManagerConfig, ManagerSettings, Timing};
pub use error::ManagerError;
pub(crate) use error::clock_problem;
pub use heartbeat::ManagerStatus;
pub use requests::ManagerRequests;
pub use source::{ImageSource, Query};
pub use token::DelegateToken;
pub use upgrader_image::UpgraderImage;
