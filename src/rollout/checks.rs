//! The results of one container's health checks, and the restarts that followed. Like all of a history, these are only hints.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::pace::{FAILED_CHECKS, RESTART_PAUSE_LIMIT};
use crate::health::{Health, Probe};

/// The health checks of one container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checks {
    /// How many have failed in a row in its current life.
    pub failed: u64,
    /// How often this process has restarted it since it last stayed healthy.
    pub restarts: u32,
    /// The restart that this process asked for, until its current life ends.
    pub restart: Option<RequestedRestart>,
    /// Why the engine refused the last restart.
    pub refused: Option<String>,
    /// Whether a check has passed in its current life.
    pub has_passed: bool,
    /// How long the container took to become healthy in its current life, if this process watched.
    pub took: Option<TimeDelta>,
    /// When the last check was made. The engine runs a HEALTHCHECK itself, so this is when its result was first seen; unknown
    /// for the first result that this process sees, and for one of an earlier life or of a pause.
    pub last_at: Option<DateTime<Utc>>,
    /// When the last probe of a HEALTHCHECK ended, as the engine writes it.
    last_probe: Option<String>,
    /// When its current life started.
    pub(super) life: Option<DateTime<Utc>>,
    /// Whether a check failed in its current life.
    has_waited: bool,
    /// When the current streak of passing checks began.
    passing_since: Option<DateTime<Utc>>,
    /// Whether the outcome of its last restart is still to be reported.
    is_outcome_due: bool,
    /// Whether the next observation checks it, however recent the last check.
    pub is_due: bool,
}

/// A restart that the engine was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestedRestart {
    /// When it was requested.
    pub asked_at: DateTime<Utc>,
    /// How long that life may take to end; zero if the engine refused.
    pub grace: Duration,
}

impl Checks {
    /// Records its current life; returns whether it is another one. A container that cannot be inspected shows none.
    pub(super) fn note_life(&mut self, started_at: Option<DateTime<Utc>>) -> bool {
        let is_another = started_at.is_some() && self.life != started_at;
        if is_another {
            *self = Self {
                life: started_at,
                restarts: self.restarts,
                last_probe: self.last_probe.take(),
                is_outcome_due: self.is_outcome_due,
                is_due: self.is_due,
                ..Self::default()
            };
        }
        is_another
    }

    /// Records when the last probe of its HEALTHCHECK ended; returns whether the probe is new.
    pub fn note_probe(&mut self, ended: &str) -> bool {
        let before = self.last_probe.replace(ended.to_owned());
        before.is_some_and(|before| before != ended)
    }

    /// Records a check of the current life, and whether it is new. Enough time without a failure clears the restarts.
    pub(super) fn note(&mut self, at: DateTime<Utc>, health: &Health, is_new: bool) {
        if !health.is_of_a_check() {
            // Failures from before a pause do not show how the container does once it runs again.
            self.failed = 0;
            self.last_at = None;
            return;
        }
        if is_new {
            self.last_at = Some(at);
        }
        if health.is_healthy() {
            self.failed = 0;
            if !self.has_passed && self.has_waited {
                self.took = self.life.map(|life| at - life);
            }
            self.has_passed = true;
            self.passing_since.get_or_insert(at);
            return;
        }
        self.has_waited = true;
        if health.failed_checks > 0 {
            self.passing_since = None;
        }
        self.failed = match health.probe {
            // The engine counts the failures of a HEALTHCHECK itself.
            Probe::Engine => health.failed_checks,
            _ => self.failed + health.failed_checks,
        };
    }

    /// Forgets the restarts of a delegate that has stayed healthy for long enough.
    pub fn forget_restarts(&mut self, now: DateTime<Utc>, healthy_time: Duration) {
        let is_well = |since: DateTime<Utc>| (now - since).to_std().is_ok_and(|time| time >= healthy_time);
        if self.passing_since.is_some_and(is_well) {
            self.restarts = 0;
        }
    }

    /// Notes a requested restart: the current life may take `grace` to end.
    pub fn note_restart(&mut self, asked_at: DateTime<Utc>, grace: Duration) {
        self.restarts = self.restarts.saturating_add(1);
        self.restart = Some(RequestedRestart { asked_at, grace });
        self.is_outcome_due = true;
    }

    /// Whether it is healthy after a restart, once that is known. Reported only once.
    pub fn take_outcome(&mut self) -> Option<bool> {
        let is_well = match self.passing_since {
            Some(_) => true,
            None if self.failed >= FAILED_CHECKS => false,
            None => return None,
        };
        let is_due = self.restart.is_none() && std::mem::take(&mut self.is_outcome_due);
        is_due.then_some(is_well)
    }

    /// The shortest time from a start to the next restart: one minute, doubled after each restart, up to an hour. A container
    /// that has not passed a check yet may still be starting, so it gets as long as a candidate.
    pub(super) fn pause(&self, healthy_deadline: TimeDelta) -> TimeDelta {
        let pause = TimeDelta::minutes(1 << self.restarts.min(6)).min(RESTART_PAUSE_LIMIT);
        if self.has_passed {
            pause
        } else {
            pause.max(healthy_deadline)
        }
    }

    /// Shifts all times by the amount that the clock jumped.
    pub(super) fn shift(&mut self, by: TimeDelta) {
        for moment in [&mut self.passing_since, &mut self.last_at].into_iter().flatten() {
            *moment += by;
        }
        if let Some(restart) = &mut self.restart {
            restart.asked_at += by;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(probe: Probe, failed_checks: u64) -> Health {
        match failed_checks {
            0 => Health::healthy(probe, ""),
            _ => Health::unhealthy(probe, "").with_failed_checks(failed_checks),
        }
    }

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(second, 0).unwrap()
    }

    #[test]
    fn consecutive_failures_are_counted_per_life() {
        let mut checks = Checks::default();
        let mut counts = Vec::new();
        for (life, health) in [
            (1, health(Probe::Http, 1)),
            (1, health(Probe::Http, 1)),
            (1, health(Probe::Http, 0)),
            (1, health(Probe::Http, 1)),
            (2, health(Probe::Http, 1)),
            // The engine counts its own.
            (2, health(Probe::Engine, 4)),
            (2, health(Probe::Engine, 4)),
        ] {
            checks.note_life(Some(at(life)));
            checks.note(at(9), &health, true);
            counts.push(checks.failed);
        }
        assert_eq!(counts, [1, 2, 0, 1, 1, 4, 4]);
    }

    #[test]
    fn startup_time_is_known_only_if_the_wait_was_observed() {
        let mut checks = Checks::default();
        for (life, moments, took) in [
            (1, &[(5, 1), (15, 0), (20, 1), (90, 0)][..], Some(14)),
            (100, &[(130, 0)], None),
        ] {
            checks.note_life(Some(at(life)));
            for (second, failed) in moments {
                checks.note(at(*second), &health(Probe::Http, *failed), true);
            }
            assert_eq!(checks.took, took.map(TimeDelta::seconds), "{life}");
        }
    }

    #[test]
    fn unreached_container_neither_fails_nor_passes() {
        let mut checks = Checks::default();
        checks.note_life(Some(at(1)));
        checks.note(at(2), &health(Probe::Http, 1), true);
        checks.note(at(3), &Health::unhealthy(Probe::Http, ""), true);
        assert_eq!(checks.failed, 1);
    }

    #[test]
    fn the_pause_doubles_up_to_an_hour_and_resets_after_lasting_health() {
        let mut checks = Checks::default();
        checks.note(at(0), &health(Probe::Http, 0), true);
        checks.note(at(1), &health(Probe::Http, 1), true);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            pauses.push(checks.pause(TimeDelta::minutes(10)).num_minutes());
            checks.note_restart(at(0), Duration::ZERO);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        let healthy_time = Duration::from_secs(60);
        checks.note(at(100), &health(Probe::Http, 0), true);
        checks.forget_restarts(at(159), healthy_time);
        assert_eq!(checks.restarts, 8);
        checks.forget_restarts(at(160), healthy_time);
        assert_eq!(checks.restarts, 0);
    }

    #[test]
    fn a_life_that_may_be_starting_gets_a_candidates_deadline() {
        let mut checks = Checks::default();
        let deadline = TimeDelta::minutes(10);
        checks.note_life(Some(at(1)));
        checks.note(at(2), &health(Probe::Http, 1), true);
        assert_eq!(checks.pause(deadline), deadline);
        checks.note(at(3), &health(Probe::Http, 0), true);
        assert_eq!(checks.pause(deadline).num_minutes(), 1);
        checks.note_life(Some(at(4)));
        assert_eq!(checks.pause(deadline), deadline);
    }

    #[test]
    fn restart_is_judged_by_one_pass_or_three_failures() {
        for (failures, is_well) in [(0, true), (3, false)] {
            let mut checks = Checks::default();
            checks.note_life(Some(at(1)));
            checks.note(at(2), &health(Probe::Engine, 3), true);
            assert_eq!(checks.take_outcome(), None, "it was not restarted");
            checks.note_restart(at(5), Duration::ZERO);
            checks.note_life(None);
            assert!(checks.restart.is_some(), "an inspect failed");
            checks.note_life(Some(at(1)));
            assert!(checks.restart.is_some(), "it is the same life");
            assert_eq!(checks.take_outcome(), None, "it is the same life");
            checks.note_life(Some(at(6)));
            assert_eq!(checks.restart, None, "it is over");
            assert_eq!(checks.take_outcome(), None, "nothing is known of the new one");
            checks.note(at(7), &health(Probe::Engine, failures), true);
            assert_eq!(checks.take_outcome(), Some(is_well));
            assert_eq!(checks.take_outcome(), None, "it was said");
        }
    }
}
