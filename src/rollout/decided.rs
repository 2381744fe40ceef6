//! A decision and the row that leads to it, and how several decisions become one.

use super::{Decision, Row};

/// A decision and its row.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided<R = Row, D = Decision> {
    /// The row that applies.
    pub row: R,
    /// The decision.
    pub decision: D,
}

impl<R: Copy, D> Decided<R, D> {
    /// The decision of the first of these rows that applies: each row assumes that no earlier one does.
    pub(crate) fn first(rows: &[R], ask: impl Fn(R) -> Option<D>) -> Option<Self> {
        rows.iter().find_map(|row| {
            let decision = ask(*row)?;
            Some(Self { row: *row, decision })
        })
    }
}

impl Decided {
    /// Combines a decision beside the replacement with the situation's: the first step wins, else the earliest
    /// wait. The situation's reason is reported, unless it is a plain rest; a failure always is.
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

    /// Combines decisions about independent containers: the first step, else the earliest wait, else a rest.
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
