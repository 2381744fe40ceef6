//! Alone (A): a candidate, and nothing to go back to. Whatever it is worth, it is all there is, and is never rejected.

use super::proof::Candidate;
use super::serving::pulling;
use super::{At, RESTART_DELAY};
use crate::container::RunState;
use crate::rollout::Row::{A1, A2, A3, A4, A5, A6, A7, A8, A9, A10, A11, A12};
use crate::rollout::reason::Reason;
use crate::rollout::{Decided, Desired, FailureCause, Member, Step};

impl At<'_> {
    pub(super) fn alone(&self, candidate: &Member) -> Decided {
        let is_superseded = matches!(self.desired, Desired::Image { .. }) && !self.is_wanted(candidate);
        let lost_policy = candidate
            .predecessor_restarts()
            .filter(|_| candidate.restart_is_off());
        let refused = candidate.history.start_refused.as_ref();
        let ended_until = candidate.finished_at.filter(|_| candidate.has_ended());
        let ended_until = ended_until.map(|finished| finished + RESTART_DELAY);
        let no_way_back = || Reason::NoFallback {
            verdict: candidate.health.to_string(),
        };
        match (&candidate.state, lost_policy, ended_until) {
            _ if self.rollout.gives_way(candidate) => A1.see(self.let_go(candidate, None)),
            (RunState::Running, ..) if is_superseded => A2.act(Step::promote(self.rollout, candidate)),
            (_, Some(policy), _) => A3.act(Step::set_policy(candidate, policy)),
            (.., Some(until)) if until > self.now => A4.wait(no_way_back(), until),
            (RunState::Created | RunState::Exited | RunState::Dead, ..) => match refused {
                Some(problem) => A5.rest(Reason::Rejected {
                    image: candidate.image.to_string(),
                    cause: FailureCause::StartRefused {
                        problem: problem.clone(),
                    },
                }),
                None => A6.act(Step::start(candidate)),
            },
            _ => {
                let (row, proof) = self.prove(candidate, true);
                let decided = match (proof, self.desired) {
                    (Candidate::Proven, _) => A7.act(Step::promote(self.rollout, candidate)),
                    (Candidate::NotYet { reason, until }, _) => A8.wait(reason, until),
                    // Late, but it may still get there.
                    _ if candidate.health.is_healthy() && !candidate.is_crash_looping() => {
                        A9.wait(no_way_back(), self.now + self.proof_interval())
                    }
                    // Its tag stands for another image by now.
                    (
                        _,
                        Desired::Image {
                            reference, id: None, ..
                        },
                    ) if self.facts.is_pulling => A10.wait(pulling(reference), self.pull_is_due()),
                    (
                        _,
                        Desired::Image {
                            reference, id: None, ..
                        },
                    ) => A11.act(Step::pull(reference)),
                    _ => A12.rest(no_way_back()),
                };
                decided.noting(row)
            }
        }
    }
}
