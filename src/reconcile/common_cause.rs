//! What keeps delegates from being healthy from outside: a verdict on a candidate counts only beside that on the
//! others. Whether the Manager can be reached is asked before a candidate is rejected.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::task::JoinSet;

use crate::container::Role;
use crate::container::RunState;
use crate::health::HealthStatus;
use crate::image::ImageReference;
use crate::manager::ImageSource;
use crate::rollout::{Member, Memory, Reach, Rollout};
use crate::text::duration;

/// An answer is good for so long.
const GOOD_FOR: TimeDelta = TimeDelta::seconds(60);
/// A Manager that takes longer than this is out of reach. A stop-first replacement stands still meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);

/// Notes on each container that is to prove itself, or has just taken over, which other delegates have lost their health
/// in the same minutes: not longer than `patience` before it was first seen to run.
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

/// Who is to prove itself.
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
    // What stays ill is not waited for without an end: no longer than an extended proof takes.
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
        .filter(|other| other.name != rollout.name && other.delegate == rollout.delegate)
        .filter_map(|other| other.serving.as_ref())
        // The same image may fail in the same way.
        .filter(|serving| serving.image_id != subject.image_id);
    let since = subject.history.seen_since?.checked_sub_signed(patience)?;
    let ill = own
        .into_iter()
        .chain(others)
        .find(|serving| has_lost_health(serving, since))?;
    Some(format!(
        "{}, which runs {}, is not healthy either: {}",
        ill.name, ill.image, ill.health.detail
    ))
}

/// One that has been ill for ever says nothing about today.
fn has_lost_health(serving: &Member, since: DateTime<Utc>) -> bool {
    let in_use = matches!(serving.state, RunState::Running | RunState::Restarting);
    let lost_it = serving.history.unhealthy_since.is_some_and(|lost| lost >= since);
    in_use && serving.health.status == HealthStatus::Unhealthy && lost_it
}

/// Asks the Manager, beside the passes.
#[derive(Debug, Default)]
pub(crate) struct Reachability {
    asking: JoinSet<Option<String>>,
    last: Option<(DateTime<Utc>, Option<String>)>,
}

impl Reachability {
    /// Takes in an answer.
    pub(crate) fn collect(&mut self, now: DateTime<Utc>) {
        while let Some(answer) = self.asking.try_join_next() {
            self.last = Some((now, answer.unwrap_or_default()));
        }
    }

    /// Whether the Manager can be reached, if that is known.
    pub(crate) fn known(&self, now: DateTime<Utc>) -> Option<Reach> {
        if let Some((at, problem)) = &self.last
            && (TimeDelta::zero()..GOOD_FOR).contains(&(now - *at))
        {
            return Some(problem.clone().map_or(Reach::Reachable, Reach::Unreachable));
        }
        (!self.asking.is_empty()).then_some(Reach::Asking)
    }

    /// Asks the Manager, unless it is being asked.
    pub(crate) fn ask<M: ImageSource>(&mut self, source: &Arc<M>, question: (ImageReference, String)) {
        if self.asking.is_empty() {
            let source = Arc::clone(source);
            self.asking.spawn(async move {
                let (image, delegate) = question;
                let answer = tokio::time::timeout(PATIENCE, source.published(&image, &delegate));
                match answer.await {
                    Ok(Err(error)) if error.is_outage() => Some(error.to_string()),
                    Ok(_) => None,
                    Err(_) => Some(format!("no answer within {}", duration::text(PATIENCE))),
                }
            });
        }
    }
}
