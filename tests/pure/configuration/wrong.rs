//! The reports on wrong environments.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use delegate_upgrader::config::{self, Needs, Settings};

use super::{PASSWORD, TOKEN, assert_no_secret, errors, over_base, settings};

/// For each environment, the variables on top of the base and, indented, the complete report.
const WRONG: &str = r#"
ACCOUNT_ID=
MANAGER_HOST_AND_PORT=
UPGRADER_WORKLOAD_NAME=
UPGRADER_TOKEN=
    ACCOUNT_ID: not set; expected the id
    MANAGER_HOST_AND_PORT: not set; expected the Manager's URL
    UPGRADER_TOKEN: not set; expected the delegate token
    UPGRADER_WORKLOAD_NAME: not set; expected the DELEGATE_NAME
ACCOUNT_ID=<account_ID>
MANAGER_HOST_AND_PORT=HARNESS_MANAGE_ENDPOINT_URL
UPGRADER_TOKEN=<delegate token>
UPGRADER_WORKLOAD_NAME=your-delegate-name
PROXY_HOST=<proxy_host>
    ACCOUNT_ID: "<account_ID>" (a placeholder: put your own
    PROXY_HOST: "<proxy_host>" (a placeholder: put your own
    MANAGER_HOST_AND_PORT: (a placeholder
    UPGRADER_TOKEN: its value (not shown) is not a token
    UPGRADER_WORKLOAD_NAME: (a placeholder
ACCOUNT_ID=ACCOUNT_ID
MANAGER_HOST_AND_PORT=https://<host>
UPGRADER_TOKEN=…
UPGRADER_WORKLOAD_NAME=DELEGATE_TO_AUTO_UPGRADE
PROXY_HOST=PROXY_HOST
    ACCOUNT_ID: "ACCOUNT_ID" (a placeholder
    PROXY_HOST: "PROXY_HOST" (a placeholder
    MANAGER_HOST_AND_PORT: (a placeholder
    UPGRADER_TOKEN: its value (not shown) is not a token
    UPGRADER_WORKLOAD_NAME: (a placeholder
UPGRADER_TOKEN=not-a-token-but-secret
    UPGRADER_TOKEN: is not a token
UPGRADER_TOKEN_FILE=/etc/hostname
    UPGRADER_TOKEN_FILE: set together with UPGRADER_TOKEN
UPGRADER_TOKEN=
UPGRADER_TOKEN_FILE=/nowhere/token
    UPGRADER_TOKEN_FILE: /nowhere/token: No such file
ACCOUNT_ID=my account
    ACCOUNT_ID: "my account" (it has blanks)
MANAGER_HOST_AND_PORT=https://me:hunter2-hunter2@app.harness.io
    MANAGER_HOST_AND_PORT: https://***@app.harness.io
UPGRADER_WORKLOAD_NAME= , ,
    UPGRADER_WORKLOAD_NAME: it has no name
UPGRADER_WORKLOAD_NAME="docker-delegate"
    UPGRADER_WORKLOAD_NAME: it is in quotes
MANAGER_HOST_AND_PORT=https://app harness.io
    MANAGER_HOST_AND_PORT: (its host is not a name or an address)
SCHEDULE=hourly
    SCHEDULE: "hourly" (write @hourly); expected
CONTAINER_STOP_TIMEOUT=1 hour
    CONTAINER_STOP_TIMEOUT: "1 hour" (write 1h); expected seconds
MAX_STOP_TIMEOUT=30m
KEEP_IMAGES=0
    MAX_STOP_TIMEOUT: "30m" (less than 1h); expected seconds
    KEEP_IMAGES: "0"; expected a number from 1 to 9
WEBHOOK_URL=hunter2-hunter2://x
DEADMAN_URL=file:///hunter2-hunter2
WEBHOOK_SECRET=hunter2-hunter2
WEBHOOK_FORMAT=xml
WEBHOOK_EVENTS=upgraded,Rejected
    WEBHOOK_URL: is not such a URL; expected a URL such as https://
    DEADMAN_URL: is not such a URL
    WEBHOOK_SECRET: its value (not shown) is a key of 15 bytes; expected whsec_ and the base64 of at least 24 bytes
    WEBHOOK_FORMAT: "xml" (not a JSON object: expected value at line 1 column 1); expected cloudevents, slack, teams or
    WEBHOOK_EVENTS: "upgraded,Rejected" (no event is called Rejected); expected upgraded, rejected,
WEBHOOK_URL=https://hooks.example/services/T0/hunter2-hunter2
WEBHOOK_SECRET=whsec_aHVudGVyMi1odW50ZXIy
WEBHOOK_EVENTS=,
    WEBHOOK_SECRET: is a key of 15 bytes
    WEBHOOK_EVENTS: it has no name
WEBHOOK_URL=https://hooks.example/services/T0/hunter2-hunter2
WEBHOOK_SECRET=whsec_hunter2-hunter2
    WEBHOOK_SECRET: has no base64 after whsec_
WEBHOOK_URL=https://hooks.example/services/T0/hunter2-hunter2
WEBHOOK_SECRET_FILE=/nowhere/secret
    WEBHOOK_SECRET_FILE: /nowhere/secret: No such file
WEBHOOK_URL_FILE=/nowhere/url
PUBLISHED_IMAGE=harness/delegate:26.02.1
SELF_UPGRADE=true
    WEBHOOK_URL_FILE: /nowhere/url: No such file
    SELF_UPGRADE: no Manager says which image the upgrader should run; expected an image reference such as registry.example/
PUBLISHED_IMAGE=26.02.1-fips
    PUBLISHED_IMAGE: "26.02.1-fips" (write harness/delegate:26.02.1-fips); expected an image
SELF_UPGRADE=ture
AUDIT_LOG=audit.log
    SELF_UPGRADE: "ture"; expected true, false, or an image
    AUDIT_LOG: audit.log: is relative
TZ=Berlin
SCHEDULE=* * *
SCHEDULE_JITTER=-5s
    TZ: "Berlin"; expected an IANA time zone
    SCHEDULE: five or six fields, not 3
    SCHEDULE_JITTER: "-5s"; expected seconds
DISABLE_AUTO_UPGRADE=maybe
RUN_ON_START=si
    DISABLE_AUTO_UPGRADE: "maybe"; expected true or false
    RUN_ON_START: "si"; expected true or false
REGISTRY_MIRROR=https://mirror.example
IMAGE_REPOSITORY=team/delegate:1.0
    REGISTRY_MIRROR: it has a scheme
    IMAGE_REPOSITORY: it has a tag
UPGRADE_WINDOW=Mo-Fr 02:00-05:00
UPGRADE_DELAY=two days
UPGRADE_WAVE=0%
UPGRADE_NOW_IF_EXPIRED=now
    UPGRADE_WINDOW: "Mo-Fr 02:00-05:00" ("Mo-Fr" is not a weekday such as Mon
    UPGRADE_DELAY: "two days"; expected seconds, or a duration
    UPGRADE_WAVE: "0%"; expected auto, or the percentage of hosts that follow each day, such as 20%
    UPGRADE_NOW_IF_EXPIRED: "now"; expected true or false
HOLD_ON_ALERTS=Delegate.*
    PROMETHEUS_URL: not set, although HOLD_ON_ALERTS is
HOLD_ON_ALERTS=Delegate.*
PROMETHEUS_URL=prometheus:9090
UPGRADE_SOAK=soon
HOLD_TIMEOUT=never
    UPGRADE_SOAK: "soon"; expected seconds
    PROMETHEUS_URL: its value (not shown) is not such a URL
    HOLD_TIMEOUT: "never"; expected seconds
REQUIRE_DIGEST=sha256
MAX_VERSION=26
    REQUIRE_DIGEST: "sha256"; expected true or false
    MAX_VERSION: "26"; expected a month or a version of the delegate
UPDATE_ORDER=rolling
    UPDATE_ORDER: "rolling"; expected auto, start-first or
UPGRADE_HEALTHY_TIME=10m
UPGRADE_HEALTHY_DEADLINE=5m
    UPGRADE_HEALTHY_DEADLINE: UPGRADE_HEALTHY_DEADLINE is 5m, UPGRADE_HEALTHY_TIME is 10m
UPGRADE_HEALTHY_TIME=20m
    UPGRADE_HEALTHY_TIME: UPGRADE_HEALTHY_DEADLINE is 10m, UPGRADE_HEALTHY_TIME is 20m
HEALTH_INTERVAL=0
HEALTH_PROBE=tcp
HEALTH_PORT=70000
HEALTH_ACTION=kill
    HEALTH_INTERVAL: less than 1s
    HEALTH_PROBE: "tcp"; expected auto, engine, http, exec or running
    HEALTH_PORT: "70000"; expected a port
    HEALTH_ACTION: "kill"; expected report
REGISTRY_USERNAME=me
    REGISTRY_PASSWORD: not set, although REGISTRY_USERNAME is
REGISTRY_PASSWORD=hunter2-hunter2
    REGISTRY_USERNAME: although REGISTRY_PASSWORD is
REGISTRY_USERNAME=me
REGISTRY_PASSWORD=hunter2-hunter2
REGISTRY_PASSWORD_FILE=/x
    REGISTRY_PASSWORD_FILE: set together with REGISTRY_PASSWORD
PROXY_PORT=http
PROXY_SCHEME=socks5
PROXY_PASSWORD=hunter2-hunter2
    PROXY_SCHEME: "socks5"; expected http or https
    PROXY_PORT: "http"; expected a port
    PROXY_USER: although PROXY_PASSWORD is
    PROXY_HOST: although PROXY_SCHEME is
PROXY_HOST=me:hunter2-hunter2@[::1]
    PROXY_HOST: more than a host
HTTPS_PROXY=socks5://me:hunter2-hunter2@proxy.example
    HTTPS_PROXY: socks5://***@proxy.example
CA_BUNDLE=/nowhere/ca.pem
CLIENT_CERT=/etc
CLIENT_KEY=
    CA_BUNDLE: /nowhere/ca.pem: No such file
    CLIENT_CERT: /etc: is a directory
    CLIENT_KEY: although CLIENT_CERT is
LOG_LEVEL=loud
LOG_FORMAT=xml
    LOG_LEVEL: "loud"; expected error, warn
    LOG_FORMAT: "xml"; expected text or json
DOCKER_HOST=/var/run/docker.sock
    DOCKER_HOST: unix:///path
DOCKER_HOST=ssh://me@host
    DOCKER_HOST: ssh:// is not supported
DOCKER_HOST=unix://run/docker.sock
    DOCKER_HOST: not absolute
DOCKER_HOST=tcp://host:port
DOCKER_TLS_VERIFY=1
DOCKER_CERT_PATH=/nowhere
    DOCKER_HOST: its port is not a number up to 65535
    DOCKER_CERT_PATH: /nowhere/ca.pem: No such file
DOCKER_HOST=tcp://host
DOCKER_TLS_VERIFY=1
HOME=
    DOCKER_CERT_PATH: not set, and TLS is on; expected a directory with ca.pem
UPGRADER_WORKLOAD_NAME=a,docker-*
ACCOUNT_ID=https://app.harness.io/ng/account/kmpySmUISimoRrJL6NL73w
    UPGRADER_WORKLOAD_NAME: * stands alone, for every name
    ACCOUNT_ID: (it has a slash
LOG_LEVEL='info'
    LOG_LEVEL: which `docker run --env-file` keeps; leave them out
DRY_RUN=true
    DRY_RUN: expected it unset: `delegate-upgrader plan` shows
# A file that cannot be read is the only problem: it explains all that is missing.
ENVIRONMENT_FILE=/nowhere.env
ACCOUNT_ID=
SCHEDULE=never
    ENVIRONMENT_FILE: /nowhere.env: No such file
# Health only still wants all of the Manager or nothing of it.
DISABLE_AUTO_UPGRADE=true
ACCOUNT_ID=
    ACCOUNT_ID: not set
# And lets no write reach the engine.
DISABLE_AUTO_UPGRADE=true
HEALTH_PROBE=Exec
    HEALTH_PROBE: "Exec", but DISABLE_AUTO_UPGRADE=true sends the engine nothing but GET requests, and restarts with HEALTH_ACTION=restart; expected another value, or DISABLE_AUTO_UPGRADE=false
HEALTH_PROBE=exec
HEALTH_COMMAND=["/probe", 1]
    HEALTH_COMMAND: not a JSON array of strings
HEALTH_COMMAND=[]
    HEALTH_COMMAND: it has no program
# A secret that slipped into another variable is masked there too.
LOG_LEVEL=000102030405060708090a0b0c0d0e0f
    LOG_LEVEL: ***
UPGRADER_TOKEN_FILE="/etc/hostname"
    UPGRADER_TOKEN_FILE: it is in quotes
"#;

type Pairs = Vec<(&'static str, &'static str)>;

/// Each environment with the variable and the words of its lines.
fn wrong() -> Vec<(Pairs, Pairs)> {
    let mut table = Vec::new();
    let mut lines = WRONG
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .peekable();
    while lines.peek().is_some() {
        let given = std::iter::from_fn(|| lines.next_if(|line| !line.starts_with(' ')));
        let given = given.filter_map(|line| line.split_once('=')).collect();
        let reported = std::iter::from_fn(|| lines.next_if(|line| line.starts_with(' ')));
        let reported = reported
            .filter_map(|line| line.trim_start().split_once(": "))
            .collect();
        table.push((given, reported));
    }
    table
}

#[test]
fn reports_each_wrong_environment_completely() {
    let table = wrong();
    assert!(table.len() >= 20);
    for (vars, expected) in &table {
        let errors = errors(vars);
        let text = errors.to_string();
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with("warning: ") && !line.starts_with("hint: "))
            .collect();
        let is_missing = text.lines().any(|line| line.contains(": not set; "));
        assert_eq!(
            text.matches("doctor --from").count(),
            usize::from(is_missing),
            "{text}"
        );
        let mut named: Vec<&str> = lines.iter().filter_map(|line| line.split(": ").next()).collect();
        let mut wanted: Vec<&str> = expected.iter().map(|(variable, _)| *variable).collect();
        named.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(named, wanted, "{vars:?} is reported as\n{text}");
        for (variable, says) in expected {
            let line = lines
                .iter()
                .find(|line| line.starts_with(&format!("{variable}: ")))
                .unwrap();
            assert!(line.contains(says), "{variable}: {says:?} is not in\n{line}");
            assert!(line.contains("; expected "), "what is accepted is not in\n{line}");
        }
        assert_no_secret("the message", &text);
        assert_no_secret("the debug text", &format!("{errors:?} {errors:#?}"));
    }
}

#[test]
fn reports_every_wrong_variable_of_one_environment() {
    let skipped = [
        // Each of these is read only together with others, or replaces others.
        "PUBLISHED_IMAGE",
        "ENVIRONMENT_FILE",
        "HTTPS_PROXY",
        "NO_PROXY",
        "PROXY_USER",
        "PROXY_PASSWORD",
        "REGISTRY_USERNAME",
        "DOCKER_CONFIG",
        "DOCKER_TLS_VERIFY",
        "DOCKER_CERT_PATH",
        // Any text is a valid command, password or token, and Prometheus reads the expression.
        "HOLD_ON_ALERTS",
        "PROMETHEUS_TOKEN",
        "HEALTH_COMMAND",
        "REGISTRY_PASSWORD",
    ];
    let names = config::variables()
        .map(|row| row.name)
        .filter(|name| !skipped.contains(name));
    let has_reference = |name: &str| name.starts_with("REGISTRY_") || name.ends_with("REPOSITORY");
    let wrong = |name| if has_reference(name) { "X" } else { "x /" };
    let vars: Vec<(&str, &str)> = names.map(|name| (name, wrong(name))).collect();
    let errors = errors(&vars);
    let named: Vec<&str> = errors.problems.iter().map(|problem| problem.variable).collect();
    let wanted: Vec<&str> = vars.iter().map(|(name, _)| *name).collect();
    assert_eq!(named, wanted, "{errors}");
    assert_no_secret("the message", &errors.to_string());
}

#[test]
fn rejects_invalid_unicode_in_own_variables_only() {
    let bytes = || OsString::from_vec(vec![b'a', 0xff]);
    let mut vars = over_base(&[("ACCOUNT_ID", ""), ("UPGRADER_TOKEN", "")]);
    vars.push(("ACCOUNT_ID".into(), bytes()));
    vars.push(("UPGRADER_TOKEN".into(), bytes()));
    vars.push(("SOMEONE_ELSES".into(), bytes()));
    vars.push((bytes(), bytes()));
    let errors = Settings::from_env(vars, Needs::All).unwrap_err();
    let lines: Vec<String> = errors.to_string().lines().map(str::to_owned).collect();
    assert_eq!(
        lines,
        [
            "ACCOUNT_ID: bytes that are not UTF-8; expected the id of your Harness account",
            "UPGRADER_TOKEN: bytes that are not UTF-8; expected the delegate token: 32 hex digits, or the base64 of \
             them that the Manager shows",
        ]
    );

    let mut vars = over_base(&[]);
    vars.push(("SOMEONE_ELSES".into(), bytes()));
    assert!(Settings::from_env(vars, Needs::All).is_ok());
}

#[test]
fn a_misspelt_variable_produces_a_warning_without_its_value() {
    let warnings = settings(&[("UPGRADER_TOKEN_FIEL", PASSWORD)]).warnings.join("\n");
    assert!(
        warnings.contains("did you mean UPGRADER_TOKEN_FILE?"),
        "{warnings}"
    );
    assert_no_secret("the warnings", &warnings);
    let errors = errors(&[("UPGRADER_WORKLOAD_NAME", ""), ("UPGRADER_WORKLOADNAME", "x")]);
    let text = errors.to_string();
    assert!(text.starts_with("UPGRADER_WORKLOAD_NAME: not set"), "{text}");
    assert!(
        text.contains("\nwarning: UPGRADER_WORKLOADNAME: unknown variable"),
        "{text}"
    );
}

#[test]
fn an_error_in_a_variables_file_names_the_file_and_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("environment");
    std::fs::write(&file, format!("UPGRADE_HEALTHY_TIME=30s\n{TOKEN}\n")).unwrap();
    let errors = errors(&[("ENVIRONMENT_FILE", file.to_str().unwrap())]).to_string();
    assert!(
        errors.contains("ENVIRONMENT_FILE") && errors.contains("line 2: no NAME=value"),
        "{errors}"
    );
    assert_no_secret("the error", &errors);
}

#[test]
fn host_commands_tolerate_dry_run_and_bad_connection_settings() {
    let read = |vars: &[(&str, &str)], needs| Settings::from_env(over_base(vars), needs);
    for name in ["DRY_RUN", "dry_run", "WATCHTOWER_MONITOR_ONLY"] {
        let dry = [(name, "true")];
        assert!(read(&dry, Needs::All).is_err(), "{name}");
        let settings = read(&dry, Needs::HostOnly).unwrap();
        assert!(
            settings
                .warnings
                .iter()
                .any(|warning| warning.contains("not a setting")),
            "{name}"
        );
        assert!(read(&[(name, "true"), ("DISABLE_AUTO_UPGRADE", "true")], Needs::All).is_ok());
        assert!(read(&[(name, "")], Needs::All).is_ok() && read(&[(name, "false")], Needs::All).is_ok());
    }
    let broken = [
        ("WEBHOOK_URL", "oops"),
        ("CA_BUNDLE", "/nowhere.pem"),
        ("PROXY_PORT", "x"),
    ];
    assert!(read(&broken, Needs::All).is_err());
    let settings = read(&broken, Needs::HostOnly).unwrap();
    // `rollback --all` must leave the delegates of other accounts alone.
    assert_eq!(settings.account.as_deref(), Some("acct-TEST_000000000000"));
    assert!(
        settings
            .warnings
            .iter()
            .any(|warning| warning.starts_with("CA_BUNDLE: ") && warning.contains("; expected "))
    );
    assert!(read(&[("SCHEDULE", "never")], Needs::HostOnly).is_err());
}
