//! Turns the environment into validated [`Settings`], or reports all its problems at once.

mod alerts;
mod aliases;
mod audit;
mod connections;
mod dotenv;
mod environment;
mod no_proxy;
mod notifications;
mod parse;
mod problems;
mod reader;
mod settings;
mod timing;
mod variables;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::time::Duration;

use ring::digest::{Context, SHA256};
use strum::{Display, EnumString};
use tracing::level_filters::LevelFilter;

use crate::engine::{Credentials, EngineHost};
use crate::image::{ImageReference, TargetSettings};
use crate::schedule::Schedule;
use problems::Problems;
use variables::Environment;

pub use crate::manager::ManagerSettings;
pub use crate::net::client::{Egress, ProxySettings};
pub use alerts::AlertHold;
pub use audit::AuditTarget;
pub(crate) use audit::try_file;
pub(crate) use dotenv::{read as read_variables, whole_text};
pub use notifications::{Notifications, SigningKey, WebhookFormat, WebhookSettings};
pub(crate) use parse::listen_address;
pub use problems::{ConfigErrors, Problem};
pub use timing::Timing;
pub use variables::{Preset, Row, documented as variables};

/// All settings, validated: a field for each variable or group of variables.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the published image comes from.
    pub source: Source,
    /// `ACCOUNT_ID`, unless `PUBLISHED_IMAGE` replaces the Manager. A command that asks no Manager knows it as well.
    pub account: Option<String>,
    /// `UPGRADER_WORKLOAD_NAME`: the `DELEGATE_NAME`s to manage; at least one, each once.
    pub workload_names: Vec<String>,
    /// `SCHEDULE` and `TZ`.
    pub schedule: Schedule,
    /// `SCHEDULE_JITTER`: the longest random delay of a run.
    pub schedule_jitter: Duration,
    /// `RUN_ON_START`: whether the check at start may upgrade.
    pub run_on_start: bool,
    /// `CONTAINER_STOP_TIMEOUT`: how long an old delegate may finish its tasks; at least a second.
    pub stop_timeout: Duration,
    /// `MAX_STOP_TIMEOUT`.
    pub max_stop_timeout: Option<Duration>,
    /// `KEEP_IMAGES`: how many former images of a delegate stay on the host.
    pub keep_images: usize,
    /// The settings of the decision about each delegate.
    pub policy: Policy,
    /// The image that replaces the published one, if any, and the images that are permitted.
    pub target: TargetSettings,
    /// The periodic health check.
    pub health: HealthSettings,
    /// `SWARM`: whether the services of a Swarm are upgraded as well.
    pub swarm: bool,
    /// `SELF_UPGRADE`: whether the upgrader replaces its own container; invalid together with `DISABLE_AUTO_UPGRADE`.
    pub self_upgrade: bool,
    /// `REGISTRY_USERNAME`, `REGISTRY_PASSWORD` and `DOCKER_CONFIG`: the logins of registries.
    pub credentials: Credentials,
    /// The connection to the Manager and to the receivers of events.
    pub egress: Egress,
    /// `WEBHOOK_*` and `DEADMAN_URL`.
    pub notifications: Notifications,
    /// `LISTEN_ADDR`.
    pub listen: SocketAddr,
    /// `STATUS_HOSTS`: additional host names of the status server; usually none.
    pub status_hosts: Vec<String>,
    /// `LOG_LEVEL` and `LOG_FORMAT`.
    pub log: LogSettings,
    /// `AUDIT_LOG`.
    pub audit: AuditTarget,
    /// `DOCKER_HOST` and its TLS variables.
    pub engine: EngineHost,
    /// Warnings about settings that are allowed but look odd; each starts with the name of the variable.
    pub warnings: Vec<String>,
    /// The result of [`Settings::redacted`].
    effective: Vec<(&'static str, String)>,
}

/// The settings on which the decision about a delegate depends.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// `DISABLE_AUTO_UPGRADE`: no upgrades; no writes to the engine except restarts and finishing an interrupted replacement.
    pub health_only: bool,
    /// `UPDATE_ORDER`.
    pub update_order: UpdateOrder,
    /// `UPGRADE_HEALTHY_TIME`: how long a candidate must be healthy without a break.
    pub healthy_time: Duration,
    /// `UPGRADE_HEALTHY_DEADLINE`: how long after its start a candidate may take for that; longer than `healthy_time`.
    pub healthy_deadline: Duration,
    /// `UPGRADE_IDLE_WAIT`: how long a stop-first replacement waits until the old delegate has no task.
    pub idle_wait: Duration,
    /// `HEALTH_ACTION=restart`.
    pub restarts_unhealthy: bool,
    /// When a replacement may start: `UPGRADE_WINDOW` and similar settings.
    pub timing: Timing,
}

/// The settings that a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// All of them.
    All,
    /// Only those of the host: the command works during an outage of the Manager, and if the Manager's settings are wrong.
    HostOnly,
}

/// Where the published image comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A Harness Manager.
    Manager(ManagerSettings),
    /// `PUBLISHED_IMAGE`, which never changes.
    Fixed(ImageReference),
    /// No source: with `DISABLE_AUTO_UPGRADE`, and for commands that need no published image.
    None,
}

impl Source {
    /// Which versions are supported whatever their dates, if that depends on the Manager.
    pub(crate) fn rule_of_support(&self) -> Option<&'static str> {
        let Self::Manager(manager) = self else {
            return None;
        };
        // Otherwise it is a self-managed one, or is reached by another name.
        let url = reqwest::Url::parse(&manager.base_url);
        let is_at_harness =
            url.is_ok_and(|url| url.host_str().is_some_and(|host| host.ends_with(".harness.io")));
        let rule = "if that Manager is self-managed, only the version that it publishes is supported";
        (!is_at_harness).then_some(rule)
    }
}

/// How a delegate is replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Display, EnumString)]
#[strum(serialize_all = "kebab-case", ascii_case_insensitive)]
pub enum UpdateOrder {
    /// Start-first unless something forbids two instances at once.
    #[default]
    Auto,
    /// The new container proves itself before the old one stops.
    StartFirst,
    /// The old container stops before the new one starts.
    StopFirst,
}

/// The periodic health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthSettings {
    /// `HEALTH_INTERVAL`.
    pub interval: Duration,
    /// `HEALTH_PROBE`.
    pub probe: ProbeKind,
    /// `HEALTH_PORT`, of the delegate.
    pub port: u16,
    /// The path of the health endpoint.
    pub path: &'static str,
    /// `HEALTH_COMMAND`: a program and its arguments.
    pub command: Vec<String>,
}

/// The action on an unhealthy delegate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Display, EnumString)]
#[strum(serialize_all = "kebab-case", ascii_case_insensitive)]
enum HealthAction {
    /// Report it.
    #[default]
    Report,
    /// Report it, and restart the delegate.
    Restart,
}

/// How health is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Display, EnumString)]
#[strum(serialize_all = "kebab-case", ascii_case_insensitive)]
pub enum ProbeKind {
    /// The first that is possible: the container's HEALTHCHECK, HTTP, `Running`.
    #[default]
    Auto,
    /// The container's HEALTHCHECK only.
    Engine,
    /// HTTP only.
    Http,
    /// `HEALTH_COMMAND` in the container only.
    Exec,
    /// A container that runs without restarting is healthy.
    Running,
}

/// `LOG_LEVEL` and `LOG_FORMAT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// The level of this crate; libraries log only warnings and errors.
    pub level: LevelFilter,
    /// The format of a line.
    pub format: LogFormat,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Display, EnumString)]
#[strum(serialize_all = "kebab-case", ascii_case_insensitive)]
pub enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object.
    Json,
}

impl Settings {
    /// Reads and checks `LISTEN_ADDR` alone, for the commands that query a running daemon.
    pub fn listen_from_env(
        vars: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<SocketAddr, ConfigErrors> {
        let mut problems = Problems::default();
        let env = Environment::read(vars, &mut problems);
        settings::listen_alone(&env, problems)
    }

    /// Reads and checks an environment. Other variables are ignored unless they look like a mistake, and empty ones
    /// count as unset. Also reads the files with secrets and certificates.
    pub fn from_env(
        vars: impl IntoIterator<Item = (OsString, OsString)>,
        needs: Needs,
    ) -> Result<Self, ConfigErrors> {
        let mut problems = Problems::default();
        let env = Environment::read(vars, &mut problems);
        settings::settings(&env, needs, problems)
    }

    /// Every documented variable with its effective value, in the order of the documentation. For a secret, it says only that
    /// it is set, or names its file.
    pub fn redacted(&self) -> &[(&'static str, String)] {
        &self.effective
    }

    /// Those settings that put upgrades off, as `config` prints them.
    pub fn putting_off(&self) -> Vec<String> {
        let is_one = |name| {
            const NAMES: &str = "UPGRADE_WINDOW UPGRADE_DELAY UPGRADE_WAVE UPGRADE_SOAK HOLD_ON_ALERTS";
            NAMES.split(' ').any(|known| known == name)
        };
        let all = self.effective.iter();
        let set = all.filter(|(name, value)| is_one(*name) && !matches!(value.as_str(), "(unset)" | "0s"));
        set.map(|(name, value)| format!("{name}={value}")).collect()
    }

    /// The first 48 bits of the SHA-256 of [`Self::redacted`]: a metric, which is a float, can hold them exactly.
    pub fn hash(&self) -> u64 {
        let mut context = Context::new(&SHA256);
        for (name, value) in self.redacted() {
            context.update(format!("{name}={value}\n").as_bytes());
        }
        let bytes = context.finish();
        let first = bytes.as_ref().iter().take(6);
        first.fold(0, |hash, byte| hash << 8 | u64::from(*byte))
    }
}
