//! The audit log on real files: logrotate, other writers, a full disk, and the leftovers of a crash.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use delegate_upgrader::events::audit::{AuditFile, AuditLog, read};
use delegate_upgrader::events::{Action, Event, EventId};
use kit::manager::{RawServer, Reply};
use serde_json::json;

use crate::daemon::with_delegate;

fn event(number: u32) -> Event {
    let id = EventId::of(Action::Upgraded, &[&number.to_string()]);
    let record = json!({
        "id": id, "time": "2026-11-24T02:13:09Z", "host": "a-host", "version": "0.1.0", "actor": "SYSTEM",
        "action": "upgraded", "workload": "docker-delegate", "container": format!("delegate-{number}"),
        "message": "replaced",
    });
    serde_json::from_value(record).unwrap()
}

fn containers(path: &Path) -> Vec<String> {
    read(path).map(|event| event.container).collect()
}

#[tokio::test]
async fn a_truncated_record_does_not_affect_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let whole = delegate_upgrader::text::json::text(&event(1));
    fs::write(&path, format!("{whole}\n{}", &whole[..40])).unwrap();
    let log = AuditLog::open(&path).unwrap();
    log.record(&event(2)).await;
    assert_eq!(containers(&path), ["delegate-1", "delegate-2"]);
}

#[tokio::test]
async fn two_processes_write_each_record_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let daemon = AuditLog::open(&path).unwrap();
    let command = AuditLog::open(&path).unwrap();
    for number in 0..20 {
        let (shared, own) = (event(number), event(1000 + number));
        tokio::join!(daemon.record(&shared), async {
            command.record(&shared).await;
            command.record(&own).await;
        });
    }
    let ids: Vec<EventId> = read(&path).map(|event| event.id).collect();
    assert_eq!(ids.len(), 40);
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 40);
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 40);
}

#[tokio::test]
async fn continues_in_a_new_file_while_logrotate_renames_the_old_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let former = |number: u32| directory.path().join(format!("audit.log.{number}"));
    let daemon = AuditLog::open(&path).unwrap();
    let command = AuditLog::open(&path).unwrap();
    for number in 0..3 {
        daemon.record(&event(2 * number)).await;
        command.record(&event(2 * number + 1)).await;
        if former(1).exists() {
            fs::rename(former(1), former(2)).unwrap();
        }
        fs::rename(&path, former(1)).unwrap();
    }
    daemon.record(&event(6)).await;
    // `copytruncate` instead empties the file.
    fs::copy(&path, directory.path().join("copy")).unwrap();
    fs::write(&path, "").unwrap();
    daemon.record(&event(7)).await;
    command.record(&event(8)).await;
    let kept = [2, 3, 4, 5, 7, 8].map(|number| format!("delegate-{number}"));
    assert_eq!(containers(&path), kept);
    let known = daemon.known([event(2).id, event(0).id].into()).await;
    assert_eq!(known.ids, [event(2).id].into());
}

#[tokio::test]
async fn a_full_disk_delays_nothing_and_its_records_are_written_later() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    // Every write to it fails for lack of space.
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let log = AuditLog::open(&path).unwrap();
    let begun = Instant::now();
    for number in 0..300 {
        log.record(&event(number)).await;
    }
    assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
    let unwritten = log.unwritten();
    assert_eq!((unwritten.waiting, unwritten.lost), (256, 44));
    let problem = unwritten.problem.unwrap();
    assert!(problem.contains("No space left on device"), "{problem}");

    fs::remove_file(&path).unwrap();
    log.record(&event(300)).await;
    assert_eq!((log.unwritten().waiting, log.unwritten().problem), (0, None));
    assert_eq!(containers(&path).last().unwrap(), "delegate-300");
}

#[tokio::test]
async fn writes_while_another_process_holds_the_lock() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let log = AuditLog::open(&path).unwrap();
    let other = fs::OpenOptions::new().read(true).open(&path).unwrap();
    other.lock().unwrap();
    log.record(&event(0)).await;
    assert_eq!(containers(&path), ["delegate-0"]);
    drop(other);
}

#[tokio::test]
async fn a_log_knows_its_records_and_when_it_begins() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    let log = AuditLog::open(&path).unwrap();
    let empty = log.known(HashSet::new()).await;
    assert!(empty.begins.is_some(), "an empty log begins when it was made");
    log.record(&event(0)).await;
    let mut lost = event(1);
    lost.action = Action::HealthLost;
    let mut regained = event(2);
    (regained.action, regained.container) = (Action::HealthRegained, lost.container.clone());
    log.record(&lost).await;
    log.record(&regained).await;

    let (mine, other) = (event(0).id, event(7).id);
    let known = log.known([mine.clone(), other].into()).await;
    assert_eq!(known.ids, [mine].into());
    assert_eq!(known.begins, Some(event(0).time));
    assert!(!known.open["delegate-1"].is_unhealthy, "healthy again");
}

#[test]
fn rejects_log_that_cannot_be_opened() {
    let directory = tempfile::tempdir().unwrap();
    for path in [
        directory.path().join("missing/audit.log"),
        directory.path().to_owned(),
    ] {
        AuditFile::open(&path).unwrap_err();
    }
}

#[tokio::test]
async fn history_says_which_log_it_cannot_read_and_what_reads_it() {
    let engine = RawServer::start(vec![Reply::made_by(with_delegate)]).await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("audit.log");
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    let note = async |value: &str| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_delegate-upgrader"));
        program
            .arg("history")
            .env_clear()
            .env("DOCKER_HOST", engine.url.replace("http://", "tcp://"))
            .env("UPGRADER_WORKLOAD_NAME", "docker-delegate")
            .env("AUDIT_LOG", value);
        if fs::File::open(value).is_ok() {
            // Root may read everything, so nobody asks.
            program.uid(65534).current_dir("/");
        }
        let output = tokio::task::spawn_blocking(move || program.output().unwrap());
        let output = String::from_utf8(output.await.unwrap().stdout).unwrap();
        output.lines().last().unwrap_or_default().to_owned()
    };
    let shown = "so this is what containers show: the present release, the previous one and what failed last";
    let log = path.display();
    assert_eq!(
        note(path.to_str().unwrap()).await,
        format!(
            "The audit log {log} cannot be read (Permission denied (os error 13)), {shown}; \
             `sudo delegate-upgrader history` reads it."
        )
    );
    assert_eq!(
        note(&format!("{log}/below")).await,
        format!("The audit log {log}/below cannot be read (Not a directory (os error 20)), {shown}.")
    );
    let none = format!("No audit log can be read here (AUDIT_LOG), {shown}.");
    assert_eq!([note("off").await, note("-").await], [none.clone(), none]);
    // Nothing was recorded yet.
    let new = note(&directory.path().join("new.log").display().to_string()).await;
    assert!(!new.contains("audit log"), "{new}");
}
