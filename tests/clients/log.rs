//! A daemon whose log is never read.

use std::io::{BufRead as _, BufReader, Read as _, Write as _, pipe};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::daemon::{Daemon, get, metric};
use kit::lab::{Signal, send};

const DROPPED: &str = "delegate_upgrader_log_lines_dropped_total";

#[tokio::test]
async fn unread_log_does_not_block_the_daemon() {
    let (mut reader, mut writer) = pipe().unwrap();
    let output = writer.try_clone().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    while writer.write(b"\n").is_ok() {}
    fcntl_setfl(&writer, flags).unwrap();
    drop(writer);

    // Each run says that no container has this name, in a very long line.
    let name = "a".repeat(50_000);
    let mut daemon = Daemon::start(|command| {
        command
            .env("UPGRADER_WORKLOAD_NAME", &name)
            .env("SCHEDULE", "* * * * * *")
            .stdout(output);
    })
    .await;
    let address = daemon.address.clone();
    let count = metric(&address, DROPPED, 1.0).await;
    for path in ["/livez", "/readyz", "/status"] {
        let (status, text) = get(&address, path).await.unwrap();
        assert_eq!(status, 200, "{text}");
    }

    // The log is read for a while, until the daemon has reported its losses.
    let (sender, mut told) = tokio::sync::mpsc::unbounded_channel();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let reading = std::thread::spawn(move || {
        let (mut log, mut chunk) = (String::new(), [0; 4096]);
        loop {
            let read = reader.read(&mut chunk).unwrap();
            log.push_str(&String::from_utf8_lossy(&chunk[..read]));
            let notice = log.lines().find(|line| line.contains("because nobody read"));
            if let Some(notice) = notice.filter(|notice| notice.ends_with("standard output")) {
                sender.send(notice.to_owned()).unwrap();
                break;
            }
        }
        // The pipe stays open, but is no longer read.
        let _ = stopped.recv();
        drop(reader);
    });
    let notice = tokio::time::timeout(Duration::from_secs(30), told.recv())
        .await
        .unwrap()
        .unwrap();
    let (number, _) = notice.split_once(" log line").unwrap();
    let number: f64 = number.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(notice.contains("ERROR ") && number >= count, "{notice}");

    // The pipe is full again.
    let before = metric(&address, DROPPED, 1.0).await;
    metric(&address, DROPPED, before + 1.0).await;
    let begun = Instant::now();
    send(Signal::TERM, &daemon.process.id().to_string());
    let status = loop {
        if let Some(status) = daemon.process.try_wait().unwrap() {
            break status;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "it does not end");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert!(status.success(), "{status}");
    drop(stop);
    reading.join().unwrap();
}

/// The first log line in a pipe that systemd declares to be the journal, or not.
async fn first_line(is_journal: bool, format: &str) -> String {
    let (reader, writer) = pipe().unwrap();
    let metadata = std::fs::File::from(OwnedFd::from(writer.try_clone().unwrap()))
        .metadata()
        .unwrap();
    let inode = if is_journal {
        metadata.ino()
    } else {
        metadata.ino() + 1
    };
    let stream = format!("{}:{inode}", metadata.dev());
    let daemon = Daemon::start(|command| {
        command
            .env("JOURNAL_STREAM", &stream)
            .env("LOG_FORMAT", format)
            .stdout(writer);
    })
    .await;
    let reading = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        BufReader::new(reader).read_line(&mut line).unwrap();
        line
    });
    let line = reading.await.unwrap();
    drop(daemon);
    line
}

#[tokio::test]
async fn journal_lines_have_a_priority_and_no_duplicate_timestamp() {
    let line = first_line(true, "text").await;
    assert!(line.starts_with("<6>delegate-upgrader starts"), "{line}");
    let line = first_line(true, "json").await;
    assert!(line.starts_with(r#"<6>{"timestamp":""#), "{line}");
    let line = first_line(false, "text").await;
    assert!(
        line.starts_with("20") && line.contains("Z  INFO delegate-upgrader starts"),
        "{line}"
    );
}
