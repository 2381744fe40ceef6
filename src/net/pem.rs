//! Reads certificates and private keys from PEM text. Error messages are written to follow the name of the file, and never
//! quote its content: a key may be in the wrong file, or on a line that the parser mistakes for a heading.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Returns all certificates in the text, at least one. Skips other sections.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    let certificates = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| "it is not in PEM format")?;
    if certificates.is_empty() {
        return Err("it has no certificate in PEM format");
    }
    Ok(certificates)
}

/// Returns the first private key in the text.
pub(crate) fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, &'static str> {
    let is_encrypted = || {
        let has = |words: &[u8]| pem.windows(words.len()).any(|part| part == words);
        has(b"BEGIN ENCRYPTED PRIVATE KEY") || has(b"Proc-Type: 4,ENCRYPTED")
    };
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| {
        if is_encrypted() {
            "its private key is encrypted"
        } else {
            "it has no private key in PEM format"
        }
    })
}
