//! The parts of an upgrade that each orchestrator does its own way: all else is the driver's, in `reconcile/driver`.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{Decision, Managed, Orchestrator, Step};
use crate::host::hold::Holds;
use crate::rollout::reason::Reason;

/// A workload, and the document that it was read from.
#[derive(Clone, Debug)]
pub struct Object {
    /// What it says.
    pub managed: Managed,
    /// As the orchestrator wrote it.
    pub document: Value,
}

/// The delegates of an orchestrator.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Those that are there.
    pub objects: Vec<Object>,
    /// The names of those that are not there as they should be, each with the reason.
    pub absent: Vec<(String, Reason)>,
}

/// Why a step was not taken, in the orchestrator's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The workload has changed since it was observed.
    Conflict(String),
    /// This program may not do that.
    NotPermitted(String),
    /// Anything else.
    Failed(String),
}

/// An orchestrator, as the driver needs it.
pub trait Orchestrate {
    /// Why nothing could be observed.
    type Error: std::fmt::Display;

    /// Which.
    const ORCHESTRATOR: Orchestrator;
    /// What has to answer, as the log names it.
    const API: &'static str;
    /// A call to it, as the log names one that failed.
    const CALL: &'static str;
    /// Whether workloads of one `DELEGATE_NAME` are upgraded one at a time, and a failure halts the rest.
    const ONE_AT_A_TIME: bool;

    /// Reads the workloads; `None` where what was read last still holds.
    ///
    /// # Errors
    /// They cannot be read now.
    fn observe(&mut self) -> impl Future<Output = Result<Option<Found>, Self::Error>>;

    /// The platforms that an image has to have, where it is pinned to the digest that its registry has for all of them. `None`
    /// where no registry is asked: the nodes pull by tag.
    fn platforms(&self) -> Option<&[String]> {
        None
    }

    /// What holds the upgrade to this image back; `None` where that has to be learned.
    fn holds(&self, object: &Object, image: &str, now: DateTime<Utc>) -> Option<Result<Holds, String>>;

    /// Learns what holds upgrades back.
    ///
    /// # Errors
    /// That cannot be learned now.
    fn learn_holds(&mut self) -> impl Future<Output = Result<(), Refusal>> {
        std::future::ready(Ok(()))
    }

    /// Why nothing may be done about a workload now, whatever was decided, and until when that lasts.
    fn lock(
        &mut self,
        object: &Object,
        decision: &Decision,
        now: DateTime<Utc>,
    ) -> impl Future<Output = Option<(Reason, Option<DateTime<Utc>>)>>;

    /// Settings of its owner that can hurt, each in a sentence.
    fn warnings(&self, object: &Object) -> Vec<String>;

    /// Who wrote its image last, where that is known.
    fn last_writer(&self, object: &Object) -> Option<String> {
        let _ = object;
        None
    }

    /// Takes a step about the version of the workload that was observed: [`Step::writes`] says what to write.
    ///
    /// # Errors
    /// The step was not taken.
    fn apply(
        &mut self,
        object: &Object,
        step: &Step,
        now: DateTime<Utc>,
    ) -> impl Future<Output = Result<(), Refusal>>;
}
