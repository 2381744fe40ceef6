//! The container that had the name is gone (V). If somebody removed it, nothing takes its place.

use super::{At, Situation};
use crate::container::RunState;
use crate::rollout::Row::{V1, V2, V3, V4, V5, V6};
use crate::rollout::reason::Reason;
use crate::rollout::{Decided, Fact, Step, StoppedBy};

impl At<'_> {
    /// What somebody removed stays removed, and so does one with `--rm` that somebody stopped. What else ended it, an
    /// engine that was restarted among it, is what the rest of a replacement is there for.
    pub(super) fn removed(&self, situation: &Situation<'_>) -> Option<Decided> {
        let mut given_up = self.rollout.given_up();
        let is_gone = match situation {
            Situation::Alone { .. }
            | Situation::NameIsFree { old: None, .. }
            | Situation::FallingBack { .. } => true,
            // Where its successor was given up, it is what had the name last.
            Situation::Restoring { old } => !given_up.any(|other| other.is_successor_of(old)),
            _ => false,
        };
        if !is_gone || self.rollout.renamed_predecessor.is_some() {
            return None;
        }
        Some(match (self.facts.removed_by, situation) {
            (None, _) => V1.learn(Fact::RemovedBy),
            (Some(by), _) if by != StoppedBy::Somebody => return None,
            (_, Situation::Alone { candidate } | Situation::NameIsFree { candidate, .. }) => {
                V2.see(self.withdraw(candidate, Some(Reason::Removed)))
            }
            (_, Situation::FallingBack { standby }) => V3.see(self.remove_copy(standby)),
            (_, Situation::Restoring { old }) => match old.state {
                RunState::Removing => V4.see(self.wait_for_removal(old)),
                _ if old.is_up() => V5.see(self.stop(old)),
                _ => V6.act(Step::remove(old)),
            },
            _ => return None,
        })
    }
}
