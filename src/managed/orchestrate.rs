//! The calls and rules that differ between orchestrators. `reconcile/driver` contains everything else.

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{Decision, Managed, Orchestrator, Step};
use crate::container::Inspected;
use crate::document::NewSettings;
use crate::host::hold::Holds;
use crate::image::ImageName;
use crate::rollout::Release;
use crate::rollout::reason::Reason;

/// A workload and its source document.
#[derive(Clone, Debug)]
pub struct Object {
    /// The workload, as the document describes it.
    pub managed: Managed,
    /// The orchestrator's unchanged document.
    pub document: Value,
}

/// The workloads that an observation found, and those that it missed.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The workloads that exist.
    pub objects: Vec<Object>,
    /// The names of workloads that are missing or unusable, each with the reason.
    pub absent: Vec<(String, Reason)>,
}

/// The reason why a call to the orchestrator failed, with its message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub enum Refusal {
    /// The workload has changed since it was observed.
    Conflict(String),
    /// This program lacks the permission.
    NotPermitted(String),
    /// The object does not exist.
    NotFound(String),
    /// The API refused the call, and would refuse it again.
    Refused(String),
    /// The API cannot be reached, or anything else.
    Failed(String),
}

/// The interface between the driver and an orchestrator.
pub trait Orchestrate {
    /// The reason why an observation failed.
    type Error: std::fmt::Display;

    /// The orchestrator.
    const ORCHESTRATOR: Orchestrator;
    /// The name of the API that must answer, for the log.
    const API: &'static str;
    /// Whether workloads with one `DELEGATE_NAME` are upgraded one at a time, and a failure stops the rest.
    const ONE_AT_A_TIME: bool;

    /// Reads the workloads. Returns `None` while the last reading is still valid.
    ///
    /// # Errors
    /// The workloads cannot be read now.
    fn observe(&mut self) -> impl Future<Output = Result<Option<Found>, Self::Error>>;

    /// Returns the day on which an image was released, if that can be found out.
    fn released(&self, _: &ImageName) -> impl Future<Output = Release> {
        std::future::ready(None)
    }

    /// Returns the platforms that an image must support. The driver then asks the registry for a digest with all of them,
    /// and pins the image to it. `None` means unknown: the driver then does this only for a mutable tag.
    fn platforms(&self) -> Option<&[String]> {
        None
    }

    /// Returns the holds on an upgrade to this image, or `None` if [`Self::learn_holds`] must read them first.
    fn holds(&self, object: &Object, image: &str, now: DateTime<Utc>) -> Option<Result<Holds, String>>;

    /// Whether the holds are too old to start an upgrade with them.
    fn holds_are_old(&self) -> bool {
        false
    }

    /// Reads the holds.
    ///
    /// # Errors
    /// The holds cannot be read now.
    fn learn_holds(&mut self) -> impl Future<Output = Result<(), Refusal>> {
        std::future::ready(Ok(()))
    }

    /// Returns a reason to leave a workload alone in spite of the decision, and the time to check again.
    fn lock(
        &self,
        object: &Object,
        decision: &Decision,
        now: DateTime<Utc>,
    ) -> Option<(Reason, Option<DateTime<Utc>>)>;

    /// Describes briefly how well a new task is proven. `None` if that is up to the owner.
    fn proof(&self, _: &Object) -> Option<String> {
        None
    }

    /// Returns the workload's variables, in the form of a container's document.
    fn settings(&self, object: &Object) -> Inspected;

    /// Returns the same from before the last change of settings.
    ///
    /// # Errors
    /// The orchestrator no longer has them.
    fn former_settings(&self, object: &Object) -> impl Future<Output = Result<Inspected, Refusal>>;

    /// Returns the reason why a workload cannot get these settings, if so.
    fn refuses(&self, _: &Object, _: &NewSettings) -> Option<String> {
        None
    }

    /// Returns warnings about risky settings of the owner, each a sentence.
    fn warnings(&self, object: &Object) -> Vec<String>;

    /// Applies a step to the observed version of the workload. [`Step::writes`] returns the record and the image to write.
    ///
    /// # Errors
    /// The step was not applied.
    fn apply(
        &mut self,
        object: &Object,
        step: &Step,
        now: DateTime<Utc>,
    ) -> impl Future<Output = Result<(), Refusal>>;
}
