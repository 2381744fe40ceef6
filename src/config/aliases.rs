//! Wrong names that people guess, from other updaters or out of habit, and the right name for each.

/// The wrong name, and what to use instead.
const ALIASES: [(&str, &str); 39] = [
    ("ACCOUNT_IDENTIFIER", "ACCOUNT_ID"),
    ("AUDIT_LOG_FILE", "AUDIT_LOG"),
    ("AUDIT_LOG_MAX_FILES", "`rotate` of logrotate"),
    ("AUDIT_LOG_MAX_SIZE", "`size` of logrotate"),
    ("AUTO_UPGRADE", "DISABLE_AUTO_UPGRADE, which is its opposite"),
    ("CONTAINER_STOP_TIMEOUT_SECONDS", "CONTAINER_STOP_TIMEOUT"),
    ("CRON_SCHEDULE", "SCHEDULE"),
    ("EXCLUDE_DELEGATES", "the label io.delegate-upgrader.enable=false"),
    ("UPGRADER_DRY_RUN", "DISABLE_AUTO_UPGRADE, or `plan`"),
    ("DISABLE_UPGRADE", "DISABLE_AUTO_UPGRADE"),
    ("DOCKER_AUTH_CONFIG", "DOCKER_CONFIG, or REGISTRY_USERNAME"),
    ("DOCKER_SOCK", "DOCKER_HOST=unix:///PATH"),
    ("HEALTH_PATH", "HEALTH_PROBE=exec with a HEALTH_COMMAND"),
    ("HEALTHCHECK_INTERVAL", "HEALTH_INTERVAL"),
    ("HEALTHY_DEADLINE", "UPGRADE_HEALTHY_DEADLINE"),
    ("HEALTHY_TIME", "UPGRADE_HEALTHY_TIME"),
    ("IDLE_WAIT", "UPGRADE_IDLE_WAIT"),
    ("LISTEN_ADDRESS", "LISTEN_ADDR"),
    ("LOGLEVEL", "LOG_LEVEL"),
    ("MANAGER_URL", "MANAGER_HOST_AND_PORT"),
    ("MONITOR_ONLY", "DISABLE_AUTO_UPGRADE"),
    ("REGISTRY_USER", "REGISTRY_USERNAME"),
    ("REGISTRY_PASS", "REGISTRY_PASSWORD"),
    ("SELF_IMAGE", "SELF_UPGRADE=IMAGE"),
    ("STOP_TIMEOUT", "CONTAINER_STOP_TIMEOUT"),
    ("TIMEZONE", "TZ"),
    ("UPGRADE_SCHEDULE", "SCHEDULE"),
    ("UPGRADE_STRATEGY", "UPDATE_ORDER"),
    ("UPGRADER_LOG_LEVEL", "LOG_LEVEL"),
    ("UPGRADER_SCHEDULE", "SCHEDULE"),
    ("UPGRADER_STOP_TIMEOUT", "CONTAINER_STOP_TIMEOUT"),
    ("WATCHTOWER_DEBUG", "LOG_LEVEL=debug"),
    ("WATCHTOWER_LABEL_ENABLE", "UPGRADER_WORKLOAD_NAME"),
    ("WATCHTOWER_MONITOR_ONLY", "DISABLE_AUTO_UPGRADE"),
    ("WATCHTOWER_NOTIFICATION_URL", "WEBHOOK_URL"),
    ("WATCHTOWER_POLL_INTERVAL", "SCHEDULE"),
    ("WATCHTOWER_SCHEDULE", "SCHEDULE"),
    ("WATCHTOWER_TIMEOUT", "CONTAINER_STOP_TIMEOUT"),
    ("WEBHOOK_TEMPLATE", "WEBHOOK_FORMAT"),
];

/// Variables that ask other programs to change nothing. This program would ignore them and upgrade.
pub(super) const DRY_RUNS: [&str; 5] = [
    "DRY_RUN",
    "DRYRUN",
    "MONITOR_ONLY",
    "UPGRADER_DRY_RUN",
    "WATCHTOWER_MONITOR_ONLY",
];

/// The prefixes of variables for this kind of program. An unknown variable with such a prefix gets a warning.
const PREFIXES: [&str; 3] = ["UPGRADER_", "UPGRADE_", "WATCHTOWER_"];

/// The warning about an unknown variable whose name suggests that it is a setting.
pub(super) fn hint(name: &str) -> Option<String> {
    let upper = name.to_ascii_uppercase();
    // Kubernetes sets such variables in every container, for each of its Services.
    let is_of_kubernetes = ["_SERVICE_", "_PORT"].iter().any(|part| upper.contains(part));
    let known = ALIASES.iter().find(|(alias, _)| *alias == upper);
    match known {
        Some((_, right)) => Some(format!("{name}: unknown variable; use {right}")),
        None if !is_of_kubernetes && PREFIXES.iter().any(|prefix| upper.starts_with(prefix)) => {
            Some(format!("{name}: unknown variable, so it has no effect"))
        }
        None => None,
    }
}
