//! Receivers that are bad in every way: each attempt ends, and reports the problem without a secret.

use delegate_upgrader::config::{Egress, SigningKey};
use delegate_upgrader::events::webhook::{Timing, Webhook};
use std::time::Duration;

use super::{KEY_OF_URL, Log, QUICK, Receiver, Then, event, settings, until};

const SECRET: &str = "a text of 24 bytes or so";

const LONG_HEADER: &str = "x: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n";

const HASTY: Timing = Timing {
    attempt: Duration::from_secs(4),
    ..QUICK
};

/// The problem of a receiver at this URL after two attempts. No output contains a secret.
async fn problem(url: &str) -> String {
    let (log, _guard) = Log::start();
    let mut settings = settings(url);
    settings.key = Some(SigningKey::parse(SECRET).unwrap());
    let shown = format!("{settings:?} {settings:#?}");
    let client = Egress::default().client(url, HASTY.attempt).unwrap();
    let webhook = Webhook::new(settings, client, HASTY);
    webhook.send(&event("d1", 0));
    until("it is tried again", || webhook.counts().failed_attempts > 1).await;
    let counts = webhook.counts();
    assert_eq!((counts.delivered, counts.queued), (0, 1), "{counts:?}");
    let shown = format!("{shown} {webhook:?} {webhook:#?} {counts:?} {:?}", log.lines());
    for secret in [KEY_OF_URL, SECRET] {
        assert!(!shown.contains(secret), "{shown}");
    }
    assert_eq!(log.lines().len(), 1, "{:#?}", log.lines());
    counts.last_error.unwrap()
}

#[tokio::test]
#[rustfmt::skip]
async fn reports_every_bad_response_within_limits() {
    for (then, words) in [
        ((|| Then::Hang) as fn() -> Then, "no answer within 4s"),
        (|| Then::Endless("HTTP/1.1 200 OK\r\n", LONG_HEADER), "message head is too large"),
        (|| Then::Endless("HTTP/1.1 500 No\r\n\r\n", KEY_OF_URL), "HTTP 500: ***"),
        (|| Then::Bytes(""), "connection closed"),
        (|| Then::Bytes("SSH-2.0-OpenSSH_9.2\r\n\r\n"), "invalid HTTP version"),
        (|| Then::Bytes("HTTP/1.1 503 No\r\nContent-Length: 10\r\n\r\nhal"), "HTTP 503: hal"),
    ] {
        let receiver = Receiver::start(move |_, _| then()).await;
        let problem = problem(&receiver.url).await;
        assert!(problem.contains(words), "{words}: {problem}");
    }
}

#[tokio::test]
async fn reports_a_missing_receiver_and_one_without_tls() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/services/{KEY_OF_URL}", free.local_addr().unwrap());
    drop(free);
    let refused = problem(&url).await;
    assert_eq!(refused, "Connection refused");

    let plain = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/services/{KEY_OF_URL}", plain.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in plain.incoming().flatten() {
            let _ = std::io::Write::write_all(&mut &stream, b"HTTP/1.1 400 plain\r\n\r\n");
        }
    });
    let no_tls = problem(&url).await;
    assert!(no_tls.contains("CA_BUNDLE"), "{no_tls}");
}
