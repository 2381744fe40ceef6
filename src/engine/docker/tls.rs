//! Sets up TLS to an engine with the files that every Docker client reads: `ca.pem`, `cert.pem` and `key.pem`.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, RootCertStore};

use crate::net::trust::Trust;
use crate::net::{certificates, tls_builder};

/// Returns a TLS configuration with the certificates in this directory. Fails with the names of the files that are wrong.
pub(super) fn mutual_tls(directory: &Path) -> Result<ClientConfig, String> {
    let (authorities, identity) = certificates::of_docker(directory).map_err(|wrong| wrong.join(", "))?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities.iter().cloned());
    let builder = tls_builder()?;
    let provider = Arc::clone(builder.crypto_provider());
    let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| error.to_string())?;
    let trust = Arc::new(Trust { webpki, authorities });
    Ok(builder
        .dangerous()
        .with_custom_certificate_verifier(trust)
        .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity))))
}
