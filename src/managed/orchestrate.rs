//! The calls and rules that differ between orchestrators. `reconcile/driver` has everything else.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{Decision, Managed, Orchestrator, Step};
use crate::host::hold::Holds;
use crate::rollout::reason::Reason;

/// A workload, and the document that it was read from.
#[derive(Clone, Debug)]
pub struct Object {
    /// The workload, as the document describes it.
    pub managed: Managed,
    /// The orchestrator's document, as it came.
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

/// The reason why a step failed, in the orchestrator's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The workload has changed since it was observed.
    Conflict(String),
    /// This program may not do that.
    NotPermitted(String),
    /// The API refused the step, and would refuse it again.
    Refused(String),
    /// Anything else.
    Failed(String),
}

/// An orchestrator, as the driver needs it.
pub trait Orchestrate {
    /// The reason why an observation failed.
    type Error: std::fmt::Display;

    /// Which.
    const ORCHESTRATOR: Orchestrator;
    /// The API that has to answer, as the log names it.
    const API: &'static str;
    /// Whether workloads of one `DELEGATE_NAME` are upgraded one at a time, and a failure halts the rest.
    const ONE_AT_A_TIME: bool;

    /// Reads the workloads; `None` while the last reading still holds.
    ///
    /// # Errors
    /// They cannot be read now.
    fn observe(&mut self) -> impl Future<Output = Result<Option<Found>, Self::Error>>;

    /// The platforms that an image needs. The driver asks the registry for the digest of an image with all of them, and pins it.
    /// `None` if they are unknown, and the driver does that only for a tag that may move.
    fn platforms(&self) -> Option<&[String]> {
        None
    }

    /// The holds on the upgrade to this image; `None` where [`Self::learn_holds`] has to read them.
    fn holds(&self, object: &Object, image: &str, now: DateTime<Utc>) -> Option<Result<Holds, String>>;

    /// Whether the holds were read too long ago to begin an upgrade by them.
    fn holds_are_old(&self) -> bool {
        false
    }

    /// Reads the holds.
    ///
    /// # Errors
    /// They cannot be read now.
    fn learn_holds(&mut self) -> impl Future<Output = Result<(), Refusal>> {
        std::future::ready(Ok(()))
    }

    /// The reason to leave a workload alone now, in spite of the decision, and the time of the next look.
    fn lock(
        &mut self,
        object: &Object,
        decision: &Decision,
        now: DateTime<Utc>,
    ) -> impl Future<Output = Option<(Reason, Option<DateTime<Utc>>)>>;

    /// How well a new task is proven, in a few words; `None` if that is the owner's affair.
    fn proof(&self, object: &Object) -> Option<String> {
        let _ = object;
        None
    }

    /// The owner's settings that can hurt, each in a sentence.
    fn warnings(&self, object: &Object) -> Vec<String>;

    /// Takes a step on the observed version of the workload. [`Step::writes`] has the record and the image to write.
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
