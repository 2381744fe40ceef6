//! Whether reports are true: a run that ends without the wanted image reports a failure, and a run that ends with it does not.

use delegate_upgrader::status::report::DelegateReport;

use super::book::{Book, Final};
use super::scenario::MOVING;
use super::world::World;

/// Reasons for leaving a delegate as it is.
const LEFT_AS_IT_IS: [&str; 4] = ["opted_out", "not_running", "health_only", "awaiting_schedule"];

pub(super) fn reports(world: &World, book: &Book) -> Vec<String> {
    let rows = book
        .finals
        .iter()
        .flat_map(|last| last.report.delegates.iter().map(move |row| (last, row)));
    rows.filter_map(|(last, row)| lie(world, last, row)).collect()
}

fn lie(world: &World, last: &Final, row: &DelegateReport) -> Option<String> {
    let wished = last.wished?;
    let (name, message, reason) = (&row.container, &row.message, row.reason.as_str());
    if message.is_empty() {
        return Some(format!("no reason for {name} at {:?}", last.at));
    }
    let (image, _) = last.seen.get(name)?;
    let runs = world.image_of(image)?;
    // A moving tag may have moved between the answer and the pull.
    let is_moving = world.scenario.images[wished].reference == MOVING;
    let is_right = world.same(runs, wished) || is_moving;
    if !is_right && !row.failed && !LEFT_AS_IT_IS.contains(&reason) && !is_recreated(world, last, name) {
        return Some(format!(
            "{name} runs image {runs} and not {wished}, but the report of upgrader {} at {:?} says: {message}",
            last.upgrader, last.at
        ));
    }
    let is_wrong = is_right && row.failed && ["up_to_date", "same_image"].contains(&reason);
    is_wrong.then(|| format!("{name} at {:?} failed for nothing: {message}", last.at))
}

/// Whether a person gave that name to another container shortly before the report.
fn is_recreated(world: &World, last: &Final, name: &str) -> bool {
    let age = std::time::Duration::from_secs(90);
    world.twin.events().iter().any(|event| {
        event.cause == kit::twin::Cause::OperatorAction
            && event.name == name
            && event.at <= last.at
            && last.at < event.at + age
    })
}
