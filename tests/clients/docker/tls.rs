//! An engine behind TLS: whom the client trusts, and the certificate that it shows.

use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::Duration;
use std::{fs, io, thread};

use delegate_upgrader::container::ContainerId;
use delegate_upgrader::engine::{Credentials, DockerEngine, Engine as _, EngineError, EngineHost};
use kit::manager::answer_text;
use tempfile::TempDir;

use crate::daemon::VERSION;
use crate::manager::own_certificate::{EXPIRED, OTHER_NAME, OWN, RENEWED};
use crate::manager::tls::{CA, CLIENT, CLIENT_KEY, SERVER, answering, tls};

/// An engine that shows this certificate, requires one, and says yes to everything. Returns its address.
fn start(certificate: &[u8]) -> String {
    let address = answering(tls(certificate, true), |head| {
        if head.starts_with(b"GET /version ") {
            answer_text(200, "", VERSION)
        } else {
            "HTTP/1.1 204 No Content\r\n\r\n".to_owned()
        }
    });
    address.to_string()
}

/// Asks for the engine's version with our own client, and starts a container with bollard's.
async fn use_engine(address: &str, trusted: &[u8]) -> Result<(), EngineError> {
    let (engine, _files) = client(address, trusted);
    assert_eq!(engine.info().await?.version, "26.1.5");
    engine.start(&ContainerId::new("0123")).await
}

fn client(address: &str, trusted: &[u8]) -> (DockerEngine, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in [("ca.pem", trusted), ("cert.pem", CLIENT), ("key.pem", CLIENT_KEY)] {
        fs::write(directory.path().join(name), content).unwrap();
    }
    let host = EngineHost::Tcp {
        address: address.to_owned(),
        tls: Some(directory.path().to_owned()),
    };
    let engine = DockerEngine::connect(&host, Credentials::default()).unwrap();
    (engine, directory)
}

#[tokio::test]
async fn trusts_an_engine_signed_by_a_given_ca_or_with_a_given_certificate() {
    for (shown, trusted) in [(SERVER, CA), (OWN, OWN), (OWN, &[CA, OWN].concat())] {
        assert_eq!(use_engine(&start(shown), trusted).await, Ok(()));
    }
}

/// As on a lossy line: a stop that was not sent must not count as one.
#[tokio::test]
async fn a_stop_waits_for_its_connection() {
    let (sender, stops) = mpsc::channel();
    let engine = answering(tls(SERVER, true), move |head| {
        if head.starts_with(b"GET /version ") {
            return answer_text(200, "", VERSION);
        }
        sender.send(String::from_utf8_lossy(head).into_owned()).unwrap();
        "HTTP/1.1 204 No Content\r\n\r\n".to_owned()
    });
    let slow = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = slow.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for client in slow.incoming() {
            let (client, engine) = (client.unwrap(), TcpStream::connect(engine).unwrap());
            thread::spawn(move || {
                thread::sleep(Duration::from_secs(2));
                let (mut from, mut to) = (client.try_clone().unwrap(), engine.try_clone().unwrap());
                thread::spawn(move || io::copy(&mut from, &mut to));
                io::copy(&mut &engine, &mut &client)
            });
        }
    });
    let (engine, _files) = client(&address, CA);
    assert_eq!(
        engine.stop(&ContainerId::new("0123"), Duration::ZERO).await,
        Ok(())
    );
    let stop = stops.try_recv().expect("a stop");
    assert!(
        stop.starts_with("POST /v1.41/containers/0123/stop?t=0 "),
        "{stop}"
    );
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
