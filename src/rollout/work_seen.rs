//! A container's reports about its work: hints, like everything that a process remembers.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::health::Work;

/// The work that a container has reported, and when.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkSeen {
    /// When the container's life started.
    life: Option<DateTime<Utc>>,
    asked_at: Option<DateTime<Utc>>,
    said: Option<(DateTime<Utc>, Work)>,
}

impl WorkSeen {
    /// Records an answer from the life that started then. An answer without a number of tasks keeps the last number.
    pub fn note(&mut self, now: DateTime<Utc>, life: Option<DateTime<Utc>>, answer: Option<Work>) {
        if self.life != life {
            *self = Self::default();
        }
        self.life = life;
        self.asked_at = Some(now);
        self.said = answer.map(|work| (now, work)).or(self.said);
    }

    /// Whether its last answer in that life is recent enough, so that it need not be asked again.
    pub fn is_recent(&self, now: DateTime<Utc>, age: Duration, life: Option<DateTime<Utc>>) -> bool {
        self.life == life && self.asked_at.is_some_and(|asked| elapsed(asked, now) < age)
    }

    /// The work that it last reported in that life, unless that is too old.
    pub fn known(&self, now: DateTime<Utc>, age: Duration, life: Option<DateTime<Utc>>) -> Option<Work> {
        let (at, work) = self.said.filter(|_| self.life == life)?;
        (elapsed(at, now) <= age).then_some(work)
    }

    /// Shifts all times by the amount that the clock jumped.
    pub(super) fn shift(&mut self, by: TimeDelta) {
        let said = self.said.as_mut().map(|(at, _)| at);
        self.asked_at
            .as_mut()
            .into_iter()
            .chain(said)
            .for_each(|at| *at += by);
    }
}

fn elapsed(from: DateTime<Utc>, to: DateTime<Utc>) -> Duration {
    (to - from).to_std().unwrap_or_default()
}
