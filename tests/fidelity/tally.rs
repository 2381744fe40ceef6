//! The totals over the rows, and the keys that no row names.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::podman;
use crate::row::Row;
use crate::surroundings::Surroundings;
use kit::checks::document::ENDPOINT_REPORTS;

use crate::table::NOT_OPTIONS;
use crate::trial::{Outcome, Tried, shown};

/// The reasons for all of these losses, if all of them are known for Podman.
fn explain(title: &str, losses: &[String]) -> Option<String> {
    let reasons: Option<Vec<_>> = losses.iter().map(|loss| podman::explain(title, loss)).collect();
    let reasons: BTreeSet<_> = reasons?.into_iter().flatten().collect();
    Some(reasons.into_iter().collect::<Vec<_>>().join("; "))
}

#[derive(Default)]
pub(crate) struct Tally {
    preserved: usize,
    tried: usize,
    refused: Vec<String>,
    ignored: Vec<String>,
    limits: Vec<String>,
    explained: Vec<String>,
    named: BTreeSet<String>,
    shown: BTreeSet<String>,
}

impl Tally {
    pub(crate) fn count(&mut self, row: &Row, tried: Tried, is_podman: bool) {
        self.named.extend(row.keys());
        self.shown.extend(shown(&tried.document));
        match tried.outcome {
            Outcome::Refused(words) => self.refused.push(format!("{}: {words}", row.title)),
            Outcome::Ignored => self.ignored.push(row.title.to_owned()),
            outcome if row.limit.is_some() => {
                let why = row.limit.unwrap_or_default();
                let kept = matches!(outcome, Outcome::Preserved);
                let note = if kept { "; this time it was the same" } else { "" };
                self.limits.push(format!("{}: {why}{note}", row.title));
            }
            Outcome::Preserved => {
                self.preserved += 1;
                self.tried += 1;
            }
            Outcome::Lost(losses) if is_podman && explain(row.title, &losses).is_some() => {
                self.tried += 1;
                let why = explain(row.title, &losses).unwrap_or_default();
                self.explained.push(format!("{}: {why}", row.title));
            }
            Outcome::Lost(losses) => {
                self.tried += 1;
                println!("lost      {}", row.title);
                for loss in losses {
                    println!("          {loss}");
                }
            }
        }
    }

    /// Keys of inspect documents that no row sets.
    fn unnamed(&self) -> Vec<&str> {
        let excused = |key: &str| {
            let reported = key
                .strip_prefix("Endpoint/")
                .is_some_and(|key| ENDPOINT_REPORTS.contains(&key));
            reported || NOT_OPTIONS.iter().any(|(not_option, _)| *not_option == key)
        };
        let shown = self.shown.iter().map(String::as_str);
        shown
            .filter(|key| !self.named.contains(*key) && !excused(key))
            .collect()
    }

    /// Prints everything; returns whether all is well.
    pub(crate) fn print(&mut self, around: &Surroundings, all: bool, took: Duration) -> bool {
        let explained = self.explained.len();
        for (title, rows) in [
            ("refused by the engine, so not tried", &mut self.refused),
            (
                "taken and not shown by the engine, so not tried",
                &mut self.ignored,
            ),
            ("cannot be kept by anybody, so not counted", &mut self.limits),
            ("lost by Podman, for a reason that is known", &mut self.explained),
        ] {
            rows.sort();
            if !rows.is_empty() {
                println!("\n{title}: {}", rows.len());
            }
            for row in rows {
                println!("          {}", row.replace('\n', " "));
            }
        }
        let unnamed = if all { self.unnamed() } else { Vec::new() };
        if !unnamed.is_empty() {
            println!(
                "\nshown by inspect, and named by no row of the table: {}",
                unnamed.join(", ")
            );
        }
        println!(
            "\npreserved {} / tried {} on engine {} (API {}), in {} s",
            self.preserved,
            self.tried,
            around.version,
            around.api,
            took.as_secs()
        );
        // If a fixture is broken, dozens of rows are refused.
        let floor = if around.is_podman { 100 } else { 190 };
        let enough = !all || self.tried >= floor;
        if !enough {
            println!("fewer than {floor} could be tried: something is wrong with the tests");
        }
        self.preserved + explained == self.tried && unnamed.is_empty() && enough
    }
}
