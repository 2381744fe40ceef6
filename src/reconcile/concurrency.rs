//! How many delegates are replaced at once: one replica per workload, and ten delegates per host.

use std::collections::HashSet;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::container::{ContainerId, ImageId, RunState};
use crate::image::{ImageReference, is_mutable_tag};
use crate::managed::Managed;
use crate::rollout::pace::{FAILED_CHECKS, MAX_PROVING};
use crate::rollout::reason::Reason;
use crate::rollout::{Desired, Member, Rollout};
use crate::text::duration::span;

/// The failed replica (its name, and why) that halts this delegate, unless another replica runs the image well.
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

/// The replica that a delegate waits for, since they are replaced one at a time. A replica whose replacement is stuck (`resting`)
/// has a problem of its own, and is not waited for.
pub(super) fn awaited_replica(
    rollout: &Rollout,
    all: &[Rollout],
    resting: &HashSet<String>,
) -> Option<Reason> {
    // If no replica works, they need not take turns.
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
    // The upgrader replaces itself only while no delegate's replacement is still unproven.
    let is_awaited = |other: &&Rollout| rollout.is_upgrader() || other.workload == rollout.workload;
    all.iter()
        .filter(is_awaited)
        .find(|other| other.name != rollout.name && other.blocks_replicas() && !resting.contains(&other.name))
        .map(|other| Reason::WaitingForReplica {
            name: other.name.clone(),
        })
}

/// The replica that a delegate waits for, since it runs the wanted image and has not run it for `soak`, or is unhealthy. The
/// engine knows when its container started, so a restart of this program changes nothing.
pub(super) fn soaking(
    rollout: &Rollout,
    all: &[Rollout],
    desired: &Desired,
    soak: Duration,
    now: DateTime<Utc>,
) -> Option<Reason> {
    let (reference, id, _) = desired.wanted()?;
    // Before its pull, a mutable tag does not say which image it means.
    let runs_it = |serving: &Member| match id {
        Some(id) => serving.image_id == *id,
        None => !is_mutable_tag(reference) && serving.runs(reference),
    };
    let replicas = all
        .iter()
        .filter(|other| other.workload == rollout.workload && other.name != rollout.name);
    let replicas = replicas.filter(|other| other.owner.left_alone().is_none());
    let replicas = replicas.filter_map(|other| {
        // A stop by its owner says nothing of the image.
        let is_stopped = |it: &Member| it.life.was_stopped || it.state == RunState::Paused;
        let serving = other
            .serving
            .as_ref()
            .filter(|it| runs_it(it) && !is_stopped(it))?;
        let verdict = (!serving.works()).then(|| serving.health.to_string());
        Some((&other.name, serving.life.started_at, verdict))
    });
    waits_for(replicas, reference, soak, now)
}

/// The same for a service, and the services with its `DELEGATE_NAME`.
pub(super) fn soaking_of<'a>(
    managed: &Managed,
    others: impl Iterator<Item = &'a Managed>,
    desired: &Desired,
    soak: Duration,
    now: DateTime<Utc>,
) -> Option<Reason> {
    let (reference, ..) = desired.wanted()?;
    let replicas = others.filter(|other| other.workload == managed.workload && other.id != managed.id);
    let replicas = replicas.filter(|other| {
        other.left_alone.is_none() && other.tasks.wanted > 0 && other.image.refers_to(reference)
    });
    let replicas = replicas.map(|other| {
        let verdict = (!other.tasks.are_complete()).then(|| other.tasks.to_string());
        (&other.name, other.tasks.last_started_at, verdict)
    });
    waits_for(replicas, reference, soak, now)
}

/// The reason to wait for one of these, each with its start and why it is unhealthy, if it is. The unhealthy one comes first.
fn waits_for<'a>(
    replicas: impl Iterator<Item = (&'a String, Option<DateTime<Utc>>, Option<String>)>,
    image: &ImageReference,
    soak: Duration,
    now: DateTime<Utc>,
) -> Option<Reason> {
    let waits = replicas.map(|(name, started_at, verdict)| {
        let until = started_at.unwrap_or(now) + span(soak);
        (verdict, until, name)
    });
    let waits = waits.filter(|(verdict, until, _)| !soak.is_zero() && (verdict.is_some() || *until > now));
    let (verdict, until, name) = waits.max()?;
    Some(Reason::Soaking {
        image: image.to_string(),
        name: name.clone(),
        until: verdict.is_none().then_some(until),
        verdict: verdict.unwrap_or_default(),
    })
}

/// The reason to wait if too many candidates exist.
pub(super) fn too_many_at_once(all: &[Rollout]) -> Option<Reason> {
    let proves_itself = |rollout: &&Rollout| rollout.candidate.as_ref().is_some_and(Member::is_up);
    let count = all.iter().filter(proves_itself).count();
    (count >= MAX_PROVING).then_some(Reason::WaitingForOthers { count })
}

/// Other delegates' containers that prove themselves or are about to end, each with its rollout. A container that does not end in
/// time is not waited for.
pub(super) fn crowd<'a>(
    rollout: &'a Rollout,
    all: &'a [Rollout],
    now: DateTime<Utc>,
) -> impl Iterator<Item = (&'a Rollout, &'a Member)> {
    let managed = all.iter().filter(|other| other.owner.left_alone().is_none());
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

/// How many containers take the memory that a second one needs: the ones found when memory was last checked, if all still exist.
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
