//! A daemon whose log nobody reads.

use std::io::{Read as _, Write as _, pipe};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use kit::lab::{Signal, send};
use kit::manager::{RawServer, Reply, answer_text};

/// An engine without containers.
fn engine(head: &str) -> String {
    let body = if head.starts_with("GET /version ") {
        r#"{"ApiVersion":"1.41","Version":"26.1.5","Os":"linux","Arch":"amd64"}"#
    } else {
        "[]"
    };
    answer_text(200, "Content-Type: application/json\r\n", body)
}

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn get(address: &str, path: &str) -> Option<(u16, String)> {
    let client = delegate_upgrader::health::http::plain_client().unwrap();
    let answer = client.get(format!("http://{address}{path}")).send().await.ok()?;
    Some((answer.status().as_u16(), answer.text().await.ok()?))
}

/// The number of dropped lines that `/metrics` shows, once there are some.
async fn dropped(address: &str) -> u64 {
    let begun = Instant::now();
    loop {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "it drops no line, or does not answer"
        );
        let (_, text) = get(address, "/metrics").await.unwrap_or_default();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("delegate_upgrader_log_lines_dropped_total "));
        match line.map(|count| count.parse().unwrap()) {
            None | Some(0) => tokio::time::sleep(Duration::from_millis(50)).await,
            Some(count) => return count,
        }
    }
}

#[tokio::test]
async fn a_daemon_whose_output_nobody_reads_goes_on_and_says_later_what_was_lost() {
    let engine = RawServer::start(vec![Reply::From(engine)]).await;
    // Nobody listens there any more once it is known.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let (mut reader, mut writer) = pipe().unwrap();
    let output = writer.try_clone().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    while writer.write(b"\n").is_ok() {}
    fcntl_setfl(&writer, flags).unwrap();
    drop(writer);

    // Each run says that no container has this name, so that a few lines are many bytes.
    let name = "a".repeat(50_000);
    let mut command = Command::new(env!("CARGO_BIN_EXE_delegate-upgrader"));
    command
        .env_clear()
        .env("DOCKER_HOST", engine.url.replace("http://", "tcp://"))
        .env("UPGRADER_WORKLOAD_NAME", &name)
        .env("PUBLISHED_IMAGE", "harness/delegate:26.03.1")
        .env("SCHEDULE", "* * * * * *")
        .env("LISTEN_ADDR", &address)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(Stdio::null());
    let mut daemon = Daemon(command.spawn().unwrap());
    drop(command);
    let count = dropped(&address).await;
    for path in ["/livez", "/readyz", "/status"] {
        let (status, text) = get(&address, path).await.unwrap();
        assert_eq!(status, 200, "{text}");
    }

    // Read for a while, until it has told.
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
        // It stays open, and is read no more.
        let _ = stopped.recv();
        drop(reader);
    });
    let notice = tokio::time::timeout(Duration::from_secs(30), told.recv())
        .await
        .unwrap()
        .unwrap();
    let number = notice
        .split(" log line")
        .next()
        .unwrap()
        .rsplit(' ')
        .next()
        .unwrap();
    assert!(
        notice.contains("ERROR ") && number.parse::<u64>().unwrap() >= count,
        "{notice}"
    );

    let before = dropped(&address).await;
    let begun = Instant::now();
    while dropped(&address).await == before {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "the pipe is full again"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let begun = Instant::now();
    send(Signal::TERM, &daemon.0.id().to_string());
    let status = loop {
        if let Some(status) = daemon.0.try_wait().unwrap() {
            break status;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "it does not end");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let took = begun.elapsed();
    assert!(
        status.success() && took < Duration::from_secs(1),
        "{status} after {took:?}"
    );
    drop(stop);
    reading.join().unwrap();
}
