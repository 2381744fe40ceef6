//! `config` and `version`: what this program is set to and is.

use serde_json::{Map, json};

use super::{Exit, fail, print, print_json, trial};
use crate::config::Settings;

pub(super) fn version(json: bool) -> Exit {
    let built = if cfg!(feature = "kubernetes") {
        "clusters"
    } else {
        "Docker hosts"
    };
    // Only release builds set the commit.
    let commit = option_env!("DELEGATE_UPGRADER_COMMIT");
    let version = env!("CARGO_PKG_VERSION");
    if json {
        return print_json(&json!({ "version": version, "commit": commit, "built_for": built }));
    }
    let commit = commit.map_or_else(String::new, |commit| format!(", commit {commit}"));
    print(&format!("delegate-upgrader {version}{commit}, for {built}"))
}

/// Prints the effective settings, without secrets.
pub(super) async fn config(settings: &Settings, json: bool) -> Exit {
    let (variables, warnings) = (settings.redacted(), &settings.warnings);
    let printed = if json {
        let values = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!(value)));
        print_json(&json!({ "settings": values.collect::<Map<_, _>>(), "warnings": warnings }))
    } else {
        let variables = variables.iter().map(|(name, value)| format!("{name}={value}"));
        let warnings = warnings.iter().map(|warning| format!("# warning: {warning}"));
        let lines: Vec<String> = variables.chain(warnings).collect();
        print(&lines.join("\n"))
    };
    let problems = trial::problems(settings).await;
    if problems.is_empty() {
        return printed;
    }
    fail(problems.join("\n"), Exit::Config)
}
