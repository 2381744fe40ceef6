//! Ids of containers and images.

use std::fmt;

/// A container's full id, 64 hex digits on every engine we know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerId(String);

impl ContainerId {
    /// Takes the id as the engine gave it.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// The whole id.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first twelve characters, as Docker shows it and as it names the host inside.
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short())
    }
}

/// An image's id, `sha256:` and 64 hex digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageId(String);

impl ImageId {
    /// Takes the id as the engine gave it.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// The whole id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ImageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = self.0.strip_prefix("sha256:").unwrap_or(&self.0);
        f.write_str(hex.get(..12).unwrap_or(hex))
    }
}
