//! Where an engine keeps its images, and how much room it says is left there.

use std::path::PathBuf;

use serde::Deserialize;

/// What an engine tells of its storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Storage {
    /// The directory it keeps everything in, as its own host names it.
    #[serde(rename = "DockerRootDir", default)]
    pub root: PathBuf,
    /// The storage driver: `overlay2`.
    #[serde(rename = "Driver", default)]
    pub driver: String,
    /// What the driver says of itself, in pairs.
    #[serde(rename = "DriverStatus", default)]
    status: Option<Vec<(String, String)>>,
}

impl Storage {
    /// Storage as an engine would tell of it.
    pub fn new(root: impl Into<PathBuf>, driver: &str, status: &[(&str, &str)]) -> Self {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self {
            root: root.into(),
            driver: driver.to_owned(),
            status: Some(status.iter().map(pair).collect()),
        }
    }

    fn says(&self, name: &str) -> Option<&str> {
        let pairs = self.status.as_ref()?;
        let (_, value) = pairs.iter().find(|(key, _)| key == name)?;
        Some(value)
    }

    /// What the driver says is left for images, in bytes: those with a pool of their own know.
    pub fn available(&self) -> Option<u64> {
        let left = self
            .says("Data Space Available")
            .or_else(|| self.says("Space Available"))
            .and_then(bytes)?;
        // A thin pool refuses before it is full.
        let reserved = self.says("Thin Pool Minimum Free Space").and_then(bytes);
        Some(left.saturating_sub(reserved.unwrap_or_default()))
    }

    /// Whether images are files below the root directory. With containerd's store they are wherever containerd runs.
    pub fn is_below_root(&self) -> bool {
        self.says("driver-type")
            .is_none_or(|kind| !kind.contains("containerd"))
    }
}

/// `10.5 GB`, `107.4GB`, `1.5GiB`, `123456`: drivers write sizes as they like.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let scale: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "pb" => 1_000_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        "pib" => 1 << 50,
        _ => return None,
    };
    let digits = fraction.get(..fraction.len().min(6))?;
    let part = match digits {
        "" => 0,
        digits => digits.parse::<u128>().ok()?,
    };
    let power = digits.chars().fold(1, |power, _| power * 10);
    let part = u64::try_from(u128::from(scale) * part / power).ok()?;
    whole.parse::<u64>().ok()?.checked_mul(scale)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sizes_are_read_as_drivers_write_them() {
        for (text, expected) in [
            ("123456", Some(123_456)),
            ("0 B", Some(0)),
            ("10.5 GB", Some(10_500_000_000)),
            ("107.4GB", Some(107_400_000_000)),
            ("9.766 kB", Some(9_766)),
            ("1.5GiB", Some(1_610_612_736)),
            ("2 TiB", Some(2_199_023_255_552)),
            ("1.", Some(1)),
            ("", None),
            ("GB", None),
            ("-5 GB", None),
            ("1.5.5 GB", None),
            ("12 parsecs", None),
            ("99999999999999999999", None),
            ("99999999 PB", None),
        ] {
            assert_eq!(bytes(text), expected, "{text:?}");
        }
    }

    #[test]
    fn drivers_with_a_pool_of_their_own_say_what_is_left() {
        let devicemapper = [
            ("Pool Name", "docker-253:0-1-pool"),
            ("Data Space Used", "11.8 GB"),
            ("Data Space Available", "95.6 GB"),
            ("Metadata Space Available", "2.1 GB"),
            ("Thin Pool Minimum Free Space", "10.7 GB"),
        ];
        let zfs = [("Zpool", "tank"), ("Space Available", "91942912000")];
        let overlay = [("Backing Filesystem", "extfs"), ("Supports d_type", "true")];
        for (driver, status, expected) in [
            ("devicemapper", &devicemapper[..], Some(84_900_000_000)),
            ("zfs", &zfs, Some(91_942_912_000)),
            ("overlay2", &overlay, None),
        ] {
            let storage = Storage::new("/var/lib/docker", driver, status);
            assert_eq!(storage.available(), expected, "{driver}");
        }
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
