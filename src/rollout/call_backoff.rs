//! Back-off for each call about a delegate. The pause grows with every attempt that fails or has no effect.

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::pace::{FORGOTTEN_AFTER, LONGEST_BESIDE, LONGEST_PAUSE, MAX_AWAITED_RETRIES};
use super::reason::Reason;
use super::{Decided, Decision, Member, Rollout, Row, Step};
use crate::container::Role;

/// The failed call if a container cannot be inspected.
pub(crate) const INSPECT: &str = "inspect";

/// The last attempt failed, or had no effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Backoff {
    /// The call that failed, and how.
    pub reason: Reason,
    /// How many times in a row.
    pub attempts: u32,
    /// Nothing is tried before this time.
    pub retry_at: DateTime<Utc>,
    /// Whether it was about a leftover container.
    pub is_beside: bool,
}

impl Backoff {
    /// The pause after a failure: 2 s after the first one, doubled with each that follows, at most a minute.
    pub(crate) fn after(previous: Option<&Self>, reason: Reason, now: DateTime<Utc>) -> Self {
        let attempts = previous.map_or(1, |previous| previous.attempts.saturating_add(1));
        Self {
            reason,
            attempts,
            retry_at: now + pause(attempts, false),
            is_beside: false,
        }
    }

    /// Back-off for a failure that repeating will not cure, such as a missing permission: no run waits for it.
    pub(crate) fn hopeless(reason: Reason, now: DateTime<Utc>) -> Self {
        Self {
            reason,
            attempts: u32::MAX,
            retry_at: now + LONGEST_PAUSE,
            is_beside: false,
        }
    }

    /// Waits until the retry, or rests if the attempts are hopeless.
    pub(crate) fn or_rest<S>(&self) -> Decision<S> {
        if self.is_hopeless() {
            Decision::Rest(self.reason.clone())
        } else {
            Decision::wait(self.reason.clone(), self.retry_at)
        }
    }

    /// Whether it failed so often that a run no longer waits for it. It is still retried whenever the reconciler observes.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.attempts > MAX_AWAITED_RETRIES
    }
}

/// 2 s after the first attempt, doubled with each further one. For leftovers that nobody waits for, the pause grows longer.
fn pause(attempts: u32, is_beside: bool) -> TimeDelta {
    match attempts {
        0 => TimeDelta::zero(),
        more if is_beside && more > MAX_AWAITED_RETRIES => {
            TimeDelta::seconds(1 << (more - 3).min(12)).min(LONGEST_BESIDE)
        }
        attempts => TimeDelta::seconds(1 << attempts.min(6)).min(LONGEST_PAUSE),
    }
}

/// The attempts for one delegate, by subject, so that trouble with one container does not delay another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Backoffs(HashMap<String, Backoff>);

impl Backoffs {
    /// Notes an attempt that failed with `problem`, or was reported to succeed. A reported success may be repeated once at once,
    /// then it is paused too: the engine may report success and do nothing.
    pub fn note(
        &mut self,
        key: String,
        step: String,
        problem: Option<String>,
        is_beside: bool,
        now: DateTime<Utc>,
    ) {
        let before = self
            .of(&key)
            .filter(|last| now - last.retry_at <= FORGOTTEN_AFTER);
        let before = before.map_or(0, |last| last.attempts);
        let pause = pause(before + u32::from(problem.is_some()), is_beside);
        let problem =
            problem.unwrap_or_else(|| "the engine reports success, and nothing has changed".to_owned());
        let last = Backoff {
            reason: Reason::EngineError { step, problem },
            attempts: before.saturating_add(1),
            retry_at: now + pause,
            is_beside,
        };
        self.0.insert(key, last);
    }

    /// The last attempt at this.
    pub fn of(&self, key: &str) -> Option<&Backoff> {
        self.0.get(key)
    }

    /// The decision, unless its last attempt calls for a pause.
    pub(super) fn paced(&self, decided: Decided, now: DateTime<Utc>) -> Decided {
        // Most delegates have none.
        let key = decided.decision.key().filter(|_| !self.0.is_empty());
        let last = key.and_then(|key| self.of(&key));
        match last.filter(|last| last.retry_at > now) {
            Some(last) => Decided {
                row: Row::CallFailed,
                decision: last.or_rest(),
            },
            None => decided,
        }
    }

    /// The same for work beside the replacement. A leftover without a process that cannot be removed is not reported in the end.
    pub(super) fn paced_beside(
        &self,
        decided: Decided,
        rollout: &Rollout,
        now: DateTime<Utc>,
    ) -> Option<Decided> {
        let Decision::Act(step) = &decided.decision else {
            return Some(decided);
        };
        let member = step.container().and_then(|id| rollout.member(id));
        let is_up = member.is_some_and(Member::is_up);
        let paced = self.paced(decided, now);
        (is_up || !matches!(paced.decision, Decision::Rest(_))).then_some(paced)
    }

    /// The wait if a container that may serve cannot be inspected.
    pub(super) fn not_inspected(&self, problem: &str, now: DateTime<Utc>) -> Decision {
        if let Some(last) = self.of(INSPECT) {
            return last.or_rest();
        }
        let (step, problem) = (INSPECT.to_owned(), problem.to_owned());
        let reason = Reason::EngineError { step, problem };
        Decision::wait(reason, now + TimeDelta::seconds(1))
    }

    /// The failed attempts to stop or remove a container, after ten of them: nothing waits for it any longer.
    pub(super) fn stuck(&self, member: &Member) -> Option<&Backoff> {
        let (id, to) = (member.id.clone(), String::new());
        let step = match member.role {
            _ if member.is_up() => Step::stop(member, Duration::ZERO),
            Role::Retired => Step::Drain { id, to },
            _ => Step::remove(member),
        };
        self.of(&step.key()).filter(|last| last.is_hopeless())
    }

    /// Forgets the attempts at this.
    pub fn forget(&mut self, key: &str) {
        self.0.remove(key);
    }

    /// Lets a new run try everything at once, except for leftovers.
    pub fn start_run(&mut self) {
        self.0.retain(|_, last| last.is_beside);
    }

    /// Shifts all times by the amount that the clock jumped.
    pub fn shift(&mut self, by: TimeDelta) {
        for last in self.0.values_mut() {
            last.retry_at += by;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_after_failures_and_ineffective_calls() {
        let pauses = |problem: Option<&str>, is_beside: bool| {
            let (mut backoffs, mut now) = (Backoffs::default(), DateTime::UNIX_EPOCH);
            let pauses = (0..13).map(|_| {
                let (key, problem) = ("stop d".to_owned(), problem.map(str::to_owned));
                backoffs.note(key.clone(), key.clone(), problem, is_beside, now);
                let pause = backoffs.of(&key).map_or(now, |last| last.retry_at) - now;
                now += pause;
                pause.num_seconds()
            });
            pauses.collect::<Vec<_>>()
        };
        assert_eq!(pauses(Some("no"), false)[..8], [2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(pauses(None, false)[..8], [0, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(pauses(Some("no"), true)[7..], [60, 60, 128, 256, 512, 1024]);
    }
}
