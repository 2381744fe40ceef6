//! Everything that interferes with upgrades: other programs that replace the same delegates without waiting for their tasks,
//! clients that wait for a delegate to end, and logs that are tagged with the candidate's name.

use serde_json::Value;

use super::Checks;
use crate::config::Source;
use crate::container::{Inspected, RunState, compose, label};
use crate::engine::{DockerEngine, Engine as _};
use crate::manager::DelegateToken;
use crate::observe::Scope;
use crate::rollout::Rollout;

/// Parts of the image names of updaters, and the program of each. Forks keep these names.
const KNOWN: [(&str, &str); 4] = [
    ("watchtower", "Watchtower"),
    ("ouroboros", "Ouroboros"),
    ("harness/upgrader", "Harness's own upgrader"),
    ("docker/upgrader", "Harness's own upgrader"),
];

/// Warns about each finding. Containers that cannot be inspected are skipped.
pub(super) async fn check(
    engine: &DockerEngine,
    scope: &Scope,
    source: &Source,
    rollouts: &[Rollout],
    checks: &mut Checks,
) {
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
        let is_it =
            |rollout: &Rollout| rollout.name == container.name && rollout.owner.left_alone().is_none();
        if rollouts.iter().any(is_it) {
            delegates.push(inspected);
        } else if let Some(program) = updater(&inspected) {
            updaters.push((program, inspected));
        }
    }
    for delegate in &delegates {
        surprises(delegate, checks);
        if let Source::Manager(manager) = source {
            other_token(delegate, &manager.token, checks);
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
        let harm = match program {
            "Harness's own upgrader" => "",
            _ => ", and stops a container before its tasks are finished",
        };
        let message = format!("{program} ({by}) may also replace {watched}{harm}; {advice}");
        checks.warn("updaters", message);
    }
}

fn updater(container: &Inspected) -> Option<&'static str> {
    let image = container.image_reference();
    let known = KNOWN.iter().find(|(part, _)| image.contains(part));
    known.map(|(_, program)| *program)
}

/// Whether Harness's own upgrader manages one of these delegates.
fn is_for(upgrader: &Inspected, scope: &Scope) -> bool {
    let names = upgrader.env("UPGRADER_WORKLOAD_NAME").unwrap_or_default();
    let is_ours = |name: &str| scope.workload_names.iter().any(|ours| ours == name.trim());
    names
        .split(',')
        .any(|name| scope.has_every_workload() || is_ours(name))
}

/// Whether a Watchtower would replace this delegate, according to its most common options, given as arguments or variables.
fn watches(watchtower: &Inspected, delegate: &Inspected) -> bool {
    let arguments = watchtower.list("/Config/Cmd").iter().filter_map(Value::as_str);
    let arguments: Vec<&str> = arguments.flat_map(|argument| argument.splitn(2, '=')).collect();
    let position = |flags: &[&str]| arguments.iter().position(|argument| flags.contains(argument));
    let is_on = |flags: &[&str], variable: &str| {
        let value = watchtower.env(variable).unwrap_or_default();
        position(flags).is_some() || value.eq_ignore_ascii_case("true") || value == "1"
    };
    let scope = position(&["--scope"]).and_then(|at| arguments.get(at + 1).copied());
    let scope = scope.or_else(|| watchtower.env("WATCHTOWER_SCOPE"));
    let own_scope = delegate
        .label("com.centurylinklabs.watchtower.scope")
        .unwrap_or("none");
    let enable = delegate
        .label(label::WATCHTOWER_ENABLE)
        .unwrap_or_default()
        .to_ascii_lowercase();
    enable != "false"
        && scope.is_none_or(|scope| scope == own_scope)
        && !is_on(&["--monitor-only", "-m"], "WATCHTOWER_MONITOR_ONLY")
        && (enable == "true" || !is_on(&["--label-enable", "-e"], "WATCHTOWER_LABEL_ENABLE"))
}

/// Warns about a delegate with another token: it may have another scope, or one of the two may be revoked. Shows neither token.
fn other_token(delegate: &Inspected, ours: &DelegateToken, checks: &mut Checks) {
    let theirs = delegate.env("DELEGATE_TOKEN").and_then(DelegateToken::parse);
    if theirs.is_some_and(|theirs| theirs != *ours) {
        let name = delegate.name();
        checks.warn(
            "token",
            format!(
                "{name} has another DELEGATE_TOKEN than UPGRADER_TOKEN; the Manager publishes for the scope of UPGRADER_TOKEN, so \
                 overrides for the other token's scope do not count; if one of them was revoked, replace it"
            ),
        );
    }
}

/// Warns about the effects that an upgrade has on this delegate's client and log.
fn surprises(delegate: &Inspected, checks: &mut Checks) {
    let name = delegate.name();
    // For each container that Compose creates, the engine shows an attached client, though no client waits.
    if delegate.flag("/Config/AttachStdout") && delegate.label(compose::PROJECT).is_none() {
        checks.warn(
            "client",
            format!(
                "{name} was started by `docker run` without --detach: a unit or a script that waits for it sees it end with each \
                 upgrade, and may start the old image again; start it with --detach"
            ),
        );
    }
    let driver = delegate.text("/HostConfig/LogConfig/Type");
    let tag = delegate.text("/HostConfig/LogConfig/Config/tag");
    if driver == "journald" || tag.contains(".Name") {
        checks.warn(
            "log",
            format!(
                "{name} logs with its container name, which Docker reads at the start: after an upgrade that is \
                 {name}.candidate; use {{{{.ID}}}}, a label or a variable in the tag (--log-opt tag, labels, env)"
            ),
        );
    }
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
    fn warns_about_a_different_token_without_showing_either() {
        let ours = "000102030405060708090a0b0c0d0e0f";
        let theirs = "0f0e0d0c0b0a09080706050403020100";
        // The same token as ours, in the form that the Manager shows.
        let encoded = "MDAwMTAyMDMwNDA1MDYwNzA4MDkwYTBiMGMwZDBlMGY=";
        for (token, warnings) in [(ours, 0), (encoded, 0), ("${TOKEN}", 0), (theirs, 1)] {
            let delegate = container("d:1", &[], &[&format!("DELEGATE_TOKEN={token}")], &[]);
            let mut checks = Checks::new(|_| true);
            other_token(&delegate, &DelegateToken::parse(ours).unwrap(), &mut checks);
            assert_eq!(checks.made.len(), warnings, "{token}");
            let is_told =
                |text: &str| text.contains("overrides for the other token's scope") && !text.contains(token);
            assert!(checks.made.iter().all(|check| is_told(&check.message)));
        }
    }

    #[test]
    fn an_updater_is_known_by_its_image() {
        for (image, program) in [
            ("containrrr/watchtower", Some("Watchtower")),
            ("ghcr.io/nicholas-fedor/watchtower:1.11", Some("Watchtower")),
            ("harness/upgrader:latest", Some("Harness's own upgrader")),
            (
                "us-west1-docker.pkg.dev/gar-setup/docker/upgrader:latest",
                Some("Harness's own upgrader"),
            ),
            (
                "us-docker.pkg.dev/gar-prod-setup/harness-public/harness/docker/upgrader:1.0.0",
                Some("Harness's own upgrader"),
            ),
            ("harness/delegate:26.03.1", None),
            ("delegate-upgrader:latest", None),
        ] {
            assert_eq!(updater(&container(image, &[], &[], &[])), program, "{image}");
        }
    }

    #[test]
    fn watchtower_options_and_labels_decide_what_it_watches() {
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
            (&["--interval", "30"], &[], &[], true),
            (&["-m"], &[], &[], false),
            (&["-e"], &[], &[], false),
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

    #[test]
    fn warns_about_an_attached_client_and_a_log_tagged_with_the_name() {
        for (attached, kind, tag, expected) in [
            (false, "json-file", "", &[][..]),
            (true, "json-file", "{{.ID}}", &["client"]),
            (false, "syslog", "{{.Name}}", &["log"]),
            (true, "journald", "", &["client", "log"]),
        ] {
            let log = json!({ "Type": kind, "Config": { "tag": tag } });
            let delegate = Inspected::new(json!({
                "Id": "0123456789ab", "Name": "/c",
                "Config": { "AttachStdout": attached }, "HostConfig": { "LogConfig": log },
            }));
            let mut checks = Checks::new(|_| true);
            surprises(&delegate.unwrap(), &mut checks);
            let subjects: Vec<&str> = checks.made.iter().map(|check| check.subject.as_str()).collect();
            assert_eq!(subjects, expected, "{kind} {tag}");
        }
    }
}
