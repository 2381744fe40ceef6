//! The process's environment → the variables we know, as text.

use std::ffi::OsString;

use serde::Deserialize;

use super::problems::Problems;

/// One variable of ours: its name, and its text if it is set.
#[derive(Clone)]
pub(super) struct Variable {
    pub(super) name: &'static str,
    value: Option<String>,
}

impl Variable {
    /// The text without surrounding blanks.
    pub(super) fn get(&self) -> Option<&str> {
        self.value.as_deref().map(str::trim)
    }

    /// The text as it is, for a secret, whose blanks may be meant.
    pub(super) fn verbatim(&self) -> Option<&str> {
        self.value.as_deref()
    }

    pub(super) fn is_set(&self) -> bool {
        self.value.is_some()
    }
}

macro_rules! environment {
    ($($field:ident = $name:literal),* $(,)?) => {
        /// Every variable we read.
        #[derive(Clone)]
        pub(super) struct Environment {
            $(pub(super) $field: Variable,)*
        }

        /// The same as envy reads it: it takes the names in lower case.
        #[derive(Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Raw {
            $($field: Option<String>,)*
        }

        const KNOWN: &[&str] = &[$($name),*];

        impl From<Raw> for Environment {
            fn from(raw: Raw) -> Self {
                Self { $($field: Variable { name: $name, value: raw.$field },)* }
            }
        }
    };
}

environment! {
    account_id = "ACCOUNT_ID",
    manager_host_and_port = "MANAGER_HOST_AND_PORT",
    upgrader_token = "UPGRADER_TOKEN",
    upgrader_token_file = "UPGRADER_TOKEN_FILE",
    upgrader_workload_name = "UPGRADER_WORKLOAD_NAME",
    schedule = "SCHEDULE",
    schedule_jitter = "SCHEDULE_JITTER",
    run_on_start = "RUN_ON_START",
    tz = "TZ",
    container_stop_timeout = "CONTAINER_STOP_TIMEOUT",
    disable_auto_upgrade = "DISABLE_AUTO_UPGRADE",
    published_image = "PUBLISHED_IMAGE",
    registry_mirror = "REGISTRY_MIRROR",
    image_repository = "IMAGE_REPOSITORY",
    require_digest = "REQUIRE_DIGEST",
    max_version = "MAX_VERSION",
    upgrade_strategy = "UPGRADE_STRATEGY",
    healthy_time = "HEALTHY_TIME",
    healthy_deadline = "HEALTHY_DEADLINE",
    health_interval = "HEALTH_INTERVAL",
    health_probe = "HEALTH_PROBE",
    health_port = "HEALTH_PORT",
    health_path = "HEALTH_PATH",
    health_action = "HEALTH_ACTION",
    registry_username = "REGISTRY_USERNAME",
    registry_password = "REGISTRY_PASSWORD",
    registry_password_file = "REGISTRY_PASSWORD_FILE",
    docker_config = "DOCKER_CONFIG",
    proxy_scheme = "PROXY_SCHEME",
    proxy_host = "PROXY_HOST",
    proxy_port = "PROXY_PORT",
    proxy_user = "PROXY_USER",
    proxy_password = "PROXY_PASSWORD",
    https_proxy = "HTTPS_PROXY",
    http_proxy = "HTTP_PROXY",
    no_proxy = "NO_PROXY",
    ca_bundle = "CA_BUNDLE",
    client_cert = "CLIENT_CERT",
    client_key = "CLIENT_KEY",
    listen_addr = "LISTEN_ADDR",
    webhook_url = "WEBHOOK_URL",
    audit_log = "AUDIT_LOG",
    log_level = "LOG_LEVEL",
    log_format = "LOG_FORMAT",
    docker_host = "DOCKER_HOST",
    docker_tls_verify = "DOCKER_TLS_VERIFY",
    docker_cert_path = "DOCKER_CERT_PATH",
    home = "HOME",
}

/// Names of others that look like slips of ours.
const FOREIGN: [&str; 2] = ["ALL_PROXY", "FTP_PROXY"];

impl Environment {
    /// Picks our variables out of all; empty ones are unset. Names that look like slips are warned of.
    pub(super) fn read(
        vars: impl IntoIterator<Item = (OsString, OsString)>,
        findings: &mut Problems,
    ) -> Self {
        let mut texts: Vec<(&'static str, String)> = Vec::new();
        let mut lower_case = Vec::new();
        let mut unreadable = Vec::new();
        let mut foreign = Vec::new();
        for (name, value) in vars {
            let Some(name) = name.to_str() else { continue };
            // curl knows these in lower case only, everybody else in both.
            let is_lower_case = matches!(name, "https_proxy" | "http_proxy" | "no_proxy");
            let known = KNOWN
                .iter()
                .find(|known| **known == name || is_lower_case && known.eq_ignore_ascii_case(name));
            match (known, value.into_string()) {
                (Some(_), Ok(text)) if text.trim().is_empty() => {}
                (Some(known), Ok(text)) if is_lower_case => lower_case.push((*known, text)),
                (Some(known), Ok(text)) => texts.push((*known, text)),
                (Some(known), Err(_)) => unreadable.push(*known),
                (None, _) => foreign.push(name.to_owned()),
            }
        }
        for (known, text) in lower_case {
            if !texts.iter().any(|(name, _)| *name == known) {
                texts.push((known, text));
            }
        }
        // A name given twice (a process may start another that way) would be an error of envy's: the first counts,
        // as it does for getenv.
        let mut seen = Vec::new();
        texts.retain(|(name, _)| {
            let first = !seen.contains(name);
            seen.push(*name);
            first
        });

        for name in foreign {
            if let Some(meant) = meant(&name).filter(|meant| !seen.contains(meant)) {
                findings.warn_line(format!("{name}: no variable of ours — did you mean {meant}?"));
            }
        }
        for name in unreadable {
            findings.problem(
                &Variable { name, value: None },
                "bytes that are not UTF-8",
                "UTF-8 text",
            );
        }
        let pairs = texts.into_iter().map(|(name, text)| (name.to_owned(), text));
        match envy::from_iter::<_, Raw>(pairs) {
            Ok(raw) => raw.into(),
            Err(error) => {
                // Only known names with text get here, each once, and every field is an optional text.
                let variable = Variable {
                    name: "environment",
                    value: None,
                };
                findings.problem(&variable, error.to_string(), "variables of the documentation");
                Raw::default().into()
            }
        }
    }

    /// The texts that must show nowhere. One of a few characters is in every other word; masking it would give it
    /// away rather than hide it.
    pub(super) fn secrets(&self) -> Vec<&str> {
        [
            &self.upgrader_token,
            &self.registry_password,
            &self.proxy_password,
        ]
        .into_iter()
        .filter_map(Variable::get)
        .filter(|secret| secret.len() >= 8)
        .collect()
    }
}

/// The variable of ours that the name is likely a slip of.
fn meant(name: &str) -> Option<&'static str> {
    let upper = name.to_ascii_uppercase();
    if FOREIGN.contains(&upper.as_str()) {
        return None;
    }
    KNOWN
        .iter()
        // Short names (`TZ`, `HOME`) are near to everything.
        .filter(|known| known.len() >= 8)
        .map(|known| (distance(known.as_bytes(), upper.as_bytes()), *known))
        .filter(|(slips, known)| *slips <= if known.len() == 8 { 1 } else { 2 })
        .min()
        .map(|(_, known)| known)
}

/// How many letters are missing, superfluous, wrong or swapped with their neighbour.
fn distance(left: &[u8], right: &[u8]) -> usize {
    if left.len().abs_diff(right.len()) > 2 {
        return usize::MAX;
    }
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (row, a) in left.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, b) in right.iter().enumerate() {
            let cost = |cells: &[usize], at: usize| cells.get(at).copied().unwrap_or(usize::MAX - 1);
            let mut best = (cost(&last, column) + usize::from(a != b))
                .min(cost(&last, column + 1) + 1)
                .min(cost(&current, column) + 1);
            let swapped =
                row > 0 && column > 0 && left.get(row - 1) == Some(b) && right.get(column - 1) == Some(a);
            if swapped {
                best = best.min(cost(&before_last, column - 1) + 1);
            }
            current.push(best);
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_known_for_what_was_meant() {
        for (name, expected) in [
            ("SCHEDULLE", Some("SCHEDULE")),
            ("SCHEUDLE", Some("SCHEDULE")),
            ("schedule", Some("SCHEDULE")),
            ("UPGRADER_WORKLOADNAME", Some("UPGRADER_WORKLOAD_NAME")),
            ("UPGRADER_WORKLOAD_NAMES", Some("UPGRADER_WORKLOAD_NAME")),
            ("MANAGER_HOST_AND_PROT", Some("MANAGER_HOST_AND_PORT")),
            ("CONTAINER_STOP_TIMOUT", Some("CONTAINER_STOP_TIMEOUT")),
            ("LOGLEVEL", Some("LOG_LEVEL")),
            ("ALL_PROXY", None),
            ("all_proxy", None),
            ("PATH", None),
            ("HOSTNAME", None),
            ("HOMES", None),
            ("DELEGATE_NAME", None),
            ("DELEGATE_TOKEN", None),
            ("MY_PROXY", None),
        ] {
            assert_eq!(meant(name), expected, "{name}");
        }
    }

    #[test]
    fn letters_missing_superfluous_wrong_and_swapped_are_counted() {
        for (left, right, slips) in [
            ("abc", "abc", 0),
            ("abc", "ab", 1),
            ("abc", "abxc", 1),
            ("abc", "axc", 1),
            ("abc", "acb", 1),
            ("abc", "xyc", 2),
            ("", "ab", 2),
        ] {
            assert_eq!(
                distance(left.as_bytes(), right.as_bytes()),
                slips,
                "{left} {right}"
            );
        }
    }

    #[test]
    fn every_name_is_the_field_of_the_same_name() {
        for name in KNOWN {
            let pairs = [(OsString::from(name), OsString::from("text"))];
            let mut findings = Problems::default();
            Environment::read(pairs, &mut findings);
            let (_, errors) = findings.finish(&[]);
            assert_eq!(errors, None, "{name}");
        }
    }
}
