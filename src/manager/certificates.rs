//! What `CA_BUNDLE`, `CLIENT_CERT` and `CLIENT_KEY` must hold. An error goes behind the name of the file, and does not
//! repeat a part of it.

use std::sync::Arc;

use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::CertificateDer;
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{InconsistentKeys, RootCertStore};

use crate::net::pem;

/// The certificates of a `CA_BUNDLE`, at least one, each of which can be trusted as an authority.
pub(crate) fn authorities(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = pem::certificates(pem)?;
    let count = certificates.len();
    for (number, certificate) in (1..).zip(&certificates) {
        RootCertStore::empty()
            .add(certificate.clone())
            .map_err(|error| format!("certificate {number} of {count} cannot be used: {error}"))?;
    }
    Ok(certificates)
}

/// The chain of a `CLIENT_CERT`, the client's own certificate first.
pub(crate) fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain = pem::certificates(pem)?;
    if let Some(own) = chain.first() {
        ParsedCertificate::try_from(own)
            .map_err(|error| format!("its first certificate cannot be used: {error}"))?;
    }
    Ok(chain)
}

/// The private key of a `CLIENT_KEY`.
pub(crate) fn signing_key(pem: &[u8]) -> Result<Arc<dyn SigningKey>, String> {
    let key = pem::private_key(pem)?;
    any_supported_type(&key).map_err(|_| {
        "its private key cannot be used: RSA, ECDSA on P-256 or P-384 and Ed25519 are supported".to_owned()
    })
}

/// The certificate with its key; errs if the key is another one's.
pub(crate) fn identity(
    chain: Vec<CertificateDer<'static>>,
    key: Arc<dyn SigningKey>,
) -> Result<CertifiedKey, String> {
    let identity = CertifiedKey::new(chain, key);
    match identity.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(identity),
        Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err("its private key does not belong to the certificate in CLIENT_CERT".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}
