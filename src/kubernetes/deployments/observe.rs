//! Reads the Deployments, and why their pods fail.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;
use tokio::time::Instant;
use tracing::debug;

use super::{Deployment, Deployments, Settings, failed};
use crate::kubernetes::cluster::ClusterError;
use crate::kubernetes::pods::{self, Failing};
use crate::kubernetes::{path, read};
use crate::manager::ImageSource;
use crate::rollout::reason::Reason;

/// How soon a condition that may be false is read again.
const SECOND_LOOK: Duration = Duration::from_secs(1);
/// For so long what was read is taken for the present, if this process has written nothing.
const FRESH: Duration = Duration::from_millis(500);
/// For so long a refusal of what was permitted before may be that of an API server which has just started.
const STARTS: Duration = Duration::from_secs(30);

impl<M: ImageSource> Deployments<M> {
    /// Reads all Deployments. An answer of the Manager that comes at once needs no second reading: a patch is about the version
    /// that was read.
    ///
    /// # Errors
    /// The API server cannot be reached.
    pub(super) async fn observe(&mut self) -> Result<DateTime<Utc>, ClusterError> {
        if self.read_at.is_some_and(|read_at| read_at.elapsed() < FRESH) {
            return Ok((self.clock)());
        }
        let mut observed = Vec::new();
        let mut absent = Vec::new();
        for name in self.settings.names.clone() {
            match self.read(&name).await? {
                Ok(deployment) => observed.push(deployment),
                Err(reason) => absent.push((name, reason)),
            }
        }
        (self.observed, self.absent) = (observed, absent);
        let all = self.observed.iter().map(|deployment| &deployment.managed);
        self.manager.note_delegates(all, &self.settings.target);
        self.read_at = Some(Instant::now());
        Ok((self.clock)())
    }

    /// Reads one Deployment; or why it is not there as it should be.
    async fn read(&mut self, name: &str) -> Result<Result<Deployment, Reason>, ClusterError> {
        let path = self.path(name);
        let mut document = match self.cluster.get(&path).await {
            Ok(document) => document,
            Err(ClusterError::NotFound(_)) => return Ok(Err(self.missing(name).await)),
            Err(error) => return self.unread(name, error).map(Err),
        };
        let tracked = self.tracked.entry(name.to_owned()).or_default();
        (tracked.was_read, tracked.refused_since) = (true, None);
        if read::has_exceeded_its_deadline(&document) {
            tokio::time::sleep(SECOND_LOOK).await;
            document = match self.cluster.get(&path).await {
                Ok(document) => document,
                Err(error) => return self.unread(name, error).map(Err),
            };
        }
        let Settings { container, zone, .. } = &self.settings;
        let mut managed = match read::read(&document, container, name, zone) {
            Ok(managed) => managed,
            Err(reason) => return Ok(Err(reason)),
        };
        let failing = if managed.tasks.are_complete() && !managed.is_in_progress() {
            None
        } else {
            self.failing(&document).await
        };
        managed.tasks.last_failure = failing.as_ref().map(|failing| failing.failure.clone());
        Ok(Ok(Deployment {
            managed,
            document,
            failing,
        }))
    }

    /// Why a Deployment could not be read.
    ///
    /// # Errors
    /// It is to be read again: the API server cannot be reached, or may just have started.
    fn unread(&mut self, name: &str, error: ClusterError) -> Result<Reason, ClusterError> {
        let tracked = self.tracked.entry(name.to_owned()).or_default();
        if let ClusterError::Unreachable(_) = error {
            tracked.refused_since = None;
            return Err(error);
        }
        let since = tracked.refused_since.get_or_insert_with(Instant::now);
        if tracked.was_read && since.elapsed() < STARTS {
            return Err(ClusterError::Starting(error.to_string()));
        }
        Ok(failed("read the Deployment", &error))
    }

    /// What there is in place of a Deployment.
    async fn missing(&self, name: &str) -> Reason {
        let path = path("apps/v1", &self.settings.namespace, "statefulsets", name);
        if self.cluster.get(&path).await.is_ok() {
            return Reason::NotUpgradable {
                kind: "a StatefulSet, whose pods a bad image would hold until somebody deletes them",
            };
        }
        Reason::NoDeployment {
            name: name.to_owned(),
            namespace: self.settings.namespace.clone(),
        }
    }

    /// The pod that failed last, where pods may be listed.
    async fn failing(&mut self, document: &Value) -> Option<Failing> {
        let selector = pods::selector(document).filter(|_| !self.is_blind)?;
        let pods = path("v1", &self.settings.namespace, "pods", "");
        let pods = format!("{}?labelSelector={selector}", pods.trim_end_matches('/'));
        match self.cluster.get(&pods).await {
            Ok(list) => pods::last_failure(list["items"].as_array()?, &self.settings.container),
            Err(error) => {
                self.is_blind = matches!(error, ClusterError::Forbidden(_));
                debug!(%error, "cannot list the pods; going on without their words");
                None
            }
        }
    }
}
