//! Where an engine keeps its images, and how much room it says is left there.

use std::path::PathBuf;

use serde::Deserialize;

/// What an engine says of its storage (`docker info`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Storage {
    /// The directory it keeps everything in, as its own host names it.
    #[serde(rename = "DockerRootDir", default)]
    pub root: PathBuf,
    /// The storage driver: `overlay2`.
    #[serde(rename = "Driver", default)]
    pub driver: String,
    /// What the driver says of itself, as names and values.
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

    /// What the driver says is left for images, in bytes. Of the drivers with a pool of their own only zfs is left in
    /// Docker, and it writes plain bytes.
    pub fn available(&self) -> Option<u64> {
        self.status("Space Available")?.parse().ok()
    }

    /// Whether images are files below the root directory. With containerd's store they are wherever containerd runs.
    pub fn is_below_root(&self) -> bool {
        self.status("driver-type")
            .is_none_or(|kind| !kind.contains("containerd"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_driver_with_a_pool_of_its_own_says_what_is_left() {
        let zfs =
            |available: &str| Storage::new("/x", "zfs", &[("Zpool", "tank"), ("Space Available", available)]);
        assert_eq!(zfs("91942912000").available(), Some(91_942_912_000));
        assert_eq!(zfs("85.6 GB").available(), None);
        let overlay = Storage::new("/x", "overlay2", &[("Backing Filesystem", "extfs")]);
        assert_eq!(overlay.available(), None);
    }

    #[test]
    fn an_engine_s_answer_is_read() {
        let storage: Storage = serde_json::from_value(json!({
            "DockerRootDir": "/var/lib/docker", "Driver": "overlayfs", "NCPU": 4,
            "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]],
        }))
        .unwrap();
        assert!(!storage.is_below_root());
        let storage: Storage = serde_json::from_value(json!({ "DriverStatus": null })).unwrap();
        assert!(storage.is_below_root());
        assert_eq!(storage.available(), None);
    }
}
