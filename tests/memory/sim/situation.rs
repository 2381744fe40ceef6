//! The containers of a delegate at the moment when somebody does something with one.

use delegate_upgrader::container::{Role, RunState, label};

use super::world::World;
use kit::twin::{Cause, Event, Glance, Happened, Operation};

/// The containers of a delegate at the moment of an act.
#[derive(Clone, Debug)]
pub struct Situation {
    pub line: usize,
    pub family: Vec<(Role, Glance)>,
}

pub(super) fn is_running(container: Option<&Glance>) -> bool {
    container.is_some_and(|container| container.state == RunState::Running)
}

pub(super) fn is_up(container: &Glance) -> bool {
    matches!(container.state.as_str(), "running" | "restarting" | "paused")
}

/// Whether an upgrader had asked for a restart of this one before the present moment. That ends in another life,
/// whatever somebody does to this one meanwhile.
pub(super) fn is_being_restarted(world: &World, container: &Glance) -> bool {
    let (calls, now) = (world.twin.calls(), world.twin.elapsed());
    let events = world.twin.events();
    let is_by_restart = |event: &Event| match (&event.what, event.cause) {
        (Happened::Signalled | Happened::SignalledAgain, Cause::Call(index)) => {
            calls[index].operation == Operation::Restart
        }
        _ => false,
    };
    let last = events.iter().rev().find(|event| {
        let is_about_lives = match event.what {
            Happened::Started | Happened::Signalled | Happened::Exited { .. } => true,
            // What somebody asks of it once more does not take that back.
            Happened::SignalledAgain => is_by_restart(event),
            _ => false,
        };
        is_about_lives && event.id == container.id.as_str() && event.at < now
    });
    last.is_some_and(is_by_restart)
}

/// Whether its present life began when the engine was started again.
fn was_started_by_engine(world: &World, container: &Glance) -> bool {
    let events = world.twin.events();
    let is_start = |event: &&Event| event.id == container.id.as_str() && event.what == Happened::Started;
    let last = events.iter().rev().find(is_start);
    last.is_some_and(|event| event.cause == Cause::Engine)
}

/// The container that this one was made to replace.
fn replaces(world: &World, container: &Glance) -> Option<String> {
    let document = world.twin.document(container.id.as_str())?;
    Some(document["Config"]["Labels"][label::REPLACES].as_str()?.to_owned())
}

impl Situation {
    fn of(&self, is: fn(Role) -> bool) -> Option<&Glance> {
        let found = self.family.iter().find(|(role, _)| is(*role));
        found.map(|(_, container)| container)
    }

    /// The one in service: what people keep under names of their own does not run.
    pub(super) fn serving(&self) -> Option<&Glance> {
        let mut all = self.family.iter().filter(|(role, _)| *role == Role::Serving);
        let mut ups = all.clone().filter(|(_, container)| is_up(container));
        // What someone named while it drained may still be up beside its successor.
        let up = ups
            .clone()
            .find(|(_, container)| !container.name.contains("-kept-"));
        let up = up.or_else(|| ups.next());
        // What is down beside parts of another name is kept, too.
        let is_part = |role: Role| matches!(role, Role::Candidate | Role::Draining { .. });
        let is_kept = |kept: &Glance| {
            let mut others = self.family.iter();
            others.any(|(role, part)| is_part(*role) && Role::parse(&part.name).0 != kept.name)
        };
        up.or_else(|| all.find(|(_, container)| !is_kept(container)))
            .map(|(_, container)| container)
    }

    /// Whether it is what someone keeps of an earlier time.
    pub(super) fn is_kept(&self, role: Role, container: &Glance) -> bool {
        let is_of_another = |old: &Glance| Role::parse(&old.name).0 != container.name;
        role == Role::Serving
            && match self.serving() {
                Some(serving) => serving.id != container.id,
                // Another old one drains meanwhile, so this is not the one that the replacement needs.
                None => !is_up(container) && self.draining().is_some_and(is_of_another),
            }
    }

    /// Whether a candidate was to replace another one than that in service, which somebody made anew since.
    pub(super) fn is_nobodys(&self, world: &World, candidate: &Glance) -> bool {
        let old = replaces(world, candidate);
        let serving = self.serving();
        serving.is_some_and(|serving| old.is_some_and(|old| old != serving.id.as_str()))
    }

    /// Whether somebody made this one anew while an old one drained or a candidate proved itself: nothing on it says what
    /// these are to it.
    pub(super) fn is_unknown(&self, world: &World, serving: &Glance) -> bool {
        let candidate = self.candidate().filter(|candidate| is_up(candidate));
        let is_strangers = candidate.is_some_and(|candidate| self.is_nobodys(world, candidate));
        replaces(world, serving).is_none() && (self.draining().is_some() || is_strangers)
    }

    /// Whether the engine or somebody has made an old one that drains independent: nobody has asked it to stop and the engine
    /// gave it another life, or somebody made what has its name anew.
    pub(super) fn is_on_its_own(&self, world: &World, old: &Glance) -> bool {
        let lives_again = old.policy != "no" && was_started_by_engine(world, old);
        let serving = self.serving();
        let is_strangers = |serving: &Glance| replaces(world, serving).as_deref() != Some(old.id.as_str());
        lives_again || serving.is_some_and(is_strangers)
    }

    /// Whether a candidate that was given up is still up.
    pub(super) fn has_given_up(&self) -> bool {
        let is_given_up = |role: Role| {
            matches!(
                role,
                Role::Withdrawn { .. } | Role::Failed { .. } | Role::Inconclusive { .. }
            )
        };
        self.family
            .iter()
            .any(|(role, part)| is_given_up(*role) && is_up(part))
    }

    pub(super) fn candidate(&self) -> Option<&Glance> {
        self.of(|role| role == Role::Candidate)
    }

    pub(super) fn draining(&self) -> Option<&Glance> {
        self.of(|role| matches!(role, Role::Draining { .. }))
    }

    pub(super) fn standby(&self) -> Option<&Glance> {
        self.of(|role| role == Role::Standby)
    }

    /// Whether a candidate is kept that failed, lately or long ago, or one that was withdrawn and is not removed yet.
    pub(super) fn has_failed(&self) -> bool {
        let is_one = |role: Role| role.is_given_up();
        self.family.iter().any(|(role, _)| is_one(*role))
    }

    /// Whether no replacement is in progress.
    pub(super) fn is_calm(&self) -> bool {
        let is_one = |role: Role| matches!(role, Role::Failed { .. } | Role::Inconclusive { .. });
        let gives_up = |(role, container): &(Role, Glance)| {
            (is_one(*role) || matches!(role, Role::Withdrawn { .. })) && is_up(container)
        };
        self.serving().is_some()
            && self.candidate().is_none()
            && self.draining().is_none()
            && self.standby().is_none()
            && !self.family.iter().any(gives_up)
    }
}
