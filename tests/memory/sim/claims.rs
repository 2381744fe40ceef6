//! What people did to the delegates, and what stands from then on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use delegate_upgrader::container::{ContainerId, Role, RunState};
use serde_json::Value;

use super::scenario::{Delegate, Way};
use super::situation::{Situation, is_being_restarted, is_running, is_up};
use super::world::World;
use kit::twin::{Glance, OperatorAction};

/// What has become of a delegate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is in service.
    Serves,
    /// Someone stopped this container, and it stays down.
    Down(ContainerId),
    /// Someone paused this container, and it stays so.
    Paused(ContainerId),
    /// Someone removed it.
    Gone,
    /// Nobody can tell: the act came while a replacement was in progress, or the engine ended it.
    Any,
}

/// A part of a delegate's settings that people change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Memory,
    Policy,
    Networks,
    AutoRemove,
}

impl Part {
    /// Where a document has it.
    pub fn path(self) -> &'static str {
        match self {
            Self::Memory => "/HostConfig/Memory",
            Self::Policy => "/HostConfig/RestartPolicy",
            Self::Networks => "/NetworkSettings/Networks",
            Self::AutoRemove => "/HostConfig/AutoRemove",
        }
    }
}

/// One delegate of the scenario, and what its owner wants of it now.
#[derive(Clone, Debug)]
pub struct Line {
    /// The names that it may have.
    pub names: BTreeSet<String>,
    pub fate: Fate,
    /// Since when.
    pub since: Duration,
    /// A document with the settings that were last given.
    pub expected: Value,
    /// The parts of them of which nobody can tell.
    pub unsure: BTreeSet<Part>,
    /// Someone started what they kept: there are two of it.
    pub is_double: bool,
    /// Someone started an old one again.
    pub was_restarted: bool,
}

/// A setting that someone changed on a container that may have changed its part at that moment.
#[derive(Clone, Debug)]
pub struct Touch {
    pub id: ContainerId,
    pub line: usize,
    pub part: Part,
    pub at: Duration,
    pub is_draining: bool,
}

/// A container that someone stopped or paused, from a time until someone took that back, or the engine did.
#[derive(Clone, Debug)]
pub struct Down {
    pub id: ContainerId,
    pub line: usize,
    pub from: Duration,
    pub until: Option<Duration>,
}

#[derive(Clone, Debug, Default)]
pub struct Claims {
    pub lines: Vec<Line>,
    pub downs: Vec<Down>,
    pub touches: Vec<Touch>,
    /// The old ones that someone paused while they drained.
    pub paused_in_drain: Vec<ContainerId>,
    /// Names that people gave to containers, with the line of each.
    pub given: BTreeMap<String, usize>,
    /// Names of images that someone gave to others.
    pub retagged: BTreeSet<String>,
    /// The clock was set back at some time.
    pub clock_went_back: bool,
}

impl Claims {
    pub fn new<'a>(originals: impl Iterator<Item = (&'a str, &'a Value)>) -> Self {
        let lines = originals.map(|(name, document)| Line {
            names: BTreeSet::from([name.to_owned()]),
            fate: Fate::Serves,
            since: Duration::ZERO,
            expected: document.clone(),
            unsure: BTreeSet::new(),
            is_double: false,
            was_restarted: false,
        });
        Self {
            lines: lines.collect(),
            ..Self::default()
        }
    }

    /// The line that a name belongs to.
    pub fn line_of(&self, base: &str) -> Option<usize> {
        let own = self.lines.iter().position(|line| line.names.contains(base));
        own.or_else(|| self.given.get(base).copied())
    }

    pub(super) fn situation(&self, line: usize, glance: &[Glance]) -> Situation {
        let names = &self.lines[line].names;
        let family = glance.iter().filter_map(|container| {
            let (base, role) = Role::parse(&container.name);
            names.contains(base).then(|| (role, container.clone()))
        });
        Situation {
            line,
            family: family.collect(),
        }
    }

    /// Someone starts what they had stopped, or lets it go on, whatever is certain of its delegate.
    fn takes_back(&mut self, id: &ContainerId, now: Duration) {
        for down in &mut self.downs {
            if down.id == *id && down.until.is_none() {
                down.until = Some(now);
            }
        }
    }

    pub(super) fn becomes(&mut self, line: usize, fate: Fate, now: Duration) {
        for down in &mut self.downs {
            if down.line == line && down.until.is_none() {
                down.until = Some(now);
            }
        }
        if let Fate::Down(id) | Fate::Paused(id) = &fate {
            self.downs.push(Down {
                id: id.clone(),
                line,
                from: now,
                until: None,
            });
        }
        self.lines[line].fate = fate;
        self.lines[line].since = now;
    }

    /// Records what stands after an act that the engine carried out.
    pub(super) fn note(
        &mut self,
        world: &World,
        situation: &Situation,
        role: Role,
        target: &Glance,
        hand: &OperatorAction,
    ) {
        let line = situation.line;
        let now = world.twin.elapsed();
        let has_serving = situation.serving().is_some();
        let Delegate { auto_remove, way, .. } = world.scenario.delegates[line];
        if situation.is_kept(role, target) {
            match hand {
                OperatorAction::Rename(_, to) => {
                    self.lines[line].names.remove(&target.name);
                    self.given.insert(target.name.clone(), line);
                    self.given.insert(to.clone(), line);
                    self.lines[line].names.insert(to.clone());
                }
                OperatorAction::Start(_) | OperatorAction::Restart(_) => {
                    self.lines[line].is_double = true;
                    self.becomes(line, Fate::Any, now);
                }
                // It may come back, if its successor fails.
                OperatorAction::SetMemory(..) if is_up(target) => {
                    self.lines[line].unsure.insert(Part::Memory);
                }
                OperatorAction::SetRestartPolicy(..) if is_up(target) => {
                    self.lines[line].unsure.insert(Part::Policy);
                }
                // The engine may start it by that one day, beside the one in service.
                OperatorAction::SetRestartPolicy(..) => self.touches.push(Touch {
                    id: target.id.clone(),
                    line,
                    part: Part::Policy,
                    at: now,
                    is_draining: false,
                }),
                OperatorAction::Connect(..) | OperatorAction::Disconnect(..) if is_up(target) => {
                    self.lines[line].unsure.insert(Part::Networks);
                }
                _ => {}
            }
            return;
        }
        // A new one that someone stops gives way to the old one, for another attempt.
        let has_fallback =
            situation.draining().is_some() || situation.standby().is_some() || self.is_renamed(line);
        let ends = matches!(hand, OperatorAction::Stop(_) | OperatorAction::Kill(_)) && role == Role::Serving;
        // Its copy may serve.
        if ends && auto_remove && situation.standby().is_some() {
            self.lines[line].unsure.insert(Part::AutoRemove);
        }
        let lives_again = is_being_restarted(world, target);
        // The time of a stop before runs on: it ends all the same.
        let is_ending = match &self.lines[line].fate {
            Fate::Down(id) => *id == target.id,
            fate => *fate == Fate::Gone,
        };
        if matches!((hand, role), (OperatorAction::Remove(_), Role::Draining { .. })) {
            self.goes_with_it(line, target);
        }
        let fate = match hand {
            OperatorAction::Remove(_) => self.fate_after_removal(situation, role, auto_remove),
            OperatorAction::Stop(_) | OperatorAction::Kill(_) => match role {
                Role::Serving if target.state == RunState::Exited || lives_again => None,
                Role::Serving if auto_remove && situation.is_calm() => Some(Fate::Gone),
                Role::Serving if auto_remove || has_fallback => Some(Fate::Any),
                Role::Serving => Some(Fate::Down(target.id.clone())),
                Role::Draining { .. } if !has_serving => Some(Fate::Any),
                Role::Candidate if !has_serving && situation.draining().is_none() => Some(Fate::Any),
                // Or it has proven itself, and is promoted in this moment.
                Role::Candidate if !has_serving && way == Way::StartFirst => Some(Fate::Any),
                // A crashing one may be given up for it in the same moment.
                Role::Candidate if !is_running(situation.serving()) && situation.draining().is_none() => {
                    Some(Fate::Any)
                }
                _ => None,
            },
            OperatorAction::Pause(_) => match role {
                // If its successor fails, it comes back as they left it.
                Role::Draining { .. } if has_serving => {
                    self.paused_in_drain.push(target.id.clone());
                    None
                }
                // It may serve later, and stays as they left it.
                Role::Standby => {
                    self.paused_in_drain.push(target.id.clone());
                    None
                }
                Role::Serving if has_fallback => Some(Fate::Any),
                Role::Serving if is_ending || lives_again => None,
                Role::Serving => Some(Fate::Paused(target.id.clone())),
                Role::Draining { .. } if !has_serving => Some(Fate::Any),
                // It may be promoted in that moment. With `--rm`, the old one may just be vanishing.
                Role::Candidate if !has_serving && (auto_remove || situation.draining().is_none()) => {
                    Some(Fate::Any)
                }
                _ => None,
            },
            OperatorAction::Start(_) | OperatorAction::Restart(_) | OperatorAction::Unpause(_) => {
                if !(is_ending && matches!(hand, OperatorAction::Unpause(_))) {
                    self.takes_back(&target.id, now);
                }
                if role == Role::Standby {
                    self.lines[line].unsure.insert(Part::AutoRemove);
                }
                // Nothing compares a candidate that they start themselves with what they set on the old one before.
                if role == Role::Candidate && target.state == RunState::Created && !has_serving {
                    let is_of = |touch: &&Touch| situation.family.iter().any(|(_, part)| part.id == touch.id);
                    let set = self
                        .touches
                        .iter()
                        .filter(|touch| touch.is_draining)
                        .filter(is_of);
                    self.lines[line].unsure.extend(set.map(|touch| touch.part));
                }
                self.lines[line].was_restarted |= matches!(role, Role::Draining { .. });
                // Beside the old one, it may stay.
                self.lines[line].is_double |= role == Role::Candidate;
                // Nor does what they start under a name of theirs wait for one that was given up and is still up.
                let is_given_up = |role: Role| role.is_given_up();
                let mut others = situation.family.iter();
                let is_beside = others.any(|(other, part)| is_given_up(*other) && is_up(part));
                let is_theirs =
                    role == Role::Serving && !is_up(target) && self.given.contains_key(&target.name);
                self.lines[line].is_double |= is_beside && is_theirs;
                match role {
                    Role::Serving if auto_remove && matches!(hand, OperatorAction::Restart(_)) => {
                        Some(Fate::Any)
                    }
                    Role::Serving if is_ending && matches!(hand, OperatorAction::Unpause(_)) => None,
                    Role::Serving if self.lines[line].fate != Fate::Any => Some(Fate::Serves),
                    _ => None,
                }
            }
            OperatorAction::SetMemory(..) => {
                self.set(world, situation, role, target, Part::Memory);
                None
            }
            OperatorAction::SetRestartPolicy(..) => {
                self.set(world, situation, role, target, Part::Policy);
                None
            }
            OperatorAction::Connect(..) | OperatorAction::Disconnect(..) => {
                self.set(world, situation, role, target, Part::Networks);
                None
            }
            OperatorAction::Rename(_, to) => {
                self.rename(world, situation, role, target, to);
                None
            }
            _ => None,
        };
        if let Some(fate) = fate {
            self.becomes(line, fate, now);
        }
    }

    fn fate_after_removal(&mut self, situation: &Situation, role: Role, auto_remove: bool) -> Option<Fate> {
        let has_serving = situation.serving().is_some();
        let serves = situation.serving().is_some_and(is_up);
        let is_renamed = self.is_renamed(situation.line);
        let line = &mut self.lines[situation.line];
        // A label of it may have been the only place with the policy that another one had.
        if situation.draining().is_some() || situation.candidate().is_some() {
            line.unsure.insert(Part::Policy);
        }
        if auto_remove && !situation.is_calm() {
            line.unsure.insert(Part::AutoRemove);
        }
        let others = situation.family.iter().filter(|(other, _)| *other != role);
        // One without a policy may have been asked to stop already.
        let runs = others
            .into_iter()
            .any(|(_, container)| is_up(container) && container.policy != "no");
        let is_last = situation
            .family
            .iter()
            .filter(|(role, _)| matches!(role, Role::Candidate | Role::Draining { .. } | Role::Standby))
            .count()
            == 1;
        match role {
            Role::Serving if situation.is_calm() => Some(Fate::Gone),
            Role::Serving => Some(Fate::Any),
            Role::Candidate | Role::Standby if !has_serving && (is_last || auto_remove) => Some(Fate::Any),
            // Nothing else is left but what they keep under another name.
            Role::Candidate if is_renamed && !runs => Some(Fate::Any),
            role if is_renamed && !runs && !serves && role.is_given_up() => Some(Fate::Any),
            Role::Draining { .. } if !has_serving => Some(Fate::Any),
            _ => None,
        }
    }

    /// A setting that someone changed on a container.
    fn set(&mut self, world: &World, situation: &Situation, role: Role, target: &Glance, part: Part) {
        // What is down beside a candidate of another name is still the old one that it replaces.
        let role = match role {
            Role::Serving if situation.serving().is_none() => Role::Draining { since: 0 },
            role => role,
        };
        self.touches.push(Touch {
            id: target.id.clone(),
            line: situation.line,
            part,
            at: world.twin.elapsed(),
            is_draining: matches!(role, Role::Draining { .. }),
        });
        let line = &mut self.lines[situation.line];
        let has_serving = situation.serving().is_some();
        let candidate = situation.candidate();
        let lasts = match role {
            Role::Serving => true,
            // It is the delegate, as long as its successor was not started.
            Role::Draining { .. } if !has_serving => {
                candidate.is_none_or(|candidate| candidate.state == RunState::Created)
            }
            _ => false,
        };
        if lasts {
            let Some(document) = world.twin.document(target.id.as_str()) else {
                return;
            };
            let value = document.pointer(part.path()).cloned().unwrap_or_default();
            if let Some(place) = line.expected.pointer_mut(part.path()) {
                *place = value;
            }
            line.unsure.remove(&part);
            // Taken off in the middle of a replacement, it looks as if an upgrader had done that.
            let is_off = document["HostConfig"]["RestartPolicy"]["Name"] == "no";
            let looks_taken_off = is_off && (!situation.is_calm() || situation.has_failed());
            // Only the process that takes it off for the rest of the drain knows what it was.
            let is_only_remembered = matches!(role, Role::Draining { .. });
            if part == Part::Policy && (looks_taken_off || is_only_remembered) {
                line.unsure.insert(part);
            }
            // Under a name of theirs, the lost policy was all that still showed that it drains.
            let faults = &world.scenario.faults;
            let may_be_away = faults.kill + faults.power > 0;
            let looks_untouched = may_be_away && is_up(target) && target.name.contains("-kept-");
            if part == Part::Policy && is_only_remembered && looks_untouched {
                line.fate = Fate::Any;
            }
            // The copy of one that vanishes is made already, and without a candidate nothing would be left while it is made
            // anew.
            let vanishes = world.scenario.delegates[situation.line].auto_remove;
            let has_copy = situation.standby().is_some();
            // Nor is it compared while the upgrader is away.
            if is_only_remembered && vanishes && (may_be_away || has_copy && candidate.is_none()) {
                line.unsure.insert(part);
            }
        }
        let may_last = match role {
            // If it fails, the one before it comes back, with the settings that this one had.
            Role::Serving => situation.draining().is_some() || situation.standby().is_some(),
            // Or it is the one that comes back; or its copy goes on, which someone started, as they set that one.
            Role::Draining { .. } => !lasts || situation.standby().is_some_and(is_up),
            Role::Candidate => !has_serving,
            Role::Standby => true,
            _ => false,
        };
        if may_last {
            line.unsure.insert(part);
        }
        let is_copy = role == Role::Candidate && !has_serving;
        if role == Role::Standby || is_copy {
            // A copy that differs from its standby is not started, and the standby serves; nor is anything with a policy
            // created with `--rm`.
            line.unsure.insert(Part::AutoRemove);
        }
    }

    /// Someone removed an image, or gave its name to another one: without it no old container can be made anew, and what
    /// comes back of one with `--rm` is its copy.
    pub(super) fn image_changed(&mut self, world: &World) {
        let glance = world.twin.glance();
        for line in 0..self.lines.len() {
            if world.scenario.delegates[line].auto_remove && !self.situation(line, &glance).is_calm() {
                self.lines[line].unsure.insert(Part::AutoRemove);
            }
        }
    }

    /// Compose is about to make a delegate anew.
    pub(super) fn is_recreated(&mut self, world: &World, situation: &Situation, temporary: &str) {
        self.given.insert(temporary.to_owned(), situation.line);
        self.becomes(situation.line, Fate::Any, world.twin.elapsed());
    }

    pub(super) fn failed_to_recreate(&mut self, situation: &Situation) {
        self.lines[situation.line].unsure =
            BTreeSet::from([Part::Memory, Part::Policy, Part::Networks, Part::AutoRemove]);
    }

    /// Compose has made a delegate anew.
    pub(super) fn was_recreated(&mut self, world: &World, situation: &Situation, name: &str) {
        let Some(document) = world.twin.document(name) else {
            return;
        };
        let line = &mut self.lines[situation.line];
        // The old one comes back under its own name, beside what they made of its successor.
        let base = |old: &Glance| Role::parse(&old.name).0.to_owned();
        // What drained under the name that they gave it has a successor all the same.
        let is_drained =
            |(role, old): &(Role, Glance)| *role == Role::Serving && old.name == name && old.policy == "no";
        let drains = situation.family.iter().any(is_drained);
        let candidate = situation.candidate();
        let candidate = candidate.filter(|new| drains || new.state != RunState::Created);
        let mut parts = situation.draining().into_iter().chain(candidate);
        line.is_double |= parts.any(|part| base(part) != name);
        // Or they made anew what they had kept, beside the one in service.
        let other = situation.serving();
        line.is_double |= other.is_some_and(|other| is_up(other) && other.name != name);
        for other in std::mem::replace(&mut line.names, BTreeSet::from([name.to_owned()])) {
            self.given.insert(other, situation.line);
        }
        line.expected = document;
        line.unsure.clear();
        // Started beside a candidate, it may find its port taken, and without a policy nothing starts it a second time.
        let has_no_policy =
            self.lines[situation.line].expected["HostConfig"]["RestartPolicy"]["Name"] == "no";
        let is_beside = |other: &Glance| other.name == Role::Candidate.name(name) && is_up(other);
        let may_collide = has_no_policy
            && world.scenario.delegates[situation.line].way == Way::StopFirst
            && world.twin.glance().iter().any(is_beside);
        let fate = if may_collide { Fate::Any } else { Fate::Serves };
        self.becomes(situation.line, fate, world.twin.elapsed());
    }
}
