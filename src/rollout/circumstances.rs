//! Circumstances other than its image that may have kept a candidate from working. They only appear in the message.

use super::{Facts, Member, Rollout};
use crate::text::{duration, time};

/// Describes each known fact that may have contributed to a rejection.
pub(super) fn circumstances(rollout: &Rollout, facts: &Facts, candidate: &Member) -> Vec<String> {
    let serving = rollout.serving.as_ref();
    let serving = serving.filter(|serving| serving.id != candidate.id && !serving.is_successor_of(candidate));
    let unhealthy = serving.filter(|serving| !serving.works());
    let unhealthy = unhealthy.map(|serving| {
        format!(
            "the delegate in service was not healthy either: {}",
            serving.health
        )
    });
    let took = serving.and_then(|serving| serving.history.checks.took);
    let slow = took
        .filter(|_| candidate.works() || !candidate.has_ended())
        .map(|took| {
            let took = duration::text(took.to_std().unwrap_or_default());
            format!("the delegate in service took {took} to become healthy")
        });
    let restarted = serving.and_then(|serving| {
        let since = serving.life.started_at?;
        let was_restarted = since > candidate.life.started_at.unwrap_or(candidate.created_at);
        was_restarted.then(|| {
            let since = time::text(since);
            format!("the delegate in service was restarted at {since}, so Docker or the host may have been restarted")
        })
    });
    let manager = facts.manager_problem.clone();
    let (ailing, all) = (facts.unhealthy_delegates, facts.delegates);
    let others =
        (ailing > 0 && all > 1).then(|| format!("{ailing} of {all} delegates on this host were unhealthy"));
    [unhealthy, slow, restarted, manager, others]
        .into_iter()
        .flatten()
        .collect()
}
