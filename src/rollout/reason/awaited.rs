//! The party whose answer a reason waits for.

use strum::IntoStaticStr;

/// The party whose answer is awaited.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Awaited {
    /// The Manager.
    #[error("the Manager")]
    Manager,
    /// The Prometheus that knows which alerts fire.
    #[error("Prometheus")]
    Prometheus,
    /// The registry with this host name.
    #[error("the registry {0}")]
    Registry(String),
}
