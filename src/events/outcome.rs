//! Derives outcomes from the containers of a delegate. Pure: every process that observes them gets the same result.

use chrono::{DateTime, TimeDelta, Utc};

use super::event::{Action, Event, EventId, Seconds, seconds};
use super::note::Notes;
use crate::container::Role;
use crate::rollout::{Member, Rollout};
use crate::text::duration::span;

/// An outcome that the containers show.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The event that reports it.
    pub event: Event,
    /// Whether the replacement was still in progress when it was observed, so that it cannot have been reported long ago.
    pub is_fresh: bool,
    /// When the container that shows the outcome was created. The outcome cannot be older.
    pub since: DateTime<Utc>,
}

/// The ids of outcomes that may have been recorded, but that these containers no longer show: they were recorded before
/// the step (see [`Ledger::before`](super::ledger)), or the container no longer works.
pub fn recorded_before(rollout: &Rollout) -> impl Iterator<Item = EventId> {
    let restored = rollout
        .old
        .iter()
        .map(|old| EventId::of(Action::Restored, &restored_id(old)));
    let restarted = rollout.serving.iter().map(|serving| {
        let life = life(serving);
        EventId::of(Action::Restarted, &[serving.id.as_str(), life.as_str()])
    });
    // A container that does not work yet does not show its outcome.
    let took_over = rollout.serving.iter().flat_map(|serving| {
        let actions = [
            Action::Upgraded,
            Action::RolledBack,
            Action::Reconfigured,
            Action::SelfUpgraded,
            Action::Restored,
        ];
        actions.map(|action| EventId::of(action, &[serving.id.as_str()]))
    });
    restored.chain(restarted).chain(took_over)
}

/// When the container was last started, to tell this run of it from the next one.
fn life(member: &Member) -> String {
    member.life.started_at.unwrap_or_default().to_rfc3339()
}

/// The id includes the name, because the container may give up its name again and then gets another one.
fn restored_id(old: &Member) -> [&str; 2] {
    [old.id.as_str(), &old.name]
}

/// A delegate as it was observed, and the details that this process remembers.
pub(super) struct At<'a> {
    pub(super) rollout: &'a Rollout,
    pub(super) notes: &'a Notes,
    /// The host's name.
    pub(super) host: &'a str,
    pub(super) now: DateTime<Utc>,
}

impl At<'_> {
    /// The outcomes that the containers show.
    pub(super) fn outcomes(&self) -> Vec<Outcome> {
        let rollout = self.rollout;
        if rollout.inspect_error.is_some() {
            return Vec::new();
        }
        let given_up = rollout.failed.iter().chain(&rollout.withdrawn);
        let given_up = given_up.filter_map(|member| self.given_up(member));
        let serving = rollout.serving.iter();
        let served = serving.filter_map(|serving| self.took_over(serving, false));
        given_up.chain(served).collect()
    }

    fn event(&self, member: &Member, action: Action, id: &[&str], message: String) -> Event {
        let subject = (&*self.rollout.name, &*self.rollout.workload);
        Event {
            container_id: Some(member.id.as_str().to_owned()),
            to: Some(member.image.to_string()),
            image_id: Some(member.image_id.as_str().to_owned()),
            release: Some(member.release).filter(|release| *release > 0),
            ..Event::new(self.host, subject, (action, id), self.now, message)
        }
    }

    /// The outcome of a candidate that was rejected or withdrawn.
    fn given_up(&self, member: &Member) -> Option<Outcome> {
        let action = match member.role {
            Role::Failed { .. } => Action::Rejected,
            Role::Withdrawn { .. } => Action::Withdrawn,
            _ => return None,
        };
        let image = member.tried();
        let note = self.notes.of(&member.id);
        let message = match (&note.because, action) {
            (Some(because), Action::Rejected) => format!("{image} was rejected: {because}"),
            (Some(because), _) => because.clone(),
            (None, Action::Rejected) if member.has_ended() => {
                format!("{image} was rejected; its container {}", member.life.ending)
            }
            (None, Action::Rejected) => format!("{image} was rejected"),
            (None, _) => format!("the new container with {image} was withdrawn"),
        };
        let mut event = self.event(member, action, &[member.id.as_str()], message);
        let old = self.rollout.members().find(|old| member.is_successor_of(old));
        event.from = old.map(|old| old.image.to_string());
        event.previous_release = Some(member.previous_release);
        event.reason.clone_from(&note.reason);
        event.seconds.pull = self.notes.pull(&member.image_id);
        Some(Outcome {
            event: event.requested(member.request.as_ref()),
            is_fresh: member.is_up(),
            since: member.created_at,
        })
    }

    /// The outcome of a container of ours that has taken the name: an upgrade, a rollback, or a copy that brought the
    /// old one back. It is complete once the container works and the old one has ended, or at the latest when the
    /// container is retired itself, since an older one may need longer for its tasks.
    pub(super) fn took_over(&self, serving: &Member, is_retired: bool) -> Option<Outcome> {
        let rollout = self.rollout;
        serving.replaces.as_ref()?;
        let old = rollout.old.iter().find(|old| serving.is_successor_of(old));
        let is_over = old.is_none_or(|old| !old.is_up());
        if !is_retired && (!serving.works() || !is_over || rollout.candidate.is_some()) {
            return None;
        }
        let action = match (serving.is_copy, serving.release, &serving.rolled_back_from) {
            (true, ..) => Action::Restored,
            (false, 0, _) => return None,
            (false, ..) if serving.reconfigured.is_some() => Action::Reconfigured,
            (false, _, Some(_)) => Action::RolledBack,
            (false, _, None) if rollout.is_upgrader() => Action::SelfUpgraded,
            (false, _, None) => Action::Upgraded,
        };
        let id = [serving.id.as_str()];
        let event = if action == Action::Restored {
            self.serves_again(serving, &id)
        } else {
            self.replaced(serving, old, action, &id)
        };
        Some(Outcome {
            event,
            is_fresh: old.is_some(),
            since: serving.created_at,
        })
    }

    fn replaced(&self, serving: &Member, old: Option<&Member>, action: Action, id: &[&str]) -> Event {
        let to = &serving.image;
        let before = serving
            .previous
            .as_ref()
            .map(|before| before.reference.to_string());
        let from = before.or_else(|| old.map(|old| old.image.to_string()));
        let shown = from.as_deref().unwrap_or("another image");
        let mut message = match &serving.reconfigured {
            Some(settings) => format!("changed the settings {settings}"),
            None if action == Action::RolledBack => format!("rolled back from {shown} to {to}"),
            None => format!("replaced {shown} with {to}"),
        };
        let cut_short = old.filter(|old| was_killed(old));
        if cut_short.is_some() {
            message.push_str("; the old container was killed at the end of its stop timeout");
        }
        let note = self.notes.of(&serving.id);
        if note.is_weak {
            message.push_str("; its health could not be checked, so the proof was that it ran");
        }
        let mut event = self.event(serving, action, id, message);
        event.from = from;
        let old_id = old.map(|old| &old.image_id);
        let old_id = serving.previous.as_ref().map(|before| &before.id).or(old_id);
        event.previous_image_id = old_id.map(|id| id.as_str().to_owned());
        event.previous_release = Some(serving.previous_release);
        event.seconds = self.seconds(serving, old);
        event.tasks_cut_short = cut_short.and_then(|old| self.notes.of(&old.id).tasks);
        event.requested(serving.request.as_ref())
    }

    /// The event for the request to the engine to restart an unhealthy delegate.
    pub(super) fn restarted(&self, unhealthy: &Member, failures: u64, verdict: &str) -> Event {
        let message =
            format!("asked Docker to restart it after {failures} failed health checks in a row: {verdict}");
        let id = [unhealthy.id.as_str(), &life(unhealthy)];
        self.event(unhealthy, Action::Restarted, &id, message)
    }

    /// The event for an old container that gets its name back.
    pub(super) fn restored(&self, old: &Member) -> Event {
        self.serves_again(old, &restored_id(old))
    }

    fn serves_again(&self, old: &Member, id: &[&str]) -> Event {
        let message = format!("the old container with {} serves again", old.image);
        let mut event = self.event(old, Action::Restored, id, message);
        let failed = self.rollout.given_up().next();
        event.from = failed.map(|failed| failed.image.to_string());
        event
    }

    fn seconds(&self, serving: &Member, old: Option<&Member>) -> Seconds {
        let retired = old.and_then(Member::stopping_since);
        let started = serving.life.started_at;
        let is_stop_first = started > retired;
        let promoted = self.notes.of(&serving.id).promoted_at;
        let proven = promoted.or(retired.filter(|_| !is_stop_first));
        let span = |from: Option<DateTime<Utc>>, to: Option<DateTime<Utc>>| {
            let span = (to? - from?).to_std();
            span.ok().map(seconds)
        };
        Seconds {
            pull: self.notes.pull(&serving.image_id),
            proof: span(started, proven),
            drain: span(retired, old.and_then(|old| old.life.finished_at)),
            downtime: span(retired, serving.history.healthy_since).filter(|_| is_stop_first),
        }
    }
}

/// Whether the engine killed the container because its stop timeout ran out.
fn was_killed(old: &Member) -> bool {
    // 137 is the engine's code for SIGKILL. Someone else may have sent that signal, but hardly at that very second.
    let is_killed = old.has_ended() && old.life.ending.starts_with("exited with code 137");
    let grace = span(old.stop_timeout);
    let is_late = old.stopping_since().zip(old.life.finished_at);
    is_killed && is_late.is_some_and(|(since, ended)| ended - since >= grace - TimeDelta::seconds(1))
}
