//! The number of points that were survived, and of points that were tried.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::point::{Outcome, Point};

#[derive(Default)]
struct Count {
    tried: usize,
    survived: usize,
    kept_old: usize,
    seconds: f64,
}

/// The counts of a matrix.
#[derive(Default)]
pub(crate) struct Tally {
    rows: BTreeMap<(String, String), Count>,
    broken: usize,
    not_counted: usize,
    by_chance: usize,
}

impl Tally {
    /// Counts a point, if its call was made.
    pub(crate) fn count(&mut self, point: &Point, outcome: &Outcome, took: Duration) {
        if !outcome.reached && outcome.failures.is_empty() || outcome.left_alone {
            return;
        }
        let count = self.rows.entry(Self::row_of(point)).or_default();
        count.tried += 1;
        count.seconds += took.as_secs_f64();
        if outcome.failures.is_empty() {
            count.survived += 1;
            count.kept_old += usize::from(outcome.kept_old);
        } else {
            println!("FAILED {}: {}", point.name(), outcome.failures.join("; "));
        }
        let tried: usize = self.rows.values().map(|count| count.tried).sum();
        if tried.is_multiple_of(100) {
            println!("matrix: {tried} tried");
        }
    }

    pub(crate) fn never_reached(&mut self, point: &Point) {
        println!("FAILED {}: the call was not made", point.name());
        self.rows.entry(Self::row_of(point)).or_default().tried += 1;
    }

    /// Notes a point whose call is not part of every clean upgrade either.
    pub(crate) fn by_chance(&mut self, point: &str) {
        println!("not counted, a call that is not made by every upgrade: {point}");
        self.by_chance += 1;
    }

    /// Counts a point that ended without an outcome.
    pub(crate) fn broken(&mut self, problem: &str) {
        println!("FAILED: {problem}");
        self.broken += 1;
    }

    /// Notes a delegate that went with the engine by itself, before or after its replacement.
    pub(crate) fn not_counted(&mut self, point: &Point) {
        println!(
            "not counted, a delegate with --rm goes with its engine: {}",
            point.name()
        );
        self.not_counted += 1;
    }

    fn row_of(point: &Point) -> (String, String) {
        let fault = match &point.trap {
            None => "clean".to_owned(),
            Some(trap) if point.circumstance.is_empty() => trap.fault.to_string(),
            Some(_) => point.circumstance.clone(),
        };
        (point.scenario.to_string(), fault)
    }

    fn totals(&self) -> (usize, usize) {
        let sum = |what: fn(&Count) -> usize| self.rows.values().map(what).sum::<usize>();
        (
            sum(|count| count.survived),
            sum(|count| count.tried) + self.broken,
        )
    }

    pub(crate) fn is_clean(&self) -> bool {
        let (survived, tried) = self.totals();
        survived == tried
    }

    pub(crate) fn print(&self, took: Duration, stories: &Path) {
        println!();
        for ((scenario, fault), count) in &self.rows {
            let Count {
                tried,
                survived,
                kept_old,
                seconds,
            } = count;
            let kept = match kept_old {
                0 => String::new(),
                kept => format!(", {kept} of them on the old image, as the upgrader said"),
            };
            let mean = seconds / f64::from(u32::try_from(*tried).unwrap_or(u32::MAX)).max(1.0);
            println!(
                "{scenario:30} {fault:28} {survived:4} / {tried:4} points survived, {mean:4.1} s each{kept}"
            );
        }
        let (survived, tried) = self.totals();
        println!(
            "\npoints survived / points tried: {survived} / {tried}, in {:.0} s",
            took.as_secs_f64()
        );
        if self.not_counted > 0 {
            println!(
                "not counted, since the engine itself removed an --rm delegate: {}",
                self.not_counted
            );
        }
        if self.by_chance > 0 {
            println!(
                "not counted, since not every upgrade makes the call: {}",
                self.by_chance
            );
        }
        if survived != tried {
            println!("the stories of those that failed: {}", stories.display());
        }
        println!("matrix: {survived} passed, {} failed", tried - survived);
    }
}
