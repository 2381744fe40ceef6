//! Common causes: where other delegates lost their health in the same minutes, a candidate's failure says nothing about
//! its image.

use chrono::{DateTime, TimeDelta, Utc};

use crate::container::{Role, RunState};
use crate::health::HealthStatus;
use crate::rollout::{Member, Memory, Rollout};

/// Notes on each container that has to prove itself, or has just taken over, which other delegate lost its health in
/// the same minutes: at most `patience` before the container was first seen to run.
pub(crate) fn note_unhealthy_peers(
    rollouts: &mut [Rollout],
    memory: &mut Memory,
    patience: TimeDelta,
    now: DateTime<Utc>,
) {
    let notes: Vec<(usize, String)> = rollouts
        .iter()
        .enumerate()
        .filter_map(|(index, rollout)| Some((index, unhealthy_peer(rollout, rollouts, patience, now)?)))
        .collect();
    for (index, cause) in notes {
        if let Some(subject) = rollouts.get_mut(index).and_then(subject_mut) {
            memory.history(&subject.id).note_common_cause(now, cause.clone());
            subject.history.note_common_cause(now, cause);
        }
    }
}

/// The container that has to prove itself: the candidate, or the one that has taken over while an old one is left.
pub(crate) fn subject(rollout: &Rollout) -> Option<&Member> {
    let new = |serving: &&Member| {
        let mut old_ones = rollout.draining.iter();
        let mut standby = rollout.standby.iter();
        old_ones.any(|old| serving.is_successor_of(old))
            || standby.any(|standby| serving.replaces == standby.replaces)
    };
    rollout
        .candidate
        .as_ref()
        .or_else(|| rollout.serving.as_ref().filter(new))
}

fn subject_mut(rollout: &mut Rollout) -> Option<&mut Member> {
    let id = subject(rollout)?.id.clone();
    let mut named = rollout.candidate.iter_mut().chain(&mut rollout.serving);
    named.find(|member| member.id == id)
}

fn unhealthy_peer(
    rollout: &Rollout,
    all: &[Rollout],
    patience: TimeDelta,
    now: DateTime<Utc>,
) -> Option<String> {
    let subject = subject(rollout).filter(|subject| !subject.is_created() && !subject.health.is_healthy())?;
    // A container that stays unhealthy is not excused for longer than an extended proof takes.
    let lost = subject.history.unhealthy_since;
    let twice = patience.checked_mul(2).unwrap_or(TimeDelta::MAX);
    if subject.role == Role::Serving && lost.is_some_and(|lost| now - lost > twice) {
        return None;
    }
    let own = rollout
        .serving
        .as_ref()
        .filter(|serving| subject.is_successor_of(serving));
    let others = all
        .iter()
        .filter(|other| other.name != rollout.name && other.workload == rollout.workload)
        .filter_map(|other| other.serving.as_ref())
        // A delegate with the same image may fail in the same way.
        .filter(|serving| serving.image_id != subject.image_id);
    let since = subject.history.seen_since?.checked_sub_signed(patience)?;
    let peer = own
        .into_iter()
        .chain(others)
        .find(|serving| has_lost_health(serving, since))?;
    Some(format!(
        "{}, which runs {}, is unhealthy too: {}",
        peer.name, peer.image, peer.health.detail
    ))
}

/// Whether it lost its health after `since`. One that was never healthy says nothing about today.
fn has_lost_health(serving: &Member, since: DateTime<Utc>) -> bool {
    let in_use = matches!(serving.state, RunState::Running | RunState::Restarting);
    let lost_it = serving.history.unhealthy_since.is_some_and(|lost| lost >= since);
    in_use && serving.health.status == HealthStatus::Unhealthy && lost_it
}
