//! The daemon's published state: a single value, which the loop replaces after every observation and the HTTP server reads.

mod connections;
pub mod evidence;
pub mod hosts;
pub mod layout;
pub mod liveness;
pub mod metrics;
pub mod next_upgrade;
pub mod page;
pub mod planned;
pub mod report;
pub mod server;
pub mod terminal;
pub mod view;

use chrono::{DateTime, Utc};
use serde::Serialize;
use strum::IntoStaticStr;
use tokio::sync::watch;

use crate::engine::EngineCalls;
use crate::events::DeadManCounts;
use crate::events::audit::Unwritten;
use crate::events::tally::Tally;
use crate::events::webhook::WebhookCounts;
use crate::host::hold::Paused;
use crate::host::place;
use crate::manager::heartbeat::ManagerStatus;
use crate::manager::{ManagerRequests, UpgraderImage};
use crate::schedule::zone::Zone;
use crate::status::next_upgrade::NextUpgrade;
use crate::status::report::Report;
use crate::text::time;

/// The daemon's state, as `/status` shows it and `delegate-upgrader status` reads it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Status {
    /// This program's version.
    pub version: &'static str,
    /// The host's name; if the upgrader runs in a container, the name that the engine reports.
    pub host: String,
    /// Whether all delegates are healthy, none failed, and all is delivered, as `status --check` asks.
    pub all_well: bool,
    /// When the daemon started.
    #[serde(serialize_with = "time::serialize")]
    pub started_at: DateTime<Utc>,
    /// Whether the daemon upgrades, or checks health only.
    pub mode: Mode,
    /// The schedule as it was configured.
    pub schedule: String,
    /// The pauses that held at the last observation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pauses: Vec<Paused>,
    /// The settings that put upgrades off, as `config` prints them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub timing: Vec<String>,
    /// The time zone of the page.
    #[serde(skip)]
    pub zone: Zone,
    /// When the next scheduled run starts.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "time::optional")]
    pub next_run: Option<DateTime<Utc>>,
    /// When the next upgrade can start, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_upgrade: Option<NextUpgrade>,
    /// When the last scheduled run started.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "time::optional")]
    pub last_run: Option<DateTime<Utc>>,
    /// When the last scheduled run succeeded: no delegate failed or was still waiting, and each new container was proven.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "time::optional")]
    pub last_success: Option<DateTime<Utc>>,
    /// By when the next run should have succeeded: the second scheduled run after the last success, or after the start.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "time::optional")]
    pub success_due: Option<DateTime<Utc>>,
    /// The Manager's last answers, if there is a Manager.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manager: Option<ManagerStatus>,
    /// The upgrader's own image and the published one, if the two can be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrader_image: Option<UpgraderImage>,
    /// Why the last observation could not reach the engine, if it could not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine_error: Option<String>,
    /// The last successful observation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    /// Counts since the start, and the last events.
    #[serde(flatten)]
    pub tally: Tally,
    /// The records missing from the audit log; `None` if all were written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit_log: Option<Unwritten>,
    /// The counts of webhook deliveries, if a webhook is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookCounts>,
    /// The counts of requests to `DEADMAN_URL`, if it is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_man: Option<DeadManCounts>,
    /// The webhook, dead man's switch and audit log that fail now, each as a sentence.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delivery_problems: Vec<String>,
    /// How many log lines were dropped since the start because nobody read them in time.
    pub log_lines_dropped: u64,
    /// [`Settings::hash`](crate::config::Settings::hash): equal for daemons whose `config` output is equal.
    pub config_hash: u64,
    /// The calls to the engine, for metrics.
    #[serde(skip)]
    pub engine_calls: EngineCalls,
    /// The requests to the Manager, for metrics.
    #[serde(skip)]
    pub manager_requests: ManagerRequests,
}

/// Whether the daemon upgrades, or with `DISABLE_AUTO_UPGRADE` only checks health.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Check health and upgrade.
    #[default]
    Upgrade,
    /// Check health only.
    HealthOnly,
}

/// Publishes the state.
pub type Publisher = watch::Sender<Status>;
/// Reads the published state.
pub type Reader = watch::Receiver<Status>;

impl Status {
    /// The state before the first observation.
    pub fn new(mode: Mode, schedule: &str, now: DateTime<Utc>) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            host: place::host(),
            started_at: now,
            mode,
            schedule: schedule.to_owned(),
            ..Self::default()
        }
    }

    /// The name and version of the program, and the newer published version if there is one.
    pub fn program(&self) -> String {
        let program = format!("delegate-upgrader {}", self.version);
        let newer = self.upgrader_image.as_ref();
        match newer.filter(|image| image.newer_version_available) {
            Some(image) => format!("{program} (newer: {})", image.published),
            None => program,
        }
    }

    /// Why the daemon is not ready, if it is not.
    pub fn not_ready(&self) -> Option<String> {
        match (&self.engine_error, &self.report) {
            (Some(error), _) => Some(format!("cannot reach the Docker engine: {error}")),
            (None, None) => Some("the engine has not been reached yet".to_owned()),
            (None, Some(_)) => None,
        }
    }
}
