//! The TLS configuration of a client of remote servers: whom it trusts, and which certificate it presents.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls_platform_verifier::Verifier;

use super::tls_builder;
use super::trust::Trust;

/// Returns a TLS configuration that trusts the system's CAs and these certificates, and presents this identity if a server
/// asks for one. Fails if there is no CA to trust.
pub(super) fn tls(
    authorities: Vec<CertificateDer<'static>>,
    identity: Option<CertifiedKey>,
) -> Result<ClientConfig, String> {
    let builder = tls_builder()?;
    let webpki = Verifier::new_with_extra_roots(authorities.clone(), Arc::clone(builder.crypto_provider()))
        .map(Arc::new)
        .map_err(|error| error.to_string())?;
    let builder = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trust { webpki, authorities }));
    let mut tls = match identity {
        Some(identity) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity))),
        None => builder.with_no_client_auth(),
    };
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(tls)
}
