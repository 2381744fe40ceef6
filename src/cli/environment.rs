//! The variables of a command: those of the process, and on a host with the package, also those of the service.

use std::env;
use std::ffi::OsString;
use std::path::Path;

use super::{Exit, fail};
use crate::config::{ConfigErrors, Needs, Problem, Settings};
use crate::host;
use crate::host::place::SERVICE_FILE;

/// The directory in which systemd puts the service's credentials while it runs. Root may read them.
const SERVICE_CREDENTIALS: &str = "/run/credentials/delegate-upgrader.service";

pub(super) type Variables = Vec<(OsString, OsString)>;

/// The environment, with `ENVIRONMENT_FILE` set to this file. Without a file, it is set to the service's file, unless
/// the process has settings of its own.
pub(super) fn variables(file: Option<&Path>) -> Variables {
    let mut variables: Variables = env::vars_os().collect();
    let is_set = |wanted: &str| env::var_os(wanted).is_some_and(|value| !value.is_empty());
    let has_own = is_set("ENVIRONMENT_FILE") || is_set("UPGRADER_WORKLOAD_NAME");
    let service = Path::new(SERVICE_FILE);
    let file = file.or_else(|| (!has_own && service.exists()).then_some(service));
    if let Some(file) = file {
        variables.retain(|(name, _)| name != "ENVIRONMENT_FILE");
        variables.push(("ENVIRONMENT_FILE".into(), file.into()));
    }
    let is_of_service = variables
        .iter()
        .any(|(name, value)| name == "ENVIRONMENT_FILE" && value == SERVICE_FILE);
    if is_of_service && !is_set("CREDENTIALS_DIRECTORY") && Path::new(SERVICE_CREDENTIALS).is_dir() {
        variables.push(("CREDENTIALS_DIRECTORY".into(), SERVICE_CREDENTIALS.into()));
    }
    variables
}

/// The settings of a command. A given `delegate` replaces `UPGRADER_WORKLOAD_NAME`, which the command does not use.
pub(super) fn settings(file: Option<&Path>, needs: Needs, delegate: Option<&str>) -> Result<Settings, Exit> {
    let mut variables = variables(file);
    let workload = delegate.map(|delegate| ("UPGRADER_WORKLOAD_NAME".into(), delegate.into()));
    variables.extend(workload);
    let settings = read(variables, file, needs);
    let mut settings = settings.map_err(|errors| fail(errors, Exit::Config))?;
    if settings.listen.ip().is_unspecified() && host::own_container().is_none() {
        let warning = "LISTEN_ADDR: everyone who reaches this host sees the status page, which has no login; behind 127.0.0.1 a \
                       reverse proxy can have one";
        settings.warnings.push(warning.to_owned());
    }
    Ok(settings)
}

/// Reads the settings from these variables. A problem with the file of `--env-file` names that option.
pub(super) fn read(
    variables: Variables,
    file: Option<&Path>,
    needs: Needs,
) -> Result<Settings, ConfigErrors> {
    Settings::from_env(variables, needs).map_err(|mut errors| {
        let is_of_option = |problem: &&mut Problem| file.is_some() && problem.variable == "ENVIRONMENT_FILE";
        let problems = errors.problems.iter_mut().filter(is_of_option);
        problems.for_each(|problem| problem.variable = "--env-file");
        errors
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_with_the_file_names_the_option_that_was_given() {
        let file = Path::new("/nowhere.env");
        for (option, name) in [(Some(file), "--env-file"), (None, "ENVIRONMENT_FILE")] {
            let variables = vec![("ENVIRONMENT_FILE".into(), file.into())];
            let errors = read(variables, option, Needs::All).unwrap_err().to_string();
            assert!(errors.starts_with(&format!("{name}: /nowhere.env: ")), "{errors}");
        }
    }
}
