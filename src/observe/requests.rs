//! Requests to containers, outside the loop: a slow one delays only itself.

use std::collections::hash_map::Entry;
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

/// The most containers that are asked at once. One that does not answer takes ten seconds, while others wait for its turn to end.
const MAX_OPEN: usize = 64;
/// How long an observation waits for answers. A delegate on this host answers within milliseconds.
pub(super) const GRACE: Duration = Duration::from_millis(500);

/// The start of a life of a container. An answer is valid only for its own life.
type Life = Option<DateTime<Utc>>;

/// A request, or its answer.
#[derive(Debug)]
struct Asked<T> {
    life: Life,
    /// When it was sent, or when the answer came.
    at: Instant,
    answer: T,
}

/// The open requests of one kind, and their answers: at most one of each per container.
#[derive(Debug)]
pub(super) struct Requests<T> {
    tasks: JoinSet<(ContainerId, Life, T)>,
    open: HashMap<ContainerId, Asked<()>>,
    /// The answers that no observation has processed yet.
    answers: HashMap<ContainerId, Asked<T>>,
    /// The containers whose last answer took longer than an observation waits.
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

    /// Completes when all containers have answered that usually answer at once.
    pub(super) async fn answered_soon(&mut self) {
        while self.open.keys().any(|id| !self.slow.contains(id)) && self.next().await {}
    }

    /// Records the answers that have arrived. Containers that have not answered count as slow.
    pub(super) fn end_wait(&mut self) {
        while let Some(joined) = self.tasks.try_join_next() {
            self.note(joined);
        }
        self.slow.extend(self.open.keys().cloned());
    }

    /// Waits for the next answer, and records it. Returns false if none is awaited.
    pub(super) async fn next(&mut self) -> bool {
        let joined = self.tasks.join_next().await;
        joined.map(|joined| self.note(joined)).is_some()
    }

    /// The answer since the last observation, and when it arrived.
    pub(super) fn take(&mut self, container: &Inspected) -> Option<(T, Instant)> {
        let Asked { life, at, answer } = self.answers.remove(&container.id())?;
        (life == container.started_at()).then_some((answer, at))
    }

    /// Whether its current life has an answer that no observation has used yet.
    pub(super) fn is_answered(&self, container: &Inspected) -> bool {
        let answer = self.answers.get(&container.id());
        answer.is_some_and(|answer| answer.life == container.started_at())
    }

    /// The answers that no observation has used yet.
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

    fn note(&mut self, joined: Result<(ContainerId, Life, T), JoinError>) {
        let (id, life, answer) = match joined {
            Ok(answered) => answered,
            // The failed request is unknown, so all may be repeated.
            Err(error) => {
                debug!(%error, "the task of a request to a delegate failed");
                self.open.clear();
                return;
            }
        };
        // A container that was restarted is asked again.
        if let Entry::Occupied(open) = self.open.entry(id.clone())
            && open.get().life == life
        {
            let asked = open.remove();
            if asked.at.elapsed() <= GRACE {
                self.slow.remove(&id);
            }
            let at = Instant::now();
            self.answers.insert(id, Asked { life, at, answer });
        }
    }

    /// Forgets containers that are gone.
    pub(super) fn keep(&mut self, exists: impl Fn(&ContainerId) -> bool) {
        self.open.retain(|id, _| exists(id));
        self.answers.retain(|id, _| exists(id));
        self.slow.retain(exists);
    }
}
