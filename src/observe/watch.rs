//! Changes of delegates and of holds between two observations, as reported by the engine.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tracing::info;

use crate::container::ContainerId;
use crate::engine::{Engine, EngineError, Happening};
use crate::host::hold::VOLUMES;
use crate::sync::lock;

/// Events within this time, such as a stop and the next start, are handled together.
const BURST: Duration = Duration::from_millis(500);

/// The pause before reconnecting.
const RECONNECT: Duration = Duration::from_secs(30);

/// The containers that matter, and the state of the connection.
#[derive(Debug, Default)]
struct Heard {
    delegates: HashSet<ContainerId>,
    /// When the first event arrived over the current connection. An engine that restarts closes it.
    open_since: Option<Instant>,
    /// Whether a connection is open, as far as known.
    is_listening: bool,
    /// Whether a record of ours was created or removed since the last question, or may have been unnoticed.
    records_changed: bool,
}

/// Watches the engine's events about delegates. Without them, the next observation shows each change.
#[derive(Debug)]
pub(super) struct Watch {
    heard: Arc<Mutex<Heard>>,
    changes: watch::Receiver<()>,
    /// Whether something happened that no observation has shown yet, even if no caller waits for it.
    has_changed: bool,
    task: JoinHandle<()>,
}

impl Watch {
    pub(super) fn start<E: Engine>(engine: Arc<E>) -> Self {
        let heard = Arc::default();
        let (sender, changes) = watch::channel(());
        let task = tokio::spawn(listen(engine, Arc::clone(&heard), sender));
        Self {
            heard,
            changes,
            has_changed: false,
            task,
        }
    }

    /// Notes that an observation starts, which shows everything up to now.
    pub(super) fn forget(&mut self) {
        self.changes.mark_unchanged();
        self.has_changed = false;
    }

    pub(super) fn set_delegates(&self, delegates: impl Iterator<Item = ContainerId>) {
        lock(&self.heard).delegates = delegates.collect();
    }

    /// A moment since which the engine is known not to have restarted.
    pub(super) fn unbroken_since(&self) -> Option<Instant> {
        lock(&self.heard).open_since
    }

    pub(super) fn is_listening(&self) -> bool {
        lock(&self.heard).is_listening
    }

    /// Whether a record of ours was, or may have been, created or removed since the last call.
    pub(super) fn takes_changed_records(&self) -> bool {
        std::mem::take(&mut lock(&self.heard).records_changed)
    }

    /// Completes half a second after a change that no observation has shown yet.
    pub(super) async fn changed(&mut self) {
        if !self.has_changed && self.changes.changed().await.is_err() {
            // The engine reports no events.
            std::future::pending::<()>().await;
        }
        self.has_changed = true;
        sleep(BURST).await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Listens for as long as the engine permits it.
async fn listen<E: Engine>(engine: Arc<E>, heard: Arc<Mutex<Heard>>, changes: watch::Sender<()>) {
    loop {
        let since = Instant::now();
        lock(&heard).is_listening = true;
        let tell = |happened: Happening<'_>| {
            let mut heard = lock(&heard);
            heard.open_since.get_or_insert_with(Instant::now);
            let matters = match happened {
                // Another process may have created it for a delegate.
                Happening::Container { id, is_ours } => {
                    is_ours || heard.delegates.contains(&ContainerId::new(id))
                }
                Happening::Volume(name) => name.starts_with(VOLUMES),
            };
            heard.records_changed |= matches!(happened, Happening::Volume(_)) && matters;
            if matters {
                changes.send_replace(());
            }
        };
        let ended = engine.watch(tell).await;
        {
            let mut heard = lock(&heard);
            (heard.is_listening, heard.records_changed) = (false, true);
        }
        if let Err(problem) = &ended
            && is_refusal(problem)
        {
            info!(%problem, "the engine's events are not permitted; a change is seen at the next check");
            return;
        }
        let has_lasted = since.elapsed() > RECONNECT;
        let is_renewed = has_lasted && matches!(ended, Err(EngineError::TimedOut(_)));
        if !is_renewed {
            lock(&heard).open_since = None;
        }
        if has_lasted {
            // An engine that ends also ends its containers.
            changes.send_replace(());
        }
        if !is_renewed {
            sleep(RECONNECT).await;
        }
    }
}

/// Whether reconnecting is useless: a proxy refuses it, or the engine has no events.
fn is_refusal(problem: &EngineError) -> bool {
    match problem {
        EngineError::Refused { status, .. } => matches!(status, 401 | 403 | 405 | 501),
        problem => matches!(problem, EngineError::NotFound(_)),
    }
}
