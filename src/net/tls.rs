//! The TLS configurations of clients: whom they trust, and which certificate they present.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use rustls_platform_verifier::Verifier;

use super::certificates;
use super::trust::Trust;

/// ring, the only provider that is linked.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, String> {
    ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())
}

/// Returns a configuration for a client that never uses TLS. Without one, reqwest would look for a CA bundle.
pub(crate) fn without_roots() -> Result<ClientConfig, String> {
    Ok(builder()?
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth())
}

/// Returns a configuration that trusts the system's CAs and these certificates, and presents this identity if a server asks
/// for one. Fails if there is no CA to trust.
pub(super) fn with_roots(
    authorities: Vec<CertificateDer<'static>>,
    identity: Option<CertifiedKey>,
) -> Result<ClientConfig, String> {
    let webpki = Verifier::new_with_extra_roots(authorities.clone(), provider());
    let webpki = Arc::new(webpki.map_err(|error| error.to_string())?);
    let mut tls = trusting(webpki, authorities, identity)?;
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(tls)
}

/// Returns a configuration for an engine, with the files that every Docker client reads from this directory: `ca.pem`,
/// `cert.pem` and `key.pem`. Fails with the names of the files that are wrong.
pub(crate) fn of_docker(directory: &Path) -> Result<ClientConfig, String> {
    let (authorities, identity) = certificates::of_docker(directory).map_err(|wrong| wrong.join(", "))?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities.iter().cloned());
    let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build();
    trusting(
        webpki.map_err(|error| error.to_string())?,
        authorities,
        Some(identity),
    )
}

fn trusting(
    webpki: Arc<dyn ServerCertVerifier>,
    authorities: Vec<CertificateDer<'static>>,
    identity: Option<CertifiedKey>,
) -> Result<ClientConfig, String> {
    let trust = Arc::new(Trust { webpki, authorities });
    let builder = builder()?.dangerous().with_custom_certificate_verifier(trust);
    Ok(match identity {
        Some(identity) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity))),
        None => builder.with_no_client_auth(),
    })
}
