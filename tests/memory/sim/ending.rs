//! What must be on the host when all has come to rest.

use std::collections::BTreeSet;

use delegate_upgrader::container::{Inspected, Role, RunState};
use delegate_upgrader::document::{self, Images};
use serde_json::{Value, json};

use super::at_once::was_removed_at_once;
use super::book::Book;
use super::excuses::Excuse;
use super::scenario::{Delegate, Kind, Way};
use super::world::World;
use kit::twin::Glance;

/// What is on the host when all has come to rest.
pub(super) fn ending(world: &World, book: &Book, vanished_too_soon: &BTreeSet<String>) -> Vec<String> {
    let mut violations = Vec::new();
    let glance = world.twin.glance();
    let listing = || {
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
        all.join(", ")
    };
    for delegate in &world.scenario.delegates {
        let mut excuse = book.excuses.of(&delegate.name);
        excuse.may_be_gone |= vanished_too_soon.contains(&delegate.name);
        for problem in ending_of(world, book, delegate, &glance, &excuse) {
            violations.push(format!(
                "at the end, {}: {problem} [{}]",
                delegate.name,
                listing()
            ));
        }
    }
    for container in &glance {
        let (base, _) = Role::parse(&container.name);
        let known = world
            .scenario
            .delegates
            .iter()
            .any(|delegate| delegate.name == base)
            || book
                .excuses
                .names
                .iter()
                .any(|name| *name == container.name || name == base)
            || container.id == world.stranger;
        if !known {
            violations.push(format!("at the end, {} is unexpected", container.name));
        }
    }
    violations
}

/// The upgrader must not have touched a container that it does not manage.
pub(super) fn stranger(world: &World) -> Option<String> {
    let glance = world.twin.glance();
    let stranger = glance.iter().find(|container| container.id == world.stranger);
    let runs = stranger.is_some_and(|stranger| stranger.state == RunState::Running);
    (!runs).then(|| "at the end, the stranger does not run".to_owned())
}

fn is_alone(family: &[(Role, &Glance)]) -> bool {
    let others = family.iter().filter(|(role, _)| {
        !matches!(
            role,
            Role::Failed { .. } | Role::Inconclusive { .. } | Role::Attempt
        )
    });
    others.count() == 1
}

fn ending_of(
    world: &World,
    book: &Book,
    delegate: &Delegate,
    glance: &[Glance],
    excuse: &Excuse,
) -> Vec<String> {
    let mut problems = Vec::new();
    let name = &delegate.name;
    let family: Vec<(Role, &Glance)> = glance
        .iter()
        .filter_map(|container| {
            let (base, role) = Role::parse(&container.name);
            (base == name).then_some((role, container))
        })
        .collect();
    let failed = family
        .iter()
        .filter(|(role, _)| matches!(role, Role::Failed { .. } | Role::Inconclusive { .. }))
        .count();
    if failed > 1 {
        problems.push(format!("{failed} rejected ones are kept"));
    }
    let serving = family.iter().find(|(role, _)| *role == Role::Serving);
    // It was renamed at the moment it ended, so the engine never finishes that removal.
    let is_stuck = serving.is_some_and(|(_, serving)| serving.state == RunState::Removing);
    let stands_in = |role: &Role, container: &Glance| {
        is_stuck && *role == Role::Standby && container.state == RunState::Running
    };
    let serving_is_healthy = serving.is_some_and(|(_, serving)| world.twin.health(&serving.id) == Some(true));
    for (role, container) in &family {
        let left = match role {
            Role::Serving => false,
            _ if stands_in(role, container) => false,
            _ if container.state == RunState::Removing => false,
            // It is kept until its successor is healthy, and that one's health comes and goes.
            Role::Draining { .. } if container.state == RunState::Exited && !serving_is_healthy => false,
            Role::Draining { .. } if excuse.ports_are_taken => false,
            // It goes once the old one is back.
            Role::Withdrawn { .. } if excuse.ports_are_taken && serving.is_none() => false,
            // An old one whose health comes and goes excuses each candidate, again every hour.
            Role::Withdrawn { .. } if world.scenario.images[0].kind == Kind::Flaps => {
                container.state != RunState::Running
            }
            // The engine never finishes the removal of the one whose attempt it marks.
            Role::Attempt if is_stuck => false,
            // What was tried is judged once the delegate is there again.
            Role::Attempt if serving.is_some() => true,
            Role::Failed { .. } | Role::Inconclusive { .. } | Role::Attempt => {
                !matches!(container.state, RunState::Exited | RunState::Created)
            }
            // Someone removed the container that it was to replace, so it is kept, healthy or not.
            Role::Candidate => !(excuse.may_be_gone && is_alone(&family)),
            // It could not start, because its ports are taken.
            Role::Standby => !(excuse.may_be_gone && excuse.ports_are_taken && is_alone(&family)),
            _ => true,
        };
        if left {
            problems.push(format!(
                "{} is left over, {}",
                container.name,
                container.state.as_str()
            ));
        }
    }
    let Some((_, serving)) = family.iter().find(|(role, _)| *role == Role::Serving) else {
        let is_gone_by_hand = was_removed_at_once(world, |base| base == delegate.name);
        let may_be_gone = excuse.may_be_gone || excuse.ports_are_taken || is_gone_by_hand;
        if !may_be_gone && !ended_by_its_image(world, delegate) {
            problems.push("the delegate is lost".to_owned());
        }
        return problems;
    };
    if family.iter().any(|(role, container)| stands_in(role, container)) {
        return problems;
    }
    let document = world.twin.document(serving.id.as_str()).unwrap();
    let image = world.image_of(document["Image"].as_str().unwrap()).unwrap();
    let kind = world.scenario.images[image].kind;
    let runs = serving.state == RunState::Running;
    // Without its policy, a crash is its end.
    let may_be_down = excuse.may_be_stopped
        || excuse.policy_is_lost
        || excuse.no_way_back
        || !kind.serves()
        || ended_by_its_image(world, delegate);
    if !runs && !may_be_down {
        problems.push(format!("it does not run: {}", serving.state.as_str()));
    }
    if runs && kind.serves() && world.twin.health(&serving.id) != Some(true) {
        problems.push("it does not work".to_owned());
    }
    let published = world.scenario.images[book.published].kind;
    if delegate.way == Way::LeftAlone {
        if serving.id != world.ids[name] && !excuse.may_be_gone {
            problems.push("it opted out and was replaced".to_owned());
        }
        return problems;
    }
    if published.serves() && !world.same(image, book.published) && runs && !is_halted(world, book, glance) {
        problems.push(format!(
            "it runs image {image} ({kind:?}), though {} ({published:?}) is published",
            book.published
        ));
    }
    if published.never_serves() && image == book.published && image != 0 && !excuse.may_be_gone {
        problems.push("it was upgraded to an image that cannot serve".to_owned());
    }
    problems.extend(configured(world, delegate, &document, image, |difference| {
        difference.path().contains("RestartPolicy") && excuse.policy_is_lost
                // Its copy without `--rm` took over when the engine removed the serving container.
                || difference.path().contains("AutoRemove")
                    && (excuse.copy_serves || !runs && excuse.may_be_gone)
    }));
    problems
}

/// A candidate that is left alone with an earlier image of the same tag, and fails with it, halts the others.
pub(super) fn is_halted(world: &World, book: &Book, glance: &[Glance]) -> bool {
    let reference = &world.scenario.images[book.published].reference;
    let waits = |other: &Glance| other.image == *reference || other.state != RunState::Running;
    // A removal that the engine never finishes is a failure until somebody restarts it. One that cannot get its name back is in
    // progress; whether it may be gone is judged by itself.
    glance.iter().any(|other| {
        let (base, role) = Role::parse(&other.name);
        let is_down = matches!(role, Role::Draining { .. }) && other.state == RunState::Exited;
        let is_away = is_down && !glance.iter().any(|named| named.name == base);
        other.state == RunState::Removing || role == Role::Candidate && waits(other) || is_away
    })
}

/// Whether an image may have ended the delegate for good: it fails after its proof, when nothing is left to return to,
/// and the owner's policy does not restart it.
pub(super) fn ended_by_its_image(world: &World, delegate: &Delegate) -> bool {
    let brought_back = matches!(delegate.policy, "always" | "unless-stopped");
    !brought_back
        && world
            .scenario
            .images
            .iter()
            .any(|image| matches!(image.kind, Kind::CrashesLate))
}

/// The delegate must be configured as it was, except for the image.
fn configured(
    world: &World,
    delegate: &Delegate,
    now: &Value,
    image: usize,
    is_excused: impl Fn(&document::Difference) -> bool,
) -> Vec<String> {
    let document =
        |index: usize| json!({ "Id": world.images[index].id, "Config": world.images[index].config });
    let (old, new) = (document(0), document(image));
    let images = Images { old: &old, new: &new };
    let [original, now] =
        [&world.originals[&delegate.name], now].map(|document| Inspected::new(document.clone()).unwrap());
    document::differences(&original, &now, images)
        .into_iter()
        .filter(|difference| !is_excused(difference))
        .map(|difference| format!("its configuration differs: {difference}"))
        .collect()
}
