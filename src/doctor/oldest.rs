//! The oldest supported versions: those of the page `docs/usage/support.md`.

/// The name of a version, the oldest one with support, and the software to update.
pub(crate) struct Oldest(&'static str, (u64, u64), &'static str);

pub(crate) const DOCKER: Oldest = Oldest("API", (1, 41), "Docker");
pub(crate) const PODMAN: Oldest = Oldest("Podman", (5, 1), "Podman");
#[cfg(any(test, feature = "kubernetes"))]
pub(crate) const KUBERNETES: Oldest = Oldest("Kubernetes", (1, 20), "the cluster");

impl Oldest {
    /// The warning about an older version, such as `1.40` or `v1.19.7+k3s1`. An unknown form has none.
    pub(crate) fn warning(&self, version: &str) -> Option<String> {
        let Self(kind, oldest, software) = self;
        let mut numbers = version.trim_start_matches('v').split(['.', '+', '-']);
        let mut number = || numbers.next()?.parse::<u64>().ok();
        let is_old = (number()?, number()?) < *oldest;
        let (major, minor) = oldest;
        is_old.then(|| format!("{kind} versions below {major}.{minor} are untested; update {software}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warns_of_versions_below_those_of_the_page() {
        let page = include_str!("../../docs/usage/support.md");
        for (oldest, old, supported) in [
            (DOCKER, "1.40", "1.41"),
            (PODMAN, "5.0.9", "5.1.0"),
            (KUBERNETES, "v1.19.16+k3s1", "v1.20.0-rc.1"),
        ] {
            let warning = oldest.warning(old).unwrap();
            assert!(page.contains(&format!("| `warn`: {warning} |")), "{warning}");
            let (major, minor) = oldest.1;
            assert!(page.contains(&format!("{major}.{minor} and newer")));
            for version in [supported, "10.1", "unknown", ""] {
                assert_eq!(oldest.warning(version), None);
            }
        }
    }
}
