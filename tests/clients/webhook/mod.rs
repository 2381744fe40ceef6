//! The webhook: receivers that are good, down for a while, or bad in every way; its requests, and text that it never shows.

mod bounds;
mod delivery;
mod formats;
mod hostile;
mod signature;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delegate_upgrader::config::{WebhookFormat, WebhookSettings};
use delegate_upgrader::events::webhook::{Timing, Webhook};
use delegate_upgrader::events::{Action, Event, EventId};
use delegate_upgrader::health::http::plain_client;
use delegate_upgrader::text::secret::Secret;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

/// A part of a URL that no output may show.
pub(crate) const KEY_OF_URL: &str = "hunter2-hunter2";

const MILLISECOND: Duration = Duration::from_millis(1);

/// Short enough for tests, long enough for a busy machine.
const QUICK: Timing = Timing {
    attempt: Duration::from_secs(10),
    first_pause: Duration::from_millis(10),
    longest_pause: Duration::from_millis(50),
    longest_retry_after: Duration::from_secs(5),
    give_up_after: Duration::from_secs(20),
};

/// A request that a receiver got.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) at: Instant,
    /// The head in its original case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1);
        lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(": ")?.trim()))
    }

    /// The container of the CloudEvent.
    fn container(&self) -> String {
        self.json()["subject"].as_str().unwrap().to_owned()
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// A receiver's reaction to a request.
pub(crate) enum Then {
    /// A status, headers, and a body.
    Answer(u16, String, String),
    /// No byte, with the connection left open.
    Hang,
    /// The first bytes, and then the second ones again and again.
    Endless(&'static str, &'static str),
    /// These bytes, and then the end.
    Bytes(&'static str),
}

pub(crate) fn status(status: u16) -> Then {
    Then::Answer(status, String::new(), String::new())
}

/// A receiver and its requests.
pub(crate) struct Receiver {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Receiver {
    /// `then` gets the number of the request, starting at 0.
    pub(crate) async fn start(then: impl Fn(usize, &Request) -> Then + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/services/{KEY_OF_URL}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, then) = (Arc::clone(&requests), Arc::new(then));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, then) = (Arc::clone(&seen), Arc::clone(&then));
                tokio::spawn(async move {
                    let _ = serve(stream, &seen, &*then).await;
                });
            }
        });
        Self { url, requests }
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    seen: &Mutex<Vec<Request>>,
    then: &(dyn Fn(usize, &Request) -> Then + Send + Sync),
) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let mut request = Request {
        at: Instant::now(),
        head: String::from_utf8(head).unwrap(),
        body: String::new(),
    };
    let agent = concat!("delegate-upgrader/", env!("CARGO_PKG_VERSION"));
    assert_eq!(request.header("user-agent"), Some(agent));
    let length = request.header("content-length").unwrap_or("0").parse().unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    request.body = String::from_utf8(body).unwrap();
    let then = {
        let mut seen = seen.lock().unwrap();
        seen.push(request.clone());
        then(seen.len() - 1, &request)
    };
    match then {
        Then::Answer(status, headers, body) => {
            let text = kit::manager::answer_text(status, &headers, &body);
            stream.write_all(text.as_bytes()).await?;
        }
        Then::Hang => {
            stream.read_u8().await?;
        }
        Then::Endless(begin, again) => {
            stream.write_all(begin.as_bytes()).await?;
            loop {
                stream.write_all(again.as_bytes()).await?;
            }
        }
        Then::Bytes(bytes) => stream.write_all(bytes.as_bytes()).await?,
    }
    stream.shutdown().await
}

fn settings(url: &str) -> WebhookSettings {
    WebhookSettings {
        url: Secret::new(url),
        format: WebhookFormat::CloudEvents,
        key: None,
        events: Vec::new(),
    }
}

fn webhook(url: &str) -> Webhook {
    Webhook::new(settings(url), plain_client().unwrap(), QUICK)
}

fn event(container: &str, number: u32) -> Event {
    serde_json::from_value(json!({
        "id": EventId::of(Action::Upgraded, &[container, &number.to_string()]), "time": "2026-11-24T21:42:00Z",
        "host": "host 1", "version": "0.1.0", "actor": "SYSTEM", "action": "upgraded", "workload": "docker-delegate",
        "container": container, "container_id": "43fd99e33e63", "from": "harness/delegate:26.02.88404",
        "to": "harness/delegate:26.03.88501", "message": format!("number {number}"),
        "seconds": { "pull": 12.0, "proof": 65.4, "drain": 0.25 }, "release": 3,
    }))
    .unwrap()
}

/// Waits until the condition holds, for half a minute at most.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "{what}: it does not happen"
        );
        tokio::time::sleep(5 * MILLISECOND).await;
    }
}

/// Captures this thread's log until the value is dropped.
struct Log(tempfile::NamedTempFile);

impl Log {
    fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self(tempfile::NamedTempFile::new().unwrap());
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(log.0.reopen().unwrap())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// The lines of this crate; those of libraries are not logged in production.
    fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.0).unwrap();
        let lines = text.lines().filter(|line| line.contains(" delegate_upgrader::"));
        lines.map(str::to_owned).collect()
    }
}
