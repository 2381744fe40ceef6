//! The state of the host when everything has come to rest.

use std::collections::BTreeSet;
use std::time::Duration;

use delegate_upgrader::container::{Inspected, Role, RunState};
use delegate_upgrader::document::{self, Images};
use serde_json::{Value, json};

use super::book::{Book, Given};
use super::invariants::{Moments, previous_image};
use super::scenario::{MOVING, Way};
use super::timeline::{Shadow, Timeline, is_ours};
use super::world::World;
use kit::twin::{Cause, Glance, Happened};

pub(super) fn ending(timeline: &Timeline<'_>, book: &Book, moments: &Moments<'_>) -> Vec<String> {
    let world = timeline.world;
    let glance = world.twin.glance();
    let mut violations = Vec::new();
    for (line, delegate) in world.scenario.delegates.iter().enumerate() {
        let of_it = |container: &&Glance| book.names.get(Role::parse(&container.name).0) == Some(&line);
        let family: Vec<&Glance> = glance.iter().filter(of_it).collect();
        let end = End {
            timeline,
            book,
            moments,
            line,
            family: &family,
        };
        let shown = family
            .iter()
            .map(|container| format!("{} {}", container.name, container.state.as_str()));
        let shown: Vec<String> = shown.collect();
        let problems = end.problems().into_iter();
        violations
            .extend(problems.map(|problem| format!("at the end, {}: {problem} {shown:?}", delegate.name)));
    }
    let is_known = |container: &&Glance| {
        container.id == world.stranger || book.names.contains_key(Role::parse(&container.name).0)
    };
    let unknown = glance.iter().filter(|container| !is_known(container));
    violations.extend(unknown.map(|container| format!("at the end, {} is unexpected", container.name)));
    let stranger = glance.iter().find(|container| container.id == world.stranger);
    if !stranger.is_some_and(|stranger| stranger.state == RunState::Running) {
        violations.push("at the end, the stranger does not run".to_owned());
    }
    violations
}

/// One delegate at the end.
struct End<'a> {
    timeline: &'a Timeline<'a>,
    book: &'a Book,
    moments: &'a Moments<'a>,
    line: usize,
    family: &'a [&'a Glance],
}

impl End<'_> {
    fn world(&self) -> &World {
        self.timeline.world
    }

    fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> = self.left_over().collect();
        // Evidence that a person renamed is not a delegate.
        let is_evidence = |id: &str| self.timeline.shadow(id).is_some_and(Shadow::was_given_up);
        let serves = |container: &&&Glance| {
            Role::parse(&container.name).1 == Role::Serving && !is_evidence(container.id.as_str())
        };
        let serving: Vec<&Glance> = self.family.iter().filter(serves).copied().collect();
        let is_up = |container: &&&Glance| {
            matches!(
                container.state,
                RunState::Running | RunState::Restarting | RunState::Paused
            )
        };
        let up: Vec<&Glance> = serving.iter().filter(is_up).copied().collect();
        let is_stranded = self.family.iter().any(|container| self.is_stranded(container));
        if serving.is_empty() && !self.was_taken_away() && !is_stranded {
            problems.push("the delegate is lost".to_owned());
        }
        if up.is_empty()
            && !serving.is_empty()
            && !serving.iter().any(|serving| self.is_down_by_others(serving))
        {
            problems.push("we left it down".to_owned());
        }
        if up.len() > 1 && self.has_no_second() {
            problems.push("it serves twice".to_owned());
        }
        problems.extend(up.iter().flat_map(|serving| self.works_as_wanted(serving)));
        problems.extend(serving.iter().filter_map(|serving| self.settings(serving)));
        problems
    }

    /// Only the container in service is left, and one rejected container, which does not come back.
    fn left_over(&self) -> impl Iterator<Item = String> {
        let is_left = |container: &&&Glance| match Role::parse(&container.name).1 {
            Role::Serving => false,
            // A person removed an image without which it cannot go back.
            Role::Candidate | Role::Next if self.is_stranded(container) => false,
            // An engine never finishes the removal of a container that was renamed meanwhile.
            _ if container.state == RunState::Removing => false,
            Role::Failed { .. } => {
                !matches!(container.state, RunState::Exited | RunState::Created) || container.policy != "no"
            }
            _ => true,
        };
        let is_failed = |container: &&&Glance| {
            let role = Role::parse(&container.name).1;
            matches!(role, Role::Failed { .. }) && container.state != RunState::Removing
        };
        let left = self.family.iter().filter(is_left);
        let left = left.map(|container| format!("{} is left over", container.name));
        let mut kept = BTreeSet::new();
        let mut failed = self.family.iter().filter(is_failed);
        let has_two = failed.any(|container| !kept.insert(Role::parse(&container.name).0));
        left.chain(has_two.then(|| "two rejected ones are kept".to_owned()))
    }

    /// Whether it is a candidate that can neither prove itself nor be undone, because a person removed one of its images.
    fn is_stranded(&self, container: &Glance) -> bool {
        let world = self.world();
        let document = world.twin.document(container.id.as_str()).unwrap();
        let images = world.twin.images();
        let is_gone = |id: &str| images.iter().all(|image| image.as_str() != id);
        Role::parse(&container.name).1.is_candidate()
            && (previous_image(&document).is_some_and(is_gone)
                || document["Image"].as_str().is_some_and(is_gone))
            && self
                .family
                .iter()
                .all(|other| !Role::parse(&other.name).1.is_old())
    }

    /// Whether a person, or the engine with `--rm`, removed the last container that could have served.
    fn was_taken_away(&self) -> bool {
        let events = self.world().twin.events();
        let could_serve = |name: &str| {
            let (base, role) = Role::parse(name);
            let is_of = self.book.names.get(base) == Some(&self.line);
            is_of && !matches!(role, Role::Failed { .. } | Role::Withdrawn { .. })
        };
        let last = events.iter().rev().find(|event| match &event.what {
            Happened::Removed => could_serve(&event.name),
            Happened::Renamed { from } => could_serve(from) && !could_serve(&event.name),
            _ => false,
        });
        let auto_remove = self.world().scenario.delegates[self.line].auto_remove;
        // Another container was there when this one was given up.
        let had_another = |last: &kit::twin::Event| {
            let shadow = self.timeline.shadow(&last.id);
            shadow.is_some_and(|shadow| {
                self.moments
                    .was_right(last, |at| self.moments.another_serves(shadow, at))
            })
        };
        last.is_some_and(|last| match last.what {
            Happened::Removed => !is_ours(last.cause) || auto_remove || had_another(last),
            _ => had_another(last),
        })
    }

    /// Whether its last life ended without us, or a person gave it its name after it had been asked to stop.
    fn is_down_by_others(&self, serving: &Glance) -> bool {
        let Some(shadow) = self.timeline.shadow(serving.id.as_str()) else {
            return true;
        };
        match shadow.lives.last() {
            None => shadow.created.1 == Cause::OperatorAction || shadow.is_renamed_by_hand(),
            Some(life) => {
                // Nobody finishes a health restart during which the engine ended.
                let by_engine = life.end.is_some_and(|(_, cause)| cause == Cause::Engine);
                let is_cut = |cause: Cause| by_engine && self.moments.is_health_restart(cause);
                let mut first = life.signals.iter().take(1).map(|(_, cause)| *cause);
                let by_us = first.any(|cause| is_ours(cause) && !is_cut(cause));
                !by_us || shadow.is_renamed_by_hand()
            }
        }
    }

    /// Whether no person gave it a second container or name.
    fn has_no_second(&self) -> bool {
        let by_hand = |shadow: &&Shadow| {
            shadow.line == self.line
                && (shadow.was_renamed_by_hand()
                    || shadow.created.1 == Cause::OperatorAction && shadow.created.0 > Duration::ZERO)
        };
        !self.timeline.shadows.iter().any(|shadow| by_hand(&shadow))
    }

    /// The problems of a container that is up.
    fn works_as_wanted(&self, serving: &Glance) -> Vec<String> {
        let world = self.world();
        let delegate = &world.scenario.delegates[self.line];
        let document = world.twin.document(serving.id.as_str()).unwrap();
        let image = world.image_of(document["Image"].as_str().unwrap()).unwrap();
        let (kind, published) = (world.scenario.images[image].kind, self.book.published);
        let wanted = world.scenario.images[published].kind;
        let mut problems = Vec::new();
        let runs = serving.state == RunState::Running;
        if runs && kind.serves() && !delegate.is_broken && world.twin.health(&serving.id) != Some(true) {
            problems.push("it does not work".to_owned());
        }
        if delegate.way == Way::LeftAlone {
            return problems;
        }
        let is_new = wanted.serves() && !delegate.is_broken && runs && !world.same(image, published);
        if is_new && !self.is_held_back(serving) {
            problems.push(format!(
                "it runs image {image} ({kind:?}), though {published} is published"
            ));
        }
        let created_by = self
            .timeline
            .shadow(serving.id.as_str())
            .map(|shadow| shadow.created.1);
        if kind.never_serves() && created_by.is_some_and(is_ours) && image != 0 {
            problems.push(format!(
                "it was upgraded to an image that cannot serve ({kind:?})"
            ));
        }
        let images = world.twin.images();
        let is_kept = |id: &str| images.iter().any(|image| image.as_str() == id);
        let has_no_people = !self.book.counts.keys().any(|what| what.starts_with("person"));
        if previous_image(&document).is_some_and(|id| !is_kept(id))
            && has_no_people
            && !self.was_restored(serving)
        {
            problems.push("the image before is gone".to_owned());
        }
        problems
    }

    /// Whether it came back into service, so that its previous image was not needed any longer.
    fn was_restored(&self, serving: &Glance) -> bool {
        let shadow = self.timeline.shadow(serving.id.as_str());
        let failed = self
            .timeline
            .shadows
            .iter()
            .filter(|other| other.line == self.line);
        shadow.is_some_and(|shadow| failed.into_iter().any(|other| other.created.0 > shadow.created.0))
    }

    /// Whether another replica's trouble with the image holds up this one, or a person removed a needed image.
    fn is_held_back(&self, serving: &Glance) -> bool {
        let world = self.world();
        let reasons = self.book.finals.iter().rev().find_map(|last| {
            let row = last
                .report
                .delegates
                .iter()
                .find(|row| row.container == serving.name)?;
            Some((row.reason.as_str().to_owned(), row.failed))
        });
        let wanted = &world.scenario.images[self.book.published].reference;
        let others = world.twin.glance();
        let mut others = others
            .iter()
            .filter(|other| other.id != world.stranger && other.id != serving.id);
        let is_stuck = |other: &Glance| {
            Role::parse(&other.name).1 == Role::Serving
                && (other.state != RunState::Running || other.image == *wanted || other.image == MOVING)
        };
        match reasons {
            Some((reason, _)) if ["halted", "waiting_for_replica"].contains(&reason.as_str()) => {
                others.any(is_stuck) || world.scenario.delegates.iter().any(|delegate| delegate.is_broken)
            }
            Some((reason, failed)) => failed && reason == "obstacle",
            None => false,
        }
    }

    /// The settings in which it differs from everything that its owner gave it.
    fn settings(&self, serving: &Glance) -> Option<String> {
        let world = self.world();
        let now = world.twin.document(serving.id.as_str()).unwrap();
        let given = self.book.settings[self.line]
            .iter()
            .filter(|given| self.may_hold(given));
        let mut differences = None;
        for given in given {
            let found = differ(world, &given.document, &now);
            if found.is_empty() {
                return None;
            }
            differences = Some(found);
        }
        Some(format!(
            "{}: its settings differ: {}",
            serving.name,
            differences.unwrap_or_default().join("; ")
        ))
    }

    /// Whether these were the last settings, or the last ones for the observation behind a later rename.
    fn may_hold(&self, given: &Given) -> bool {
        // With two delegates, the settings of either one hold.
        let Some((until, touched)) = given.until.as_ref().filter(|_| self.has_no_second()) else {
            return true;
        };
        // The container with the later settings was rejected after the commit, and the previous one came back unchanged.
        if self.timeline.shadow(touched).is_some_and(Shadow::was_given_up) {
            return true;
        }
        let is_late = |event: &kit::twin::Event| match (&event.what, event.cause) {
            (Happened::Renamed { .. } | Happened::Started, Cause::Call(call)) => {
                event.at >= *until && self.moments.observed(call) <= *until
            }
            _ => false,
        };
        self.world().twin.events().iter().any(is_late)
    }
}

fn differ(world: &World, given: &Value, now: &Value) -> Vec<String> {
    let image = |document: &Value| {
        let index = world.image_of(document["Image"].as_str().unwrap()).unwrap();
        json!({ "Id": world.images[index].id, "Config": world.images[index].config })
    };
    let mut given = given.clone();
    // On a successor, the label replaces this setting.
    given["HostConfig"]["AutoRemove"] = now["HostConfig"]["AutoRemove"].clone();
    let (old, new) = (image(&given), image(now));
    let images = Images { old: &old, new: &new };
    let [given, now] = [given, now.clone()].map(|document| Inspected::new(document).unwrap());
    document::differences(&given, &now, images)
        .iter()
        .map(ToString::to_string)
        .collect()
}
