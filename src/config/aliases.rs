//! Wrong names that people guess, from other programs or out of habit, and the right name for each.

/// On each line, the wrong names, and what to use instead. A star at the end stands for any rest of a name.
const ALIASES: &str = "
ACCOUNT_IDENTIFIER HARNESS_ACCOUNT_ID = ACCOUNT_ID
AUDIT_LOG_FILE = AUDIT_LOG
AUDIT_LOG_MAX_FILES = `rotate` of logrotate
AUDIT_LOG_MAX_SIZE = `size` of logrotate
AUTO_UPGRADE = DISABLE_AUTO_UPGRADE, which is its opposite
CONTAINER_STOP_TIMEOUT_SECONDS STOP_TIMEOUT UPGRADER_STOP_TIMEOUT WATCHTOWER_TIMEOUT = CONTAINER_STOP_TIMEOUT
CRON_SCHEDULE UPGRADE_SCHEDULE UPGRADER_SCHEDULE WATCHTOWER_POLL_INTERVAL WATCHTOWER_SCHEDULE = SCHEDULE
DELEGATE_NAME HARNESS_DELEGATE_NAME = UPGRADER_WORKLOAD_NAME
DELEGATE_TOKEN HARNESS_DELEGATE_TOKEN HARNESS_TOKEN = UPGRADER_TOKEN
DISABLE_UPGRADE MONITOR_ONLY WATCHTOWER_MONITOR_ONLY = DISABLE_AUTO_UPGRADE
DOCKER_API_VERSION = none, since the newest version that both know is spoken
DOCKER_AUTH_CONFIG = DOCKER_CONFIG, the directory of a config.json, or REGISTRY_USERNAME and REGISTRY_PASSWORD
DOCKER_CONTEXT = DOCKER_HOST with the address that `docker context inspect` shows
DOCKER_SOCK = DOCKER_HOST=unix:///PATH
EXCLUDE_DELEGATES = the label io.delegate-upgrader.enable=false
HARNESS_ENDPOINT HARNESS_MANAGE_ENDPOINT_URL HARNESS_MANAGER_* HARNESS_URL MANAGER_URL = MANAGER_HOST_AND_PORT
HEALTH_PATH = HEALTH_PROBE=exec with a HEALTH_COMMAND
HEALTHCHECK_INTERVAL = HEALTH_INTERVAL
HEALTHY_DEADLINE = UPGRADE_HEALTHY_DEADLINE
HEALTHY_TIME = UPGRADE_HEALTHY_TIME
IDLE_WAIT = UPGRADE_IDLE_WAIT
LISTEN_ADDRESS WATCHTOWER_HTTP_API_* = LISTEN_ADDR
LOGLEVEL UPGRADER_LOG_LEVEL = LOG_LEVEL
OTEL_* = LISTEN_ADDR: Prometheus or a collector reads /metrics there
REGISTRY_PASS = REGISTRY_PASSWORD
REGISTRY_USER = REGISTRY_USERNAME
SELF_IMAGE = SELF_UPGRADE=IMAGE
SLACK_WEBHOOK* = WEBHOOK_URL with WEBHOOK_FORMAT=slack
TEAMS_WEBHOOK* = WEBHOOK_URL with WEBHOOK_FORMAT=teams
TIMEZONE = TZ
UPGRADE_STRATEGY = UPDATE_ORDER
UPGRADER_DRY_RUN = `delegate-upgrader plan`, or DISABLE_AUTO_UPGRADE
WATCHTOWER_CLEANUP = KEEP_IMAGES
WATCHTOWER_DEBUG WATCHTOWER_TRACE = LOG_LEVEL=debug
WATCHTOWER_LABEL_ENABLE WATCHTOWER_SCOPE = UPGRADER_WORKLOAD_NAME, which selects the delegates
WATCHTOWER_NOTIFICATION* = WEBHOOK_URL
WATCHTOWER_NO_PULL = PULL=never
WATCHTOWER_RUN_ONCE = `delegate-upgrader once`
WEBHOOK_TEMPLATE = WEBHOOK_FORMAT";

/// Those of them that earlier builds of this program read.
const GONE: &str = "AUDIT_LOG_MAX_FILES AUDIT_LOG_MAX_SIZE DOCKER_AUTH_CONFIG HEALTH_PATH HEALTHY_DEADLINE HEALTHY_TIME IDLE_WAIT \
                    SELF_IMAGE UPGRADE_STRATEGY";

/// Variables that ask other programs to change nothing. This program would ignore them and upgrade.
pub(super) const DRY_RUNS: [&str; 5] = [
    "DRY_RUN",
    "DRYRUN",
    "MONITOR_ONLY",
    "UPGRADER_DRY_RUN",
    "WATCHTOWER_MONITOR_ONLY",
];

/// The prefixes of variables for this kind of program. An unknown variable with such a prefix gets a warning.
const PREFIXES: [&str; 4] = ["HARNESS_", "UPGRADER_", "UPGRADE_", "WATCHTOWER_"];

/// The warning about an unknown variable whose name suggests that it is a setting. `is_set` tells of a variable of ours: an upgrader
/// that shares an `env_file` with its delegate has that one's variables beside its own.
pub(super) fn hint(name: &str, is_set: impl Fn(&str) -> bool) -> Option<String> {
    let upper = name.to_ascii_uppercase();
    // Kubernetes sets such variables in every container, for each of its Services.
    if ["_SERVICE_", "_PORT"].iter().any(|part| upper.contains(part)) {
        return None;
    }
    let is_it = |alias: &str| match alias.strip_suffix('*') {
        Some(begin) => upper.starts_with(begin),
        None => alias == upper,
    };
    let mut known = ALIASES.lines().filter_map(|line| line.split_once(" = "));
    match known.find(|(names, _)| names.split(' ').any(is_it)) {
        Some((_, right)) if name.starts_with("DELEGATE_") && is_set(right) => None,
        Some((_, right)) if GONE.split(' ').any(|gone| gone == upper) => Some(format!(
            "{name}: no longer a setting, so it has no effect; use {right}"
        )),
        Some((_, right)) => Some(format!("{name}: unknown variable; use {right}")),
        None if PREFIXES.iter().any(|prefix| upper.starts_with(prefix)) => {
            Some(format!("{name}: unknown variable, so it has no effect"))
        }
        None => None,
    }
}
