//! The book of a story: its events, for the invariants and for the reader.

use std::collections::BTreeMap;
use std::time::Duration;

use delegate_upgrader::status::report::Report;
use serde_json::Value;

use super::world::World;
use kit::twin::Operation;

/// The events of a story.
#[derive(Default)]
pub struct Book {
    /// The story in words.
    pub lines: Vec<(Duration, String)>,
    /// The count of each kind of event: faults, acts, steps, reasons.
    pub counts: BTreeMap<String, u64>,
    /// Decisions taken by reconcilers.
    pub steps: u64,
    /// The names that each delegate has or had, with the delegate's index: people add further names.
    pub names: BTreeMap<String, usize>,
    /// For each delegate, the documents with the settings that its owner gave it.
    pub settings: Vec<Vec<Given>>,
    /// The times when people paused and unpaused containers, by id.
    pub pauses: Vec<(Duration, String, bool)>,
    /// The reports with nothing left to do.
    pub finals: Vec<Final>,
    /// Whether the story did not come to rest.
    pub endless: bool,
    /// The times when the delegates could not reach the Manager, from and to.
    pub outages: Vec<(Duration, Duration)>,
    /// The times when an engine was away or could start nothing, from and to.
    pub standstills: Vec<(Duration, Duration)>,
    /// The times when upgraders began and ceased to look after the host.
    pub watches: Vec<(Duration, usize, bool)>,
    /// The calls that fail on a container, by its id, with the time since when.
    pub broken: Vec<(Duration, String, Operation)>,
    /// `DISABLE_AUTO_UPGRADE`.
    pub health_only: bool,
    /// The index of the published image.
    pub published: usize,
    /// The time when all faults ended.
    pub calm_since: Option<Duration>,
    /// The number of scheduled runs since all faults ended, by upgrader.
    pub runs: Vec<u32>,
    /// Each upgrader's last report: whether it is done, and whether anything failed.
    pub last: Vec<Option<(bool, bool)>>,
}

/// Settings that an owner gave a delegate.
pub struct Given {
    pub document: Value,
    /// When the owner gave the container in service different settings, and that container's id.
    pub until: Option<(Duration, String)>,
}

impl Book {
    pub(super) fn note_steps(&mut self, before: &Steps, now: &Steps) {
        for (kind, count) in now {
            let new = count - before.get(kind).copied().unwrap_or_default();
            self.steps += new;
            *self.counts.entry(format!("step: {kind}")).or_default() += new;
        }
    }
}

type Steps = BTreeMap<&'static str, u64>;

/// A report with nothing in progress.
pub struct Final {
    pub at: Duration,
    pub upgrader: usize,
    /// The image that was published when the run asked, if the Manager answered; `None` before a scheduled run asked.
    pub wished: Option<usize>,
    pub report: Report,
    /// For each container's name: the id of its image, and whether it was healthy.
    pub seen: BTreeMap<String, (String, bool)>,
}

/// Records a report in the book.
pub(super) fn note(world: &World, slot: usize, report: &Report, wished: Option<usize>) {
    let done = report.next_check.is_none();
    {
        let mut book = world.book();
        book.steps += report.delegates.len() as u64;
        book.last[slot] = Some((done, report.has_failures()));
        for row in &report.delegates {
            *book.counts.entry(format!("reason: {}", row.reason)).or_default() += 1;
        }
    }
    if world.aloud {
        let rows: Vec<String> = report
            .delegates
            .iter()
            .map(|row| {
                format!(
                    "{}: {} [{}]{}",
                    row.container,
                    row.message,
                    row.health.as_str(),
                    if row.failed { " FAILED" } else { "" }
                )
            })
            .collect();
        let wake = report.next_check.map(|wake| wake - world.twin.wall_clock());
        let again = wake.map_or_else(String::new, |wake| format!("; again in {} s", wake.num_seconds()));
        world.tell(format!("upgrader {slot} reports: {}{again}", rows.join(" | ")));
    }
    if !done {
        return;
    }
    let seen = world
        .twin
        .glance()
        .into_iter()
        .filter_map(|container| {
            let document = world.twin.document(container.id.as_str())?;
            let image = document["Image"].as_str()?.to_owned();
            let healthy = world.twin.health(&container.id) == Some(true);
            Some((container.name, (image, healthy)))
        })
        .collect();
    let at = world.twin.elapsed();
    let mut book = world.book();
    book.finals.push(Final {
        at,
        upgrader: slot,
        wished,
        report: report.clone(),
        seen,
    });
}
