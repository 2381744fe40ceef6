//! What someone did in the very moment in which an upgrader did something else, whatever had been decided.

use std::time::Duration;

use delegate_upgrader::container::{ContainerId, Role, RunState};

use super::claims::{Down, Part, Touch};
use super::scenario::Way;
use super::standing::{Judge, observation_age};
use super::world::World;
use kit::twin::{CLIENT_TIMEOUT, Call, Cause, Event, Glance, Happened, Operation};

impl Judge<'_> {
    /// Whether it is down by what someone did: stopped as the candidate in the moment in which it took over; or they made
    /// a second one of what cannot run twice, which has the port; or they started it, made anew, while one that was given up
    /// in that moment had the port, and no policy starts it again.
    pub(super) fn is_down_by_hand(&self, serving: &Glance) -> bool {
        let (world, claims) = (self.world, &self.book.claims);
        let is_stop_first = world.scenario.delegates[self.index].way == Way::StopFirst;
        let events = world.twin.events();
        let was_stopped = self.was_stopped_as_candidate(serving.id.as_str());
        let last = |is: fn(&Happened) -> bool| {
            let mut latest_first = events.iter().rev();
            latest_first.find(|event| event.id == serving.id.as_str() && is(&event.what))
        };
        let began = last(|what| *what == Happened::Started);
        let ended = last(|what| matches!(what, Happened::Exited { .. }));
        let found_it_taken = began.zip(ended).is_some_and(|(began, ended)| {
            let was_up = |id: &str, until: Duration| {
                let mut lives = events.iter().filter(|other| other.id == id && other.at < until);
                let life = lives.rfind(|other| other.what == Happened::Started);
                life.is_some_and(|life| life.at <= began.at)
            };
            let had_the_port = |other: &Event| {
                let (base, role) = Role::parse(&other.name);
                claims.line_of(base) == Some(self.index)
                    && matches!(
                        role,
                        Role::Withdrawn { .. } | Role::Failed { .. } | Role::Inconclusive { .. }
                    )
                    && matches!(other.what, Happened::Exited { .. })
                    && other.at > began.at
                    && was_up(&other.id, other.at)
            };
            is_stop_first
                && serving.policy == "no"
                // An old one is started once more.
                && Role::parse(&began.name).1 == Role::Serving
                && (began.cause, ended.cause) == (Cause::OperatorAction, Cause::Itself)
                && events.iter().any(had_the_port)
        });
        // A request of another upgrader was on its way when this life began.
        let calls = world.twin.calls();
        let signalled = last(|what| *what == Happened::Signalled);
        let came_late = began.zip(signalled).is_some_and(|(began, signalled)| {
            matches!((began.cause, signalled.cause), (Cause::Call(start), Cause::Call(stop))
                if calls[stop].client != calls[start].client
                    && calls[stop].at < began.at
                    && began.at < signalled.at
                    && Role::parse(&calls[stop].subject).1 != Role::Serving)
        });
        // It crashed in the moment in which somebody started one that was given up, which has the port.
        let crowds_out = |other: &Event| {
            let (base, role) = Role::parse(&other.name);
            (&other.what, other.cause) == (&Happened::Started, Cause::OperatorAction)
                && role != Role::Serving
                && claims.line_of(base) == Some(self.index)
                && ended.is_some_and(|ended| {
                    ended.cause == Cause::Itself
                        && ended.at <= other.at
                        && other.at < ended.at + Duration::from_secs(1)
                })
        };
        let between_lives = is_stop_first && events.iter().any(crowds_out);
        // Its policy was taken off in the moment in which it took over, and nothing starts it again.
        let took_over_at_once = |touch: &Touch| {
            touch.id == serving.id
                && touch.part == Part::Policy
                && events.iter().any(|event| {
                    let is_promotion = matches!(
                        (&event.what, event.cause),
                        (Happened::Renamed { .. }, Cause::Call(_))
                    );
                    let soon = touch.at + Duration::from_secs(1);
                    is_promotion && event.id == touch.id.as_str() && touch.at <= event.at && event.at < soon
                })
        };
        let has_no_policy = serving.policy == "no" && claims.touches.iter().any(took_over_at_once);
        self.is_crowded_out(serving)
            || was_stopped
            || found_it_taken
            || came_late
            || between_lives
            || has_no_policy
    }

    /// Whether someone made a second one of what cannot run twice, which has the port.
    pub(super) fn is_crowded_out(&self, serving: &Glance) -> bool {
        let has_its_place = |other: &Glance| {
            other.id != serving.id
                && other.state == RunState::Running
                && self.book.claims.line_of(&other.name) == Some(self.index)
        };
        let is_stop_first = self.world.scenario.delegates[self.index].way == Way::StopFirst;
        self.line.is_double && is_stop_first && self.glance.iter().any(has_its_place)
    }

    /// Whether someone stopped it as the candidate, in the moment in which it took over.
    fn was_stopped_as_candidate(&self, id: &str) -> bool {
        let events = self.world.twin.events();
        let of_it = events.iter().filter(|event| event.id == id);
        let mut life = of_it.rev().take_while(|event| event.what != Happened::Started);
        life.any(|event| {
            let down = Down {
                id: ContainerId::new(id),
                line: self.index,
                from: event.at,
                until: None,
            };
            event.cause == Cause::OperatorAction
                && matches!(event.what, Happened::Signalled | Happened::SignalledAgain)
                && Role::parse(&event.name).1 == Role::Candidate
                && was_changed_at_once(self.world, &down)
        })
    }

    /// Whether nothing is left of it by what someone did.
    pub(super) fn is_gone_by_hand(&self) -> bool {
        let events = self.world.twin.events();
        let is_of = |event: &&Event| self.book.claims.line_of(Role::parse(&event.name).0) == Some(self.index);
        let mut of_it = events.iter().filter(is_of);
        let made = of_it.clone().rfind(|event| event.what == Happened::Created);
        let removed = of_it
            .rfind(|event| event.what == Happened::Removed && Role::parse(&event.name).1 == Role::Serving);
        was_removed_at_once(self.world, |base| self.line.names.contains(base))
            || made.is_some_and(|made| self.was_made_to_end(made, &events))
            || removed.is_some_and(|removed| self.was_stopped_as_candidate(&removed.id))
    }

    /// Whether someone made it anew with `--rm` and an image that ends by itself, and it went before anything was made
    /// for it.
    fn was_made_to_end(&self, made: &Event, events: &[Event]) -> bool {
        let image = self.world.image_of(&made.image);
        let ends = image.is_some_and(|image| self.world.scenario.images[image].behaviour.exits.is_some());
        let mut of_it = events.iter().filter(|event| event.id == made.id);
        let went = of_it
            .clone()
            .any(|event| event.what == Happened::Removed && event.cause == Cause::Itself);
        let by_us =
            of_it.any(|event| event.what == Happened::Signalled && matches!(event.cause, Cause::Call(_)));
        made.cause == Cause::OperatorAction && ends && went && !by_us
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

    /// Whether someone set it on the candidate in the moment in which the old one was retired: nothing compares the two
    /// after that, so either may be what they set.
    pub(super) fn was_retired_at_once(&self, touch: &Touch) -> bool {
        let until = touch.at + observation_age(self.world);
        let is_retirement = |event: &Event| {
            let (base, role) = Role::parse(&event.name);
            matches!(role, Role::Draining { .. })
                && matches!(
                    (&event.what, event.cause),
                    (Happened::Renamed { .. }, Cause::Call(_))
                )
                && self.line.names.contains(base)
                && touch.at <= event.at
                && event.at <= until
        };
        !touch.is_draining && self.world.twin.events().iter().any(is_retirement)
    }

    /// Whether what compose made anew ended by itself, and vanished with `--rm`, before any upgrader could make its copy.
    pub(super) fn made_anew_in_vain(&self) -> bool {
        let (world, age) = (self.world, observation_age(self.world));
        let made = self.line.expected["Id"].as_str();
        let events = world.twin.events();
        let removed = events.iter().find(|event| {
            Some(event.id.as_str()) == made
                && (&event.what, event.cause) == (&Happened::Removed, Cause::Itself)
        });
        let Some(removed) = removed else { return false };
        let was_read = |call: &Call| {
            call.operation == Operation::Inspect
                && call.id.as_ref().map(ContainerId::as_str) == made
                && call.at + age < removed.at
        };
        !world.twin.calls().iter().any(was_read)
    }

    /// Whether it was set on a draining one with `--rm`, which took it along when it ended, before an upgrader looked
    /// again: they look every ten seconds. Nothing that was set later is excused by that.
    pub(super) fn vanished_unseen(&self, touch: &Touch, serving: &ContainerId) -> bool {
        let (world, age) = (self.world, observation_age(self.world));
        let events = world.twin.events();
        let end = events.iter().find(|event| {
            event.id == touch.id.as_str()
                && event.at >= touch.at
                && matches!(event.what, Happened::Exited { .. })
        });
        let Some(end) = end else { return false };
        let was_seen = |call: &Call| {
            call.operation == Operation::Inspect
                && call.id.as_ref() == Some(&touch.id)
                && touch.at < call.at
                && call.at + age < end.at
        };
        let mut touches = self.book.claims.touches.iter();
        let is_set_later = touches.any(|other| {
            other.line == touch.line
                && other.part == touch.part
                && other.at > touch.at
                && (other.is_draining || other.id == *serving)
        });
        touch.is_draining
            && world.scenario.delegates[self.index].auto_remove
            && end.at <= touch.at + Duration::from_secs(10) + age
            && !is_set_later
            && !world.twin.calls().iter().any(was_seen)
    }
}

/// Whether someone removed the old one of such a name in the moment in which its successor was given up for it.
pub(super) fn was_removed_at_once(world: &World, is_its_name: impl Fn(&str) -> bool) -> bool {
    let (events, calls) = (world.twin.events(), world.twin.calls());
    let role = |event: &Event| {
        let (base, role) = Role::parse(&event.name);
        is_its_name(base).then_some(role)
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

/// Whether an upgrader renamed, restarted or stopped that container within the same moment, or by a call that was on its way then,
/// however slow it was.
pub(super) fn was_changed_at_once(world: &World, down: &Down) -> bool {
    let (calls, soon) = (world.twin.calls(), down.from + Duration::from_secs(1));
    let was_on_its_way = world
        .twin
        .events()
        .iter()
        .any(|event| match (&event.what, event.cause) {
            (Happened::Renamed { .. }, Cause::Call(index)) => {
                event.id == down.id.as_str() && event.at >= down.from && calls[index].at <= soon
            }
            _ => false,
        });
    was_on_its_way || was_restarted_at_once(world, down) || was_being_stopped(world, down)
}

/// Whether an upgrader asked for a restart of that container in that moment.
fn was_restarted_at_once(world: &World, down: &Down) -> bool {
    let (calls, soon) = (world.twin.calls(), down.from + Duration::from_secs(1));
    world.twin.events().iter().any(|event| match event.cause {
        Cause::Call(index) => {
            event.id == down.id.as_str()
                && event.at >= down.from
                && calls[index].operation == Operation::Restart
                && calls[index].at <= soon
        }
        _ => false,
    })
}

/// Whether an upgrader awaited the answer to its own request to stop that container, which never arrived.
fn was_being_stopped(world: &World, down: &Down) -> bool {
    world.twin.calls().iter().any(|call| {
        call.operation == Operation::Stop
            && call.id.as_ref() == Some(&down.id)
            && call.at <= down.from
            && down.from <= call.at + CLIENT_TIMEOUT
            && !matches!(call.outcome, Some(Ok(())))
    })
}
