//! The records of a controller: the steps that it tried, and their outcomes.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::events::ledger::Ledger;

/// The records since this process started.
#[derive(Debug)]
pub struct Books {
    /// The outcomes.
    pub ledger: Ledger,
    /// How often each kind of step was tried.
    pub steps_taken: BTreeMap<&'static str, u64>,
}

impl Default for Books {
    fn default() -> Self {
        Self {
            ledger: Ledger::new(String::new(), Duration::ZERO),
            steps_taken: BTreeMap::new(),
        }
    }
}

impl Books {
    /// Counts an attempt at a step of this kind.
    pub(super) fn count(&mut self, step: &'static str) {
        *self.steps_taken.entry(step).or_default() += 1;
    }
}
