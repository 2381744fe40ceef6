//! How many delegates are replaced at once: one replica of a workload, and ten delegates of a host.

use std::collections::HashSet;

use chrono::{DateTime, Utc};

use crate::container::{ContainerId, ImageId};
use crate::rollout::reason::Reason;
use crate::rollout::{FAILED_CHECKS, Member, Rollout};

/// The most candidates that prove themselves at once: each takes as much of the host as the delegate beside it.
const MAX_PROVING: usize = 10;

/// The failure of another replica (its name, and why), which halts this delegate unless one of them runs the image well.
pub(super) fn halting_replica(
    rollout: &Rollout,
    all: &[Rollout],
    image: Option<&ImageId>,
    (name, because): &(String, Reason),
) -> Option<Reason> {
    let mut replicas = all.iter().filter(|other| other.workload == rollout.workload);
    let runs_well = |other: &Rollout| {
        let serving = other.serving.as_ref().filter(|serving| serving.works());
        serving.is_some_and(|serving| Some(&serving.image_id) == image && !other.blocks_replicas())
    };
    (*name != rollout.name && !replicas.any(runs_well)).then(|| Reason::Halted {
        name: name.clone(),
        because: because.failure(),
    })
}

/// The replica that a delegate waits for: they are replaced one at a time. One that has come to rest in the middle of its
/// replacement (`resting`) has a problem of its own, which is not waited for.
pub(super) fn awaited_replica(
    rollout: &Rollout,
    all: &[Rollout],
    resting: &HashSet<String>,
) -> Option<Reason> {
    // Replicas of which none works need no turn.
    let is_out = |other: &Rollout| {
        let serving = other.serving.as_ref();
        serving.is_none_or(|serving| {
            serving.is_between_lives() || serving.history.checks.failed >= FAILED_CHECKS
        })
    };
    let mut replicas = all.iter().filter(|other| other.workload == rollout.workload);
    if !rollout.is_upgrader() && replicas.all(is_out) {
        return None;
    }
    // The upgrader replaces itself while no delegate's replacement has to prove itself.
    let is_awaited = |other: &&Rollout| rollout.is_upgrader() || other.workload == rollout.workload;
    all.iter()
        .filter(is_awaited)
        .find(|other| other.name != rollout.name && other.blocks_replicas() && !resting.contains(&other.name))
        .map(|other| Reason::WaitingForReplica {
            name: other.name.clone(),
        })
}

/// Whether the limit of concurrent candidates is reached.
pub(super) fn too_many_at_once(all: &[Rollout]) -> Option<Reason> {
    let proves_itself = |rollout: &&Rollout| rollout.candidate.as_ref().is_some_and(Member::is_up);
    let count = all.iter().filter(proves_itself).count();
    (count >= MAX_PROVING).then_some(Reason::WaitingForOthers { count })
}

/// The containers that prove themselves, or are about to end, beside a delegate's own, each with its rollout. What does not
/// end in its time is not waited for.
pub(super) fn crowd<'a>(
    rollout: &'a Rollout,
    all: &'a [Rollout],
    now: DateTime<Utc>,
) -> impl Iterator<Item = (&'a Rollout, &'a Member)> {
    let managed = all.iter().filter(|other| other.left_alone().is_none());
    let members = managed.flat_map(|other| {
        let candidate = other.candidate.iter().filter(|_| other.name != rollout.name);
        let members = candidate
            .filter(|candidate| candidate.is_up())
            .chain(other.finishing());
        members.map(move |member| (other, member))
    });
    members.filter(move |(_, member)| {
        let asked_for = |since: DateTime<Utc>| (now - since).to_std().unwrap_or_default();
        let since = member.stopping_since();
        since.is_none_or(|since| asked_for(since) <= member.stop_timeout)
    })
}

/// How many containers take the memory that a second one needs: those that did when it was asked, if all of them are still there.
pub(super) fn crowd_of(
    rollout: &Rollout,
    all: &[Rollout],
    known: &[ContainerId],
    now: DateTime<Utc>,
) -> usize {
    let is_there = |id: &ContainerId| crowd(rollout, all, now).any(|(_, member)| member.id == *id);
    if known.iter().all(is_there) {
        known.len()
    } else {
        0
    }
}
