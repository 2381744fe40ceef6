//! The judge of a story: what must hold after every event and at the end.

use delegate_upgrader::container::{Role, label};
use serde_json::Value;

use super::book::{Book, Final};
use super::ending::{ending, stranger};
use super::moments::Moments;
use super::scenario::{Kind, MOVING, Made};
use super::standing;
use super::world::World;
use kit::twin::{Cause, Happened};

/// All violations of the promise.
pub fn judge(world: &World) -> Vec<String> {
    let book = world.book();
    let (mut violations, vanished_too_soon) = Moments::new(world, &book).judge();
    violations.extend(images_kept(world, &book));
    violations.extend(truth(world, &book));
    // An image whose health comes and goes excuses each candidate, and each run tries again.
    // Of two that turn ill again and again, one is always being restarted.
    let restarts = world.scenario.restarts_unhealthy;
    let comes_and_goes = |made: &Made| {
        matches!(made.kind, Kind::Flaps | Kind::CrashesLate) || restarts && made.kind == Kind::TurnsIll
    };
    let has_people = world.scenario.people.is_some();
    if has_people {
        violations.extend(standing::moments(world, &book));
    }
    if !book.endless {
        violations.extend(stranger(world));
        violations.extend(if has_people {
            standing::ending(world, &book)
        } else {
            ending(world, &book, &vanished_too_soon)
        });
    } else if !world.scenario.images.iter().any(comes_and_goes) && !book.excuses.is_alone() {
        violations.push("the story does not come to rest".to_owned());
    }
    violations
}

/// The previous image must stay until the next replacement has succeeded.
fn images_kept(world: &World, book: &Book) -> Vec<String> {
    let mut violations = Vec::new();
    let takes_images = ["prunes images", "removes image", "tags"];
    let pruned = takes_images.map(|what| book.counts.contains_key(&format!("person {what}")));
    let pruned = pruned.contains(&true);
    let there = world.twin.images();
    for container in world.twin.glance() {
        let Some(document) = world.twin.document(container.id.as_str()) else {
            continue;
        };
        let serves = Role::parse(&container.name).1 == Role::Serving;
        let Some(previous) = document["Config"]["Labels"][label::PREVIOUS_IMAGE_ID].as_str() else {
            continue;
        };
        let kept = there.iter().any(|image| image.as_str() == previous);
        if serves && !kept && !pruned && !was_brought_back(world, &container.name, &document) {
            violations.push(format!("the image before that of {} is gone", container.name));
        }
    }
    violations
}

/// Whether a later release than this one failed: it took over, and the image before this one's was not needed then.
fn was_brought_back(world: &World, name: &str, document: &Value) -> bool {
    let release = |document: &Value| -> u64 {
        let text = document["Config"]["Labels"][label::RELEASE].as_str();
        text.and_then(|text| text.parse().ok()).unwrap_or_default()
    };
    let glance = world.twin.glance();
    let mut its_own = glance.iter().filter(|other| Role::parse(&other.name).0 == name);
    its_own.any(|other| {
        let other = world.twin.document(other.id.as_str());
        other.is_some_and(|other| release(&other) > release(document))
    })
}

/// Whether someone made that container anew since it may have been observed for the report.
fn was_made_anew(world: &World, last: &Final, name: &str) -> bool {
    let age = standing::observation_age(world);
    world.twin.events().iter().any(|event| {
        let is_new = matches!(event.what, Happened::Created | Happened::Renamed { .. });
        let is_late = event.at <= last.at && last.at < event.at + age;
        is_new && is_late && event.cause == Cause::OperatorAction && event.name == name
    })
}

/// A run that ends without the wanted image must report a failure and its reason; one that ends with it must not.
fn truth(world: &World, book: &Book) -> Vec<String> {
    let mut violations = Vec::new();
    for last in &book.finals {
        let Some(wished) = last.wished else { continue };
        for row in &last.report.delegates {
            if row.message.is_empty() {
                violations.push(format!("no reason for {} at {:?}", row.container, last.at));
            }
            let Some((image, _)) = last.seen.get(&row.container) else {
                continue;
            };
            let runs = world.image_of(image);
            let reference = |index: usize| world.scenario.images[index].reference.as_str();
            // The tag may have moved between the answer and the pull.
            let published = |index: usize| {
                let mut publications = world.scenario.publications.iter();
                publications.position(|(_, image)| *image == index)
            };
            let right = runs.is_some_and(|runs| {
                let since = published(wished)..=published(last.published);
                world.same(runs, wished) || (reference(runs) == MOVING && since.contains(&published(runs)))
            });
            let excused = [
                "opted_out",
                "not_running",
                "asked_to_stop",
                "removed",
                "health_only",
                "awaiting_schedule",
            ]
            .contains(&row.reason.as_str());
            // Someone gave the name of the published image to another one, right after the pull of it.
            let tagged = book.counts.contains_key("person tags");
            if !right && !row.failed && !excused && !tagged && !was_made_anew(world, last, &row.container) {
                violations.push(format!(
                    "{} runs {:?} and not {}, but the report of upgrader {} at {:?} says: {}",
                    row.container,
                    runs.map(reference),
                    reference(wished),
                    last.upgrader,
                    last.at,
                    row.message
                ));
            }
            if right && ["up_to_date", "same_image"].contains(&row.reason.as_str()) && row.failed {
                violations.push(format!(
                    "{} at {:?} failed for nothing: {}",
                    row.container, last.at, row.message
                ));
            }
        }
    }
    violations
}
