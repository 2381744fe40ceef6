//! The table of all variables. The environment is read with it, and it yields the output of `config`, the hint for a
//! misspelt name, and the tables of docs/usage/configuration.md and docs/usage/rare-settings.md.
//!
//! To add a setting, add a row here, a field of [`Settings`](super::Settings), and a line of `settings.rs` that reads it.
//! Then run `UPDATE_DOCS=1 cargo test --lib config` to update the pages.

use serde::Deserialize;

use Preset::{Derived, Required, Unset, Value};

/// The description of one variable.
#[derive(Debug)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// The value while it is unset.
    pub default: Preset,
    /// The accepted values, as the error and the page describe them.
    pub accepted: &'static str,
    /// The effect: one or two sentences for the page, in Markdown. Empty in the released program, which does not print them.
    pub help: &'static str,
    /// The variable that names a file with the value instead. Only secrets have one, and their values are never shown.
    pub file: Option<&'static str>,
}

/// The value of a variable while it is unset.
#[derive(Debug)]
pub enum Preset {
    /// No value.
    Unset,
    /// None: the variable must be set.
    Required,
    /// This text, read as if it had been given.
    Value(&'static str),
    /// A value that the program determines, as the page describes it.
    Derived(&'static str),
}

impl Preset {
    /// The default as a Markdown table cell; empty if there is none.
    pub fn text(&self) -> String {
        match self {
            Unset => String::new(),
            Required => "required".to_owned(),
            Value(text) => format!("`{text}`"),
            Derived(words) => (*words).to_owned(),
        }
    }
}

const fn row(name: &'static str, default: Preset, accepted: &'static str, help: &'static str) -> Row {
    Row {
        name,
        default,
        accepted,
        help: if cfg!(any(test, feature = "manual")) {
            help
        } else {
            ""
        },
        file: None,
    }
}

impl Row {
    /// Whether quotes around a value are allowed: as part of a command or password, or because the parser removes them.
    pub(super) fn may_be_quoted(&self) -> bool {
        matches!(self.name, "HEALTH_COMMAND" | "SCHEDULE") || self.name.ends_with("PASSWORD")
    }

    /// Whether the name also counts in lower case, as curl and other programs read proxy variables.
    pub(super) fn is_any_case(&self) -> bool {
        matches!(self.name, "HTTPS_PROXY" | "NO_PROXY")
    }

    const fn secret(self, file: &'static str) -> Self {
        Self {
            file: Some(file),
            ..self
        }
    }
}

/// A row, and the text of its variable in the environment.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    pub(super) row: &'static Row,
    /// The text as it is: the blanks around a secret may belong to it.
    pub(super) text: Option<String>,
    /// The path of a file that holds the value, from the variable for that.
    pub(super) file: Option<String>,
}

impl Variable {
    /// The text without surrounding blanks.
    pub(super) fn get(&self) -> Option<&str> {
        self.text.as_deref().map(str::trim)
    }

    /// The name of the variable that is set: for a secret in a file, the one that names the file.
    pub(super) fn name(&self) -> &'static str {
        let file = self.row.file.filter(|_| self.file.is_some());
        file.unwrap_or(self.row.name)
    }

    pub(super) fn is_set(&self) -> bool {
        self.text.is_some() || self.file.is_some()
    }
}

/// Makes the table and a struct with the text of each variable, from rows: `field = row;`, with a secret's as
/// `field, field_file = row;`. A field is the variable's name in lower case, as envy expects it.
macro_rules! variables {
    ($($section:ident { $($field:ident $(, $file:ident)? = $row:expr;)* })*) => {
        /// The rows, grouped by the section of the page that lists them.
        pub(super) static TABLE: &[(&str, &[Row])] = &[$((stringify!($section), &[$($row),*])),*];

        /// Every variable with its text.
        #[derive(Clone, Debug)]
        pub(super) struct Environment {
            $($(pub(super) $field: Variable,)*)*
        }

        /// The texts that envy reads.
        #[derive(Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct Texts {
            $($($field: Option<String>, $($file: Option<String>,)?)*)*
        }

        impl From<Texts> for Environment {
            fn from(texts: Texts) -> Self {
                Self {
                    $($($field: Variable {
                        row: const { &$row },
                        text: texts.$field,
                        file: None$(.or(texts.$file))?,
                    },)*)*
                }
            }
        }

        impl Environment {
            /// All variables, in the order of the table.
            pub(super) fn variables(&self) -> impl Iterator<Item = &Variable> {
                [$($(&self.$field),*),*].into_iter()
            }
        }
    };
}

const BOOL: &str = "true or false (or 1, yes, on, 0, no, off)";
const DURATION: &str = "seconds, or a duration such as 45m or 1h30m";
const POSITIVE_DURATION: &str = "seconds, or a duration such as 45m or 1h30m, at least 1s";
const IMAGE: &str = "an image reference such as harness/delegate:26.02.88404";
const REPOSITORY: &str =
    "a repository such as registry.example:5000/team: no scheme, no tag, no digest, lower-case path";
const PORT: &str = "a port from 1 to 65535";
const HTTP_URL: &str = "a URL such as https://hooks.example/…";

variables! {
    manager {
        account_id = row("ACCOUNT_ID", Required, "the id of your Harness account",
            "The account whose published delegate image is followed.");
        manager_host_and_port = row("MANAGER_HOST_AND_PORT", Required, "the Manager's URL such as https://app.harness.io",
            "May have a port and a path (`https://app.harness.io/gratis`), but no user, password or query. Without a scheme it is \
             `https://`, with a warning.");
        upgrader_token, upgrader_token_file = row("UPGRADER_TOKEN", Required,
            "the delegate token: 32 hex digits, or the base64 of them that the Manager shows",
            "[Authenticates](#the-token) this program to the Manager.").secret("UPGRADER_TOKEN_FILE");
        published_image = row("PUBLISHED_IMAGE", Unset, IMAGE,
            "The published image, without a Manager: the three variables above are not used.");
    }
    delegates {
        upgrader_workload_name = row("UPGRADER_WORKLOAD_NAME", Required, "the DELEGATE_NAME of your delegates, several separated by commas, or * for every one",
            "The delegates to manage. `*`: every [delegate](#which-containers-are-delegates) of `ACCOUNT_ID` on this host.");
        schedule = row("SCHEDULE", Value("0 */1 * * *"), crate::schedule::ACCEPTED, "When to upgrade: [a schedule](schedules.md#schedules).");
        tz = row("TZ", Derived("the host's zone, else `UTC`"), "an IANA time zone such as Europe/Berlin or UTC",
            "The time zone of `SCHEDULE`, of windows and of dates. A container is in `UTC` until you set it.");
        schedule_jitter = row("SCHEDULE_JITTER", Derived("a twelfth of the time between two runs, `5m` at most"), DURATION,
            "Each run waits a random time up to this, so that not all hosts pull at once.");
        upgrade_window = row("UPGRADE_WINDOW", Unset, crate::schedule::window::ACCEPTED,
            "When upgrades may start: [windows](schedules.md#upgrade-windows). Running ones finish at any time.");
        upgrade_delay = row("UPGRADE_DELAY", Value("0s"), DURATION,
            "How long ago this host must have [first seen](schedules.md#delay-and-waves) an image before it takes it.");
        upgrade_wave = row("UPGRADE_WAVE", Unset, crate::schedule::wave::ACCEPTED,
            "[Stagger](schedules.md#delay-and-waves) a new image across hosts: `auto`, or the share per day.");
        upgrade_soak = row("UPGRADE_SOAK", Value("0s"), DURATION,
            "How long a replica must run the new image, and be healthy then, before [the next one](schedules.md#replicas) gets it.");
        hold_on_alerts = row("HOLD_ON_ALERTS", Unset, "a regular expression for names of alerts such as Delegate.*|ImageRejected",
            "No upgrade starts while [such an alert](fleet.md#hold-on-alerts) fires in the Prometheus at `PROMETHEUS_URL`.");
        hold_timeout = row("HOLD_TIMEOUT", Unset, DURATION,
            "How long upgrades wait while that Prometheus does not answer. Unset: until it answers.");
        prometheus_url, prometheus_url_file = row("PROMETHEUS_URL", Unset, HTTP_URL,
            "That Prometheus, perhaps with a user and password. No output shows it.").secret("PROMETHEUS_URL_FILE");
        prometheus_token, prometheus_token_file = row("PROMETHEUS_TOKEN", Unset, "a bearer token",
            "Sent to that Prometheus.").secret("PROMETHEUS_TOKEN_FILE");
        upgrade_now_if_expired = row("UPGRADE_NOW_IF_EXPIRED", Value("false"), BOOL,
            "`true`: a delegate whose version is certainly past its end of life waits for no window and no wave.");
        run_on_start = row("RUN_ON_START", Value("false"), BOOL,
            "At start the program always checks and reports; with `true` it also upgrades.");
        disable_auto_upgrade = row("DISABLE_AUTO_UPGRADE", Value("false"), BOOL,
            "`true`: no upgrades, only health checks. The engine receives nothing but `GET` requests, except restarts with \
             `HEALTH_ACTION=restart`, and the end of a replacement that has left a delegate stopped.");
    }
    replacement {
        container_stop_timeout = row("CONTAINER_STOP_TIMEOUT", Value("1h"), POSITIVE_DURATION,
            "How long an old delegate may finish its tasks. Its own `--stop-timeout` wins if it is longer.");
        max_stop_timeout = row("MAX_STOP_TIMEOUT", Unset,
            "seconds, or a duration such as 45m or 1h30m, at least CONTAINER_STOP_TIMEOUT",
            "The most that any delegate gets, whatever its own `--stop-timeout` or its label says. `plan` says which of them counts.");
        update_order = row("UPDATE_ORDER", Value("auto"), "auto, start-first or stop-first",
            "`auto` is start-first unless something forbids two instances at once.");
        upgrade_healthy_time = row("UPGRADE_HEALTHY_TIME", Value("1m"),
            "seconds, or a duration such as 45m or 1h30m, at least 1s and shorter than UPGRADE_HEALTHY_DEADLINE",
            "How long a candidate must be healthy without a break.");
        upgrade_healthy_deadline = row("UPGRADE_HEALTHY_DEADLINE", Value("10m"),
            "seconds, or a duration such as 45m or 1h30m, longer than UPGRADE_HEALTHY_TIME",
            "How long after its start a candidate may take to be healthy for `UPGRADE_HEALTHY_TIME`.");
        upgrade_idle_wait = row("UPGRADE_IDLE_WAIT", Value("1h"), "seconds, or a duration such as 45m or 1h30m; 0 does not wait",
            "Stop-first only: how long to wait for a moment in which the old delegate has no task. Tasks left after that drain \
             while no delegate accepts new ones.");
    }
    images {
        registry_mirror = row("REGISTRY_MIRROR", Unset, REPOSITORY,
            "A registry, with or without a path, that has the published repository under it.");
        image_repository = row("IMAGE_REPOSITORY", Unset, REPOSITORY,
            "The repository of your custom image, which gets the published tag. It wins over `REGISTRY_MIRROR`.");
        require_digest = row("REQUIRE_DIGEST", Value("false"), BOOL,
            "`true`: take only an image that is published with its digest (`repository:tag@sha256:…`). Otherwise the delegate is \
             not upgraded (`not_pinned`), nor is a custom image or a variant, whose digest is another.");
        self_upgrade = row("SELF_UPGRADE", Value("false"), "true, false, or an image reference such as registry.example/delegate-upgrader:1.2.0",
            "`true`: the upgrader also replaces [its own container](self-upgrade.md), with the image that the Manager publishes for \
             upgraders. An image: with that image.");
        max_version = row("MAX_VERSION", Unset,
            "a month or a version of the delegate such as 26.03 or 26.03.88501",
            "Newer versions are reported (`held_back`) and not taken; `26.03` is all of March 2026. A tag without a version is not \
             taken either.");
        pull = row("PULL", Value("always"), "always, missing or never",
            "`missing`: a version or digest that is on the host is not pulled; `never`: nothing is pulled, since images are loaded \
             with `docker load`. With `always`, a version that is on the host is used when its registry cannot be reached.");
        keep_images = row("KEEP_IMAGES", Value("1"), "a number from 1 to 9",
            "How many former images of a delegate stay on the host, for `rollback`. The upgrader removes older ones if it \
             brought them.");
        registry_username = row("REGISTRY_USERNAME", Unset, "the user name for REGISTRY_PASSWORD",
            "The login for [private registries](private-registries.md).");
        registry_password, registry_password_file = row("REGISTRY_PASSWORD", Unset, "the password for REGISTRY_USERNAME",
            "Goes with `REGISTRY_USERNAME`.").secret("REGISTRY_PASSWORD_FILE");
        docker_config = row("DOCKER_CONFIG", Derived("`$HOME/.docker`"), "the directory of Docker's config.json",
            "Registry logins; without `DOCKER_CERT_PATH` also the engine's certificates.");
        swarm = row("SWARM", Value("false"), BOOL,
            "`true`: on a manager of a Swarm, [its services](swarm.md) are upgraded as well.");
    }
    health {
        health_interval = row("HEALTH_INTERVAL", Value("1m"), POSITIVE_DURATION, "The longest time between two health checks.");
        health_probe = row("HEALTH_PROBE", Value("auto"), "auto, engine, http, exec or running",
            "`engine`: the container's HEALTHCHECK; `http`: an HTTP request; `running`: a running container is healthy; `auto`: the \
             first of these three that is possible; `exec`: `HEALTH_COMMAND` in the container.");
        health_port = row("HEALTH_PORT", Value("3460"), PORT, "The delegate's health port.");
        health_command = row("HEALTH_COMMAND", Value("curl -sf http://localhost:3460/api/health"),
            "a command, or a JSON array such as [\"/probe\",\"--quick\"]",
            "Run in the container with `HEALTH_PROBE=exec`, and with `auto` in a new container whose health endpoint cannot be reached: \
             0 is healthy. A text is run by `/bin/sh -c`, an array as it is. It has ten seconds.");
        health_action = row("HEALTH_ACTION", Value("report"), "report or restart",
            "What happens to a delegate whose last three health checks failed: [`restart`](health.md#restarts-of-unhealthy-delegates) \
             restarts it, as `docker restart` does.");
    }
    egress {
        proxy_host = row("PROXY_HOST", Unset, "the host name or address of the proxy, without scheme and port",
            "The proxy to the Manager and to the receivers of [events](notifications.md).");
        proxy_scheme = row("PROXY_SCHEME", Value("http"), "http or https", "How to speak to `PROXY_HOST`.");
        proxy_port = row("PROXY_PORT", Derived("the scheme's"), PORT, "The port of `PROXY_HOST`.");
        proxy_user = row("PROXY_USER", Unset, "the user name for PROXY_PASSWORD", "The login at the proxy.");
        proxy_password, proxy_password_file = row("PROXY_PASSWORD", Unset, "the password for PROXY_USER",
            "Goes with `PROXY_USER`.").secret("PROXY_PASSWORD_FILE");
        proxy_manager = row("PROXY_MANAGER", Value("true"), BOOL, "`false`: `PROXY_HOST` is not used.");
        https_proxy = row("HTTPS_PROXY", Unset, "a proxy URL such as http://proxy.example:3128",
            "The [proxy](connection.md#proxies) to `https://` and `http://` addresses, perhaps with a user and password. Not used with \
             `PROXY_HOST`. `https_proxy` also works.");
        no_proxy = row("NO_PROXY", Unset, "hosts, addresses and networks, separated by commas",
            "What is reached without the proxy: `manager.example` (and all below it), `10.0.0.0/8`, `*`. An entry that \
             cannot match produces a warning. `no_proxy` also works.");
        ca_bundle = row("CA_BUNDLE", Unset, "the path of a PEM file with one or more certificates, or of a directory of such files",
            "Certificates to trust besides the system's: authorities, or [the Manager's own](connection.md#a-manager-that-signed-its-own-certificate).");
        client_cert = row("CLIENT_CERT", Unset, "the path of a PEM file with a certificate and the chain behind it, if any",
            "The certificate for mTLS; goes with `CLIENT_KEY`.");
        client_key = row("CLIENT_KEY", Unset, "the path of a PEM file with the private key of CLIENT_CERT, not encrypted",
            "Its private key.");
    }
    notifications {
        webhook_url, webhook_url_file = row("WEBHOOK_URL", Unset, HTTP_URL,
            "Where [events](notifications.md) are sent. No output shows it: a URL of Slack or Teams holds its own key.")
            .secret("WEBHOOK_URL_FILE");
        webhook_format = row("WEBHOOK_FORMAT", Value("cloudevents"), "cloudevents, slack, teams or a JSON object",
            "How an event is written. A JSON object is [a template](receivers.md) for any other receiver.");
        webhook_secret, webhook_secret_file = row("WEBHOOK_SECRET", Unset,
            "whsec_ and the base64 of at least 24 bytes, or a text of at least 24 bytes",
            "[Signs](notifications.md#signatures) each event. Surrounding blanks are ignored.").secret("WEBHOOK_SECRET_FILE");
        webhook_events = row("WEBHOOK_EVENTS", Derived("all"), super::parse::ACTIONS, "Which events are sent, separated by commas.");
        deadman_url, deadman_url_file = row("DEADMAN_URL", Unset, HTTP_URL,
            "Requested after [each good scheduled run](notifications.md#a-dead-mans-switch), so that a service can raise an alarm when that does not happen. No \
             output shows it.").secret("DEADMAN_URL_FILE");
    }
    program {
        environment_file = row("ENVIRONMENT_FILE", Unset, "the path of a readable file of lines NAME=value, as systemd's EnvironmentFile= has them",
            "Further variables, which win over those of the environment. The file is read again on [`SIGHUP`](systemd.md#reload).");
        listen_addr = row("LISTEN_ADDR", Value("127.0.0.1:9464"), "an address and port such as 127.0.0.1:9464",
            "Where status, metrics and the page are served. The image sets `0.0.0.0:9464`, so that the port can be published; in the host's network, set `127.0.0.1:9464`.");
        status_hosts = row("STATUS_HOSTS", Unset, "host names separated by commas, without ports",
            "Host names with a dot that browsers and Prometheus use, such as `upgrader.example.com` or `*.example.com`. IP addresses, \
             names without a dot, `….internal` and the host's own name [are always accepted](monitoring.md#the-port).");
        log_level = row("LOG_LEVEL", Value("info"), "error, warn, info, debug or trace",
            "`debug` logs every engine call. Libraries log warnings at most: their debug lines hold secrets.");
        log_format = row("LOG_FORMAT", Value("text"), "text or json", "`json` is one object a line.");
        audit_log = row("AUDIT_LOG", Derived("`/var/log/delegate-upgrader/audit.log`, if writable"),
            "the whole path of a file, - for standard output, or off",
            "Where [every outcome](audit-log.md) is recorded, one JSON object a line.");
    }
    engine {
        docker_host = row("DOCKER_HOST", Value("unix:///var/run/docker.sock"), "unix:///path/of/the.sock or tcp://host:port",
            "The Docker engine. `http://` and `https://` are read as `tcp://`; the port is 2375, with TLS 2376. `ssh://` is not \
             supported.");
        docker_tls_verify = row("DOCKER_TLS_VERIFY", Unset, "any value, which turns TLS on",
            "As in every Docker client. The engine's certificate is always verified.");
        docker_cert_path = row("DOCKER_CERT_PATH", Derived("`DOCKER_CONFIG`, else `$HOME/.docker`"),
            "a directory with ca.pem, cert.pem and key.pem", "The certificates; turns TLS on for a `tcp://` engine. `ca.pem` alone is trusted: an authority, or the engine's own.");
    }
    // These are read, but are not settings: neither the page nor `config` lists them.
    system {
        home = row("HOME", Unset, "a directory", "The home directory.");
        credentials_directory = row("CREDENTIALS_DIRECTORY", Unset, "a directory", "Where systemd puts what LoadCredential= names.");
    }
}

/// The rows that the page and `config` list, in the order of the documentation.
pub fn documented() -> impl Iterator<Item = &'static Row> {
    TABLE
        .iter()
        .filter(|(section, _)| *section != "system")
        .flat_map(|(_, rows)| *rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kit::page;

    /// The rows that the page lists first: those of the documented `docker run`, and the alternatives to some of them.
    const NEEDED: [&str; 7] = [
        "ACCOUNT_ID",
        "MANAGER_HOST_AND_PORT",
        "UPGRADER_TOKEN",
        "PUBLISHED_IMAGE",
        "UPGRADER_WORKLOAD_NAME",
        "SCHEDULE",
        "CONTAINER_STOP_TIMEOUT",
    ];
    /// The rows that many users set.
    const COMMON: [&str; 15] = [
        "TZ",
        "UPGRADE_WINDOW",
        "UPGRADE_DELAY",
        "UPGRADE_WAVE",
        "DISABLE_AUTO_UPGRADE",
        "UPGRADE_HEALTHY_DEADLINE",
        "REGISTRY_MIRROR",
        "IMAGE_REPOSITORY",
        "HEALTH_ACTION",
        "HTTPS_PROXY",
        "CA_BUNDLE",
        "WEBHOOK_URL",
        "DEADMAN_URL",
        "LISTEN_ADDR",
        "AUDIT_LOG",
    ];

    /// The mark of the table in which a row is listed.
    fn tier(section: &'static str, name: &str) -> &'static str {
        match name {
            _ if NEEDED.contains(&name) => "needed",
            _ if COMMON.contains(&name) => "common",
            _ if name.starts_with("PROXY_") => "compatibility",
            _ => section,
        }
    }

    /// The accepted values as the page shows them: none for booleans, and a short form for durations.
    fn shown(row: &Row) -> String {
        match row.accepted {
            BOOL => String::new(),
            REPOSITORY => " Value: a repository, without tag and scheme.".to_owned(),
            // The help text says the same.
            other if other.starts_with("the user name") || other.starts_with("the password") => String::new(),
            other => format!(" Value: {other}.")
                .replace("seconds, or a duration such as 45m or 1h30m", "a duration"),
        }
    }

    #[test]
    fn the_pages_list_every_variable() {
        let rows = TABLE
            .iter()
            .filter(|(section, _)| *section != "system")
            .flat_map(|(section, rows)| rows.iter().map(|row| (tier(section, row.name), row)));
        let mut tables: Vec<(&str, String)> = Vec::new();
        for (mark, row) in rows {
            let file = row.file.map(|file| format!(" or `{file}`")).unwrap_or_default();
            let line = format!(
                "| `{}`{file} | {} | {}{} |\n",
                row.name,
                row.default.text(),
                row.help,
                shown(row)
            );
            match tables.iter_mut().find(|(known, _)| *known == mark) {
                Some((_, table)) => table.push_str(&line),
                None => tables.push((
                    mark,
                    format!("| variable | default | meaning |\n|---|---|---|\n{line}"),
                )),
            }
        }
        for (mark, table) in &tables {
            let name = if ["needed", "common"].contains(mark) {
                "configuration"
            } else {
                "rare-settings"
            };
            page::has(&format!("docs/usage/{name}.md"), mark, table);
        }
        let lines = |mark| {
            tables
                .iter()
                .find(|(known, _)| *known == mark)
                .map(|(_, table)| table.lines().count() - 2)
        };
        assert_eq!(lines("needed"), Some(NEEDED.len()));
        assert_eq!(lines("common"), Some(COMMON.len()));
    }
}
