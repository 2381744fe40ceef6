//! Takes the steps, one process at a time.

use chrono::{DateTime, TimeDelta, Utc};
use tracing::{debug, info, warn};

use super::{Deployment, Deployments, failed};
use crate::kubernetes::cluster::ClusterError;
use crate::kubernetes::lock::{Lock, RENEWAL, Standing};
use crate::kubernetes::{patch, path, read};
use crate::managed::{Decision, Managed, Step};
use crate::manager::ImageSource;
use crate::rollout::reason::Reason;
use crate::rollout::{Backoff, Intent};

impl<M: ImageSource> Deployments<M> {
    /// Why another process follows the upgrade of this Deployment, and until when at least. Where this one does, and only waits,
    /// it renews its lock in time; a step renews it by its own patch.
    pub(super) async fn held_elsewhere(
        &mut self,
        deployment: &Deployment,
        decision: &Decision,
        now: DateTime<Utc>,
    ) -> Option<(Reason, DateTime<Utc>)> {
        let tracked = self.tracked.entry(deployment.managed.name.clone()).or_default();
        let standing = tracked
            .lock
            .note(Lock::read(&deployment.document), &self.settings.holder);
        let renewed = match standing {
            Standing::Taken { by, for_another } => {
                let left = TimeDelta::from_std(for_another.min(RENEWAL)).unwrap_or_default();
                return Some((Reason::StandingBy { name: by }, now + left));
            }
            Standing::Held { for_another, .. } if !for_another.is_zero() => return None,
            Standing::Held { renewed, .. } | Standing::Free { renewed } => renewed,
        };
        if matches!(decision, Decision::Wait { .. }) && !self.settings.dry_run {
            let lock = self.lock(renewed);
            let patch = patch::renewal(&deployment.document, &lock);
            // Whoever is too late finds the other's lock with the next look.
            if let Err(error) = self.patch(&deployment.managed.name, &patch).await {
                debug!(%error, "cannot renew the lock");
            }
        }
        None
    }

    fn lock(&self, renewed: u64) -> Lock {
        Lock {
            holder: self.settings.holder.clone(),
            renewed,
        }
    }

    pub(super) async fn apply(&mut self, deployment: &Deployment, step: &Step, now: DateTime<Utc>) {
        let Deployment {
            managed, document, ..
        } = deployment;
        let Managed { name, workload, .. } = managed;
        let container = self.settings.container.clone();
        match step {
            Step::Begin { .. } => self.warn_before(deployment),
            Step::RollBack { .. } => self.log_last_lines(deployment).await,
            _ => {}
        }
        let writer = read::last_writer(document, &container);
        match (step, writer) {
            (Step::NoteRollback { .. }, Some(writer)) => {
                warn!(deployment = name, workload, writer, "{}", words(step));
            }
            (Step::RollBack { .. } | Step::Quarantine { .. }, _) => {
                warn!(deployment = name, workload, "{}", words(step));
            }
            _ => info!(deployment = name, workload, "{}", words(step)),
        }
        *self.steps_taken.entry(step.kind()).or_default() += 1;
        let renewed = Lock::read(document).map_or(0, |lock| lock.renewed.wrapping_add(1));
        let patch = patch::patch((managed, document), &container, step, &self.lock(renewed), now);
        let done = self.patch(name, &patch).await;
        let tracked = self.tracked.entry(name.clone()).or_default();
        match done {
            Ok(_) => {
                tracked.backoff = None;
                // What an operator asked for was tried, once.
                if let Step::Quarantine { .. } = step {
                    self.run.intent = Intent::Upgrade;
                }
            }
            Err(error) => {
                // Somebody else was faster: what is wanted now follows from what is there now.
                if !matches!(error, ClusterError::Conflict(_)) {
                    warn!(deployment = name, workload, step = words(step), problem = %error, "API call failed; will retry");
                }
                let reason = failed(&words(step), &error);
                tracked.backoff = Some(match error {
                    // One of several API servers may just have started, and has no permissions yet.
                    ClusterError::Forbidden(_) if tracked.backoff.is_some() => Backoff::hopeless(reason, now),
                    _ => Backoff::after(tracked.backoff.as_ref(), reason, now),
                });
            }
        }
    }

    /// What may go wrong is said once, before it can.
    fn warn_before(
        &mut self,
        Deployment {
            managed, document, ..
        }: &Deployment,
    ) {
        let tracked = self.tracked.entry(managed.name.clone()).or_default();
        if std::mem::replace(&mut tracked.was_warned, true) {
            return;
        }
        for warning in read::warnings(document) {
            warn!(
                deployment = managed.name,
                workload = managed.workload,
                "{warning}"
            );
        }
        if let Some(owner) = read::owner(document) {
            warn!(
                deployment = managed.name,
                workload = managed.workload,
                "{owner} has made it, and may write its own image back; that would count as a rollback"
            );
        }
    }

    /// The last lines of the pod that failed, where they may be read.
    async fn log_last_lines(&self, deployment: &Deployment) {
        let Some(failing) = &deployment.failing else {
            return;
        };
        let namespace = &self.settings.namespace;
        for query in failing.log_queries(&self.settings.container) {
            let path = format!("{}/log?{query}", path("v1", namespace, "pods", &failing.pod));
            let Ok(text) = self.cluster.text(&path).await else {
                continue;
            };
            for line in failing.redacted(&text) {
                warn!(
                    deployment = deployment.managed.name,
                    pod = failing.pod,
                    "its log: {line}"
                );
            }
            if !text.trim().is_empty() {
                return;
            }
        }
    }
}

/// A step as it is logged: here one patch notes what is tried and gives it to the Deployment.
pub(super) fn words(step: &Step) -> String {
    match step {
        Step::Begin { to, .. } => format!("updating it to {to}"),
        step => step.to_string(),
    }
}
