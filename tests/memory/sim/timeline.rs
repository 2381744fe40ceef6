//! The role and state of each container at each moment of a story, read from the events of the engine in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use delegate_upgrader::container::Role;

use super::world::World;
use kit::twin::{Cause, Event, Happened};

/// The greatest age of a health check's verdict: an engine's own HEALTHCHECK is the slowest.
const CHECK_AGE: Duration = Duration::from_secs(15);

/// One container of a delegate, from its creation to its removal.
pub struct Shadow {
    pub id: String,
    /// The index of its delegate.
    pub line: usize,
    /// The index of its image.
    pub image: usize,
    pub created: (Duration, Cause),
    pub removed: Option<(Duration, Cause)>,
    /// Its names, each with the time when it got the name, and from whom.
    names: Vec<(Duration, String, Cause)>,
    pub lives: Vec<Life>,
    /// The times when a person paused it, from and to.
    pauses: Vec<(Duration, Duration)>,
}

/// One life of its process.
pub struct Life {
    pub from: Duration,
    /// The signals that it received, in order.
    pub signals: Vec<(Duration, Cause)>,
    pub end: Option<(Duration, Cause)>,
}

impl Shadow {
    fn name(&self, at: Duration) -> Option<&str> {
        let is_there = self.created.0 <= at && self.removed.is_none_or(|(removed, _)| at < removed);
        let mut names = self.names.iter().filter(|_| is_there);
        Some(names.rfind(|(from, ..)| *from <= at)?.1.as_str())
    }

    /// Its role at that moment; `None` if it did not exist.
    pub fn role(&self, at: Duration) -> Option<Role> {
        self.name(at).map(|name| Role::parse(name).1)
    }

    /// The name of its delegate at that moment.
    pub fn base(&self, at: Duration) -> Option<&str> {
        self.name(at).map(|name| Role::parse(name).0)
    }

    /// The times when it got its names.
    pub fn renames(&self) -> impl Iterator<Item = Duration> {
        self.names.iter().map(|(at, ..)| *at)
    }

    /// The times when it was renamed, and by whom.
    pub fn renames_by(&self) -> impl Iterator<Item = (Duration, Cause)> {
        self.names.iter().skip(1).map(|(at, _, by)| (*at, *by))
    }

    /// Whether a person has paused it.
    pub fn is_paused(&self, at: Duration) -> bool {
        self.pauses.iter().any(|(from, to)| *from <= at && at < *to)
    }

    /// Whether it was rejected or withdrawn at some time.
    pub fn was_given_up(&self) -> bool {
        let mut roles = self.names.iter().map(|(_, name, _)| Role::parse(name).1);
        roles.any(|role| matches!(role, Role::Failed { .. } | Role::Withdrawn { .. }))
    }

    /// Its life at that moment.
    pub fn life(&self, at: Duration) -> Option<&Life> {
        let is_over = |life: &Life| life.end.is_some_and(|(end, _)| end <= at);
        self.lives.iter().rfind(|life| life.from <= at && !is_over(life))
    }

    /// Whether it had been in service by then: up under a plain name, outside a replacement.
    pub fn has_served(&self, at: Duration) -> bool {
        let serves = |at: Duration| self.role(at) == Some(Role::Serving) && self.life(at).is_some();
        let begins = self.names.iter().map(|(from, ..)| *from);
        let mut moments = begins.chain(self.lives.iter().map(|life| life.from));
        moments.any(|moment| moment <= at && serves(moment))
    }

    /// Whether an upgrader renamed it at or after that moment.
    pub fn was_renamed_since(&self, at: Duration) -> bool {
        let is_ours = |(from, _, by): &(Duration, String, Cause)| *from >= at && is_ours(*by);
        self.names.iter().skip(1).any(is_ours)
    }

    /// Whether a person renamed it at some time.
    pub fn was_renamed_by_hand(&self) -> bool {
        self.names
            .iter()
            .skip(1)
            .any(|(.., by)| *by == Cause::OperatorAction)
    }

    /// Whether a person gave it its current name.
    pub fn is_renamed_by_hand(&self) -> bool {
        self.names.len() > 1
            && self
                .names
                .last()
                .is_some_and(|(.., by)| *by == Cause::OperatorAction)
    }
}

/// Whether a call of an upgrader caused it.
pub fn is_ours(cause: Cause) -> bool {
    matches!(cause, Cause::Call(_))
}

/// All containers of all delegates.
pub struct Timeline<'a> {
    pub world: &'a World,
    pub shadows: Vec<Shadow>,
    outages: Vec<(Duration, Duration)>,
    /// The delegates whose settings keep them from ever being healthy.
    broken: BTreeSet<usize>,
}

impl<'a> Timeline<'a> {
    pub fn new(world: &'a World, names: &BTreeMap<String, usize>, outages: &[(Duration, Duration)]) -> Self {
        let mut shadows: Vec<Shadow> = Vec::new();
        let mut places = BTreeMap::new();
        for event in world.twin.events().iter() {
            if event.what == Happened::Created
                && let Some(line) = names.get(Role::parse(&event.name).0)
            {
                places.insert(event.id.clone(), shadows.len());
                shadows.push(begun(world, event, *line));
            }
            if let Some(place) = places.get(&event.id) {
                note(&mut shadows[*place], event);
            }
        }
        for (at, id, is_paused) in &world.book().pauses {
            let Some(place) = places.get(id) else { continue };
            let pauses = &mut shadows[*place].pauses;
            match pauses.last_mut().filter(|(_, until)| *until > *at) {
                Some((_, until)) => *until = *at,
                None if *is_paused => pauses.push((*at, Duration::MAX)),
                None => {}
            }
        }
        let delegates = world.scenario.delegates.iter().enumerate();
        let broken = delegates.filter(|(_, delegate)| delegate.is_broken);
        Self {
            world,
            shadows,
            outages: outages.to_vec(),
            broken: broken.map(|(index, _)| index).collect(),
        }
    }

    pub fn shadow(&self, id: &str) -> Option<&Shadow> {
        self.shadows.iter().find(|shadow| shadow.id == id)
    }

    /// The other containers of the same delegate.
    pub fn others<'b>(&'b self, shadow: &'b Shadow) -> impl Iterator<Item = &'b Shadow> {
        let is_other = |other: &&Shadow| other.line == shadow.line && other.id != shadow.id;
        self.shadows.iter().filter(is_other)
    }

    /// Whether a container works, or does not, according to a health check by that moment.
    pub fn seems_to_work(&self, shadow: &Shadow, at: Duration, works: bool) -> bool {
        let steps = CHECK_AGE.as_millis() / 500;
        let mut checks = (0..=steps)
            .map(|step| at.saturating_sub(Duration::from_millis(500) * u32::try_from(step).unwrap()));
        checks.any(|check| self.works(shadow, check) == works)
    }

    /// Whether a container takes tasks at that moment: it is up, healthy, and we have not asked it to stop. A container that
    /// a person stops answers until its end.
    pub fn works(&self, shadow: &Shadow, at: Duration) -> bool {
        let behaviour = &self.world.scenario.images[shadow.image].behaviour;
        let is_in = |(from, to): &(Duration, Duration)| *from <= at && at < *to;
        let is_healthy = |life: &Life| {
            let mut by_us = life.signals.iter().filter(|(_, cause)| is_ours(*cause));
            let is_asked = by_us.next().is_some_and(|(signal, _)| *signal <= at);
            let mut pauses = shadow.pauses.iter().filter(|(from, _)| *from >= life.from);
            !is_asked && !pauses.any(is_in) && behaviour.is_healthy_at(at - life.from)
        };
        shadow.role(at).is_some()
            && shadow.life(at).is_some_and(is_healthy)
            && !self.outages.iter().any(is_in)
            && !self.broken.contains(&shadow.line)
    }
}

fn begun(world: &World, event: &Event, line: usize) -> Shadow {
    Shadow {
        id: event.id.clone(),
        line,
        image: world.image_of(&event.image).expect("an image of the scenario"),
        created: (event.at, event.cause),
        removed: None,
        names: vec![(event.at, event.name.clone(), event.cause)],
        lives: Vec::new(),
        pauses: Vec::new(),
    }
}

fn note(shadow: &mut Shadow, event: &Event) {
    match &event.what {
        Happened::Created | Happened::NotStarted => {}
        Happened::Started => shadow.lives.push(Life {
            from: event.at,
            signals: Vec::new(),
            end: None,
        }),
        Happened::Renamed { .. } => shadow.names.push((event.at, event.name.clone(), event.cause)),
        Happened::Signalled | Happened::SignalledAgain => {
            let life = shadow.lives.last_mut().expect("a signal needs a process");
            life.signals.push((event.at, event.cause));
        }
        Happened::Exited { .. } => {
            let life = shadow.lives.last_mut().expect("an end needs a process");
            life.end = Some((event.at, event.cause));
        }
        Happened::Removed => shadow.removed = Some((event.at, event.cause)),
    }
}
