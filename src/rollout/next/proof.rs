//! The candidate (P): what it is, decided once. No other table asks for its health or its history again.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{At, span};
use crate::container::RunState;
use crate::rollout::Row::{self, P1, P2, P3, P4, P5, P6, P7, P8};
use crate::rollout::reason::Reason;
use crate::rollout::{CandidateFailure, FailureCause, Member};

/// How long a stop and a start that belong together may be apart.
const RESTART: Duration = Duration::from_secs(10);

/// What a candidate is.
pub(super) enum Candidate {
    /// Another image is desired by now, or it was rejected.
    Unwanted,
    /// It was never started.
    Created,
    /// It cannot be started.
    Refused(CandidateFailure),
    /// It has been healthy for long enough.
    Proven,
    /// It still may get there.
    NotYet { reason: Reason, until: DateTime<Utc> },
    /// It will not.
    Failed(CandidateFailure),
}

impl At<'_> {
    /// What the candidate is, and the row that says so.
    pub(super) fn prove(&self, member: &Member, is_wanted: bool) -> (Row, Candidate) {
        let history = &member.history;
        let needed = self.policy.healthy_time;
        let healthy_for = history.healthy_for(self.now);
        let seen = history.seen_since.unwrap_or(self.now);
        let time = span(self.policy.healthy_deadline);
        // Extended once where a common cause was seen.
        let deadline = seen + time * (1 + i32::from(history.had_common_cause_since(seen)));
        let ending = member.end();
        let failed = |cause, since| Candidate::Failed(CandidateFailure::of(member, cause, since));
        match &history.start_refused {
            _ if !is_wanted => (P1, Candidate::Unwanted),
            Some(problem) if member.is_created() => {
                let problem = problem.clone();
                let cause = FailureCause::StartRefused { problem };
                let failure = CandidateFailure::of(member, cause, self.now - time);
                (P2, Candidate::Refused(failure))
            }
            None if member.is_created() => (P3, Candidate::Created),
            _ if member.is_crash_looping() || member.was_given_up() => {
                let restarts = member.restarts();
                let cause = FailureCause::CrashLoop { restarts, ending };
                // Restarts that have a common cause are not counted.
                let common_cause = None;
                (P4, Candidate::Failed(CandidateFailure { cause, common_cause }))
            }
            _ if member.has_ended() && !self.may_be_restarting(member) || self.is_paused(member) => {
                (P5, failed(FailureCause::Exited { ending }, self.now - time))
            }
            _ if healthy_for.is_some_and(|healthy_for| healthy_for >= needed) => (P6, Candidate::Proven),
            _ if self.now >= deadline => {
                let cause = FailureCause::NotHealthyInTime {
                    needed,
                    within: (deadline - seen).to_std().unwrap_or_default(),
                    health: member.health.detail.clone(),
                };
                (P7, failed(cause, seen + time))
            }
            _ => {
                let healthy_for = healthy_for.unwrap_or_default();
                let proven = self.now + span(needed.saturating_sub(healthy_for));
                let until = (self.now + self.proof_interval()).min(deadline).min(proven);
                let verdict = member.health.to_string();
                let reason = Reason::Proving {
                    healthy_for,
                    needed,
                    verdict,
                };
                (P8, Candidate::NotYet { reason, until })
            }
        }
    }

    /// Whether somebody has paused it, for longer than a backup of its files takes.
    pub(super) fn is_paused(&self, member: &Member) -> bool {
        let since = member.history.unhealthy_since;
        member.state == RunState::Paused && since.is_some_and(|since| self.now - since >= span(RESTART))
    }

    /// One with a restart policy that is seen ended may be between its stop and its start: an engine that restarts, or
    /// a person's `docker restart`.
    pub(super) fn may_be_restarting(&self, member: &Member) -> bool {
        let finished = member.finished_at;
        let ended = finished.is_some_and(|finished| self.now - finished < span(RESTART));
        member.has_ended() && ended && !member.restart_is_off()
    }
}
