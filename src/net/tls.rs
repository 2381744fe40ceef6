//! The TLS of a client of servers elsewhere: which of them it trusts, and what it shows them.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls_platform_verifier::Verifier;

use super::tls_builder;
use super::trust::Trust;

/// A TLS configuration that trusts the system's authorities and these certificates, and shows this identity if a
/// server asks for one. Errs without a single authority to trust.
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
