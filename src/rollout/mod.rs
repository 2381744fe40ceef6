//! The replacement of one delegate, read from Docker's own state.
//!
//! There is no state file: `Rollout` is read from container names, labels and states at every observation, [`next`]
//! decides what to do about it, and [`execute`] takes the step. What a restart of this program loses ([`History`]) is
//! only how long something has been watched, never what was done.

mod blockers;
mod call_backoff;
mod checks;
mod circumstances;
mod containers;
mod decided;
mod decision;
mod desired;
mod execute;
mod facts;
mod failure;
mod failure_cause;
mod member;
mod memory;
mod next;
mod owner;
pub(crate) mod pace;
mod policy;
mod quarantine;
pub mod reason;
mod restart_deferral;
mod row;
mod start_of_container;
mod step;
pub(crate) mod wanted;

pub use crate::config::Policy;
pub use blockers::{Blocker, BlockerKind, RunFacts, table as blocker_table};
pub(crate) use blockers::{BlockerRow, Start, Surroundings};
pub(crate) use call_backoff::INSPECT;
pub use call_backoff::{Backoff, Backoffs};
pub use checks::{Checks, RequestedRestart};
pub use containers::Rollout;
pub use decided::Decided;
pub use decision::{Decision, Fact};
pub use desired::{Desired, Intent};
pub use execute::{Effect, PullState, Pulled, Pulls, execute, image_of};
pub use facts::{Facts, Reach};
pub use failure::Failure;
pub use failure_cause::{FailureCause, Rejection};
pub use member::{Life, Member, RememberedImage, StopTimeoutSource};
pub use memory::{Check, History, Memory, RefusedStarts, Release, Seen};
pub use next::next;
pub use owner::{InvalidLabel, OwnerSettings};
pub use policy::ChosenOrder;
pub use quarantine::{RejectedImage, quarantine};
pub use restart_deferral::RestartDeferral;
pub use row::Row;
pub(crate) use row::rows;
pub use step::Step;
