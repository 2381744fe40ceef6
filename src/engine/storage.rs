//! Where an engine stores its images, how much free space it reports there, and how much memory its machine has.

use std::path::PathBuf;

use serde::Deserialize;

/// The engine's description of its storage and its machine (`docker info`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Storage {
    /// The directory that contains all data of the engine, as a path on the engine's host.
    #[serde(rename = "DockerRootDir", default)]
    pub root: PathBuf,
    /// The storage driver, such as `overlay2`.
    #[serde(rename = "Driver", default)]
    pub driver: String,
    /// The driver's status, as pairs of names and values.
    #[serde(rename = "DriverStatus", default)]
    status: Option<Vec<(String, String)>>,
    /// The memory of its machine, in bytes.
    #[serde(rename = "MemTotal", default)]
    pub memory: Option<u64>,
}

impl Storage {
    /// Creates a description of storage as an engine would report it.
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

    /// The free space for images according to the driver, in bytes. Of the drivers with their own pool, only zfs reports
    /// plain bytes.
    pub fn available(&self) -> Option<u64> {
        self.status("Space Available")?.parse().ok()
    }

    /// Whether containerd's store holds the images. Their ids are then the digests that a registry uses.
    pub fn is_containerd(&self) -> bool {
        self.status("driver-type")
            .is_some_and(|kind| kind.contains("containerd"))
    }

    /// With containerd's store, the default of new installations since Docker 29, returns the directory of the containers'
    /// files, relative to containerd's own directory: `io.containerd.snapshotter.v1.overlayfs`.
    pub fn snapshots(&self) -> Option<String> {
        let kind = self.status("driver-type")?;
        self.is_containerd().then(|| format!("{kind}.{}", self.driver))
    }

    /// Whether images are stored as files. devicemapper (up to Docker 24) has its own pool instead.
    pub fn has_files(&self) -> bool {
        self.driver != "devicemapper"
    }
}
