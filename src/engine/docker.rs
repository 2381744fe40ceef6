//! The Docker Engine API, through bollard and raw JSON.

/// A Docker engine.
#[derive(Clone, Debug)]
pub struct DockerEngine;
