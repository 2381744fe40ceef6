//! Requests to the delegates' health endpoints, beside the loop: a delegate that is slow to answer delays only itself.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tracing::debug;

use crate::config::HealthSettings;
use crate::container::{ContainerId, Inspected};
use crate::health::{self, Addresses, Health, HealthEndpoint, HealthStatus};

/// How many endpoints are asked at once. Those that do not answer take ten seconds each, and others wait for them.
const MAX_OPEN: usize = 64;
/// How long an observation waits for answers. A delegate on this host takes milliseconds.
const GRACE: Duration = Duration::from_millis(500);

/// When a life of a container began. What was answered in one says nothing of the next.
type Life = Option<DateTime<Utc>>;

/// A request, or its answer.
#[derive(Debug)]
struct Probed<T> {
    life: Life,
    /// When it was sent, or when the answer came.
    at: Instant,
    health: T,
}

/// The requests that are open, and the answers that have come.
#[derive(Debug)]
pub(super) struct Probes<H> {
    endpoint: Arc<H>,
    tasks: JoinSet<(ContainerId, Life, Health)>,
    open: HashMap<ContainerId, Probed<()>>,
    /// The answers that no observation has taken in yet.
    answers: HashMap<ContainerId, Probed<Health>>,
    /// Those whose last answer took longer than an observation waits.
    slow: HashSet<ContainerId>,
    /// What the last observation showed of those that had not answered by then.
    shown: HashMap<ContainerId, Option<HealthStatus>>,
    permits: Arc<Semaphore>,
}

impl<H: HealthEndpoint> Probes<H> {
    pub(super) fn new(endpoint: H) -> Self {
        Self {
            endpoint: Arc::new(endpoint),
            tasks: JoinSet::new(),
            open: HashMap::new(),
            answers: HashMap::new(),
            slow: HashSet::new(),
            shown: HashMap::new(),
            permits: Arc::new(Semaphore::new(MAX_OPEN)),
        }
    }

    /// Where a container's health endpoint is; or its health, where none has to be asked.
    pub(super) fn addresses(
        &self,
        container: &Inspected,
        settings: &HealthSettings,
    ) -> Result<Addresses, Health> {
        health::addresses(container, settings, self.endpoint.host_address())
    }

    /// Asks a container's endpoint, unless it is being asked.
    pub(super) fn ask(&mut self, container: &Inspected, addresses: Addresses) {
        let (id, life) = (container.id(), container.started_at());
        if self.is_open(container) {
            return;
        }
        let (at, health) = (Instant::now(), ());
        self.open.insert(id.clone(), Probed { life, at, health });
        let (endpoint, permits) = (Arc::clone(&self.endpoint), Arc::clone(&self.permits));
        self.tasks.spawn(async move {
            let _permit = permits.acquire_owned().await;
            let health = addresses.ask(endpoint.as_ref()).await;
            (id, life, health)
        });
    }

    /// Waits for the answers of those that mostly answer at once, and not for long.
    pub(super) async fn wait(&mut self) {
        let waiting = async {
            while self.open.keys().any(|id| !self.slow.contains(id)) {
                let Some(joined) = self.tasks.join_next().await else {
                    return;
                };
                self.note(joined);
            }
        };
        // What has not answered by then is shown as it was.
        let _ = timeout(GRACE, waiting).await;
        self.collect();
        self.slow.extend(self.open.keys().cloned());
        self.shown.clear();
    }

    /// Takes in the answers that have come.
    pub(super) fn collect(&mut self) {
        while let Some(joined) = self.tasks.try_join_next() {
            self.note(joined);
        }
    }

    /// The answer that has come since the last observation, and when.
    pub(super) fn take(&mut self, container: &Inspected) -> Option<(Health, Instant)> {
        let Probed { life, at, health } = self.answers.remove(&container.id())?;
        (life == container.started_at()).then_some((health, at))
    }

    /// Whether an answer is awaited.
    pub(super) fn is_open(&self, container: &Inspected) -> bool {
        let open = self.open.get(&container.id());
        open.is_some_and(|open| open.life == container.started_at())
    }

    /// Whether any answer is awaited.
    pub(super) fn is_waiting(&self) -> bool {
        !self.open.is_empty()
    }

    /// Notes what is shown of a container whose answer is awaited.
    pub(super) fn note_shown(&mut self, id: &ContainerId, status: Option<HealthStatus>) {
        self.shown.insert(id.clone(), status);
    }

    /// Completes when an answer changes what was shown; never where none can.
    pub(super) async fn changed(&mut self) {
        if self.answers.keys().any(|id| self.is_news(id)) {
            return;
        }
        while let Some(joined) = self.tasks.join_next().await {
            if self.note(joined).is_some_and(|id| self.is_news(&id)) {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    fn is_news(&self, id: &ContainerId) -> bool {
        let answer = self.answers.get(id).map(|answer| answer.health.status);
        self.shown.get(id).is_some_and(|shown| *shown != answer)
    }

    /// Completes when no answer is awaited.
    pub(super) async fn settled(&mut self) {
        while let Some(joined) = self.tasks.join_next().await {
            self.note(joined);
        }
    }

    /// Takes in an answer; whose it is, if it counts.
    fn note(
        &mut self,
        joined: Result<(ContainerId, Life, Health), tokio::task::JoinError>,
    ) -> Option<ContainerId> {
        let (id, life, health) = match joined {
            Ok(answered) => answered,
            // It is unknown whose it was, so all may be asked again.
            Err(error) => {
                debug!(%error, "the task of a health probe failed");
                self.open.clear();
                return None;
            }
        };
        // In another life it is asked again.
        let asked = self.open.get(&id).filter(|open| open.life == life)?.at;
        self.open.remove(&id);
        if asked.elapsed() <= GRACE {
            self.slow.remove(&id);
        }
        let at = Instant::now();
        self.answers.insert(id.clone(), Probed { life, at, health });
        Some(id)
    }

    /// Forgets containers that are gone.
    pub(super) fn keep(&mut self, exists: impl Fn(&ContainerId) -> bool) {
        self.open.retain(|id, _| exists(id));
        self.answers.retain(|id, _| exists(id));
        self.shown.retain(|id, _| exists(id));
        self.slow.retain(exists);
    }
}
