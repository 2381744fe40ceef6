//! What must hold when a container is asked to stop, killed, started and removed.

use std::time::Duration;

use delegate_upgrader::container::Role;

use super::{Moments, OBSERVATION_AGE, OBSERVATION_AGE_WITH_DELAYS, RETRY_PAUSE, Shadow};
use crate::sim::scenario::Way;
use kit::twin::{Cause, Event, Happened, Operation};

impl Moments<'_> {
    /// A serving container may be asked to stop only if another one serves, or if the order is stop-first and its
    /// successor is ready.
    pub(super) fn check_stop(&mut self, event: &Event) {
        let Some(shadow) = self.shadows.get(&event.id) else {
            return;
        };
        // A rejected container that a restart of the engine started again does not serve.
        let is_rejected = Role::parse(&shadow.name).1.is_given_up();
        if is_rejected || !shadow.served || !self.serves(shadow, event.at) || self.another_serves(event) {
            return;
        }
        // If health comes and goes, of one image or of all, the verdict may have come at a bad moment.
        if !self.kind(shadow).serves() || self.outage(event.at) {
            return;
        }
        // Or it recovered in the moment in which it was restarted for its health.
        let since = shadow.running.unwrap_or_default();
        let behaviour = &self.world.scenario.images[shadow.image].behaviour;
        let last = event.at.saturating_sub(self.observation_age());
        let was_unhealthy = last < since || !behaviour.is_healthy_at(last - since);
        let is_restart =
            matches!(event.cause, Cause::Call(index) if self.calls[index].operation == Operation::Restart);
        if is_restart && was_unhealthy {
            return;
        }
        // Its successor works under the name that somebody gave it.
        let base = Role::parse(&event.name).0;
        let is_kept = |other: &Shadow| {
            self.book.excuses.names.contains(&other.name)
                && other.name.starts_with(base)
                && self.works(other, event.at)
        };
        if self.shadows.values().any(is_kept) {
            return;
        }
        let way = self.delegate(&event.name).map(|delegate| delegate.way);
        // Somebody may have started it since it was observed.
        let age = self.observation_age();
        let next_is_ready = self.another(event, |role, other| {
            let is_unseen = other.running.is_none_or(|since| event.at - since < age);
            matches!(role, Role::Candidate | Role::Standby) && is_unseen
        });
        // Or the successor was ready at the last observation.
        let taken_away = self.taken_away.get(self.parse(&event.name).0);
        let is_recent = |age| taken_away.is_some_and(|at| event.at - *at < age);
        let was_ready = is_recent(self.observation_age());
        let delegate = self.delegate(&event.name);
        let is_off = shadow.policy_off || delegate.is_some_and(|delegate| delegate.policy == "no");
        if way == Some(Way::StopFirst) && (next_is_ready || was_ready) {
            return;
        }
        // Or it was between two lives when that was decided, its proven successor beside it, and the call took its time.
        let sent = match event.cause {
            Cause::Call(index) => self.calls[index].at,
            _ => event.at,
        };
        let is_new_life = shadow.running.is_some_and(|since| since > sent);
        let is_proven = |role: Role, other: &Shadow| role == Role::Candidate && self.works(other, event.at);
        if is_new_life && self.another(event, is_proven) {
            return;
        }
        // Or another upgrader gave it this life meanwhile.
        let by_another = match (event.cause, shadow.started_by) {
            (Cause::Call(stop), Cause::Call(start)) => self.calls[stop].client != self.calls[start].client,
            _ => false,
        };
        if is_new_life && by_another {
            return;
        }
        // Without a policy, nobody can tell whether a call that failed was the one that asked it to stop.
        if is_off && is_recent(self.observation_age() + RETRY_PAUSE) {
            return;
        }
        // Nor can the process that asked it as the engine went away.
        let was_asked_in_vain = self.calls.iter().any(|call| {
            let is_recent = call.at < event.at && event.at < call.at + OBSERVATION_AGE_WITH_DELAYS;
            let is_of = call.operation == Operation::Stop && call.subject == event.name;
            is_of && is_recent && matches!(call.outcome, Some(Err(_)))
        });
        if is_off && was_asked_in_vain {
            return;
        }
        // Nor can anybody once the engine, which restarted in that moment, has forgotten its events.
        let is_forgotten = |at: &Duration| {
            let mut restarts = self.book.engine_restarts.iter();
            restarts.any(|restart| at <= restart && *restart < *at + self.observation_age())
        };
        if is_off && taken_away.is_some_and(is_forgotten) {
            return;
        }
        // An --rm delegate has no policy that could show this; its standby takes its place.
        let standby = self.another(event, |role, other| {
            role == Role::Standby && other.running.is_none()
        });
        if standby || self.book.excuses.names.contains(Role::parse(&event.name).0) {
            return;
        }
        // An earlier process may have asked it to stop, which no engine shows: only a new life is sure to last.
        let rejected = self.another(event, |role, _| role.is_given_up());
        if is_off && (rejected || self.book.excuses.of(Role::parse(&event.name).0).policy_is_lost) {
            return;
        }
        if matches!(Role::parse(&event.name).1, Role::Draining { .. }) && self.is_unwanted(event) {
            return;
        }
        self.violated(event, "the last serving container was asked to stop");
    }

    /// No container may be killed before its stop timeout is over.
    pub(super) fn check_kill(&mut self, event: &Event) {
        let shadow = &self.shadows[&event.id];
        let Some(stop_requested) = shadow.stop_requested.filter(|_| !shadow.stopped_by_operator) else {
            return;
        };
        if self.book.excuses.handled.contains(&event.id) {
            return;
        }
        let had = event.at - stop_requested;
        if had + Duration::from_millis(1) < self.world.scenario.stop_timeout {
            self.violations.push(format!(
                "killed after {had:?} of {:?}: {} at {:?}",
                self.world.scenario.stop_timeout, event.name, event.at
            ));
        }
    }

    /// Two containers of a stop-first delegate must not run at once. A call that took long may have been overtaken.
    pub(super) fn check_single_instance(&mut self, event: &Event) {
        if let Cause::Call(index) = event.cause
            && event.at - self.calls[index].at > OBSERVATION_AGE
        {
            return;
        }
        let Some(delegate) = self
            .delegate(&event.name)
            .filter(|delegate| delegate.way == Way::StopFirst)
        else {
            return;
        };
        // Another upgrader gave it up since this one looked, right after a person had taken a part of it away.
        let taken_away = self.taken_away.get(self.parse(&event.name).0);
        let is_recent =
            taken_away.is_some_and(|at| event.at - *at < OBSERVATION_AGE + Duration::from_secs(1));
        let is_given_up = |other: &Event| match (&other.what, other.cause, event.cause) {
            (Happened::Renamed { .. }, Cause::Call(by), Cause::Call(index)) => {
                other.id == event.id
                    && matches!(Role::parse(&other.name).1, Role::Withdrawn { .. })
                    && self.calls[by].client != self.calls[index].client
                    && other.at <= event.at
                    && event.at < other.at + Duration::from_secs(1)
            }
            _ => false,
        };
        if is_recent && self.world.twin.events().iter().any(is_given_up) {
            return;
        }
        if self.was_given_up_since(event) {
            return;
        }
        let claims = &self.book.claims;
        let line = claims.line_of(Role::parse(&event.name).0);
        let is_double = line.is_some_and(|line| claims.lines[line].is_double)
            || self.doubled.contains(self.parse(&event.name).0);
        // Someone gave it back the policy with which the engine starts it, and with which it then goes on crashing.
        let is_touched = |id: &str| self.has_set_policy(id);
        let by_policy = match event.cause {
            Cause::Itself => self.shadows[&event.id].started_by,
            cause => cause,
        };
        let has_policy = by_policy == Cause::Engine && is_touched(&event.id);
        // The engine started the other one by the policy that someone gave it, and this one only goes on crashing, or
        // comes back with the engine from a life that nobody had asked to end.
        let base = self.parse(&event.name).0;
        let is_other = |(id, other): (&String, &Shadow)| {
            *id != event.id
                && self.parse(&other.name).0 == base
                && other.running.is_some()
                && other.started_by == Cause::Engine
                && is_touched(id)
        };
        let goes_on = match event.cause {
            Cause::Itself => true,
            Cause::Engine => self.shadows[&event.id].stop_requested.is_none(),
            _ => false,
        };
        let goes_on = goes_on && self.shadows.iter().any(is_other);
        // They removed the one in service to give its name to another one, and an older one came back in that moment.
        let has_made_way = |other: &Event| {
            (&other.what, other.cause) == (&Happened::Removed, Cause::OperatorAction)
                && self.parse(&other.name) == (base, Role::Serving)
                && other.at < event.at
                && event.at < other.at + self.observation_age()
        };
        let is_made_anew = self.world.twin.events().iter().any(has_made_way);
        let other = !is_double
            && !has_policy
            && !goes_on
            && !is_made_anew
            && self.another(event, |_, other| {
                other.running.is_some() && other.started_by != Cause::OperatorAction
            });
        if other {
            let name = delegate.name.clone();
            self.violated(event, &format!("two containers of {name} run at once"));
        }
    }

    /// Whether another upgrader gave up the container that this one starts, after this one looked for the last time: an
    /// engine that is slow to answer makes that long ago.
    fn was_given_up_since(&self, started: &Event) -> bool {
        let Cause::Call(index) = started.cause else {
            return false;
        };
        let client = self.calls[index].client;
        let looked = self.calls[..index]
            .iter()
            .rposition(|call| call.client == client && call.operation == Operation::Containers);
        let is_given_up = |other: &Event| match (&other.what, other.cause, Role::parse(&other.name).1) {
            (
                Happened::Renamed { .. },
                Cause::Call(by),
                Role::Withdrawn { .. } | Role::Failed { .. } | Role::Inconclusive { .. },
            ) => other.id == started.id && self.calls[by].client != client && looked < Some(by) && by < index,
            _ => false,
        };
        self.world.twin.events().iter().any(is_given_up)
    }

    /// A container that served may be removed only while its successor works.
    pub(super) fn check_removal(&mut self, event: &Event) {
        let Some(shadow) = self.shadows.get(&event.id) else {
            return;
        };
        // What it was decided by may have changed while the call was on its way.
        let is_slow =
            matches!(event.cause, Cause::Call(index) if event.at - self.calls[index].at > OBSERVATION_AGE);
        let is_rejected = Role::parse(&shadow.name).1.is_given_up();
        // Someone renamed it between the observation and the removal.
        let renamed = self.book.excuses.names.contains(&event.name);
        if !shadow.served || is_rejected || renamed || is_slow {
            return;
        }
        let successor = self.another(event, |role, other| {
            role == Role::Serving && self.works(other, event.at)
        });
        // Or it worked at the last observation, and then a person removed or renamed it.
        let taken_away = self.taken_away.get(self.parse(&event.name).0);
        let just_now = taken_away.is_some_and(|at| event.at - *at < self.observation_age());
        // Or under the name that a person gave it.
        let names = &self.book.excuses.names;
        let mut others = self.shadows.values();
        let kept = others.any(|other| names.contains(&other.name) && self.works(other, event.at));
        if !successor && !just_now && !self.is_unwanted(event) && !kept {
            self.violated(event, "removed without a working successor");
        }
    }

    /// Whether somebody removed the one in service, or ended one with `--rm`: what they removed stays removed. What they
    /// keep under another name, stopped, does not have its name.
    fn is_unwanted(&self, event: &Event) -> bool {
        let names = &self.book.excuses.names;
        let has_name = self.another(event, |role, other| {
            role == Role::Serving && (other.running.is_some() || !names.contains(&other.name))
        });
        !has_name && self.removed.contains(self.parse(&event.name).0)
    }
}
