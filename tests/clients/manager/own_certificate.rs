//! A Manager with a self-signed certificate, which is in the bundle.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use delegate_upgrader::config::{Egress, ProxySettings};
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion};

use kit::manager::{ask, reference};

use super::tls::{
    CA, CLIENT_KEY, SERVER, assert_untrusted, certificates, client, identity, serve, start, tls,
};

/// As openssl creates them: self-signed authorities, all with the server's key.
pub(crate) const OWN: &[u8] = include_bytes!("../../fixtures/tls/own.pem");
/// The same name and key as `OWN`, but different bytes.
pub(crate) const RENEWED: &[u8] = include_bytes!("../../fixtures/tls/own-renewed.pem");
pub(crate) const OTHER_NAME: &[u8] = include_bytes!("../../fixtures/tls/own-other-name.pem");
pub(crate) const EXPIRED: &[u8] = include_bytes!("../../fixtures/tls/own-expired.pem");
/// A certificate that is not an authority.
const WITHOUT_CA: &[u8] = include_bytes!("../../fixtures/tls/own-without-ca.pem");

const PAGE: &str = include_str!("../../../docs/usage/connection.md");
const ADD_IT: &str = "add exactly this certificate to CA_BUNDLE";

#[tokio::test]
async fn trusts_a_manager_with_a_given_self_signed_certificate() {
    for own in [OWN, WITHOUT_CA] {
        let url = start(own, false);
        for bundle in [own, &[CA, own].concat(), &[own, CA].concat()] {
            assert_eq!(ask(&client(&url, bundle, None)).await, Ok(reference("a:1")));
        }
        // Further certificates from the server do not matter either.
        let url = start(&[own, CA].concat(), false);
        assert_eq!(ask(&client(&url, own, None)).await, Ok(reference("a:1")));
    }
}

/// Asserts that it fails for a reason in these words, which the page explains, and says what to do.
async fn assert_refused(url: &str, bundle: &[u8], words: &str, what_to_do: &str) {
    assert!(PAGE.contains(&format!("| `{words}` |")), "{words}");
    let result = ask(&client(url, bundle, None)).await;
    let text = format!("{result:?}");
    assert!(text.contains(words), "{words}: {text}");
    assert_untrusted(result, what_to_do);
}

#[tokio::test]
async fn trusts_only_that_exact_certificate_for_its_name_and_validity_period() {
    let not_that = "CaUsedAsEndEntity";
    let name = "set MANAGER_HOST_AND_PORT to a name that the certificate is valid for";
    let dates = "renew the certificate, or correct this host's clock";
    // A chain is judged by its first certificate.
    let chain = [RENEWED, OWN].concat();
    for (shown, bundle, words, what_to_do) in [
        (OWN, RENEWED, not_that, ADD_IT),
        (OWN, CA, not_that, ADD_IT),
        (OWN, EXPIRED, not_that, ADD_IT),
        (&chain, OWN, not_that, ADD_IT),
        (WITHOUT_CA, CA, "UnknownIssuer", "add a private CA to CA_BUNDLE"),
        (OTHER_NAME, OTHER_NAME, "not valid for name", name),
        (EXPIRED, EXPIRED, "expired", dates),
    ] {
        assert_refused(&start(shown, false), bundle, words, what_to_do).await;
    }
    // The CA in the same bundle still works.
    let both = client(&start(SERVER, false), &[OWN, CA].concat(), None);
    assert_eq!(ask(&both).await, Ok(reference("a:1")));
}

/// A server's TLS of these versions with this certificate and this key, whether or not they belong together.
fn with_key(certificate: &[u8], key: &[u8], versions: &[&'static SupportedProtocolVersion]) -> ServerConfig {
    let key = any_supported_type(&PrivateKeyDer::from_pem_slice(key).unwrap()).unwrap();
    let shown = SingleCertAndKey::from(CertifiedKey::new(certificates(certificate), key));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(shown))
}

#[tokio::test]
async fn a_given_certificate_requires_the_matching_key() {
    for version in [&TLS12, &TLS13] {
        let url = serve(with_key(OWN, CLIENT_KEY, &[version]));
        assert_untrusted(ask(&client(&url, OWN, None)).await, "BadSignature");
    }
}

#[tokio::test]
async fn the_documented_command_creates_a_trusted_certificate() {
    if Command::new("openssl").arg("version").output().is_err() {
        println!("openssl is not installed: skipped");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (_, rest) = PAGE.split_once("<!-- own-certificate -->").unwrap();
    let (command, _) = rest.split_once("<!-- /own-certificate -->").unwrap();
    let command = command.replace("DNS:manager.example", "IP:127.0.0.1");
    let made = Command::new("sh")
        .args(["-euc", &command])
        .current_dir(&directory)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let [certificate, key] = ["manager.pem", "manager.key"].map(|name| {
        let file = directory.path().join(name);
        fs::read(file).unwrap()
    });
    let url = serve(with_key(&certificate, &key, &[&TLS12, &TLS13]));
    assert_eq!(ask(&client(&url, &certificate, None)).await, Ok(reference("a:1")));
    assert_refused(&url, OWN, "CaUsedAsEndEntity", ADD_IT).await;
}

#[tokio::test]
async fn trusts_the_manager_through_a_tls_proxy_with_a_configured_certificate() {
    let proxy = tunnel(OWN);
    let through = |ca: &[u8]| {
        let proxy = ProxySettings {
            url: proxy.clone(),
            login: None,
        };
        let egress = Egress {
            proxy: Some(proxy),
            ..identity()
        };
        client(&start(RENEWED, true), ca, Some(egress))
    };
    let both = [OWN, RENEWED].concat();
    assert_eq!(ask(&through(&both)).await, Ok(reference("a:1")));
    for one in [OWN, RENEWED] {
        assert_untrusted(ask(&through(one)).await, ADD_IT);
    }
}

/// A proxy behind TLS that opens a tunnel to any requested address. Returns its URL.
fn tunnel(certificate: &[u8]) -> String {
    let tls = Arc::new(tls(certificate, false));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = ServerConnection::new(Arc::clone(&tls)).unwrap();
            std::thread::spawn(move || carry(StreamOwned::new(connection, stream)));
        }
    });
    format!("https://{address}")
}

fn carry(mut client: StreamOwned<ServerConnection, TcpStream>) {
    let mut head = [0; 4096];
    let Ok(read) = client.read(&mut head) else {
        return;
    };
    let head = String::from_utf8_lossy(&head[..read]).into_owned();
    let address = head.split(' ').nth(1).unwrap();
    let mut server = TcpStream::connect(address).unwrap();
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
    for socket in [&client.sock, &server] {
        socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    }
    while copy(&mut client, &mut server) && copy(&mut server, &mut client) {}
}

/// Passes on the available bytes. Returns whether there may be more.
fn copy(from: &mut impl Read, to: &mut impl Write) -> bool {
    let mut part = [0; 16_384];
    match from.read(&mut part) {
        Ok(0) => false,
        Ok(read) => to.write_all(&part[..read]).is_ok(),
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}
