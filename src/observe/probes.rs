//! The answers of the delegates' own endpoints: their health and their work.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use tokio::time::timeout;

use super::requests::{GRACE, Requests};
use crate::config::HealthSettings;
use crate::container::{ContainerId, Inspected};
use crate::engine::Engine;
use crate::health::{self, ExecProbe, Health, HealthEndpoint, HealthStatus, Question, Unfinished, Work};

/// The open requests, and the answers that have arrived.
#[derive(Debug)]
pub(super) struct Probes<H> {
    endpoint: Arc<H>,
    /// The health of each container since the last observation.
    pub(super) health: Requests<Health>,
    /// The work of each container since the last observation.
    pub(super) work: Requests<Option<Work>>,
    /// The health commands that did not end.
    unfinished: Arc<Unfinished>,
    /// The health that the last observation showed for containers that had not answered by then.
    shown: HashMap<ContainerId, Option<HealthStatus>>,
}

impl<H: HealthEndpoint> Probes<H> {
    pub(super) fn new(endpoint: H) -> Self {
        Self {
            endpoint: Arc::new(endpoint),
            health: Requests::new(),
            work: Requests::new(),
            unfinished: Arc::default(),
            shown: HashMap::new(),
        }
    }

    /// The address of delegates in the host's network: see [`HealthEndpoint::host_address`].
    pub(super) fn host_address(&self) -> Option<IpAddr> {
        self.endpoint.host_address()
    }

    /// Asks a container for its health, unless that is already being asked. `fallback` is for an endpoint that cannot be reached.
    pub(super) fn ask<E: Engine>(
        &mut self,
        engine: &Arc<E>,
        container: &Inspected,
        question: Question,
        fallback: Option<ExecProbe>,
    ) {
        let (engine, unfinished) = (Arc::clone(engine), Arc::clone(&self.unfinished));
        match question {
            Question::Http(addresses) => {
                let endpoint = Arc::clone(&self.endpoint);
                let request = async move {
                    let health = addresses.ask(endpoint.as_ref()).await;
                    match fallback.filter(|_| health.is_weak()) {
                        Some(exec) => exec.instead_of(health, engine.as_ref(), &unfinished).await,
                        None => health,
                    }
                };
                self.health.send(container, request);
            }
            // Each command costs the engine and the container some work.
            Question::Exec(_) if self.health.is_answered(container) => {}
            Question::Exec(exec) => {
                let request = async move { exec.run(engine.as_ref(), &unfinished).await };
                self.health.send(container, request);
            }
        }
    }

    /// Asks a container for its work, unless that is already being asked.
    pub(super) fn ask_for_work(&mut self, container: &Inspected, settings: &HealthSettings) {
        let sockets = health::sockets(container, settings, self.endpoint.host_address());
        if sockets.is_empty() {
            return;
        }
        let endpoint = Arc::clone(&self.endpoint);
        let request = async move {
            for address in sockets {
                if let Some(work) = endpoint.work(address).await {
                    return Some(work);
                }
            }
            None
        };
        self.work.send(container, request);
    }

    /// Waits briefly for the containers that usually answer at once.
    pub(super) async fn wait(&mut self) {
        let waiting = async { tokio::join!(self.health.answered_soon(), self.work.answered_soon()) };
        // A container that has not answered by then keeps its last health.
        let _ = timeout(GRACE, waiting).await;
        self.health.end_wait();
        self.work.end_wait();
        self.shown.clear();
    }

    /// Notes the health that is shown while a container's answer is awaited.
    pub(super) fn note_shown(&mut self, id: &ContainerId, status: Option<HealthStatus>) {
        self.shown.insert(id.clone(), status);
    }

    /// Completes when an answer changes the health that was shown; never if none can.
    pub(super) async fn changed(&mut self) {
        while !self.health.answers().any(|(id, health)| self.is_news(id, health)) {
            if !self.health.next().await {
                std::future::pending::<()>().await;
            }
        }
    }

    fn is_news(&self, id: &ContainerId, health: &Health) -> bool {
        self.shown
            .get(id)
            .is_some_and(|shown| *shown != Some(health.status))
    }

    /// Completes when no health endpoint's answer is awaited.
    pub(super) async fn settled(&mut self) {
        while self.health.next().await {}
    }

    /// Forgets containers that are gone.
    pub(super) fn keep(&mut self, exists: impl Fn(&ContainerId) -> bool) {
        self.health.keep(&exists);
        self.work.keep(&exists);
        self.unfinished.keep(&exists);
        self.shown.retain(|id, _| exists(id));
    }
}
