//! The observed state, and what was decided because of it: one row per delegate, each with a reason.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::container::{EVERY_WORKLOAD, THIRD_GENERATION};
use crate::health::{HealthStatus, Probe};
use crate::image::Expiry;
use crate::managed::Managed;
use crate::rollout::reason::{Reason, ReasonKind};
use crate::rollout::{Blocker, BlockerKind, Member, PullState, RejectedImage, Rollout};
use crate::status::evidence::Evidence;
use crate::text::duration::span;
use crate::text::time;

/// The state of all delegates, read from the engine after the last step.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// When the engine was observed.
    #[serde(serialize_with = "time::serialize")]
    pub observed_at: DateTime<Utc>,
    /// One row per delegate, sorted by name.
    pub delegates: Vec<DelegateReport>,
    /// Containers with a managed `DELEGATE_NAME` that do not belong to a delegate, by name. They are not counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_delegates: Vec<DelegateReport>,
    /// If there is no delegate: what was searched for, and the other values of `DELEGATE_NAME`, as a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub none_found: Option<String>,
    /// The upgrader's own container, if it replaces itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrader: Option<Box<DelegateReport>>,
    /// When to observe again, while something is in progress.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "time::optional")]
    pub next_check: Option<DateTime<Utc>>,
}

/// One delegate. The default has no container.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DelegateReport {
    /// The container's name.
    pub container: String,
    /// Its `DELEGATE_NAME`.
    pub workload: String,
    /// The short id of the container in service, or else of an old container or the candidate; empty if there is none.
    pub container_id: String,
    /// The image it runs, as its configuration names it.
    pub image: String,
    /// The number of the last attempt to replace it.
    pub release: u64,
    /// The number of the last release that succeeded.
    pub last_successful_release: u64,
    /// The previous image, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_image: Option<String>,
    /// How long its version is supported, if the tag shows that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiry: Option<Expiry>,
    /// `healthy`, `starting` or `unhealthy`.
    pub health: HealthStatus,
    /// The probe that determined it: `engine`, `http`, `exec` or `running`.
    pub health_probe: Probe,
    /// The details of the probe's result.
    pub health_detail: String,
    /// Since when its health has not changed, as far as this process has observed.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "time::optional")]
    pub health_since: Option<DateTime<Utc>>,
    /// How many tasks it executes, if it reports that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u64>,
    /// Whether it is connected to the Manager, if it reports that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connected: Option<bool>,
    /// The delegate's containers that are finishing their tasks before they stop.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub draining: Vec<Drain>,
    /// Why nothing more happens now.
    pub reason: ReasonKind,
    /// The exact obstacle or problem, if the reason covers several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<&'static str>,
    /// The reason as a sentence.
    pub message: String,
    /// The next step for a person while it is unhealthy, as a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_step: Option<String>,
    /// Why no upgrade starts now, beginning with the reason; empty while one is in progress.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blockers: Vec<Blocker>,
    /// The progress of the pull that the delegate waits for, if the engine reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull: Option<PullState>,
    /// Whether a replacement, or the pull before it, is in progress.
    pub in_progress: bool,
    /// Whether the delegate could not be served.
    pub failed: bool,
    /// When a wait for tasks ends at the latest.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "time::optional")]
    pub deadline: Option<DateTime<Utc>>,
    /// When the reason ends by itself, if that is known.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "time::optional")]
    pub until: Option<DateTime<Utc>>,
    /// When the delegate is checked again, if it waits for something.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "time::optional")]
    pub next_check: Option<DateTime<Utc>>,
    /// The images that it rejected, or that an operator rolled back, as far as its containers show.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rejected_images: Vec<RejectedImage>,
    /// The evidence on the last rejected candidate, as long as its container is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
}

/// A container that is finishing its tasks before it stops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Drain {
    /// Its name.
    pub container: String,
    /// How many tasks it executes, if it reports that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u64>,
    /// Since when the container has been marked to stop.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "time::optional")]
    pub since: Option<DateTime<Utc>>,
    /// When the engine kills it if it has not stopped by then.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "time::optional")]
    pub until: Option<DateTime<Utc>>,
}

impl Drain {
    fn of(member: &Member) -> Self {
        let since = member.stopping_since();
        Self {
            container: member.name.clone(),
            tasks: member.work.map(|work| work.tasks),
            since,
            until: member
                .history
                .stop_requested_at
                .or(since)
                .map(|asked| asked + span(member.stop_timeout)),
        }
    }
}

impl Report {
    /// An empty report.
    pub fn new(observed_at: DateTime<Utc>) -> Self {
        Self {
            observed_at,
            ..Self::default()
        }
    }

    /// All rows: those of delegates, then the upgrader's own, then those of containers that do not belong to a delegate.
    pub fn rows(&self) -> impl Iterator<Item = &DelegateReport> + Clone {
        let upgrader = self.upgrader.as_deref();
        self.delegates.iter().chain(upgrader).chain(&self.not_delegates)
    }

    /// Adds the row of a delegate, or of the upgrader itself.
    pub fn enter(&mut self, rollout: &Rollout, row: DelegateReport) {
        if rollout.is_upgrader() {
            self.upgrader = Some(Box::new(row));
        } else {
            self.delegates.push(row);
        }
    }

    /// Requests another observation by `until` or sooner.
    pub fn check_by(&mut self, until: DateTime<Utc>) {
        self.next_check = Some(self.next_check.map_or(until, |sooner| sooner.min(until)));
    }

    /// Whether something is in progress that a later observation must finish.
    pub fn is_in_progress(&self) -> bool {
        self.next_check.is_some()
    }

    /// Whether a delegate waits for the next scheduled run because it was not in service when this run asked for images.
    pub fn has_unasked(&self) -> bool {
        self.delegates
            .iter()
            .any(|delegate| delegate.reason == ReasonKind::AwaitingSchedule)
    }

    /// Whether the run is over and succeeded: there are delegates, and none has failed, waits for an answer, or runs an
    /// image that is not proven.
    pub fn has_succeeded(&self) -> bool {
        let is_well = |delegate: &DelegateReport| !delegate.failed && !delegate.reason.is_under_way();
        !self.delegates.is_empty() && self.delegates.iter().all(is_well)
    }

    /// The delegates without the tasks of services, which are counted as one; a worker of a Swarm has only the tasks.
    pub fn counted(&self) -> Vec<&DelegateReport> {
        let is_task = |delegate: &&DelegateReport| delegate.reason == ReasonKind::TaskOfService;
        let (tasks, others): (Vec<_>, Vec<_>) = self.delegates.iter().partition(is_task);
        if others.is_empty() { tasks } else { others }
    }

    /// How many delegates are served, which of them are not and why, and how many are being replaced.
    pub fn summary(&self) -> String {
        let total = self.counted().len();
        let failed: Vec<String> = self
            .delegates
            .iter()
            .filter(|delegate| delegate.failed)
            .map(|delegate| format!("{} ({})", delegate.container, delegate.reason.as_str()))
            .collect();
        let unhealthy = self
            .delegates
            .iter()
            .filter(|delegate| delegate.is_ill() && !delegate.failed);
        let unhealthy: Vec<String> = unhealthy.map(|delegate| delegate.container.clone()).collect();
        let noun = if total == 1 { "delegate" } else { "delegates" };
        let mut text = format!("{} of {total} {noun} OK", total - failed.len() - unhealthy.len());
        for (state, names) in [("failed", failed), ("unhealthy", unhealthy)] {
            if let Some((first, others)) = names.split_first() {
                let more = match others.len() {
                    0 => String::new(),
                    count => format!(" and {count} more"),
                };
                let _ = write!(text, ", {} {state}: {first}{more}", names.len());
            }
        }
        let replaced = self.delegates.iter().filter(|delegate| delegate.in_progress);
        let replaced = replaced.count();
        if replaced > 0 {
            let _ = write!(text, ", {replaced} in progress");
        }
        text
    }

    /// Whether a delegate could not be served.
    pub fn has_failures(&self) -> bool {
        self.delegates.iter().any(|delegate| delegate.failed)
    }
}

/// The sentence for a host without a managed delegate. `others` are the other names on it.
pub fn none_found(workload_names: &[String], others: &[String]) -> String {
    let names = workload_names.join(" or ");
    let is_third = |other: &&str| other.ends_with(THIRD_GENERATION);
    let (third, named): (Vec<&str>, Vec<&str>) = others.iter().map(String::as_str).partition(is_third);
    let others = match named.join(", ") {
        named if named.is_empty() => named,
        named => format!("; others have {named}: set UPGRADER_WORKLOAD_NAME to one of these"),
    };
    let third = match third.join(", ") {
        third if third.is_empty() => third,
        third => format!("; {third}: another product, which is left alone"),
    };
    let wanted = match names.as_str() {
        EVERY_WORKLOAD => "a DELEGATE_NAME and an ACCOUNT_ID".to_owned(),
        names => format!("DELEGATE_NAME={names}"),
    };
    format!("no container on this host has {wanted}{others}{third}")
}

impl DelegateReport {
    /// Its last release and its last successful one, if there was one.
    pub fn releases(&self) -> Option<String> {
        let (last, successful) = (self.release, self.last_successful_release);
        let failed = format!("release {last}, last successful release {successful}");
        match last {
            0 => None,
            _ if last == successful => Some(format!("release {last}")),
            _ => Some(failed),
        }
    }

    /// The row of one delegate.
    pub fn new(rollout: &Rollout, reason: &Reason, next_check: Option<DateTime<Utc>>) -> Self {
        let row = Self {
            in_progress: rollout.is_in_progress() || reason.kind() == ReasonKind::Pulling,
            next_check,
            ..Self::without_container(&rollout.name, &rollout.workload, reason)
        };
        let Some(member) = rollout.representative() else {
            return row;
        };
        let history = &member.history;
        Self {
            container_id: member.id.short().to_owned(),
            image: member.image.to_string(),
            release: rollout.latest_release(),
            last_successful_release: rollout.successful_release(),
            previous_image: member
                .previous
                .as_ref()
                .map(|before| before.reference.to_string()),
            expiry: member.image.expiry().filter(|_| !rollout.is_upgrader()),
            health: member.health.status,
            health_probe: member.health.probe,
            health_detail: member.health.detail.clone(),
            health_since: history.healthy_since.or(history.unhealthy_since),
            tasks: member.work.map(|work| work.tasks),
            connected: member.work.and_then(|work| work.is_connected),
            rejected_images: rollout.rejected_images().collect(),
            draining: rollout.finishing().map(Drain::of).collect(),
            deadline: reason.deadline(),
            until: reason.ends_at(),
            ..row
        }
        .with_next_step(|| member.next_step())
    }

    /// The row of a workload that an orchestrator manages.
    pub fn of_managed(managed: &Managed, reason: &Reason, next_check: Option<DateTime<Utc>>) -> Self {
        Self {
            container_id: managed.id.get(..12).unwrap_or(&managed.id).to_owned(),
            image: managed.image.to_string(),
            release: managed.record.release,
            last_successful_release: managed.successful_release(),
            previous_image: managed.previous_image().map(str::to_owned),
            expiry: managed.image.expiry(),
            health: managed.health(),
            health_detail: managed.tasks.to_string(),
            health_since: managed.tasks.complete_since(),
            until: reason.ends_at(),
            rejected_images: managed.rejected_images().collect(),
            in_progress: managed.is_in_progress(),
            next_check,
            ..Self::without_container(&managed.name, &managed.workload, reason)
        }
        .with_next_step(|| managed.next_step())
    }

    /// Whether a person has to do something about its health: it runs as its owner wants, and the upgrader has nothing left to do.
    fn is_ill(&self) -> bool {
        use ReasonKind::{NotADelegate, NotRunning, TaskOfService};
        let is_meant = !matches!(self.reason, NotRunning | NotADelegate | TaskOfService);
        self.health == HealthStatus::Unhealthy && is_meant && !self.in_progress
    }

    /// Returns this row with the next step of a person, if one is needed.
    fn with_next_step(self, step: impl FnOnce() -> String) -> Self {
        let next_step = self.is_ill().then(step);
        Self { next_step, ..self }
    }

    /// The blockers besides the reason.
    pub fn other_blockers(&self) -> impl Iterator<Item = &Blocker> {
        let others = self
            .blockers
            .iter()
            .filter(|blocker| blocker.reason.kind() != self.reason);
        others.filter(|blocker| blocker.kind != BlockerKind::Current)
    }

    /// The row of a delegate without containers, or of an orchestrator's workload that is missing or not as expected.
    pub fn without_container(container: &str, workload: &str, reason: &Reason) -> Self {
        Self {
            container: container.to_owned(),
            workload: workload.to_owned(),
            health_detail: "no container".to_owned(),
            reason: reason.kind(),
            failed: reason.is_failure(),
            cause: reason.cause(),
            message: reason.to_string(),
            ..Self::default()
        }
    }
}
