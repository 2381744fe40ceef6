//! What someone did in the very moment in which an upgrader did something else, whatever had been decided.

use std::time::Duration;

use delegate_upgrader::container::{Role, RunState};

use super::claims::{Down, Touch};
use super::scenario::Way;
use super::standing::{Judge, was_renamed_at_once};
use kit::twin::{Cause, Event, Glance, Happened};

impl Judge<'_> {
    /// Whether it is down by what someone did: stopped as the candidate in the moment in which it took over; or they made
    /// a second one of what cannot run twice, which has the port; or they started it while one that was given up still had
    /// the port, and no policy starts it again.
    pub(super) fn is_down_by_hand(&self, serving: &Glance) -> bool {
        let (world, claims) = (self.world, &self.book.claims);
        let has_its_place = |other: &Glance| {
            other.id != serving.id
                && other.state == RunState::Running
                && claims.line_of(&other.name) == Some(self.index)
        };
        let is_stop_first = world.scenario.delegates[self.index].way == Way::StopFirst;
        let is_crowded_out = self.line.is_double && is_stop_first && self.glance.iter().any(has_its_place);
        let events = world.twin.events();
        let of_it = events.iter().filter(|event| event.id == serving.id.as_str());
        let mut life = of_it.rev().take_while(|event| event.what != Happened::Started);
        let was_stopped = life.any(|event| {
            let down = Down {
                id: serving.id.clone(),
                line: self.index,
                from: event.at,
                until: None,
            };
            event.cause == Cause::OperatorAction
                && matches!(event.what, Happened::Signalled | Happened::SignalledAgain)
                && Role::parse(&event.name).1 == Role::Candidate
                && was_renamed_at_once(world, &down)
        });
        let last = |is: fn(&Happened) -> bool| {
            let mut latest_first = events.iter().rev();
            latest_first.find(|event| event.id == serving.id.as_str() && is(&event.what))
        };
        let began = last(|what| *what == Happened::Started);
        let ended = last(|what| matches!(what, Happened::Exited { .. }));
        let found_it_taken = began.zip(ended).is_some_and(|(began, ended)| {
            let had_the_port = |other: &Event| {
                let (base, role) = Role::parse(&other.name);
                claims.line_of(base) == Some(self.index)
                    && matches!(role, Role::Withdrawn { .. } | Role::Failed { .. })
                    && matches!(other.what, Happened::Exited { .. })
                    && other.at > ended.at
            };
            is_stop_first
                && serving.policy == "no"
                && (began.cause, ended.cause) == (Cause::OperatorAction, Cause::Itself)
                && events.iter().any(had_the_port)
        });
        is_crowded_out || was_stopped || found_it_taken
    }

    /// Whether someone removed the old one in the moment in which its successor was given up for it.
    pub(super) fn was_removed_at_once(&self) -> bool {
        let (events, calls) = (self.world.twin.events(), self.world.twin.calls());
        let role = |event: &Event| {
            let (base, role) = Role::parse(&event.name);
            self.line.names.contains(base).then_some(role)
        };
        let is_removal = |event: &&Event| {
            event.cause == Cause::OperatorAction
                && event.what == Happened::Removed
                && matches!(role(event), Some(Role::Draining { .. }))
        };
        let gives_up = |event: &Event, at: Duration| match (&event.what, event.cause, role(event)) {
            (
                Happened::Renamed { .. },
                Cause::Call(index),
                Some(Role::Withdrawn { .. } | Role::Failed { .. } | Role::Inconclusive { .. }),
            ) => calls[index].at <= at && at <= event.at,
            _ => false,
        };
        let mut removals = events.iter().filter(is_removal);
        removals.any(|removal| events.iter().any(|event| gives_up(event, removal.at)))
    }

    /// Whether the candidate of what someone changed was started at that moment: compared with it before.
    pub(super) fn was_started_at_once(&self, touch: &Touch) -> bool {
        let calls = self.world.twin.calls();
        let events = self.world.twin.events();
        let is_started = |event: &Event| match (&event.what, event.cause, Role::parse(&event.name)) {
            (Happened::Started, Cause::Call(index), (base, Role::Candidate)) => {
                self.book.claims.line_of(base) == Some(self.index)
                    && event.at >= touch.at
                    && calls[index].at <= touch.at + Duration::from_secs(1)
            }
            _ => false,
        };
        touch.is_draining && events.iter().any(is_started)
    }
}
