//! Why a candidate was rejected, in its own words: what it printed last, what its health check said.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::join;
use serde::Serialize;
use tokio::time::timeout;
use tracing::{debug, warn};

use crate::container::RunState;
use crate::container::{ContainerId, ImageId};
use crate::engine::Engine;
use crate::health;
use crate::rollout::{FailureCause, Member, Rollout};
use crate::text::redact::Redactor;
use crate::text::time;

/// How many lines of its log are kept.
const LINES: usize = 20;
/// How many results of its health check are kept.
const PROBES: usize = 5;
/// How long it may take to collect evidence: in a stop-first replacement nobody serves meanwhile.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is known of a rejected candidate. No secret of its environment is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// The name under which it is kept.
    pub container: String,
    /// The image it ran, as its configuration names it.
    pub image: String,
    /// What it did wrong. Only the process that rejected it knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// When it was rejected, or else when it ended.
    #[serde(serialize_with = "time::serialize")]
    pub when: DateTime<Utc>,
    /// How its last life ended, where it had ended by itself or the process that rejected it is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<String>,
    /// What it printed last.
    pub log_tail: Vec<String>,
    /// What its health check said last, the latest at the end.
    pub health_log: Vec<String>,
}

impl Evidence {
    fn nothing(name: &str, image: &str, when: DateTime<Utc>) -> Self {
        Self {
            container: name.to_owned(),
            image: image.to_owned(),
            cause: None,
            when,
            ending: None,
            log_tail: Vec::new(),
            health_log: Vec::new(),
        }
    }

    /// Collects what there is, within two seconds: what the engine does not tell is left out.
    async fn collect<E: Engine>(engine: &E, rejected: &Member, name: &str, when: DateTime<Utc>) -> Self {
        let mut evidence = Self::nothing(name, &rejected.image, when);
        let (container, log) = join(
            timeout(PATIENCE, engine.inspect(&rejected.id)),
            timeout(PATIENCE, engine.logs(&rejected.id, LINES)),
        )
        .await;
        // Without its environment nobody knows which of its words are secrets.
        let Ok(Ok(container)) = container else {
            debug!(container = name, "no evidence: the container cannot be inspected");
            return evidence;
        };
        let redactor = Redactor::new(container.environment());
        if rejected.has_ended() || rejected.state == RunState::Restarting {
            evidence.ending = Some(redactor.line(&health::ending(&container)));
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
            Ok(Err(error)) => debug!(container = name, %error, "its log cannot be read"),
            Err(_) => debug!(container = name, "its log takes too long"),
        }
        evidence
    }

    /// Tells the log, line by line.
    fn tell(&self, delegate: &str) {
        for line in &self.health_log {
            warn!(delegate, "health check: {line}");
        }
        for line in &self.log_tail {
            warn!(delegate, "it printed: {line}");
        }
    }
}

/// The evidence of the rejected containers on the host, by their names.
#[derive(Debug, Default)]
pub struct EvidenceStore(HashMap<String, Record>);

#[derive(Debug)]
struct Record {
    /// The candidate, where it was still there.
    container: Option<ContainerId>,
    image: ImageId,
    evidence: Evidence,
}

impl EvidenceStore {
    /// Collects and tells the evidence on a candidate that is about to be rejected, and kept, or marked, under that name.
    pub async fn note<E: Engine>(
        &mut self,
        engine: &E,
        rollout: &Rollout,
        candidate: &Member,
        name: &str,
        cause: &FailureCause,
        now: DateTime<Utc>,
    ) {
        let known = self.0.get(name);
        if known.is_some_and(|known| known.container.as_ref() == Some(&candidate.id)) {
            return;
        }
        let mut evidence = Evidence::collect(engine, candidate, name, now).await;
        evidence.cause = Some(cause.to_string());
        if evidence.health_log.is_empty() {
            evidence.health_log.push(candidate.health.to_string());
        }
        evidence.tell(&rollout.name);
        self.keep(Some(&candidate.id), &candidate.image_id, evidence);
    }

    /// A rejected candidate that had gone already left nothing but the cause.
    pub fn note_vanished(
        &mut self,
        name: &str,
        image: &ImageId,
        reference: &str,
        cause: &FailureCause,
        now: DateTime<Utc>,
    ) {
        let mut evidence = Evidence::nothing(name, reference, now);
        evidence.cause = Some(cause.to_string());
        self.keep(None, image, evidence);
    }

    fn keep(&mut self, container: Option<&ContainerId>, image: &ImageId, evidence: Evidence) {
        let record = Record {
            container: container.cloned(),
            image: image.clone(),
            evidence,
        };
        self.0.insert(record.evidence.container.clone(), record);
    }

    /// The evidence on the last rejected candidate that is still there. What an earlier process rejected is read once
    /// from the container, which was kept for that.
    pub async fn of<E: Engine>(&mut self, engine: &E, rollout: &Rollout) -> Option<Evidence> {
        let rejected = rollout.failed.last()?;
        let known = self.0.get(&rejected.name);
        // By the image, too: a name may have been given again.
        if known.is_none_or(|known| known.image != rejected.image_id) {
            if rejected.is_up() {
                return None;
            }
            let when = rejected.finished_at.unwrap_or(rejected.created_at);
            let evidence = Evidence::collect(engine, rejected, &rejected.name, when).await;
            self.keep(Some(&rejected.id), &rejected.image_id, evidence);
        }
        self.0.get(&rejected.name).map(|record| record.evidence.clone())
    }

    /// Forgets containers that are gone.
    pub fn forget_absent(&mut self, rollouts: &[Rollout]) {
        let rejected = rollouts.iter().flat_map(|rollout| &rollout.failed);
        let present: HashSet<&str> = rejected.map(|rejected| rejected.name.as_str()).collect();
        self.0.retain(|name, _| present.contains(name.as_str()));
    }
}
