//! The reconciler's memory of one delegate between two observations.

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::Instant;

use super::recreations::Recreations;
use crate::container::ContainerId;
use crate::document::{Obstacle, SingleInstance};
use crate::rollout::reason::Reason;
use crate::rollout::{Backoffs, Rollout, Row};

/// The memory of one delegate, under its container name. Losing it only repeats a question or a log line.
#[derive(Debug, Default)]
pub(super) struct Tracked {
    pub(super) workload: String,
    /// Whether it is a task of a service: tasks are short-lived.
    pub(super) is_task: bool,
    /// The back-off of its attempts.
    pub(super) backoffs: Backoffs,
    /// How many steps it has taken in the current minute.
    pub(super) budget: Budget,
    /// Whether the host has memory for a second container; kept until its replacement is over.
    pub(super) free_memory: Option<Result<(), SingleInstance>>,
    /// The containers that take the memory which a second one needs. The question is repeated once one of them is done.
    pub(super) crowd: Vec<ContainerId>,
    /// How much memory the container in service takes, in bytes, kept for as long; 0 if the engine does not say.
    pub(super) memory_use: Option<u64>,
    /// An obstacle, which no document shows, to recreating the container in service, and the id of that container.
    pub(super) hidden_obstacle: Option<(ContainerId, Result<(), Obstacle>)>,
    /// Since when no container has had the delegate's name.
    pub(super) name_free_since: Option<DateTime<Utc>>,
    /// The last logged reason, so that it is logged once.
    pub(super) last_logged: Option<String>,
    /// For each draining container, the last logged number of tasks, and when that was logged.
    pub(super) tasks: HashMap<ContainerId, (u64, DateTime<Utc>)>,
    /// The row and the kind of the last logged decision.
    pub(super) last_decision: Option<(Row, &'static str)>,
    /// The last logged notice about the support of its version.
    pub(super) expiry_notice: Option<String>,
    /// How another tool reacts to its upgrades.
    pub(super) recreations: Recreations,
    /// The container in service whose changing settings withdrew its candidates, how often in a row, and the last change.
    pub(super) unsettled: Option<(ContainerId, u32, String)>,
    /// The message to log once nothing is in progress.
    pub(super) completion: Option<&'static str>,
}

impl Tracked {
    pub(super) fn new(rollout: &Rollout) -> Self {
        Self {
            workload: rollout.workload.clone(),
            is_task: rollout.owner.task_of.is_some(),
            ..Self::default()
        }
    }

    /// Notes why a candidate was withdrawn.
    pub(super) fn note_withdrawal(&mut self, rollout: &Rollout, because: &Reason) {
        let Reason::SettingsChanged { what, .. } = because else {
            return;
        };
        let served = rollout
            .candidate
            .as_ref()
            .and_then(|candidate| candidate.replaces.clone());
        let before = self
            .unsettled
            .take()
            .filter(|(id, ..)| served.as_ref() == Some(id));
        let times = before.map_or(0, |(_, times, _)| times);
        self.unsettled = served.map(|id| (id, times + 1, what.clone()));
    }

    /// Why the delegate is not upgraded again if its settings changed during each of the last two attempts: a third one would
    /// stop or double it for nothing.
    pub(super) fn unsettled(&self, rollout: &Rollout) -> Option<Reason> {
        let (id, times, what) = self.unsettled.as_ref()?;
        let is_it =
            rollout.candidate.is_none() && rollout.serving.as_ref().is_some_and(|serving| serving.id == *id);
        (is_it && *times >= 2).then(|| Reason::SettingsChanged {
            what: what.clone(),
            again: Some(rollout.name.clone()),
        })
    }

    /// Lets a new run try again, and check the host's memory and the obstacles again.
    pub(super) fn start_run(&mut self) {
        self.backoffs.start_run();
        self.forget_memory();
        self.hidden_obstacle = None;
    }

    /// Notes whether a container has the delegate's name.
    pub(super) fn note_name(&mut self, rollout: &Rollout, now: DateTime<Utc>) {
        self.recreations.observe(rollout);
        match rollout.serving {
            Some(_) => self.name_free_since = None,
            None => {
                self.name_free_since.get_or_insert(now);
            }
        }
    }

    pub(super) fn forget_memory(&mut self) {
        self.free_memory = None;
        self.memory_use = None;
        self.crowd.clear();
    }

    /// The obstacle to recreating the current container in service.
    pub(super) fn hidden_obstacle(&self, rollout: &Rollout) -> Option<Result<(), Obstacle>> {
        let serving = rollout.serving.as_ref()?;
        let (_, answer) = self
            .hidden_obstacle
            .as_ref()
            .filter(|(id, _)| *id == serving.id)?;
        Some(answer.clone())
    }
}

/// The most steps and questions for a delegate in a minute. A replacement needs fifteen.
const MOST_IN_A_MINUTE: u32 = 100;

/// After this many rounds of the loop in one call, no delegate takes another step: the call must return to report.
const MOST_ROUNDS: u32 = 200;

/// Limits the damage of a fault that no back-off catches.
#[derive(Debug, Default)]
pub(super) struct Budget {
    since: Option<Instant>,
    used: u32,
}

impl Budget {
    /// Uses one of the minute's steps. If none is left, returns the reason to wait, and until when.
    pub(super) fn take(
        &mut self,
        step: &impl ToString,
        rounds: u32,
        now: DateTime<Utc>,
    ) -> Result<(), (Reason, DateTime<Utc>)> {
        let refused = |problem, wait: Duration| {
            let step = step.to_string();
            Err((Reason::EngineError { step, problem }, now + wait))
        };
        if rounds > MOST_ROUNDS {
            let problem = format!("{MOST_ROUNDS} steps in a row on this host, and there is more to do");
            return refused(problem, Duration::from_secs(1));
        }
        let minute = Duration::from_secs(60);
        let elapsed = self.since.map(|since| since.elapsed());
        let Some(elapsed) = elapsed.filter(|elapsed| *elapsed < minute) else {
            (self.since, self.used) = (Some(Instant::now()), 1);
            return Ok(());
        };
        self.used = self.used.saturating_add(1);
        if self.used <= MOST_IN_A_MINUTE {
            return Ok(());
        }
        let problem = format!("{MOST_IN_A_MINUTE} steps in a minute, and it is not done");
        refused(problem, minute.saturating_sub(elapsed))
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn allows_a_hundred_steps_a_minute() {
        let (mut budget, now) = (Budget::default(), Utc::now());
        let mut take = |rounds| {
            budget
                .take(&"a step", rounds, now)
                .map_err(|(_, until)| until - now)
        };
        for _ in 0..2 {
            assert!((0..MOST_IN_A_MINUTE).all(|_| take(1).is_ok()));
            tokio::time::advance(Duration::from_secs(20)).await;
            assert_eq!(take(1), Err(TimeDelta::seconds(40)));
            tokio::time::advance(Duration::from_secs(40)).await;
        }
        assert_eq!(take(MOST_ROUNDS + 1), Err(TimeDelta::seconds(1)));
    }
}
