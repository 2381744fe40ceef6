//! What the daemon shows of itself: one value, replaced after every look, read by the HTTP server.

pub mod evidence;
pub mod metrics;
pub mod report;
pub mod server;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Serialize;
use tokio::sync::watch;

use crate::manager::heartbeat::ManagerStatus;
use crate::status::report::Report;
use crate::text::time;

/// The daemon's state.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// This program's version.
    pub version: &'static str,
    /// When it started.
    #[serde(serialize_with = "time::serialize")]
    pub started_at: DateTime<Utc>,
    /// `upgrade` or `health-only`.
    pub mode: &'static str,
    /// The schedule, as it was written.
    pub schedule: String,
    /// The next scheduled pass.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "time::serialize_option"
    )]
    pub next_run: Option<DateTime<Utc>>,
    /// When the last scheduled pass began.
    #[serde(
        skip_serializing_if = "Option::is_none",
        serialize_with = "time::serialize_option"
    )]
    pub last_run: Option<DateTime<Utc>>,
    /// What the Manager said the last time it was asked, where there is one to ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manager: Option<ManagerStatus>,
    /// Why the engine could not be looked at the last time, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine_error: Option<String>,
    /// What was seen at the last look that succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    /// Steps taken since the start, by kind.
    pub steps: BTreeMap<&'static str, u64>,
}

/// The writing end.
pub type Publisher = watch::Sender<Status>;
/// The reading end.
pub type Reader = watch::Receiver<Status>;

impl Status {
    /// The state before the first look.
    pub fn new(health_only: bool, schedule: &str, now: DateTime<Utc>) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            started_at: now,
            mode: if health_only { "health-only" } else { "upgrade" },
            schedule: schedule.to_owned(),
            next_run: None,
            last_run: None,
            manager: None,
            engine_error: None,
            report: None,
            steps: BTreeMap::new(),
        }
    }

    /// Why it is not ready, if so.
    pub fn not_ready(&self) -> Option<String> {
        match (&self.engine_error, &self.report) {
            (Some(error), _) => Some(error.clone()),
            (None, None) => Some("the engine has not been looked at yet".to_owned()),
            (None, Some(_)) => None,
        }
    }
}
