//! What the loop drives: whoever observes delegates, decides and acts, on a host or in a cluster.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::time::Duration;

use super::Reconciler;
use super::upgrade_run::Mode;
use crate::engine::{Engine, EngineError};
use crate::events::ledger::Ledger;
use crate::health::HealthEndpoint;
use crate::manager::{ImageSource, ManagerStatus, UpgraderImage};
use crate::status::report::Report;

/// Looks after delegates. Each call does what can be done now, and says when to call it again.
pub trait Controller {
    /// Why nothing could be observed.
    type Error: fmt::Display;

    /// What has to answer, as the log names it.
    const API: &'static str;

    /// Starts a run with the next observation.
    fn start_run(&mut self, mode: Mode);

    /// Takes all steps that can be taken now. The report says when to call it again.
    ///
    /// # Errors
    /// Nothing could be observed.
    fn reconcile(&mut self) -> impl Future<Output = Result<Report, Self::Error>>;

    /// Completes when there is an answer to go on with; never where none is awaited.
    fn answered(&mut self) -> impl Future<Output = ()>;

    /// Checks in with the Manager where the last answer is long ago, in the background.
    fn check_in(&mut self);

    /// How long until [`Self::check_in`] has something to do.
    fn next_check_in(&self) -> Duration;

    /// Whether another instance acts in place of this one.
    fn stands_by(&self) -> bool;

    /// The Manager's last answers; `None` where there is no Manager.
    fn manager_status(&self) -> Option<ManagerStatus>;

    /// The upgrader's own image, and whether a newer one is published, where that is known.
    fn upgrader_image(&self) -> Option<&UpgraderImage>;

    /// What came of things since the start.
    fn ledger(&self) -> &Ledger;

    /// How often each kind of step was tried since the start.
    fn steps_taken(&self) -> &BTreeMap<&'static str, u64>;
}

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Controller for Reconciler<E, M, H> {
    type Error = EngineError;

    const API: &'static str = "the Docker engine";

    fn start_run(&mut self, mode: Mode) {
        self.start_run(mode);
    }

    async fn reconcile(&mut self) -> Result<Report, EngineError> {
        self.reconcile().await
    }

    async fn answered(&mut self) {
        self.answered().await;
    }

    fn check_in(&mut self) {
        self.check_in();
    }

    fn next_check_in(&self) -> Duration {
        self.next_check_in()
    }

    fn stands_by(&self) -> bool {
        self.stands_by()
    }

    fn manager_status(&self) -> Option<ManagerStatus> {
        self.manager_status()
    }

    fn upgrader_image(&self) -> Option<&UpgraderImage> {
        self.upgrader_image()
    }

    fn ledger(&self) -> &Ledger {
        self.ledger()
    }

    fn steps_taken(&self) -> &BTreeMap<&'static str, u64> {
        self.steps_taken()
    }
}
