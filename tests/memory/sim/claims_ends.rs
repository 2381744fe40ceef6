//! What becomes of what people did when containers end without them, or have another name.

use std::time::Duration;

use delegate_upgrader::container::{ContainerId, Role};
use serde_json::Value;

use super::claims::{Claims, Fate, Line, Part};
use super::situation::{Situation, is_being_restarted, is_up};
use super::standing::observation_age;
use super::world::World;
use kit::twin::Glance;

/// Whether nobody may know any more who did what happened then, once the engine has ended: it has forgotten that before an
/// upgrader in the middle of a replacement could ask, or the upgrader that knew was killed.
fn is_forgotten(world: &World, since: Duration) -> bool {
    let faults = &world.scenario.faults;
    faults.kill + faults.power > 0 || world.twin.elapsed() <= since + observation_age(world)
}

/// Whether the labels say that it was made to replace another one with a policy, and it has none.
fn looks_given_up(world: &World, target: &Glance) -> bool {
    let document = world.twin.document(target.id.as_str());
    let label = document.and_then(|document| {
        let label = &document["Config"]["Labels"]["io.delegate-upgrader.previous-restart-policy"];
        Some(label.as_str()?.to_owned())
    });
    target.policy == "no" && label.is_some_and(|label| label != "no")
}

impl Claims {
    /// Whether someone gave a container of that line another name.
    pub(super) fn is_renamed(&self, line: usize) -> bool {
        self.given
            .iter()
            .any(|(name, of)| *of == line && name.contains("-kept-"))
    }

    /// The engine or the host ended all containers, and brings back those whose policy says so.
    pub(super) fn containers_ended(&mut self, world: &World) {
        let glance = world.twin.glance();
        for line in 0..self.lines.len() {
            let Line {
                fate,
                expected,
                unsure,
                since,
                ..
            } = &self.lines[line];
            let policy = expected["HostConfig"]["RestartPolicy"]["Name"].as_str();
            let auto_remove = expected["HostConfig"]["AutoRemove"] == Value::Bool(true);
            let is_sure = !unsure.contains(&Part::Policy) && !auto_remove;
            let situation = self.situation(line, &glance);
            let is_forgotten = !situation.is_calm() && is_forgotten(world, *since);
            // An engine that ends in the middle of `docker restart` takes it for one that somebody stopped.
            let is_between = situation
                .serving()
                .is_some_and(|serving| is_being_restarted(world, serving));
            let stays = match fate {
                Fate::Serves if policy == Some("unless-stopped") => is_sure && !is_between,
                Fate::Serves => is_sure && policy == Some("always"),
                Fate::Down(_) => is_sure && policy != Some("always") && !is_forgotten,
                Fate::Paused(_) => false,
                Fate::Gone | Fate::Any => true,
            };
            if !stays {
                let since = *since;
                self.becomes(line, Fate::Any, since);
            }
        }
    }

    /// The engine alone was restarted: it starts what is always to run, even if someone stopped it, and has forgotten to
    /// end what is still up.
    pub(super) fn engine_restarted(&mut self, world: &World) {
        let glance = world.twin.glance();
        let lives_on = |id: &ContainerId| glance.iter().any(|other| other.id == *id && is_up(other));
        for line in 0..self.lines.len() {
            let Line {
                fate,
                expected,
                unsure,
                since,
                ..
            } = &self.lines[line];
            let policy = expected["HostConfig"]["RestartPolicy"]["Name"].as_str();
            // What was to start again has no engine that does it.
            let situation = self.situation(line, &glance);
            let serving = situation.serving();
            if *fate == Fate::Serves && serving.is_some_and(|serving| is_being_restarted(world, serving)) {
                let since = *since;
                self.becomes(line, Fate::Any, since);
                continue;
            }
            let may_start = unsure.contains(&Part::Policy) || policy == Some("always");
            let is_forgotten = !situation.is_calm() && is_forgotten(world, *since);
            if matches!(fate, Fate::Down(id) if may_start || is_forgotten || lives_on(id)) {
                let since = *since;
                self.becomes(line, Fate::Any, since);
            }
        }
    }

    /// They gave one of its containers another name.
    pub(super) fn rename(
        &mut self,
        world: &World,
        situation: &Situation,
        role: Role,
        target: &Glance,
        to: &str,
    ) {
        let (faults, upgraders) = (&world.scenario.faults, &world.scenario.upgraders);
        // Only the process that asked it to stop knows that it drains, where it has no policy that could be off.
        let had_no_policy =
            self.lines[situation.line].expected["HostConfig"]["RestartPolicy"]["Name"] == "no";
        let is_forgotten = had_no_policy && (faults.kill + faults.power > 0 || upgraders.len() > 1);
        self.given.insert(to.to_owned(), situation.line);
        let line = &mut self.lines[situation.line];
        // What was given up under the old name is no part of it any more.
        line.is_double |= matches!(role, Role::Serving | Role::Candidate) && situation.has_given_up();
        match role {
            Role::Serving if situation.is_calm() => {
                line.names.remove(&target.name);
                self.given.insert(target.name.clone(), situation.line);
                line.names.insert(to.to_owned());
                // Under its own name it is plain that its owner stopped it. Under another one, beside a rejected successor,
                // only the process that saw it end knows, where no policy could have been taken off.
                if is_forgotten && !is_up(target) && situation.has_failed() {
                    let since = world.twin.elapsed();
                    self.becomes(situation.line, Fate::Any, since);
                }
            }
            // They had made anew what it was to replace: it is no part of that one, and theirs under this name.
            Role::Candidate if situation.is_nobodys(world, target) => line.is_double = true,
            // They took its policy off before, as is done to one that is given up.
            Role::Serving | Role::Candidate if looks_given_up(world, target) => line.is_double = true,
            // They had made it anew while an old one drained, or a candidate proved itself. It is known by its name alone: that
            // one comes back beside it, as it was.
            Role::Serving if situation.is_unknown(world, target) => {
                line.is_double = true;
                line.fate = Fate::Any;
            }
            Role::Serving | Role::Candidate => {
                line.names.insert(to.to_owned());
            }
            // One that they started is up beside what takes its place.
            Role::Standby => {
                line.is_double |= is_up(target);
                if situation.serving().is_none() {
                    line.fate = Fate::Any;
                }
            }
            Role::Draining { .. } => {
                line.names.insert(to.to_owned());
                if is_forgotten || situation.is_on_its_own(world, target) {
                    line.fate = Fate::Any;
                }
                if situation.serving().is_some() {
                    // As they took it, its policy was off. Or it was not asked to stop yet: then it is a delegate of its own as
                    // soon as it lives another life, which its policy gives it if it crashes.
                    line.unsure.insert(Part::Policy);
                    if target.policy != "no" {
                        line.fate = Fate::Any;
                        line.is_double = true;
                    }
                    return;
                }
                // Without a successor, or in a life that somebody gave it, it is theirs.
                // Nor does anybody know what ended before what, if the clock was set back.
                if situation.candidate().is_none() || line.was_restarted || self.clock_went_back {
                    line.fate = Fate::Any;
                }
            }
            // It may still be up when another one takes over.
            Role::Withdrawn { .. } | Role::Failed { .. } | Role::Inconclusive { .. } if is_up(target) => {
                line.fate = Fate::Any;
                line.is_double = true;
            }
            _ => {}
        }
    }

    /// With what they remove goes what they had set on it while it drained; what was set before, its successor has.
    pub(super) fn goes_with_it(&mut self, line: usize, removed: &Glance) {
        let touches = self.touches.iter();
        let set = touches.filter(|touch| touch.id == removed.id && touch.is_draining);
        self.lines[line].unsure.extend(set.map(|touch| touch.part));
    }

    /// A process ended by itself.
    pub(super) fn crashed(&mut self, victim: &Glance, now: Duration) {
        let (base, role) = Role::parse(&victim.name);
        let Some(line) = self.line_of(base) else { return };
        let expected = &self.lines[line].expected;
        let policy = expected["HostConfig"]["RestartPolicy"]["Name"].as_str();
        // In a life that somebody gave it this very moment, before an upgrader could give it its policy back.
        let is_new = now < self.lines[line].since + Duration::from_secs(1);
        let is_off = victim.policy == "no" && self.given.contains_key(&victim.name) && is_new;
        let comes_back = !is_off && !self.lines[line].unsure.contains(&Part::Policy) && policy != Some("no");
        if !comes_back && matches!(role, Role::Serving | Role::Draining { .. } | Role::Candidate) {
            let since = self.lines[line].since;
            self.becomes(line, Fate::Any, since);
        }
    }
}
