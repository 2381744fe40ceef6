//! The Manager: whether it answers, which image it publishes, and the target of each delegate.

use super::engine::Host;
use super::{Checks, Severity};
use crate::app::ConfiguredSource;
use crate::config::{Settings, Source};
use crate::image::ImageReference;
use crate::manager::{ImageSource as _, ManagerError, Query, clock_problem};
use crate::rollout::reason::Reason;
use crate::rollout::{Blocker, BlockerKind, Desired, Rollout};

/// The image about which to ask the Manager if there is no delegate.
const STOCK_IMAGE: &str = "harness/delegate:latest";

/// Reports what the Manager answered, and the target of each delegate. Returns the delegates that would be upgraded, each with
/// its target.
pub(super) async fn check<'a>(
    host: Option<&'a Host>,
    source: Option<ConfiguredSource>,
    settings: &Settings,
    checks: &mut Checks,
) -> Vec<(&'a Rollout, ImageReference)> {
    let mut targets = Vec::new();
    let Some(source) = source else {
        checks.ok("manager", "none is configured, health checks only");
        return targets;
    };
    let mut answers = Vec::new();
    if let Some(Host {
        upgrader: Some((upgrader, survey)),
        ..
    }) = host
    {
        for rollout in &survey.rollouts {
            let (desired, blockers) = upgrader.judge(rollout, survey);
            let health_only = settings.policy.health_only;
            if let Some(target) = check_delegate(rollout, desired, &blockers, health_only, checks) {
                targets.push((rollout, target));
            }
        }
        answers = upgrader.core.run.answers.clone();
    }
    let has_asked = !answers.is_empty();
    if let (false, Ok(image)) = (has_asked, STOCK_IMAGE.parse::<ImageReference>()) {
        let workload = settings.workload_names.first().cloned().unwrap_or_default();
        let answer = source.published(&image, &workload).await;
        answers.push((Query { workload, image }, answer));
    }
    check_answers(settings, &answers, has_asked, checks);
    match source.skew_seconds().map(clock_problem) {
        None => {}
        Some(Some(problem)) => checks.fail("clock", problem),
        Some(None) => checks.ok("clock", "this host's clock and the Manager's agree"),
    }
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
