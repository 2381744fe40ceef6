//! An engine behind TLS: who is trusted, and what it is shown.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;

use delegate_upgrader::container::ContainerId;
use delegate_upgrader::engine::{DockerEngine, Engine as _, EngineError, EngineHost};
use rustls::{ServerConnection, StreamOwned};

use crate::manager::own_certificate::{EXPIRED, OTHER_NAME, OWN, RENEWED};
use crate::manager::tls::{CA, CLIENT, CLIENT_KEY, SERVER, tls};

const VERSION: &str = r#"{"ApiVersion":"1.41","Version":"26.1.5","Os":"linux","Arch":"amd64"}"#;

/// An engine that shows this certificate, wants one, and says yes to everything; its address.
fn start(certificate: &[u8]) -> String {
    let tls = Arc::new(tls(certificate, true));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = ServerConnection::new(Arc::clone(&tls)).unwrap();
            let mut stream = StreamOwned::new(connection, stream);
            let mut head = [0; 4096];
            if let Ok(read @ 1..) = stream.read(&mut head) {
                let answer = if head[..read].starts_with(b"GET /version ") {
                    format!("200 OK\r\nContent-Length: {}\r\n\r\n{VERSION}", VERSION.len())
                } else {
                    "204 No Content\r\n\r\n".to_owned()
                };
                let _ = stream.write_all(format!("HTTP/1.1 {answer}").as_bytes());
            }
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    });
    address
}

/// Asks for its version by our own client, and starts a container by bollard's.
async fn use_engine(address: &str, trusted: &[u8]) -> Result<(), EngineError> {
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in [("ca.pem", trusted), ("cert.pem", CLIENT), ("key.pem", CLIENT_KEY)] {
        fs::write(directory.path().join(name), content).unwrap();
    }
    let host = EngineHost::Tcp {
        address: address.to_owned(),
        tls: Some(directory.path().to_owned()),
    };
    let engine = DockerEngine::connect(&host).unwrap();
    assert_eq!(engine.info().await?.version, "26.1.5");
    engine.start(&ContainerId::new("0123")).await
}

#[tokio::test]
async fn an_engine_is_trusted_that_an_authority_signed_or_whose_own_certificate_is_given() {
    for (shown, trusted) in [(SERVER, CA), (OWN, OWN), (OWN, &[CA, OWN].concat())] {
        assert_eq!(use_engine(&start(shown), trusted).await, Ok(()));
    }
}

#[tokio::test]
async fn distrusts_any_other_engine() {
    for (shown, trusted, why) in [
        (OWN, RENEWED, "CaUsedAsEndEntity"),
        (OWN, CA, "CaUsedAsEndEntity"),
        (SERVER, OWN, "UnknownIssuer"),
        (OTHER_NAME, OTHER_NAME, "not valid for name"),
        (EXPIRED, EXPIRED, "expired"),
    ] {
        let error = use_engine(&start(shown), trusted).await.unwrap_err().to_string();
        assert!(error.contains(why), "{why}: {error}");
    }
}
