//! The Manager: whether it answers, which image it publishes, and the target of each delegate.

use std::sync::Arc;

use chrono::Utc;

use super::engine::Host;
use super::{Checks, PATIENCE, Severity};
use crate::app::{self, ConfiguredSource};
use crate::config::{Settings, Source};
use crate::engine::DockerEngine;
use crate::host::hold::KnownHolds;
use crate::image::ImageReference;
use crate::manager::{ImageSource as _, ManagerError, Query, clock_problem};
use crate::reconcile::upgrade_run::UpgradeRun;
use crate::rollout::reason::Reason;
use crate::rollout::{Blocker, BlockerKind, Desired, Facts, Policy, Rollout, next};

/// The image about which to ask the Manager if there is no delegate.
const STOCK_IMAGE: &str = "harness/delegate:latest";

/// Asks the Manager as a scheduled run does. Returns the delegates that would be upgraded, each with its target.
pub(super) async fn check<'a>(
    engine: Option<(&Arc<DockerEngine>, &'a Host)>,
    settings: &Settings,
    checks: &mut Checks,
) -> Vec<(&'a Rollout, ImageReference)> {
    let mut targets = Vec::new();
    // `false` means health only, so that the Manager does not show an active upgrader.
    let source = match app::source(settings, false, crate::host::place::host()) {
        Ok(Some(source)) => Arc::new(source.impatient(PATIENCE)),
        Ok(None) => {
            checks.ok("manager", "none is configured, health checks only");
            return targets;
        }
        Err(error) => {
            checks.fail("manager", error.to_string());
            return targets;
        }
    };
    let mut answers = Vec::new();
    if let Some((engine, host)) = engine {
        let rollouts = &host.rollouts;
        let holds = KnownHolds::default();
        // If the records cannot be read, the check of permissions reports that.
        if !settings.disable_auto_upgrade {
            let _ = holds.read(engine.as_ref(), false).await;
        }
        let run = UpgradeRun::answered(engine, &source, &settings.target, rollouts, Utc::now()).await;
        // The other blockers are also worth reporting if upgrades are disabled.
        let policy = Policy {
            health_only: false,
            ..app::policy(settings)
        };
        for rollout in rollouts {
            let desired = run.desired(rollout);
            let image = run.target_identity(rollout).unwrap_or_default();
            let facts = Facts {
                is_plan: true,
                holds: holds.of(&rollout.name, &image),
                run: run.facts(rollout, &desired, rollouts),
                ..Facts::default()
            };
            let (_, blockers) = next(rollout, &desired, &policy, &facts, Utc::now());
            let health_only = settings.disable_auto_upgrade;
            if let Some(target) = check_delegate(rollout, desired, &blockers, health_only, checks) {
                targets.push((rollout, target));
            }
        }
        answers = run.answers().to_vec();
    }
    let has_asked = !answers.is_empty();
    if let (false, Ok(image)) = (has_asked, STOCK_IMAGE.parse::<ImageReference>()) {
        let workload = settings.workload_names.first().cloned().unwrap_or_default();
        let answer = source.published(&image, &workload).await;
        answers.push((Query { workload, image }, answer));
    }
    check_answers(settings, &answers, has_asked, checks);
    check_clock(&source, checks);
    targets
}

/// Reports the target that a scheduled run has for a delegate, or everything that keeps the delegate from being upgraded.
fn check_delegate(
    rollout: &Rollout,
    desired: Desired,
    blockers: &[Blocker],
    health_only: bool,
    checks: &mut Checks,
) -> Option<ImageReference> {
    let name = rollout.name.as_str();
    if let Some(problem) = &rollout.inspect_error {
        checks.fail(name, format!("cannot inspect its containers: {problem}"));
        return None;
    }
    let Some(current) = rollout.replaceable() else {
        if rollout.blocks_replicas() {
            checks.ok(name, "a replacement is in progress");
        } else {
            checks.fail(name, Reason::NoContainer.to_string());
        }
        return None;
    };
    for Blocker { reason, .. } in blockers {
        let severity = match reason {
            // The line about the Manager already gives the reason.
            Reason::TargetUnknown { .. } => continue,
            Reason::CustomImage { .. }
            | Reason::OtherGeneration { .. }
            | Reason::OtherAccount { .. }
            | Reason::Quarantined { .. } => Severity::Warn,
            Reason::DigestUnknown { .. } if health_only => Severity::Warn,
            reason if reason.is_failure() => Severity::Fail,
            _ => Severity::Ok,
        };
        checks.add(severity, name, reason.to_string());
    }
    // Without an image to upgrade to, no blocker says so yet.
    let is_said = blockers
        .iter()
        .any(|blocker| matches!(blocker.reason, Reason::InvalidLabel { .. }));
    if let Some(label) = &rollout.owner.invalid
        && !is_said
        && rollout.owner.left_alone().is_none()
    {
        checks.fail(
            name,
            format!("{label}; recreate it with a valid label, or without it"),
        );
    }
    let Desired::Image { reference, .. } = desired else {
        return None;
    };
    if blockers.is_empty() {
        checks.ok(name, format!("runs {}, its target is {reference}", current.image));
    }
    let is_left = blockers.iter().any(|blocker| blocker.kind == BlockerKind::Nature);
    (!is_left).then_some(reference)
}

/// Reports each error, or all answers in one line if there is none.
fn check_answers(
    settings: &Settings,
    answers: &[(Query, Result<ImageReference, ManagerError>)],
    has_asked: bool,
    checks: &mut Checks,
) {
    let mut images: Vec<&ImageReference> = Vec::new();
    let (mut has_failed, mut is_outage) = (false, false);
    for (query, answer) in answers {
        match answer {
            Ok(image) if images.contains(&image) => {}
            Ok(image) => images.push(image),
            // One line about the outage covers all delegates.
            Err(_) if is_outage => {}
            Err(error) => {
                (has_failed, is_outage) = (true, error.is_outage());
                let asked = if has_asked {
                    format!(" (asked for {}, which runs {})", query.workload, query.image)
                } else {
                    String::new()
                };
                checks.fail("manager", format!("{error}{asked}"));
            }
        }
    }
    if has_failed {
        return;
    }
    let images: Vec<String> = images.into_iter().map(ToString::to_string).collect();
    let images = images.join(", ");
    match &settings.source {
        Source::Fixed(_) => checks.ok("manager", format!("not asked: PUBLISHED_IMAGE is {images}")),
        Source::Manager(_) | Source::None => {
            checks.ok(
                "manager",
                format!("reachable, token accepted; published image: {images}"),
            );
        }
    }
}

fn check_clock(source: &ConfiguredSource, checks: &mut Checks) {
    let Some(skew) = source.skew_seconds() else {
        return;
    };
    match clock_problem(skew) {
        Some(problem) => checks.fail("clock", problem),
        None => checks.ok("clock", "this host's clock and the Manager's agree"),
    }
}
