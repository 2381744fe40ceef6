//! Evidence on rejected candidates: the last lines of their logs and the last results of their health checks.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::join;
use serde::Serialize;
use tokio::time::timeout;
use tracing::{debug, warn};

use crate::container::{ContainerId, RunState};
use crate::engine::Engine;
use crate::rollout::{Member, Rejection, Rollout};
use crate::text::redact::Redactor;
use crate::text::time;

/// How many of the last log lines are kept.
const LINES: usize = 20;
/// How many of the last health check results are kept.
const PROBES: usize = 5;
/// How long collection may take. During a stop-first replacement, no container serves in the meantime.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Evidence on a rejected candidate. It does not contain the values of its environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// The name under which the rejected container is kept.
    pub container: String,
    /// The image that the container ran, as its configuration names it.
    pub image: String,
    /// Why the candidate was rejected; `None` if an earlier process rejected it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the candidate was rejected. If an earlier process did that: when the container exited, or else was created.
    #[serde(serialize_with = "time::serialize")]
    pub time: DateTime<Utc>,
    /// How the container last exited; `None` if it was running when the evidence was collected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<String>,
    /// The last log lines, at most 20.
    pub log_tail: Vec<String>,
    /// The last results of the health check, at most 5, the latest last.
    pub health_log: Vec<String>,
}

impl Evidence {
    /// Collects what the engine returns within two seconds; the rest stays empty.
    async fn collect<E: Engine>(engine: &E, rejected: &Member, name: &str, time: DateTime<Utc>) -> Self {
        let mut evidence = Self {
            container: name.to_owned(),
            image: rejected.image.to_string(),
            time,
            ..Self::default()
        };
        let (container, log) = join(
            timeout(TIMEOUT, engine.inspect(&rejected.id)),
            timeout(TIMEOUT, engine.logs(&rejected.id, LINES)),
        )
        .await;
        // The container's environment tells which words of the log are secrets, so without it there is no evidence.
        let Ok(Ok(container)) = container else {
            debug!(container = name, "cannot inspect the container; no evidence");
            return evidence;
        };
        let redactor = Redactor::new(container.environment());
        if rejected.has_ended() || rejected.state == RunState::Restarting {
            // By the observation: the container may run again by now.
            evidence.ending = Some(rejected.life.ending.clone());
        }
        evidence.health_log = container
            .health_log(PROBES)
            .map(|(code, output)| redactor.line(&format!("exit code {code}: {output}")))
            .collect();
        match log {
            Ok(Ok(log)) => {
                let mut last: Vec<String> = log
                    .lines()
                    .rev()
                    .map(|line| redactor.line(line))
                    .filter(|line| !line.is_empty())
                    .take(LINES)
                    .collect();
                last.reverse();
                evidence.log_tail = last;
            }
            Ok(Err(error)) => debug!(container = name, %error, "cannot read the log"),
            Err(_) => debug!(container = name, "reading the log takes too long"),
        }
        evidence
    }

    /// Logs the evidence on a candidate of this delegate, line by line.
    fn log(&self, rollout: &Rollout) {
        let (container, workload) = (rollout.name.as_str(), rollout.workload.as_str());
        for line in &self.health_log {
            warn!(container, workload, "health check: {line}");
        }
        for line in &self.log_tail {
            warn!(container, workload, "log: {line}");
        }
    }
}

/// The evidence on the rejected containers of the host.
#[derive(Debug, Default)]
pub struct EvidenceStore(HashMap<ContainerId, Evidence>);

impl EvidenceStore {
    /// Collects and logs the evidence on a candidate that is about to be rejected and kept under `name`.
    pub async fn record<E: Engine>(
        &mut self,
        engine: &E,
        rollout: &Rollout,
        candidate: &Member,
        name: &str,
        rejection: &Rejection,
        now: DateTime<Utc>,
    ) {
        let known = self.0.get(&candidate.id);
        if known.is_some_and(|known| known.container == name) {
            return;
        }
        let mut evidence = Evidence::collect(engine, candidate, name, now).await;
        evidence.message = Some(rejection.to_string());
        if evidence.health_log.is_empty() {
            evidence.health_log.push(candidate.health.to_string());
        }
        evidence.log(rollout);
        self.0.insert(candidate.id.clone(), evidence);
    }

    /// The evidence on the delegate's last rejected candidate. If an earlier process rejected it, the evidence is read
    /// once from the container, which was kept for that purpose.
    pub async fn latest<E: Engine>(&mut self, engine: &E, rollout: &Rollout) -> Option<Evidence> {
        let rejected = rollout.failed.last()?;
        if !self.0.contains_key(&rejected.id) {
            if rejected.is_up() {
                return None;
            }
            let time = rejected.life.finished_at.unwrap_or(rejected.created_at);
            let evidence = Evidence::collect(engine, rejected, &rejected.name, time).await;
            self.0.insert(rejected.id.clone(), evidence);
        }
        self.0.get(&rejected.id).cloned()
    }

    /// Forgets the evidence on containers that no longer exist.
    pub fn forget_absent(&mut self, rollouts: &[Rollout]) {
        let rejected = rollouts.iter().flat_map(|rollout| &rollout.failed);
        let present: HashSet<&ContainerId> = rejected.map(|rejected| &rejected.id).collect();
        self.0.retain(|id, _| present.contains(id));
    }
}
