//! Whose answer a reason waits for.

use strum::IntoStaticStr;

/// Whose answer is awaited.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Awaited {
    /// The Manager's.
    #[error("the Manager")]
    Manager,
    /// That of the registry with this host name.
    #[error("the registry {0}")]
    Registry(String),
}
