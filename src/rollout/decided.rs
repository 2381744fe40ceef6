//! A decision and the rows that lead to it, and how several decisions become one.

use super::{Decision, Row};

/// A decision, and where it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// The row that applies, and the rows of the further tables that it refers to, in order.
    pub rows: Vec<Row>,
    /// What to do.
    pub decision: Decision,
}

impl Decided {
    /// The rows as one word: `C11>P6>G6`.
    pub fn path(&self) -> String {
        let ids: Vec<String> = self.rows.iter().map(Row::to_string).collect();
        ids.join(">")
    }

    /// Notes a row that took part in the choice of the first one.
    pub(super) fn noting(mut self, row: Row) -> Self {
        self.rows.insert(1, row);
        self
    }

    /// What goes on beside, and then what the situation asks for: the first step wins, else the earliest wait. Of the
    /// reasons the situation's is reported, unless it is a plain rest; a failure always is.
    pub(super) fn or(self, situation: impl FnOnce() -> Self) -> Self {
        if self.decision.is_to_do() {
            return self;
        }
        let mut then = situation();
        match (&self.decision, &mut then.decision) {
            (Decision::Wait { until: sooner, .. }, Decision::Wait { until, .. }) => {
                *until = (*until).min(*sooner);
            }
            (_, Decision::Rest(reason)) if !reason.is_failure() => return self,
            (Decision::Wait { until, .. }, Decision::Rest(reason)) => {
                let (reason, until) = (reason.clone(), *until);
                then.decision = Decision::Wait { reason, until };
            }
            _ => {}
        }
        then
    }

    /// Of what goes on side by side: the first step, else the earliest wait, else a rest.
    pub(super) fn earliest(all: impl Iterator<Item = Self>) -> Option<Self> {
        let mut earliest: Option<Self> = None;
        for decided in all {
            earliest = match (&decided.decision, earliest) {
                (Decision::Act(_) | Decision::Learn(_), _) => return Some(decided),
                (Decision::Wait { until, .. }, Some(first)) => match &first.decision {
                    Decision::Wait { until: sooner, .. } if sooner <= until => Some(first),
                    _ => Some(decided),
                },
                (Decision::Rest(_), Some(first)) => Some(first),
                (_, None) => Some(decided),
            };
        }
        earliest
    }
}
