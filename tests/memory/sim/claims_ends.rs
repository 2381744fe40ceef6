//! What becomes of what people did when containers end without them, or have another name.

use std::time::Duration;

use delegate_upgrader::container::{ContainerId, Role};
use serde_json::Value;

use super::claims::{Claims, Fate, Line, Part};
use super::situation::{is_being_restarted, is_up};
use super::standing::observation_age;
use super::world::World;
use kit::twin::Glance;

impl Claims {
    /// Whether someone gave a container of that line another name.
    pub(super) fn is_renamed(&self, line: usize) -> bool {
        self.given
            .iter()
            .any(|(name, of)| *of == line && name.contains("-kept-"))
    }

    /// The engine or the host ended all containers, and brings back those whose policy says so.
    pub(super) fn containers_ended(&mut self, world: &World) {
        let (now, glance) = (world.twin.elapsed(), world.twin.glance());
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
            // The engine forgot who did it before an upgrader in the middle of a replacement could ask.
            let is_just_now = now <= *since + observation_age(world);
            let is_forgotten = is_just_now && !situation.is_calm();
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
            if matches!(fate, Fate::Down(id) if may_start || lives_on(id)) {
                let since = *since;
                self.becomes(line, Fate::Any, since);
            }
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
