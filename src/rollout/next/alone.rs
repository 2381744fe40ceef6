//! A candidate whose old one somebody has removed.

use chrono::TimeDelta;

use super::proof::{may_still_be_proven, refusal};
use super::stopping::set_policy;
use super::{At, Proof, start};
use crate::container::RunState;
use crate::rollout::reason::Reason;
use crate::rollout::{Decision, Desired, Member};

impl At<'_> {
    /// A candidate, and nobody else: whatever it is worth, it is all there is. Where another image is published by
    /// now, it becomes the delegate that is replaced by that one.
    pub(super) fn alone(&self, candidate: &Member) -> Decision {
        if matches!(self.desired, Desired::Image { .. })
            && !self.is_wanted(candidate)
            && candidate.state == RunState::Running
        {
            return self.promote(candidate);
        }
        // It was about to be rejected.
        if candidate.restart_is_off()
            && let Some(policy) = candidate
                .predecessor_policy
                .as_deref()
                .filter(|policy| *policy != "no")
        {
            return set_policy(candidate, policy);
        }
        let rest = candidate
            .finished_at
            .map(|finished| finished + TimeDelta::seconds(10));
        if let Some(until) = rest.filter(|until| candidate.has_ended() && *until > self.now) {
            let reason = Reason::NoFallback {
                verdict: candidate.health.to_string(),
            };
            return Decision::Wait { reason, until };
        }
        if candidate.is_created() || candidate.has_ended() {
            return match refusal(candidate) {
                Some(cause) => Decision::Rest(Reason::Rejected {
                    image: candidate.image.clone(),
                    cause,
                }),
                None => start(candidate),
            };
        }
        match self.prove(candidate) {
            Proof::Proven => self.promote(candidate),
            Proof::NotYet(step) => step,
            // Late, but it may still get there.
            Proof::Failed(_) | Proof::Inconclusive { .. } if may_still_be_proven(candidate) => {
                Decision::Wait {
                    reason: Reason::NoFallback {
                        verdict: candidate.health.to_string(),
                    },
                    until: self.now + self.proof_interval(),
                }
            }
            Proof::Failed(_) | Proof::Inconclusive { .. } => match self.desired {
                // Its tag stands for another image by now.
                Desired::Image {
                    reference, id: None, ..
                } => self.pull(reference),
                _ => Decision::Rest(Reason::NoFallback {
                    verdict: candidate.health.to_string(),
                }),
            },
        }
    }
}
