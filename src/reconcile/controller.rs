//! The interface that the loop drives: observe delegates, decide and act, on a host or in a cluster.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::upgrade_run::Mode;
use crate::events::ledger::Ledger;
use crate::manager::{ManagerStatus, UpgraderImage};
use crate::status::report::Report;

/// Manages delegates. Each call does everything that can be done now, and says when to call it again.
pub trait Controller {
    /// Why nothing could be observed.
    type Error: fmt::Display;

    /// Whether nothing answers at the address, so that a restart of this program may help.
    fn is_unreachable(error: &Self::Error) -> bool {
        let _ = error;
        false
    }

    /// The error, with advice for an operator.
    fn problem(error: &Self::Error) -> String {
        error.to_string()
    }

    /// The name of the API that must answer, for the log.
    const API: &'static str;

    /// Starts a run at the next observation: [`Self::reconcile`] asks for the published images, and acts on each answer.
    fn start_run(&mut self, mode: Mode);

    /// Sets when the next scheduled run starts: before the first one, nothing is upgraded.
    fn set_next_run(&mut self, next: Option<DateTime<Utc>>);

    /// Takes all steps that can be taken now, each after its own observation. The report says when to call it again.
    ///
    /// # Errors
    /// Nothing could be observed.
    fn reconcile(&mut self) -> impl Future<Output = Result<Report, Self::Error>>;

    /// Completes when [`Self::reconcile`] can continue, such as after an answer of the Manager or an event
    /// of the engine; never if nothing is awaited.
    fn answered(&mut self) -> impl Future<Output = ()>;

    /// Checks in with the Manager in the background if its last answer is too old. Changes nothing on the host.
    fn check_in(&mut self);

    /// How long until [`Self::check_in`] has something to do.
    fn next_check_in(&self) -> Duration;

    /// Whether another instance acted instead of this one at the last observation.
    fn stands_by(&self) -> bool {
        false
    }

    /// The Manager's last answers, in or between runs; `None` if there is no Manager.
    fn manager_status(&self) -> Option<ManagerStatus>;

    /// The upgrader's own image, and whether a newer one is published, if known.
    fn upgrader_image(&self) -> Option<&UpgraderImage> {
        None
    }

    /// The outcomes and steps since the start.
    fn ledger(&self) -> &Ledger;
}
