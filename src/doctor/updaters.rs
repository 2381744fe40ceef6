//! Other programs on the host that would replace the same delegates, without waiting for their tasks.

use serde_json::Value;

use super::Checks;
use crate::container::{Inspected, RunState, label};
use crate::engine::{DockerEngine, Engine as _};
use crate::observe::Scope;
use crate::rollout::Rollout;

/// What the image of an updater contains, and whose it is. Forks keep the name.
const KNOWN: [(&str, &str); 3] = [
    ("watchtower", "Watchtower"),
    ("ouroboros", "Ouroboros"),
    ("harness/upgrader", "Harness's own upgrader"),
];

/// The options of Watchtower that take no value, from its flags.go. What follows another one is its value.
const SWITCHES: [&str; 28] = [
    "--cleanup",
    "--debug",
    "--enable-lifecycle-hooks",
    "--health-check",
    "--http-api-metrics",
    "--http-api-periodic-polls",
    "--http-api-update",
    "--include-restarting",
    "--include-stopped",
    "--label-enable",
    "--label-take-precedence",
    "--monitor-only",
    "--no-color",
    "--no-pull",
    "--no-restart",
    "--no-startup-message",
    "--notification-email-server-tls-skip-verify",
    "--notification-gotify-tls-skip-verify",
    "--notification-log-stdout",
    "--notification-msteams-data",
    "--notification-report",
    "--notification-skip-title",
    "--remove-volumes",
    "--revive-stopped",
    "--rolling-restart",
    "--run-once",
    "--tlsverify",
    "--trace",
];

/// Its options of one letter that take a value.
const SHORT_WITH_VALUE: &str = "HPailnstx";

/// Warns of each that runs. What cannot be inspected says nothing here.
pub(super) async fn check(engine: &DockerEngine, scope: &Scope, rollouts: &[Rollout], checks: &mut Checks) {
    let Ok(containers) = engine.containers().await else {
        return;
    };
    let is_running = |state: &RunState| *state == RunState::Running;
    let mut delegates = Vec::new();
    let mut updaters = Vec::new();
    for container in containers.iter().filter(|container| is_running(&container.state)) {
        let Ok(inspected) = engine.inspect(&container.id).await else {
            continue;
        };
        if rollouts.iter().any(|rollout| rollout.name == container.name) {
            delegates.push(inspected);
        } else if let Some(program) = updater(&inspected) {
            updaters.push((program, inspected));
        }
    }
    for (program, updater) in updaters {
        let watched: Vec<&str> = match program {
            "Watchtower" => delegates
                .iter()
                .filter(|delegate| watches(&updater, delegate))
                .map(Inspected::name)
                .collect(),
            "Harness's own upgrader" if !is_for(&updater, scope) => Vec::new(),
            _ => delegates.iter().map(Inspected::name).collect(),
        };
        if watched.is_empty() {
            continue;
        }
        let (by, watched) = (updater.name(), watched.join(", "));
        let advice = match program {
            "Watchtower" => {
                "stop it, or create them with the labels com.centurylinklabs.watchtower.enable=false and \
                 io.delegate-upgrader.enable=true"
            }
            _ => "let only one of the two upgrade: stop it, or set DISABLE_AUTO_UPGRADE=true here",
        };
        let message = format!(
            "{program} ({by}) replaces {watched}, too, and stops them before their tasks are finished; {advice}"
        );
        checks.warn("updaters", message);
    }
}

fn updater(container: &Inspected) -> Option<&'static str> {
    let image = container.image_reference();
    let known = KNOWN.iter().find(|(part, _)| image.contains(part));
    known.map(|(_, program)| *program)
}

/// Whether Harness's own upgrader looks after one of these delegates.
fn is_for(upgrader: &Inspected, scope: &Scope) -> bool {
    let names = upgrader.env("UPGRADER_WORKLOAD_NAME").unwrap_or_default();
    names
        .split(',')
        .any(|name| scope.workload_names.iter().any(|ours| ours == name.trim()))
}

/// Whether a Watchtower would replace this delegate, by its options, which are arguments or variables.
fn watches(watchtower: &Inspected, delegate: &Inspected) -> bool {
    let arguments = watchtower
        .document()
        .pointer("/Config/Cmd")
        .and_then(Value::as_array);
    let arguments: Vec<&str> = arguments
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let value_of = |flags: &[&str], variable: &str| {
        let mut given = arguments.iter().enumerate().filter_map(|(at, argument)| {
            let rest = flags.iter().find_map(|flag| argument.strip_prefix(flag))?;
            match rest.strip_prefix('=') {
                Some(value) => Some(value.to_owned()),
                None if rest.is_empty() => {
                    Some(arguments.get(at + 1).copied().unwrap_or_default().to_owned())
                }
                None => None,
            }
        });
        given
            .next()
            .or_else(|| watchtower.env(variable).map(str::to_owned))
    };
    let is_on = |flag: &str, short: &str, variable: &str| {
        let is_flag = arguments
            .iter()
            .any(|argument| [flag, short].contains(argument) || *argument == format!("{flag}=true"));
        is_flag
            || watchtower
                .env(variable)
                .is_some_and(|value| value.eq_ignore_ascii_case("true") || value == "1")
    };
    let enable = delegate.label(label::WATCHTOWER_ENABLE);
    let is_excluded = enable.is_some_and(|value| value.eq_ignore_ascii_case("false"));
    let is_included = enable.is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let scope = value_of(&["--scope"], "WATCHTOWER_SCOPE");
    let is_in_scope = scope.is_none_or(|scope| {
        delegate
            .label("com.centurylinklabs.watchtower.scope")
            .unwrap_or("none")
            == scope
    });
    let disabled =
        value_of(&["--disable-containers", "-x"], "WATCHTOWER_DISABLE_CONTAINERS").unwrap_or_default();
    let is_disabled = disabled
        .split([',', ' '])
        .any(|name| name.trim_start_matches('/') == delegate.name());
    let names = names(&arguments);
    let is_named = names.is_empty() || names.contains(&delegate.name());
    !is_excluded
        && is_in_scope
        && is_named
        && !is_disabled
        && !is_on("--monitor-only", "-m", "WATCHTOWER_MONITOR_ONLY")
        && (is_included || !is_on("--label-enable", "-e", "WATCHTOWER_LABEL_ENABLE"))
}

/// The containers that a Watchtower's arguments name; none where it watches all of them.
fn names<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let mut names = Vec::new();
    let mut is_value = false;
    for argument in arguments {
        let is_option = argument.starts_with('-');
        if !is_option && !is_value {
            names.push(argument.trim_start_matches('/'));
        }
        is_value = is_option
            && match argument.strip_prefix('-') {
                Some(long) if long.starts_with('-') => {
                    !argument.contains('=') && !SWITCHES.contains(argument)
                }
                Some(short) => short.len() == 1 && SHORT_WITH_VALUE.contains(short),
                None => false,
            };
    }
    names
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn container(image: &str, command: &[&str], env: &[&str], labels: &[(&str, &str)]) -> Inspected {
        let labels: serde_json::Map<String, Value> = labels
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect();
        let config = json!({ "Image": image, "Cmd": command, "Env": env, "Labels": labels });
        Inspected::new(json!({ "Id": "0123456789ab", "Name": "/c", "Config": config })).unwrap()
    }

    #[test]
    fn an_updater_is_known_by_its_image() {
        for (image, program) in [
            ("containrrr/watchtower", Some("Watchtower")),
            ("ghcr.io/nicholas-fedor/watchtower:1.11", Some("Watchtower")),
            ("harness/upgrader:latest", Some("Harness's own upgrader")),
            ("harness/delegate:26.03.1", None),
            ("delegate-upgrader:latest", None),
        ] {
            assert_eq!(updater(&container(image, &[], &[], &[])), program, "{image}");
        }
    }

    #[test]
    fn a_watchtower_watches_what_its_options_and_the_labels_say() {
        let enable = label::WATCHTOWER_ENABLE;
        let scope = "com.centurylinklabs.watchtower.scope";
        for (command, env, labels, expected) in [
            (&[][..], &[][..], &[][..], true),
            (&[], &[], &[(enable, "false")], false),
            (&["--label-enable"], &[], &[], false),
            (&["--label-enable"], &[], &[(enable, "true")], true),
            (&[], &["WATCHTOWER_LABEL_ENABLE=true"], &[], false),
            (&["--monitor-only"], &[], &[(enable, "true")], false),
            (&[], &["WATCHTOWER_MONITOR_ONLY=1"], &[], false),
            (&["--scope", "web"], &[], &[], false),
            (&["--scope=web"], &[], &[(scope, "web")], true),
            (&[], &["WATCHTOWER_SCOPE=web"], &[(scope, "db")], false),
            (&["--scope", "none"], &[], &[], true),
            (&["--cleanup"], &[], &[(scope, "web")], true),
            (&["c"], &[], &[], true),
            (&["web", "db"], &[], &[], false),
            (&["--cleanup", "--interval", "30", "web"], &[], &[], false),
            (&["--interval", "30"], &[], &[], true),
            (&["-i", "30", "--debug", "web", "/c"], &[], &[], true),
            (&["--schedule=@daily", "-c", "db"], &[], &[], false),
            (&["--porcelain", "v1", "-P", "v1"], &[], &[], true),
            (&["--disable-containers", "web,c"], &[], &[], false),
            (&["-x", "web,c", "--cleanup"], &[], &[], false),
            (&["-m"], &[], &[], false),
            (&["-e"], &[], &[], false),
            (&[], &["WATCHTOWER_DISABLE_CONTAINERS=web"], &[], true),
            (&[], &["WATCHTOWER_DISABLE_CONTAINERS=web,c"], &[], false),
        ] {
            let watchtower = container("containrrr/watchtower", command, env, &[]);
            let delegate = container("harness/delegate:26.03.1", &[], &[], labels);
            assert_eq!(
                watches(&watchtower, &delegate),
                expected,
                "{command:?} {env:?} {labels:?}"
            );
        }
    }
}
