//! The file: appends records, and finds the records that other processes appended.
//!
//! The daemon and a command such as `rollback` may write to it at the same time. Each writer takes a lock, and first
//! reads the records that others have appended since its last read. logrotate may rename or empty the file at any time.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use super::reader::{lines_from, paths, read_all};
use crate::events::event::{Action, Event, EventId};

/// How many events are remembered.
const RECENT: usize = 20;
/// How long to wait for a lock of another process. After that, the file is written without the lock.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// The results of a search in the log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// Those of the searched ids that the log contains.
    pub ids: HashSet<EventId>,
    /// The time of the first record, or when the file was created. Older outcomes need not be in the log.
    pub begins: Option<DateTime<Utc>>,
    /// The open problems of each delegate, by container name.
    pub open: HashMap<String, Open>,
    /// The last records of the log, the earliest first.
    pub recent: Vec<Event>,
}

/// Reported problems whose end has not been reported yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Open {
    /// Whether the delegate is not healthy.
    pub is_unhealthy: bool,
    /// The word of the reason why it cannot be served.
    pub skipped: Option<String>,
}

/// The file to which records are written.
#[derive(Debug)]
pub struct AuditFile {
    path: PathBuf,
    file: File,
    /// This process has read or written everything before this offset.
    read_until: u64,
    /// The ids that other processes have appended since this one opened the file.
    appended: HashSet<EventId>,
}

impl AuditFile {
    /// Opens the file, or creates it.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = open(path)?;
        let read_until = file.metadata()?.len();
        Ok(Self {
            path: path.to_owned(),
            file,
            read_until,
            appended: HashSet::new(),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a record unless another process has already done so, and returns once it is on disk.
    pub(super) fn append(&mut self, id: &EventId, line: &str) -> io::Result<()> {
        self.follow_rotation()?;
        // The lock is on the open file, even if that is renamed in the meantime.
        let locked = self.file.try_clone()?;
        wait_for_lock(&locked);
        let result = self.append_locked(id, line);
        let _ = locked.unlock();
        result
    }

    fn append_locked(&mut self, id: &EventId, line: &str) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        if length > self.read_until {
            self.file.seek(SeekFrom::Start(self.read_until))?;
            for event in lines_from(&self.file) {
                self.appended.insert(event.id);
            }
        }
        self.read_until = length;
        if self.appended.contains(id) {
            return Ok(());
        }
        // Ends a line that was cut off, for example because the disk was full.
        let begin = if ends_with_a_line(&self.file, length)? {
            ""
        } else {
            "\n"
        };
        let written = self.file.write_all(format!("{begin}{line}\n").as_bytes());
        if let Err(error) = written {
            // Remove the incomplete line, which would not be a record.
            let _ = self.file.set_len(length);
            return Err(error);
        }
        self.file.sync_data()?;
        self.read_until = self.file.metadata()?.len();
        Ok(())
    }

    /// Opens the file again if logrotate has renamed it, or if it was removed.
    fn follow_rotation(&mut self) -> io::Result<()> {
        let open_now = self.file.metadata()?;
        let is_same = fs::metadata(&self.path)
            .is_ok_and(|there| there.ino() == open_now.ino() && there.dev() == open_now.dev());
        if !is_same {
            self.file = open(&self.path)?;
            self.read_until = 0;
        }
        Ok(())
    }

    /// Finds the records of these outcomes in the file and its predecessors.
    pub(super) fn known(&self, ids: &HashSet<EventId>) -> Known {
        let mut known = Known::default();
        let paths = paths(&self.path);
        for event in read_all(&paths) {
            known.begins.get_or_insert(event.time);
            if ids.contains(&event.id) {
                known.ids.insert(event.id.clone());
            }
            note_problem(&mut known.open, &event);
            remember(&mut known.recent, event);
        }
        // The log may be older than its first record, so use the time when the file was created. If that is unknown,
        // the modification time of an empty file is the same.
        let made = paths.first().and_then(|oldest| {
            let modified = || fs::metadata(oldest).and_then(|metadata| metadata.modified()).ok();
            made_at(oldest).or_else(|| modified().filter(|_| known.begins.is_none()).map(Into::into))
        });
        known.begins = known.begins.into_iter().chain(made).min();
        known
    }
}

/// When a file was created, if the file system knows. On musl, the standard library cannot tell.
fn made_at(path: &Path) -> Option<DateTime<Utc>> {
    let status = statx(CWD, path, AtFlags::empty(), StatxFlags::BTIME).ok()?;
    let made = status.stx_btime;
    let is_known = status.stx_mask & StatxFlags::BTIME.bits() != 0;
    DateTime::from_timestamp(made.tv_sec, made.tv_nsec).filter(|_| is_known)
}

/// Adds an event to the last events, for the status page, and drops the oldest one beyond the limit.
pub(in crate::events) fn remember(recent: &mut Vec<Event>, event: Event) {
    if recent.len() >= RECENT {
        recent.remove(0);
    }
    recent.push(event);
}

/// Notes a problem that an event reports, or the end of one.
pub(in crate::events) fn note_problem(open: &mut HashMap<String, Open>, event: &Event) {
    let open = open.entry(event.container.clone()).or_default();
    match event.action {
        Action::HealthLost => open.is_unhealthy = true,
        Action::HealthRegained => open.is_unhealthy = false,
        Action::Skipped => open.skipped = event.reason.clone().filter(|_| !event.resolved),
        _ => {}
    }
}

fn open(path: &Path) -> io::Result<File> {
    // The names of containers and images are not secret, but other users need not see them.
    let mut options = OpenOptions::new();
    options.read(true).append(true).mode(0o640);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let file = options.create(true).open(path)?;
            // A command of root must not create a file that the service cannot write.
            let directory = path.parent().and_then(|parent| fs::metadata(parent).ok());
            if let Some(owner) = directory {
                let _ = fchown(&file, Some(owner.uid()), Some(owner.gid()));
            }
            Ok(file)
        }
        opened => opened,
    }
}

fn ends_with_a_line(file: &File, length: u64) -> io::Result<bool> {
    let mut last = *b"\n";
    if length > 0 {
        file.read_exact_at(&mut last, length - 1)?;
    }
    Ok(last == *b"\n")
}

/// Waits for the lock that a process has while it appends, but not for long: a process that hangs must not keep others
/// from writing their records. Some file systems have no locks.
fn wait_for_lock(file: &File) {
    let begun = Instant::now();
    while matches!(file.try_lock(), Err(TryLockError::WouldBlock)) && begun.elapsed() < LOCK_PATIENCE {
        sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_creation_time_is_known_on_every_libc() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let created = fs::metadata(file.path()).unwrap().created().ok();
        file.write_all(b"written later").unwrap();
        assert_eq!(made_at(file.path()), created.map(Into::into));
        assert_eq!(made_at(Path::new("/nowhere")), None);
    }
}
