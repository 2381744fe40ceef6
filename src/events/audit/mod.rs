//! `AUDIT_LOG`: every outcome as a line of JSON, on disk before the next step.
//!
//! Another thread writes, so that a disk that hangs does not delay anything for more than five seconds. Records that
//! cannot be written, for example because the disk is full, wait in memory until writing works again.

mod file;
mod reader;

use std::collections::{HashSet, VecDeque};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};
use tracing::{error, info};

pub use self::file::{AuditFile, Known, Open};
pub(super) use self::file::{note_problem, remember};
pub use self::reader::read;
use super::event::{Event, EventId};
use crate::sync::lock;
use crate::telemetry;
use crate::text::json;

/// How long the next step waits until a record is on disk.
const PATIENCE: Duration = Duration::from_secs(5);
/// The interval between attempts to write after a failure.
const RETRY: Duration = Duration::from_secs(60);
/// How many records may wait while the disk accepts none. Beyond that, the oldest are lost.
const BACKLOG: usize = 256;

/// The destination of records.
#[derive(Debug)]
pub enum AuditLog {
    /// Lines of their own in the log on standard output.
    Stdout,
    /// A file.
    File(Writer),
}

impl AuditLog {
    /// Opens the file.
    ///
    /// # Errors
    /// The file cannot be opened or created.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self::File(Writer {
            file: Arc::new(Mutex::new(AuditFile::open(path)?)),
            queue: Arc::default(),
        }))
    }

    /// Writes a record, and returns once it is on disk or the wait has taken too long.
    pub async fn record(&self, event: &Event) {
        let line = json::text(event);
        let Self::File(writer) = self else {
            return telemetry::print_line(&line);
        };
        lock(&writer.queue).push(event.id.clone(), line);
        // A thread that is still busy is stuck on the disk, and an earlier call has waited for it.
        if let Some(written) = writer.write()
            && timeout(PATIENCE, written).await.is_err()
        {
            error!("the disk of the audit log does not answer; upgrades continue without waiting for it");
        }
    }

    /// From time to time, tries again to write the records that are waiting. Does not wait for the result.
    pub fn retry(&self) {
        let Self::File(writer) = self else { return };
        let is_due = {
            let queue = lock(&writer.queue);
            let is_old = queue.tried_at.is_none_or(|tried| tried.elapsed() >= RETRY);
            !queue.records.is_empty() && is_old
        };
        if is_due {
            writer.write();
        }
    }

    /// Finds the log's records of these outcomes, and the last events that report a problem or its end.
    pub async fn known(&self, ids: HashSet<EventId>) -> Known {
        let Self::File(writer) = self else {
            return Known::default();
        };
        let file = Arc::clone(&writer.file);
        let known = spawn_blocking(move || lock(&file).known(&ids));
        let known = timeout(PATIENCE, known).await.ok().and_then(Result::ok);
        known.unwrap_or_default()
    }

    /// How many records are not in the log.
    pub fn unwritten(&self) -> Unwritten {
        let Self::File(writer) = self else {
            return Unwritten::default();
        };
        let queue = lock(&writer.queue);
        Unwritten {
            waiting: queue.records.len(),
            lost: queue.lost,
            problem: queue.problem.clone(),
        }
    }
}

/// Records that are not in the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Unwritten {
    /// How many wait in memory and will be tried again.
    pub waiting: usize,
    /// How many were lost because too many were waiting.
    pub lost: u64,
    /// Why the last attempt to write failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A file, and the records that wait to be written to it.
#[derive(Debug)]
pub struct Writer {
    file: Arc<Mutex<AuditFile>>,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Debug, Default)]
struct Queue {
    records: VecDeque<(EventId, String)>,
    lost: u64,
    /// Whether a thread is writing them.
    is_busy: bool,
    /// Why the last attempt failed, if it did.
    problem: Option<String>,
    tried_at: Option<Instant>,
}

impl Writer {
    /// Has a thread write the waiting records; `None` if one is already doing so.
    fn write(&self) -> Option<tokio::task::JoinHandle<()>> {
        {
            let mut queue = lock(&self.queue);
            if queue.is_busy {
                return None;
            }
            queue.is_busy = true;
            queue.tried_at = Some(Instant::now());
        }
        let (file, queue) = (Arc::clone(&self.file), Arc::clone(&self.queue));
        Some(spawn_blocking(move || write_all(&mut lock(&file), &queue)))
    }
}

impl Queue {
    fn push(&mut self, id: EventId, line: String) {
        self.records.push_back((id, line));
        if self.records.len() > BACKLOG {
            self.records.pop_front();
            self.lost += 1;
        }
    }
}

/// Writes the waiting records, in order.
fn write_all(file: &mut AuditFile, queue: &Mutex<Queue>) {
    loop {
        let next = lock(queue).records.front().cloned();
        let Some((id, line)) = next else { break };
        let written = file.append(&id, &line);
        let mut queue = lock(queue);
        match written {
            Ok(()) => {
                if queue.records.front().is_some_and(|(first, _)| *first == id) {
                    queue.records.pop_front();
                }
                if queue.problem.take().is_some() {
                    info!("the audit log is being written again");
                }
            }
            Err(problem) => {
                if queue.problem.replace(problem.to_string()).is_none() {
                    let path = file.path().display();
                    error!(
                        %problem,
                        "cannot write the audit log {path}; upgrades continue, and its records wait in memory"
                    );
                }
                break;
            }
        }
    }
    lock(queue).is_busy = false;
}
