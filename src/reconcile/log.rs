//! The output of the reconciler: the log, the report, and the last log lines of a rejected candidate.

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tracing::field::display;
use tracing::{debug, error, info, warn};

use super::Reconciler;
use crate::container::ContainerId;
use crate::engine::Engine;
use crate::events::event::seconds;
use crate::health::HealthEndpoint;
use crate::image::{ImageName, Version};
use crate::manager::ImageSource;
use crate::rollout::reason::{self, Reason};
use crate::rollout::{Blocker, ChosenOrder, Decided, Effect, Intent, Rollout, Step};
use crate::status::report::{DelegateReport, Report, none_found};

/// The shortest interval between two log lines about a drain.
const PROGRESS_INTERVAL: TimeDelta = TimeDelta::seconds(60);

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Reconciler<E, M, H> {
    /// At `LOG_LEVEL=debug`, logs the decision and its row if they differ from the last ones.
    pub(super) fn log_decision(&mut self, rollout: &Rollout, decided: &Decided) {
        let Decided { row, decision } = decided;
        let tracked = self.track(rollout);
        let logged = (*row, decision.kind());
        if tracked.last_decision.replace(logged) != Some(logged) {
            debug!(
                container = rollout.name,
                workload = rollout.workload,
                %row,
                decision = decision.kind(),
                topic = decision.topic(),
                "{decision}"
            );
        }
    }

    /// Adds containers that do not count as delegates. The first answer of one may show that it is a delegate.
    pub(super) fn report_not_delegates(&self, report: &mut Report, now: DateTime<Utc>) {
        let rows = self.observer.not_delegates().iter();
        report.not_delegates = rows
            .map(|(rollout, reason)| DelegateReport::new(rollout, reason, None))
            .collect();
        if report.delegates.is_empty() && report.not_delegates.is_empty() {
            let (names, others) = (
                &self.settings.scope.workload_names,
                self.observer.other_workloads(),
            );
            report.none_found = Some(none_found(names, &others));
        }
        if self.observer.awaits_first_answer() {
            report.check_by(now + chrono::TimeDelta::seconds(1));
        }
    }

    pub(super) async fn add_evidence(&mut self, report: &mut Report, rollouts: &[Rollout]) {
        self.evidence.forget_absent(rollouts);
        let upgrader = report.upgrader.as_deref_mut();
        for delegate in report.delegates.iter_mut().chain(upgrader) {
            if let Some(rollout) = rollouts.iter().find(|rollout| rollout.name == delegate.container) {
                delegate.evidence = self.evidence.latest(self.engine.as_ref(), rollout).await;
            }
        }
    }

    /// Adds a delegate to the report, and logs its reason if it differs from the last one.
    pub(super) fn report(
        &mut self,
        report: &mut Report,
        rollout: &Rollout,
        (reason, until): (&Reason, Option<DateTime<Utc>>),
        blockers: &[Blocker],
    ) {
        if let Some(until) = until {
            report.check_by(until);
        }
        let tracked = self.track(rollout);
        if !rollout.is_in_progress()
            && rollout.inspect_error.is_none()
            && let (Some(done), Some(serving)) = (tracked.completion.take(), &rollout.serving)
        {
            let (container_id, image, health) =
                (&serving.id, serving.image.as_str(), serving.health.to_string());
            let (container, workload) = (&rollout.name, &rollout.workload);
            let (release, last_successful_release) = releases(rollout);
            info!(container, workload, %container_id, image, health, release, last_successful_release, "{done}");
        }
        if reason.is_news(&mut tracked.last_logged) {
            log_reason(rollout, reason);
        }
        self.log_tasks(rollout, reason, report.observed_at);
        let mut delegate = DelegateReport::new(rollout, reason, until);
        delegate.blockers = blockers.to_vec();
        if let Reason::Pulling { image } = reason {
            delegate.pull = self.pulls.progress(image);
        }
        report.enter(rollout, delegate);
    }

    /// Logs how many tasks the draining containers have left: on change, and at most once a minute.
    fn log_tasks(&mut self, rollout: &Rollout, reason: &Reason, now: DateTime<Utc>) {
        let is_awaited = matches!(reason, Reason::WaitingForIdle { .. } | Reason::Restarting { .. });
        let awaited = rollout.serving.iter().filter(|_| is_awaited);
        let (container, workload) = (&rollout.name, &rollout.workload);
        let known = &mut self.track(rollout).tasks;
        let mut present = HashSet::new();
        for member in rollout.finishing().chain(awaited) {
            let Some(work) = member.work else { continue };
            present.insert(&member.id);
            let (tasks, at) = known.entry(member.id.clone()).or_insert((work.tasks, now));
            if *tasks != work.tasks && now - *at >= PROGRESS_INTERVAL {
                (*tasks, *at) = (work.tasks, now);
                let left = reason::count(work.tasks);
                info!(container, workload, container_id = %member.id, tasks, "{} has {left} left", member.name);
            }
        }
        known.retain(|id, _| present.contains(id));
    }

    /// Warns about versions that are unsupported or soon will be.
    pub(super) fn log_expiry(&mut self, rollouts: &[Rollout], now: DateTime<Utc>) {
        let is_asked = |rollout: &&Rollout| !rollout.is_upgrader() && rollout.owner.task_of.is_none();
        for rollout in rollouts.iter().filter(is_asked) {
            let Some(serving) = &rollout.serving else { continue };
            let (container, workload) = (&rollout.name, &rollout.workload);
            if let Some(line) = support_news(&serving.image, &mut self.track(rollout).expiry_notice, now) {
                warn!(container, workload, "{line}");
            }
        }
    }

    /// Adds the delegates without a container.
    pub(super) fn report_gone(&self, report: &mut Report, rollouts: &[Rollout]) {
        let gone = self.core.run.gone(rollouts);
        report.delegates.extend(
            gone.map(|(name, workload)| {
                DelegateReport::without_container(name, workload, &Reason::NoContainer)
            }),
        );
    }

    pub(super) fn forget_absent(&mut self, rollouts: &[Rollout], now: DateTime<Utc>) {
        let present: HashSet<&str> = rollouts.iter().map(|rollout| rollout.name.as_str()).collect();
        self.tracked.retain(|name, tracked| {
            let is_present = present.contains(name.as_str());
            if !is_present && !tracked.is_task && tracked.last_logged.is_some() {
                info!(
                    container = name,
                    workload = tracked.workload,
                    "no container of this delegate is left"
                );
                tracked.last_logged = None;
            }
            is_present || tracked.recreations.are_recent(now)
        });
    }
}

/// The line to log about a version that is unsupported or soon will be: once, and whenever it changes.
pub(super) fn support_news(
    image: &ImageName,
    logged: &mut Option<String>,
    now: DateTime<Utc>,
) -> Option<String> {
    let line = Some(format!("{image}: {}", image.support_notice(now)?));
    let is_news = *logged != line;
    logged.clone_from(&line);
    line.filter(|_| is_news)
}

/// The message to log once nothing is in progress. A withdrawn candidate is removed like an old container, but has replaced none.
pub(super) fn completion_message(rollout: &Rollout, step: &Step) -> Option<&'static str> {
    // A restored container has the image of the one that it was made from.
    let is_replaced = |old: &ContainerId| {
        let old = rollout.member(old);
        let serving = rollout.serving.as_ref();
        serving
            .zip(old)
            .is_some_and(|(serving, old)| serving.is_successor_of(old) && serving.image_id != old.image_id)
    };
    match step {
        Step::Promote { .. } => Some("replaced; the old container is gone"),
        Step::Remove { id, .. } if is_replaced(id) => Some("replaced; the old container is gone"),
        Step::Restore { .. } | Step::Recreate { .. } => Some("restored; the old container is in service"),
        _ => None,
    }
}

pub(super) fn log_step(rollout: &Rollout, step: &Step, update_order: &ChosenOrder) {
    let (container, workload) = (&rollout.name, &rollout.workload);
    match step {
        Step::Reject { rejection, image, .. } => {
            let cause = rejection.cause.kind();
            let (release, last_successful_release) = releases(rollout);
            warn!(
                container,
                workload, image, cause, release, last_successful_release, "{step}: {rejection}"
            );
        }
        Step::Withdraw {
            because: Some(reason),
            ..
        } => {
            let (kind, cause) = (reason.kind().as_str(), reason.cause());
            warn!(container, workload, reason = kind, cause, "{step}: {reason}");
        }
        Step::Create {
            reference,
            intent,
            release,
            ..
        } => {
            let runs = rollout.representative().map(|member| &member.image);
            if let Some(runs) = runs
                .filter(|runs| !matches!(intent, Intent::Rollback(_)) && Version::is_older(reference, runs))
            {
                info!(
                    container,
                    workload, "downgrading from {runs} to {reference}, the published image"
                );
            }
            let last_successful_release = rollout.successful_release();
            info!(container, workload, %update_order, release, last_successful_release, "{step}");
        }
        _ => info!(container, workload, "{step}"),
    }
}

/// The numbers of the last attempt and of the last successful one.
fn releases(rollout: &Rollout) -> (u64, u64) {
    (rollout.latest_release(), rollout.successful_release())
}

/// Logs the outcome of a step that did not fail.
pub(super) fn log_result(rollout: &Rollout, step: &Step, effect: &Effect, took: Duration) {
    let (container, workload) = (&rollout.name, &rollout.workload);
    let container_id = match effect {
        Effect::Created(id) => Some(id),
        Effect::Done | Effect::Nothing(_) => step.container(),
    };
    let container_id = container_id.map(display);
    match effect {
        Effect::Done | Effect::Created(_) => {
            let seconds = seconds(took);
            info!(container, workload, container_id, seconds, "{}", step.result());
        }
        // An image that has other names or users is not an error.
        Effect::Nothing(why) if matches!(step, Step::RemoveImage { .. }) => {
            info!(container, workload, why, "kept the image");
        }
        Effect::Nothing(why) => warn!(container, workload, container_id, "skipped {step}: {why}"),
    }
}

pub(super) fn log_reason(rollout: &Rollout, reason: &Reason) {
    let (container, workload) = (&rollout.name, &rollout.workload);
    let (kind, cause) = (reason.kind().as_str(), reason.cause());
    match reason {
        // The fault lies with this program, not with the image or the host.
        Reason::ConfigurationMismatch { .. } => {
            error!(container, workload, reason = kind, cause, "{reason}");
        }
        reason if reason.is_failure() => warn!(container, workload, reason = kind, cause, "{reason}"),
        reason => info!(container, workload, reason = kind, cause, "{reason}"),
    }
}
