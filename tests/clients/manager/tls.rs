//! Trust: private CAs, names, client certificates.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use delegate_upgrader::config::{Egress, ProxySettings};
use delegate_upgrader::manager::{HttpManager, ManagerConfig, ManagerError};
use delegate_upgrader::text::secret::Secret;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use kit::manager::{RawServer, Reply, answer_text, ask, config, reference};

use super::own_certificate::OWN;

pub(crate) const CA: &[u8] = include_bytes!("../../fixtures/tls/ca.pem");
const OTHER_CA: &[u8] = include_bytes!("../../fixtures/tls/other-ca.pem");
pub(crate) const SERVER: &[u8] = include_bytes!("../../fixtures/tls/server.pem");
const OTHER_NAME: &[u8] = include_bytes!("../../fixtures/tls/other-name.pem");
const SERVER_KEY: &[u8] = include_bytes!("../../fixtures/tls/server.key");
pub(crate) const CLIENT: &[u8] = include_bytes!("../../fixtures/tls/client.pem");
pub(crate) const CLIENT_KEY: &[u8] = include_bytes!("../../fixtures/tls/client.key");
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tls");

pub(super) fn certificates(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem).map(Result::unwrap).collect()
}

/// A server's TLS with the certificate of the server's key.
pub(crate) fn tls(certificate: &[u8], wants_client_certificate: bool) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = if wants_client_certificate {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates(CA));
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        builder.with_client_cert_verifier(verifier.build().unwrap())
    } else {
        builder.with_no_client_auth()
    };
    let key = PrivateKeyDer::from_pem_slice(SERVER_KEY).unwrap();
    builder.with_single_cert(certificates(certificate), key).unwrap()
}

/// A server behind TLS that derives its answer from a request's head. Returns its address.
pub(crate) fn answering(
    tls: ServerConfig,
    answer: impl Fn(&[u8]) -> String + Clone + Send + 'static,
) -> SocketAddr {
    let tls = Arc::new(tls);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = ServerConnection::new(Arc::clone(&tls)).unwrap();
            let answer = answer.clone();
            // A connection that ended in the middle of a request may stay open in a proxy, and must not hold up the next one.
            std::thread::spawn(move || {
                let mut stream = StreamOwned::new(connection, stream);
                let mut head = [0; 4096];
                if let Ok(read @ 1..) = stream.read(&mut head) {
                    let _ = stream.write_all(answer(&head[..read]).as_bytes());
                }
                stream.conn.send_close_notify();
                let _ = stream.flush();
            });
        }
    });
    address
}

/// Starts a Manager behind TLS. Returns its URL.
pub(super) fn serve(tls: ServerConfig) -> String {
    let address = answering(tls, |_| {
        answer_text(200, "", r#"{"resource":{"imageTag":"a:1"}}"#)
    });
    format!("https://{address}")
}

pub(super) fn start(certificate: &[u8], wants_client_certificate: bool) -> String {
    serve(tls(certificate, wants_client_certificate))
}

pub(super) fn identity() -> Egress {
    let file = |name: &str| [FIXTURES, name].iter().collect();
    Egress {
        client_identity: Some((file("client.pem"), file("client.key"))),
        ..Egress::default()
    }
}

/// A client that trusts these certificates, with the other settings of its connection.
pub(super) fn client(url: &str, ca: &[u8], egress: Option<Egress>) -> HttpManager {
    let bundle = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(bundle.path(), ca).unwrap();
    HttpManager::new(ManagerConfig {
        egress: Egress {
            ca_bundle: Some(bundle.path().to_owned()),
            ..egress.unwrap_or_default()
        },
        ..config(url)
    })
    .unwrap()
}

pub(super) fn with_password(proxy: &str) -> ProxySettings {
    ProxySettings {
        url: proxy.to_owned(),
        login: Some(("user".to_owned(), Secret::new("hunter2"))),
    }
}

/// Asserts that there is no trust, and that the line says what to do.
pub(super) fn assert_untrusted(result: Result<impl std::fmt::Debug, ManagerError>, what_to_do: &str) {
    let error = result.unwrap_err();
    assert!(matches!(error, ManagerError::Tls(_)), "{error:?}");
    assert!(error.is_outage());
    assert!(error.to_string().contains(what_to_do), "{error}");
}

#[tokio::test]
async fn trusts_a_manager_with_a_given_private_ca_and_a_matching_name() {
    let url = start(SERVER, false);
    assert_eq!(ask(&client(&url, CA, None)).await, Ok(reference("a:1")));
    let stranger = ask(&client(&url, OTHER_CA, None)).await;
    assert_untrusted(stranger, "add a private CA to CA_BUNDLE");
    let url = start(OTHER_NAME, false);
    let what_to_do = "set MANAGER_HOST_AND_PORT to a name that the certificate is valid for";
    assert_untrusted(ask(&client(&url, CA, None)).await, what_to_do);
}

#[tokio::test]
async fn a_manager_that_requires_a_client_certificate_gets_one() {
    for (shown, bundle) in [(SERVER, CA), (OWN, OWN)] {
        let url = start(shown, true);
        let with_identity = client(&url, bundle, Some(identity()));
        assert_eq!(ask(&with_identity).await, Ok(reference("a:1")));
        let error = ask(&client(&url, bundle, None)).await.unwrap_err();
        assert!(matches!(error, ManagerError::ClientCertificate(_)), "{error:?}");
        assert!(error.is_outage());
        assert!(
            error.to_string().contains("CLIENT_CERT and CLIENT_KEY"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_server_without_tls_is_distinguished_from_one_that_is_down() {
    // A TLS greeting never contains the end of a request's head, so the server answers at once.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let text = answer_text(400, "", "this is plain http");
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, text.as_bytes()).await;
            let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 4096]).await;
        }
    });
    assert_untrusted(
        ask(&client(&url, CA, None)).await,
        "the other side does not speak TLS",
    );
}

#[tokio::test]
async fn a_proxy_refusing_the_tunnel_is_an_outage_without_showing_its_password() {
    for (status, kind, words, asked_again) in [
        (407, "proxy_login", "PROXY_USER and PROXY_PASSWORD", false),
        (403, "unreachable", "the proxy cannot connect to it", true),
    ] {
        let refusal = answer_text(status, "", "who are you?").into_bytes();
        let proxy = RawServer::start(vec![Reply::Bytes(refusal)]).await;
        let through = Egress {
            proxy: Some(with_password(&proxy.url)),
            ..Egress::default()
        };
        let client = client("https://manager.invalid", CA, Some(through));
        let error = ask(&client).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error:?}");
        assert!(error.is_outage());
        let shown = format!("{error} {error:?} {client:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains(words), "{shown}");
        let requests = proxy.requests();
        assert!(!requests[0].contains("Delegate "), "{requests:?}");
        // Repeated requests after a refusal would lock the user out.
        assert_eq!(requests.len() > 1, asked_again, "{requests:?}");
    }
}

#[test]
fn missing_ca_certificates_are_explained_only_if_they_are_needed() {
    let plan = |variables: &[(&str, &str)]| {
        std::process::Command::new(env!("CARGO_BIN_EXE_delegate-upgrader"))
            .env_clear()
            .env("SSL_CERT_FILE", "/dev/null")
            .env("DOCKER_HOST", "unix:///nowhere/docker.sock")
            .env("UPGRADER_WORKLOAD_NAME", "docker-delegate")
            .env("ACCOUNT_ID", kit::manager::ACCOUNT)
            .env("UPGRADER_TOKEN", "000102030405060708090a0b0c0d0e0f")
            .envs(variables.iter().copied())
            .arg("plan")
            .output()
            .unwrap()
    };
    let https = ("MANAGER_HOST_AND_PORT", "https://manager.example");
    let http = ("MANAGER_HOST_AND_PORT", "http://manager.example");
    let proxy = ("HTTPS_PROXY", "http://proxy.example:3128");
    let tls_proxy = ("HTTPS_PROXY", "https://proxy.example:3128");
    let ca = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tls/ca.pem");
    for (variables, needed) in [
        ([http, proxy].as_slice(), false),
        (&[https, proxy], true),
        (&[http, tls_proxy], true),
        (&[https, ("CA_BUNDLE", ca)], false),
        (&[http], false),
    ] {
        let output = plan(variables);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code() == Some(78), needed, "{variables:?}: {text}");
        let found = ["No CA certificates", "CA_BUNDLE", "SSL_CERT_FILE"].map(|words| text.contains(words));
        assert_eq!(found, [needed; 3], "{variables:?}: {text}");
    }
}
