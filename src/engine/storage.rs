//! Where an engine keeps its images, and how much room it says is left there.

use std::path::PathBuf;

use serde::Deserialize;

/// The engine's description of its storage (`docker info`).
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
}

impl Storage {
    /// Storage as an engine would describe it.
    pub fn new(root: impl Into<PathBuf>, driver: &str, status: &[(&str, &str)]) -> Self {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self {
            root: root.into(),
            driver: driver.to_owned(),
            status: Some(status.iter().map(pair).collect()),
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

    /// Whether images are files below the root directory. With containerd's store they are wherever containerd runs, and
    /// devicemapper (up to Docker 24) has a pool of its own.
    pub fn is_below_root(&self) -> bool {
        let has_own_pool = self.driver == "devicemapper";
        !has_own_pool
            && self
                .status("driver-type")
                .is_none_or(|kind| !kind.contains("containerd"))
    }
}
