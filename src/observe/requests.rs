//! Requests to containers beside the loop: one that is slow to answer delays only itself.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tracing::debug;

use crate::container::{ContainerId, Inspected};

/// How many containers are asked at once. Those that do not answer take ten seconds each, and others wait for them.
const MAX_OPEN: usize = 64;
/// How long an observation waits for answers. A delegate on this host takes milliseconds.
pub(super) const GRACE: Duration = Duration::from_millis(500);

/// When a life of a container started. An answer in one life does not hold for the next.
type Life = Option<DateTime<Utc>>;

/// A request, or its answer.
#[derive(Debug)]
struct Asked<T> {
    life: Life,
    /// When it was sent, or when the answer came.
    at: Instant,
    answer: T,
}

/// The requests of one kind that are open, and the answers that have come; at most one of each to a container.
#[derive(Debug)]
pub(super) struct Requests<T> {
    tasks: JoinSet<(ContainerId, Life, T)>,
    open: HashMap<ContainerId, Asked<()>>,
    /// The answers that no observation has processed yet.
    answers: HashMap<ContainerId, Asked<T>>,
    /// Those whose last answer took longer than an observation waits.
    slow: HashSet<ContainerId>,
    permits: Arc<Semaphore>,
}

impl<T: Send + 'static> Requests<T> {
    pub(super) fn new() -> Self {
        Self {
            tasks: JoinSet::new(),
            open: HashMap::new(),
            answers: HashMap::new(),
            slow: HashSet::new(),
            permits: Arc::new(Semaphore::new(MAX_OPEN)),
        }
    }

    /// Sends a request to a container, unless one is open.
    pub(super) fn send(&mut self, container: &Inspected, request: impl Future<Output = T> + Send + 'static) {
        let (id, life) = (container.id(), container.started_at());
        if self.is_open(container) {
            return;
        }
        let (at, answer) = (Instant::now(), ());
        self.open.insert(id.clone(), Asked { life, at, answer });
        let permits = Arc::clone(&self.permits);
        self.tasks.spawn(async move {
            let _permit = permits.acquire_owned().await;
            (id, life, request.await)
        });
    }

    /// Completes when those have answered that mostly answer at once.
    pub(super) async fn answered_soon(&mut self) {
        while self.open.keys().any(|id| !self.slow.contains(id)) {
            if self.next().await.is_none() {
                return;
            }
        }
    }

    /// Records the answers that have come. Those that have not are slow.
    pub(super) fn end_wait(&mut self) {
        self.collect();
        self.slow.extend(self.open.keys().cloned());
    }

    /// Records the answers that have come.
    fn collect(&mut self) {
        while let Some(joined) = self.tasks.try_join_next() {
            self.note(joined);
        }
    }

    /// The next answer: whose it is, if it counts. `None` if none is awaited.
    pub(super) async fn next(&mut self) -> Option<Option<ContainerId>> {
        let joined = self.tasks.join_next().await?;
        Some(self.note(joined))
    }

    /// The answer that has come since the last observation, and when.
    pub(super) fn take(&mut self, container: &Inspected) -> Option<(T, Instant)> {
        let Asked { life, at, answer } = self.answers.remove(&container.id())?;
        (life == container.started_at()).then_some((answer, at))
    }

    /// Whether an answer of its current life has come that no observation has taken in yet.
    pub(super) fn is_answered(&self, container: &Inspected) -> bool {
        let answer = self.answers.get(&container.id());
        answer.is_some_and(|answer| answer.life == container.started_at())
    }

    /// The answers that no observation has taken in yet.
    pub(super) fn answers(&self) -> impl Iterator<Item = (&ContainerId, &T)> {
        self.answers.iter().map(|(id, asked)| (id, &asked.answer))
    }

    /// Whether a container's answer is awaited.
    pub(super) fn is_open(&self, container: &Inspected) -> bool {
        let open = self.open.get(&container.id());
        open.is_some_and(|open| open.life == container.started_at())
    }

    /// Whether any answer is awaited.
    pub(super) fn is_waiting(&self) -> bool {
        !self.open.is_empty()
    }

    fn note(&mut self, joined: Result<(ContainerId, Life, T), JoinError>) -> Option<ContainerId> {
        let (id, life, answer) = match joined {
            Ok(answered) => answered,
            // It is unknown whose it was, so all may be asked again.
            Err(error) => {
                debug!(%error, "the task of a request to a delegate failed");
                self.open.clear();
                return None;
            }
        };
        // A container that was started again is asked again.
        let asked = self.open.get(&id).filter(|open| open.life == life)?.at;
        self.open.remove(&id);
        if asked.elapsed() <= GRACE {
            self.slow.remove(&id);
        }
        let at = Instant::now();
        self.answers.insert(id.clone(), Asked { life, at, answer });
        Some(id)
    }

    /// Forgets containers that are gone.
    pub(super) fn keep(&mut self, exists: impl Fn(&ContainerId) -> bool) {
        self.open.retain(|id, _| exists(id));
        self.answers.retain(|id, _| exists(id));
        self.slow.retain(exists);
    }
}
