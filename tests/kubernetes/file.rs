//! `config.yaml` in the form of every chart version and of the documented manifest.

use std::ffi::OsString;

use delegate_upgrader::config::Source;
use delegate_upgrader::kubernetes::file::{File, parse};
use delegate_upgrader::kubernetes::settings::ClusterSettings;

/// As chart 1.0.0 to 1.0.22 and the documented manifest render it.
const PLAIN: &str = "\
mode: Delegate
dryRun: false
workloadName: kubernetes-delegate
namespace: harness-delegate-ng
containerName: delegate
delegateConfig:
  accountId: acct-TEST_000000000000
  managerHost: https://app.harness.io
";

const TOKEN: (&str, &str) = ("UPGRADER_TOKEN", "000102030405060708090a0b0c0d0e0f");

fn settings_in(text: &str, env: &[(&str, &str)]) -> Result<ClusterSettings, String> {
    let env = env
        .iter()
        .map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let env: Vec<_> = env.collect();
    ClusterSettings::of(parse(text), &env, "config.yaml").map_err(|problems| problems.join("\n"))
}

fn variable<'a>(file: &'a File, name: &str) -> Option<&'a str> {
    file.variables.get(name).map(|(_, value)| value.as_str())
}

#[test]
fn the_documented_file_is_all_that_a_run_needs() {
    let settings = settings_in(PLAIN, &[TOKEN]).unwrap();
    assert_eq!(settings.namespace.as_deref(), Some("harness-delegate-ng"));
    assert_eq!(settings.container, "delegate");
    assert!(!settings.dry_run);
    assert_eq!(settings.common.workload_names, ["kubernetes-delegate"]);
    let Source::Manager(manager) = &settings.common.source else {
        panic!("{:?}", settings.common.source)
    };
    assert_eq!(manager.base_url, "https://app.harness.io");
    assert_eq!(manager.account_id, "acct-TEST_000000000000");
    assert_eq!(settings.warnings, [""; 0]);
}

#[test]
fn charts_since_1_0_23_set_a_mirror_and_a_client_certificate() {
    let text = format!(
        "{PLAIN}clientCertificateFilePath: /etc/mtls/client.crt
clientCertificateKeyFilePath: /etc/mtls/client.key
registryMirror: registry.example/mirror
"
    );
    let file = parse(&text);
    assert_eq!(file.problems, [""; 0]);
    assert_eq!(variable(&file, "CLIENT_CERT"), Some("/etc/mtls/client.crt"));
    assert_eq!(variable(&file, "CLIENT_KEY"), Some("/etc/mtls/client.key"));
    assert_eq!(
        variable(&file, "REGISTRY_MIRROR"),
        Some("registry.example/mirror")
    );
}

#[test]
fn proxy_keys_are_recognised_in_both_places() {
    let keys = [
        ("proxyScheme", "http"),
        ("proxyHost", "proxy.example"),
        ("proxyPort", "3128"),
        // Without quotes or types: a number, a word that YAML reads as true, a colon within.
        ("proxyUser", "123"),
        ("proxyPassword", "yes"),
    ];
    // Charts 1.0.26 and since 1.0.32 do not indent the keys; 1.0.27 to 1.0.31 do.
    for indent in ["", "  "] {
        let lines = keys
            .map(|(key, value)| format!("{indent}{key}: {value}\n"))
            .concat();
        let settings = settings_in(&format!("{PLAIN}{lines}"), &[TOKEN]).unwrap();
        let proxy = settings.common.egress.proxy.unwrap();
        assert_eq!(proxy.url, "http://proxy.example:3128");
        let (user, password) = proxy.login.unwrap();
        assert_eq!((user.as_str(), password.expose()), ("123", "yes"));
        assert_eq!(settings.warnings, [""; 0], "{indent:?}");
    }
}

#[test]
fn chart_1_0_26_writes_the_proxy_s_keys_without_values() {
    let keys = [
        "proxyScheme",
        "proxyHost",
        "proxyPort",
        "proxyUser",
        "proxyPassword",
    ];
    let lines = keys.map(|key| format!("{key}:\n")).concat();
    let settings = settings_in(&format!("{PLAIN}{lines}"), &[TOKEN]).unwrap();
    assert_eq!(settings.common.egress.proxy, None);
    assert_eq!(settings.warnings, [""; 0]);
}

#[test]
fn proxy_manager_false_reaches_the_manager_directly() {
    let proxied = |value: &str| {
        let text = format!("{PLAIN}proxyHost: proxy.example\nproxyManager: {value}\n");
        settings_in(&text, &[TOKEN])
            .unwrap()
            .common
            .egress
            .proxy
            .is_some()
    };
    assert!(proxied("true"));
    assert!(!proxied("false"));
}

#[test]
fn dry_run_and_the_environment_are_honoured() {
    let text = PLAIN.replace("dryRun: false", "dryRun: true");
    assert!(settings_in(&text, &[TOKEN]).unwrap().dry_run);
    let env = [
        TOKEN,
        ("UPGRADER_WORKLOAD_NAME", "another"),
        ("UPGRADE_HEALTHY_TIME", "2m"),
    ];
    let settings = settings_in(PLAIN, &env).unwrap();
    assert_eq!(settings.common.workload_names, ["another"]);
    assert_eq!(settings.common.policy.healthy_time.as_secs(), 120);
    assert_eq!(settings.warnings, [""; 0]);
    let error = settings_in(PLAIN, &[TOKEN, ("UPGRADER_WORKLOAD_NAME", "*")]).unwrap_err();
    assert!(error.contains("name each Deployment"), "{error}");
}

#[test]
fn warns_about_variables_that_do_nothing_for_a_deployment() {
    let page = std::fs::read_to_string("docs/usage/kubernetes.md").unwrap();
    let (_, listed) = page.split_once("Without effect are ").unwrap();
    let (listed, _) = listed.split_once("\n\n").unwrap();
    let values = [
        ("CONTAINER_STOP_TIMEOUT", "1h", "terminationGracePeriodSeconds"),
        ("UPGRADE_IDLE_WAIT", "5m", "terminationGracePeriodSeconds"),
        ("UPDATE_ORDER", "stop-first", "its strategy"),
        ("HEALTH_PROBE", "exec", "the probes of its container"),
        ("HEALTH_PORT", "3000", "the probes of its container"),
        ("HEALTH_COMMAND", "true", "the probes of its container"),
        ("HEALTH_ACTION", "restart", "the probes of its container"),
        ("MAX_STOP_TIMEOUT", "2h", "terminationGracePeriodSeconds"),
        ("KEEP_IMAGES", "2", "its nodes, whose kubelets remove images"),
        ("PULL", "missing", "imagePullPolicy"),
        ("SWARM", "off", "no Docker engine"),
        ("DOCKER_HOST", "tcp://127.0.0.1:2375", "no Docker engine"),
    ];
    let env: Vec<_> = values
        .map(|(name, value, _)| (name, value))
        .into_iter()
        .chain([TOKEN])
        .collect();
    let expected = values.map(|(name, _, instead)| {
        assert!(listed.contains(&format!("`{name}`")), "{name}");
        format!("{name}: no effect on a Deployment, which has {instead}")
    });
    let mut warnings = settings_in(PLAIN, &env).unwrap().warnings;
    warnings.retain(|warning| warning.contains("no effect"));
    assert_eq!(warnings, expected);
    // Names that people might guess.
    let guessed = settings_in(PLAIN, &[TOKEN, ("UPGRADE_STRATEGY", "x"), ("IDLE_WAIT", "1")]).unwrap();
    let expected = ["UPGRADE_STRATEGY", "IDLE_WAIT"].map(|name| format!("{name}: no effect on a Deployment"));
    let said: Vec<&str> = guessed
        .warnings
        .iter()
        .filter_map(|line| line.split(',').next())
        .collect();
    assert_eq!(said, expected);
}

#[test]
fn reports_all_problems_at_once_with_their_lines() {
    let text = "\
mode: Immutable
dryRun: maybe
workloadName: [a, b]
delegateConfig:
  accountID: acct
  managerHost: ftp://app.harness.io
containerName: delegate
containerName: other
";
    let errors = settings_in(text, &[("UPGRADER_TOKEN", "short")]).unwrap_err();
    let lines: Vec<&str> = errors.lines().collect();
    for expected in [
        "config.yaml, line 2: dryRun: \"maybe\"; expected true or false",
        "config.yaml, line 3: workloadName: a list; expected a string",
        "config.yaml, line 8: containerName: given in line 7 already",
        "config.yaml: delegateConfig.accountId: not set; expected ",
        "config.yaml, line 6: delegateConfig.managerHost: \"ftp://app.harness.io\" ",
        "UPGRADER_TOKEN: its value (not shown) is not a token; expected ",
        "warning: config.yaml, line 1: mode: \"Immutable\" is not used; Delegate is the only mode",
        "warning: config.yaml, line 5: delegateConfig.accountID: unknown key, not used; did you mean delegateConfig.accountId?",
    ] {
        assert!(
            lines.iter().any(|line| line.starts_with(expected)),
            "{expected}\n\n{errors}"
        );
    }
    assert!(!errors.contains("short"), "{errors}");
}

#[test]
fn reports_line_of_invalid_yaml() {
    let errors = settings_in("mode: Delegate\n  dryRun: {\n", &[TOKEN]).unwrap_err();
    assert!(errors.starts_with("config.yaml, line "), "{errors}");
    let errors = settings_in("- mode\n", &[TOKEN]).unwrap_err();
    assert!(
        errors.contains("line 1: not a mapping of keys to values"),
        "{errors}"
    );
    let errors = settings_in("", &[TOKEN]).unwrap_err();
    assert!(errors.contains("config.yaml: workloadName: not set"), "{errors}");
}

#[test]
fn a_file_that_is_not_mounted_is_explained() {
    let nowhere = std::path::Path::new("/nowhere/config.yaml");
    let errors = ClusterSettings::read(nowhere, false, []).unwrap_err().join("\n");
    assert!(
        errors.contains("/nowhere/config.yaml is not there: the pod has to mount the ConfigMap"),
        "{errors}"
    );
    // The environment can set everything.
    let env = [
        ("UPGRADER_WORKLOAD_NAME", "delegate"),
        ("PUBLISHED_IMAGE", "harness/delegate:26.10.1"),
    ];
    let env = env.map(|(name, value)| (OsString::from(name), OsString::from(value)));
    assert!(ClusterSettings::read(nowhere, false, env).is_ok());
}
