//! What people did stands: checked at each event, and at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use delegate_upgrader::container::{ContainerId, Inspected, Role, RunState};
use delegate_upgrader::document::{self, Images};
use serde_json::json;

use super::at_once::was_changed_at_once;
use super::book::Book;
use super::claims::{Claims, Down, Fate, Line, Part, Touch};
use super::ending::{ended_by_its_image, is_halted};
use super::scenario::{Faults, Kind, Way};
use super::world::World;
use kit::twin::{Cause, Event, Glance, Happened};

/// How old an observation may be when a step that rests on it takes effect.
const OBSERVATION_AGE: Duration = Duration::from_secs(3);
/// The same when calls are slow or lost.
const OBSERVATION_AGE_WITH_DELAYS: Duration = Duration::from_secs(90);
/// So many candidates of a delegate are created in an hour at most, by each upgrader, once all is calm.
const CREATES: usize = 3;

pub(super) fn observation_age(world: &World) -> Duration {
    let faults = &world.scenario.faults;
    if faults.slow + faults.lost_answer + faults.lost_request > 0 {
        OBSERVATION_AGE_WITH_DELAYS
    } else {
        OBSERVATION_AGE
    }
}

/// Whether an upgrader renamed a container within that time.
fn was_renamed(world: &World, id: &ContainerId, from: Duration, to: Duration) -> bool {
    world.twin.events().iter().any(|event| {
        let by_us = matches!(
            (&event.what, event.cause),
            (Happened::Renamed { .. }, Cause::Call(_))
        );
        by_us && event.id == id.as_str() && from <= event.at && event.at <= to
    })
}

/// Whether someone renamed that container so short a time ago that no upgrader could know.
fn was_named_just_now(world: &World, removed: &Event, age: Duration) -> bool {
    world.twin.events().iter().any(|event| {
        matches!(event.what, Happened::Renamed { .. })
            && event.cause == Cause::OperatorAction
            && event.id == removed.id
            && event.at <= removed.at
            && removed.at < event.at + age
    })
}

/// What must hold at every moment.
pub(super) fn moments(world: &World, book: &Book) -> Vec<String> {
    let claims = &book.claims;
    let faults = &world.scenario.faults;
    let age = observation_age(world);
    let mut violations = Vec::new();
    let mut creates: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
    for event in world.twin.events().iter() {
        let Cause::Call(index) = event.cause else {
            continue;
        };
        let mut violated = |rule: &str| {
            violations.push(format!(
                "{rule}: {} at {:?} ({:?})",
                event.name, event.at, event.what
            ));
        };
        match &event.what {
            Happened::Started => {
                let line = claims.line_of(Role::parse(&event.name).0);
                // It takes its time to end, and may be up for longer than its candidate takes to start.
                let events = world.twin.events();
                let since = |down: &Down| {
                    let mut ends = events.iter().filter(|other| {
                        other.id == down.id.as_str() && matches!(other.what, Happened::Exited { .. })
                    });
                    ends.find(|end| end.at >= down.from)
                        .map_or(down.from, |end| end.at)
                };
                let is_down = |down: &&Down| {
                    since(down) + age < event.at && down.until.is_none_or(|until| event.at < until)
                };
                for down in claims.downs.iter().filter(is_down) {
                    // Without its policy it looks as if an upgrader had stopped it.
                    let is_ambiguous = claims
                        .touches
                        .iter()
                        .any(|touch| touch.id == down.id && touch.part == Part::Policy);
                    if is_ambiguous || was_changed_at_once(world, down) {
                        continue;
                    }
                    if down.id.as_str() == event.id {
                        violated("what someone stopped was started");
                    } else if Some(down.line) == line {
                        violated("another one was started for what someone stopped");
                    }
                }
            }
            Happened::Removed
                if claims.given.contains_key(&event.name) && !was_named_just_now(world, event, age) =>
            {
                violated("what someone gave a name was removed");
            }
            Happened::Renamed { .. }
                if *faults == Faults::default()
                    && is_blamed(world, event)
                    && !lost_its_policy(claims, event)
                    && !was_crowded_out(world, claims, event)
                    && !was_beaten_to_it(world, event, age)
                    && !is_a_marker_that_was_started(world, event) =>
            {
                violated("a good image is in quarantine");
            }
            Happened::Created if event.name.ends_with(".candidate") => {
                let client = world.twin.calls()[index].client;
                let key = format!("{} by {client}", event.name);
                creates.entry(key).or_default().push(event.at);
            }
            _ => {}
        }
    }
    let calm = book.calm_since.unwrap_or(Duration::MAX);
    for (what, times) in creates {
        let calm: Vec<Duration> = times.into_iter().filter(|at| *at > calm).collect();
        let often = |window: &[Duration]| window[CREATES] - window[0] < Duration::from_secs(3500);
        if calm.windows(CREATES + 1).any(often) {
            violations.push(format!("{what} was created more than {CREATES} times in an hour"));
        }
    }
    violations
}

/// Whether someone set the policy of that container: without one it looks as if it had been stopped for its failure.
fn lost_its_policy(claims: &Claims, event: &Event) -> bool {
    let mut touches = claims.touches.iter();
    touches.any(|touch| touch.id.as_str() == event.id && touch.part == Part::Policy)
}

/// Whether someone may have kept up another one of what cannot run twice, as under a name of theirs.
fn was_crowded_out(world: &World, claims: &Claims, event: &Event) -> bool {
    let line = claims.line_of(Role::parse(&event.name).0);
    line.is_some_and(|line| {
        claims.lines[line].is_double && world.scenario.delegates[line].way == Way::StopFirst
    })
}

/// Whether someone started another one of what cannot run twice just as the candidate was started, which no upgrader saw.
fn was_beaten_to_it(world: &World, event: &Event, age: Duration) -> bool {
    let base = Role::parse(&event.name).0;
    let events = world.twin.events();
    let starts = events
        .iter()
        .filter(|other| matches!(other.what, Happened::Started));
    let (ours, others): (Vec<&Event>, Vec<&Event>) = starts.partition(|start| start.id == event.id);
    let by_somebody =
        |other: &&Event| other.cause == Cause::OperatorAction && Role::parse(&other.name).0 == base;
    let others: Vec<&Event> = others.into_iter().filter(by_somebody).collect();
    let is_asked = |start: &&Event| matches!(start.cause, Cause::Call(_));
    let is_stop_first = world
        .scenario
        .delegates
        .iter()
        .any(|delegate| delegate.name == base && delegate.way == Way::StopFirst);
    is_stop_first
        && ours
            .into_iter()
            .filter(is_asked)
            .any(|start| others.iter().any(|other| start.at.abs_diff(other.at) <= age))
}

/// Whether that rename puts an image that serves into quarantine.
fn is_blamed(world: &World, event: &Event) -> bool {
    let image = world.image_of(&event.image);
    let serves = image.is_some_and(|image| world.scenario.images[image].kind.serves());
    let is_broken = world.scenario.delegates.iter().any(|delegate| delegate.is_broken);
    // More restarts than an upgrader takes for somebody's keep it from being healthy for long enough.
    let events = world.twin.events();
    let by_hand = events.iter().filter(|other| {
        other.id == event.id
            && other.cause == Cause::OperatorAction
            && matches!(other.what, Happened::Started)
    });
    let is_restless = by_hand.count() > 3;
    serves && !is_broken && !is_restless && matches!(Role::parse(&event.name).1, Role::Failed { .. })
}

/// What must hold when all has come to rest.
pub(super) fn ending(world: &World, book: &Book) -> Vec<String> {
    let glance = world.twin.glance();
    let claims = &book.claims;
    let mut violations = Vec::new();
    for (index, line) in claims.lines.iter().enumerate() {
        let mut problems = Vec::new();
        let judge = Judge {
            world,
            book,
            index,
            line,
            glance: &glance,
        };
        judge.judge(&mut problems);
        let all: Vec<String> = glance
            .iter()
            .map(|container| {
                format!(
                    "{} {} {}",
                    container.name,
                    container.state.as_str(),
                    container.image
                )
            })
            .collect();
        violations.extend(problems.into_iter().map(|problem| {
            format!(
                "at the end, {}, {:?}: {problem} [{}]",
                world.scenario.delegates[index].name,
                line.fate,
                all.join(", ")
            )
        }));
    }
    for container in &glance {
        let (base, _) = Role::parse(&container.name);
        let is_known = |name: &str| claims.line_of(name).is_some();
        if container.id != world.stranger && !is_known(base) && !is_known(&container.name) {
            violations.push(format!("at the end, {} is unexpected", container.name));
        }
    }
    violations
}

pub(super) struct Judge<'a> {
    pub(super) world: &'a World,
    pub(super) book: &'a Book,
    pub(super) index: usize,
    pub(super) line: &'a Line,
    pub(super) glance: &'a [Glance],
}

impl Judge<'_> {
    fn judge(&self, problems: &mut Vec<String>) {
        let family: Vec<(Role, &Glance)> = self
            .glance
            .iter()
            .filter_map(|container| {
                let (base, role) = Role::parse(&container.name);
                self.line.names.contains(base).then_some((role, container))
            })
            .collect();
        let up: Vec<&(Role, &Glance)> = family
            .iter()
            .filter(|(_, container)| matches!(container.state.as_str(), "running" | "paused" | "restarting"))
            .collect();
        match &self.line.fate {
            Fate::Any => {}
            Fate::Gone if self.was_being_replaced() => {}
            Fate::Gone => {
                // What somebody keeps under another name is another delegate, which may be started.
                for (_, container) in up.into_iter().filter(|(_, it)| !it.name.contains("-kept-")) {
                    problems.push(format!("{} is up, though it was removed", container.name));
                }
            }
            Fate::Down(id) | Fate::Paused(id) => {
                let mut downs = self.book.claims.downs.iter().rev();
                if downs
                    .find(|down| down.id == *id)
                    .is_some_and(|down| was_changed_at_once(self.world, down))
                {
                    return;
                }
                let is_paused = matches!(self.line.fate, Fate::Paused(_));
                // Without its policy it looks as if an upgrader had stopped it.
                let mut touches = self.book.claims.touches.iter();
                let is_ambiguous = touches.any(|touch| {
                    touch.id == *id
                        && touch.part == Part::Policy
                        && touch.at >= self.line.since
                        && was_renamed(self.world, id, touch.at, Duration::MAX)
                });
                if is_ambiguous && !is_paused {
                    return;
                }
                let it = family.iter().find(|(_, container)| container.id == *id);
                match it {
                    None => problems.push("what someone stopped is gone".to_owned()),
                    Some((_, it)) if is_paused && it.state != RunState::Paused => {
                        problems.push(format!("what someone paused is {}", it.state.as_str()));
                    }
                    Some((role, it)) if *role != Role::Serving => {
                        problems.push(format!("what someone stopped is now {}", it.name));
                    }
                    Some(_) => {}
                }
                for (_, container) in up {
                    if !(is_paused && container.id == *id) {
                        problems.push(format!("{} is up, though it was stopped", container.name));
                    }
                }
            }
            Fate::Serves => self.serves(&family, problems),
        }
    }

    /// Whether its candidate was created at the moment of the act: then it is the only one, and serves.
    fn was_being_replaced(&self) -> bool {
        let until = self.line.since + observation_age(self.world);
        self.world.twin.events().iter().any(|event| {
            let (base, _) = Role::parse(&event.name);
            let by_us = matches!((&event.what, event.cause), (Happened::Created, Cause::Call(_)));
            by_us && self.line.names.contains(base) && self.line.since <= event.at && event.at <= until
        })
    }

    fn serves(&self, family: &[(Role, &Glance)], problems: &mut Vec<String>) {
        let delegate = &self.world.scenario.delegates[self.index];
        let serving: Vec<&Glance> = family
            .iter()
            .filter(|(role, _)| *role == Role::Serving)
            .map(|(_, container)| *container)
            .collect();
        let running: Vec<&&Glance> = serving
            .iter()
            .filter(|container| container.state == RunState::Running)
            .collect();
        if running.len() > 1 {
            problems.push("it runs twice".to_owned());
            return;
        }
        let comes_back = serving
            .iter()
            .find(|container| container.state == RunState::Restarting);
        let Some(serving) = running
            .first()
            .copied()
            .or(comes_back)
            .or_else(|| serving.first())
        else {
            if !ended_by_its_image(self.world, delegate) && !self.is_gone_by_hand() {
                problems.push("the delegate is lost".to_owned());
            }
            return;
        };
        let document = self.world.twin.document(serving.id.as_str()).unwrap();
        let Some(image) = self.world.image_of(document["Image"].as_str().unwrap()) else {
            problems.push(format!("it runs an image of nobody's: {}", document["Image"]));
            return;
        };
        let kind = self.world.scenario.images[image].kind;
        let runs = serving.state == RunState::Running;
        let is_left_paused =
            serving.state == RunState::Paused && self.book.claims.paused_in_drain.contains(&serving.id);
        if !runs
            && kind.serves()
            && !is_left_paused
            && !ended_by_its_image(self.world, delegate)
            && !self.is_down_by_hand(serving)
        {
            problems.push(format!("it does not run: {}", serving.state.as_str()));
        }
        let works = self.world.twin.health(&serving.id) == Some(true);
        // Two of these cannot work side by side, and somebody made that two.
        let collides = delegate.way == Way::StopFirst && self.line.is_double;
        if runs && kind.serves() && !works && !collides {
            problems.push("it does not work".to_owned());
        }
        self.left_over(family, works && !delegate.is_broken, problems);
        let published = self.world.scenario.images[self.book.published].kind;
        let may_be_replaced = runs
            && published.serves()
            && delegate.way != super::scenario::Way::LeftAlone
            && !delegate.is_broken
            // Without its image it cannot be made anew.
            && self.world.twin.images().iter().any(|there| there.as_str() == document["Image"])
            && !is_halted(self.world, self.book, self.glance)
            // Its port is taken, and no candidate of it finds it free either.
            && !self.is_crowded_out(serving);
        // Someone gave a name of this platform's images to one of another platform.
        let is_foreign = kind == Kind::WrongPlatform;
        // Nobody pulls it again for a name that it has already.
        let reference = &self.world.scenario.images[self.book.published].reference;
        let is_mistaken = serving.image == *reference && self.book.claims.retagged.contains(reference);
        if may_be_replaced && !is_foreign && !is_mistaken && !self.world.same(image, self.book.published) {
            problems.push(format!(
                "it runs image {image} ({kind:?}), though {} ({published:?}) is published",
                self.book.published
            ));
        }
        self.configured(&document, image, problems);
    }

    fn left_over(&self, family: &[(Role, &Glance)], works: bool, problems: &mut Vec<String>) {
        let flaps = self.world.scenario.images[0].kind == Kind::Flaps;
        for (role, container) in family {
            let runs = matches!(container.state.as_str(), "running" | "paused" | "restarting");
            let is_left = match role {
                Role::Serving => false,
                _ if container.state == RunState::Removing => false,
                Role::Failed { .. } | Role::Inconclusive { .. } => runs,
                Role::Withdrawn { .. } => runs || !flaps && works,
                Role::Draining { .. }
                | Role::Attempt
                | Role::Candidate
                | Role::Standby
                | Role::Helper { .. } => works,
            };
            if is_left {
                problems.push(format!(
                    "{} is left over, {}",
                    container.name,
                    container.state.as_str()
                ));
            }
        }
        let is_rejected = |role: Role| matches!(role, Role::Failed { .. } | Role::Inconclusive { .. });
        for name in &self.line.names {
            let rejected = family
                .iter()
                .filter(|(role, other)| is_rejected(*role) && Role::parse(&other.name).0 == name);
            if rejected.count() > 1 {
                problems.push(format!("more than one rejected one of {name} is kept"));
            }
        }
    }

    /// It must be configured as people last set it.
    fn configured(&self, document: &serde_json::Value, image: usize, problems: &mut Vec<String>) {
        let world = self.world;
        let first = self.line.expected["Image"].as_str();
        let Some(first) = first.and_then(|id| world.image_of(id)) else {
            return;
        };
        let of = |index: usize| json!({ "Id": world.images[index].id, "Config": world.images[index].config });
        if self.made_anew_in_vain() {
            return;
        }
        let (old, new) = (of(first), of(image));
        let images = Images { old: &old, new: &new };
        let [expected, now] =
            [&self.line.expected, document].map(|document| Inspected::new(document.clone()).unwrap());
        for difference in document::differences(&expected, &now, images) {
            let path = difference.path();
            let is_of = |part: &Part| path.starts_with(part.path());
            let mut touches = self.book.claims.touches.iter();
            let age = observation_age(world);
            // It became another part of the delegate at that moment, or its candidate was started.
            let is_late = |touch: &Touch| {
                touch.line == self.index
                    && is_of(&touch.part)
                    && (was_renamed(world, &touch.id, touch.at, touch.at + age)
                        || self.was_started_at_once(touch)
                        || self.was_retired_at_once(touch)
                        || self.vanished_unseen(touch, &now.id()))
            };
            if !self.line.unsure.iter().any(is_of) && !touches.any(is_late) {
                problems.push(format!("its configuration differs: {difference}"));
            }
        }
    }
}

/// The delegate that a name belongs to, after people gave names.
pub(super) fn original_name<'a>(world: &'a World, claims: &Claims, base: &'a str) -> &'a str {
    let line = claims.line_of(base);
    line.map_or(base, |line| world.scenario.delegates[line].name.as_str())
}

/// Whether somebody started what is never started: the marker of an attempt then ends as its candidate would have.
fn is_a_marker_that_was_started(world: &World, event: &Event) -> bool {
    world.twin.events().iter().any(|other| {
        other.id == event.id
            && other.name.ends_with(".attempt")
            && (&other.what, other.cause) == (&Happened::Started, Cause::OperatorAction)
    })
}
