//! Where an engine keeps its images, how much room it says is left there, and how much memory its machine has.

use std::path::PathBuf;

use serde::Deserialize;

/// The engine's description of its storage and its machine (`docker info`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Storage {
    /// The directory it keeps everything in, as its own host names it.
    #[serde(rename = "DockerRootDir", default)]
    pub root: PathBuf,
    /// The storage driver: `overlay2`.
    #[serde(rename = "Driver", default)]
    pub driver: String,
    /// The driver's description of itself, as names and values.
    #[serde(rename = "DriverStatus", default)]
    status: Option<Vec<(String, String)>>,
    /// The memory of its machine, in bytes.
    #[serde(rename = "MemTotal", default)]
    pub memory: Option<u64>,
}

impl Storage {
    /// Storage as an engine would describe it.
    pub fn new(root: impl Into<PathBuf>, driver: &str, status: &[(&str, &str)]) -> Self {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self {
            root: root.into(),
            driver: driver.to_owned(),
            status: Some(status.iter().map(pair).collect()),
            memory: None,
        }
    }

    fn status(&self, name: &str) -> Option<&str> {
        let pairs = self.status.as_ref()?;
        let (_, value) = pairs.iter().find(|(key, _)| key == name)?;
        Some(value)
    }

    /// The space left for images according to the driver, in bytes. Of the drivers with a pool of their own, only zfs
    /// writes plain bytes.
    pub fn available(&self) -> Option<u64> {
        self.status("Space Available")?.parse().ok()
    }

    /// Whether containerd's store has the images, whose ids are the digests that a registry knows.
    pub fn is_containerd(&self) -> bool {
        self.status("driver-type")
            .is_some_and(|kind| kind.contains("containerd"))
    }

    /// With containerd's store, which a fresh Docker has from 29 on, the directory below containerd's own that has the files of
    /// containers: `io.containerd.snapshotter.v1.overlayfs`.
    pub fn snapshots(&self) -> Option<String> {
        let kind = self.status("driver-type")?;
        self.is_containerd().then(|| format!("{kind}.{}", self.driver))
    }

    /// Whether images are files. devicemapper (up to Docker 24) has a pool of its own.
    pub fn has_files(&self) -> bool {
        self.driver != "devicemapper"
    }
}
