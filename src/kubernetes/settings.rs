//! Reads the settings of a run in a cluster from the configuration file and the environment, with all problems at once.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use super::file::{self, File};
use crate::config::{self, Problem};
use crate::container::EVERY_WORKLOAD;

/// The container whose image is followed if the file names none. The chart uses this name.
const CONTAINER: &str = "delegate";

/// The settings of a run in a cluster.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// The settings that also exist on a Docker host.
    pub common: config::Settings,
    /// `namespace`. Without it, the namespace of the pod or of the kubeconfig applies.
    pub namespace: Option<String>,
    /// `containerName`: the container whose image is followed.
    pub container: String,
    /// `dryRun`: whether to write nothing.
    pub dry_run: bool,
    /// Warnings about keys, values and variables that are permitted but unusual.
    pub warnings: Vec<String>,
}

impl ClusterSettings {
    /// Reads the file at this path and the environment, which takes precedence. Without a file, only the environment counts.
    ///
    /// # Errors
    /// All problems with both.
    pub fn read(
        path: &Path,
        is_needed: bool,
        env: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self, Vec<String>> {
        let is_missing = !path.exists();
        let file = match fs::read_to_string(path) {
            Ok(text) => file::parse(&text),
            Err(_) if !is_needed && is_missing => File::default(),
            Err(error) => {
                let problem = format!("{}: {error}; {HINT}", path.display());
                return Err(vec![problem]);
            }
        };
        let mut env: Vec<(OsString, OsString)> = env.into_iter().collect();
        if Path::new(file::CA_BUNDLE).is_dir() && !env.iter().any(|(name, _)| name == "CA_BUNDLE") {
            env.push(("CA_BUNDLE".into(), file::CA_BUNDLE.into()));
        }
        Self::of(file, &env, &path.display().to_string()).map_err(|mut errors| {
            if is_missing {
                errors.push(format!("{} is not there: {HINT}", path.display()));
            }
            errors
        })
    }

    /// Makes the settings from a parsed file and the environment.
    ///
    /// # Errors
    /// As for [`Self::read`].
    pub fn of(file: File, env: &[(OsString, OsString)], name: &str) -> Result<Self, Vec<String>> {
        let in_env = |variable: &str| {
            env.iter()
                .any(|(name, value)| name == variable && !value.to_string_lossy().trim().is_empty())
        };
        let place = |variable: &str| match file.variables.get(variable) {
            _ if in_env(variable) => None,
            Some((place, _)) => Some(format!("{name}, {place}")),
            None => file::key_of(variable).map(|key| format!("{name}: {key}")),
        };
        let explain = |problem: &Problem| match place(problem.variable) {
            Some(place) => format!("{place}: {}; expected {}", problem.given, problem.accepted),
            None => problem.to_string(),
        };
        let pairs = file.variables.iter();
        let pairs = pairs.map(|(name, (_, value))| (OsString::from(name), OsString::from(value)));
        let common = config::Settings::from_env(env.iter().cloned().chain(pairs), config::Needs::All);
        let in_file = |lines: &[String]| -> Vec<String> {
            lines.iter().map(|line| format!("{name}, {line}")).collect()
        };
        let mut problems = in_file(&file.problems);
        let mut warnings = in_file(&file.warnings);
        if common
            .as_ref()
            .is_ok_and(|common| common.workload_names == [EVERY_WORKLOAD])
        {
            problems.push("UPGRADER_WORKLOAD_NAME: * is for Docker; name each Deployment".to_owned());
        }
        match common {
            Ok(common) if problems.is_empty() => {
                warnings.extend(common.warnings.iter().map(|line| {
                    let known =
                        |(given, meant): (&str, &str)| without_effect(given.split(':').next()?, meant);
                    let known = line.split_once("; use ").and_then(known);
                    known.unwrap_or_else(|| line.clone())
                }));
                let names = env.iter().filter_map(|(name, _)| name.to_str());
                let set = names.filter(|name| in_env(name));
                warnings.extend(set.filter_map(|name| without_effect(name, name)));
                Ok(Self {
                    common,
                    namespace: file.namespace,
                    container: file.container.unwrap_or_else(|| CONTAINER.to_owned()),
                    dry_run: file.dry_run,
                    warnings,
                })
            }
            outcome => {
                if let Err(errors) = outcome {
                    problems.extend(errors.problems.iter().map(explain));
                    warnings.extend(errors.warnings);
                }
                problems.extend(warnings.into_iter().map(|warning| format!("warning: {warning}")));
                Err(problems)
            }
        }
    }
}

/// Returns a warning if a variable, or a guess at its name, affects only Docker hosts.
fn without_effect(name: &str, variable: &str) -> Option<String> {
    let instead = match variable {
        "CONTAINER_STOP_TIMEOUT" | "MAX_STOP_TIMEOUT" | "UPGRADE_IDLE_WAIT" => {
            "terminationGracePeriodSeconds"
        }
        "UPDATE_ORDER" => "its strategy",
        "HEALTH_PROBE" | "HEALTH_PORT" | "HEALTH_COMMAND" | "HEALTH_ACTION" => "the probes of its container",
        "UPGRADE_SOAK" => "minReadySeconds for its pods, and no other replicas",
        "KEEP_IMAGES" => "its nodes, whose kubelets remove images",
        "PULL" => "imagePullPolicy",
        "DOCKER_HOST" | "DOCKER_TLS_VERIFY" | "DOCKER_CERT_PATH" | "SWARM" => "no Docker engine",
        _ => return None,
    };
    Some(format!("{name}: no effect on a Deployment, which has {instead}"))
}

/// The most frequent reason for a missing file.
const HINT: &str = "the pod has to mount the ConfigMap there; in the first documented manifest `name` and `mountPath` of the \
                    volume mount are two items of the list, which have to be one";
