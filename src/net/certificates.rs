//! Checks the certificate files of a client: `CA_BUNDLE`, `CLIENT_CERT` and `CLIENT_KEY`, and the files in
//! `DOCKER_CERT_PATH`. Error messages are written to follow the name of the file, and never quote its content: a key may be
//! in the wrong file, or on a line that the parser mistakes for a heading.

use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ParsedCertificate;
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{InconsistentKeys, RootCertStore};

/// Reads a file with certificates, or joins all files of a directory. A Kubernetes volume also contains directories of its
/// own, whose names start with a dot.
pub(crate) fn read_bundle(path: &Path) -> io::Result<Vec<u8>> {
    if !path.is_dir() {
        return fs::read(path);
    }
    let entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
    let is_hidden = |entry: &DirEntry| entry.file_name().as_encoded_bytes().starts_with(b".");
    let shown = entries.iter().filter(|entry| !is_hidden(entry));
    let mut files: Vec<_> = shown.map(DirEntry::path).filter(|file| file.is_file()).collect();
    files.sort();
    let mut bundle = Vec::new();
    for file in files {
        bundle.extend(fs::read(file)?);
        bundle.push(b'\n');
    }
    Ok(bundle)
}

/// Returns the CA certificates to trust. There is at least one, and each is usable as a trust anchor.
pub(crate) fn authorities(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = certificates(pem)?;
    let count = certificates.len();
    for (number, certificate) in (1..).zip(&certificates) {
        RootCertStore::empty()
            .add(certificate.clone())
            .map_err(|error| format!("certificate {number} of {count} cannot be used: {error}"))?;
    }
    Ok(certificates)
}

/// Returns the certificate chain to present, starting with the client's own certificate.
pub(crate) fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let chain = certificates(pem)?;
    match chain.first().map(ParsedCertificate::try_from) {
        Some(Err(error)) if !is_of_version_1(&error) => {
            Err(format!("its first certificate cannot be used: {error}"))
        }
        _ => Ok(chain),
    }
}

/// Whether a certificate cannot be read because of its version: OpenSSL 3.0 gives version 1 to those that Harness's manual
/// makes. A server can verify it all the same.
fn is_of_version_1(error: &rustls::Error) -> bool {
    error.to_string().contains("UnsupportedCertVersion")
}

pub(crate) fn signing_key(pem: &[u8]) -> Result<Arc<dyn SigningKey>, String> {
    let key = private_key(pem)?;
    any_supported_type(&key).map_err(|_| {
        "its private key cannot be used: RSA, ECDSA on P-256 or P-384 and Ed25519 are supported".to_owned()
    })
}

/// Combines a certificate with its key. Fails if they do not match. `certificate` names the source of the certificate.
pub(crate) fn identity(
    chain: Vec<CertificateDer<'static>>,
    key: Arc<dyn SigningKey>,
    certificate: &str,
) -> Result<CertifiedKey, String> {
    let identity = CertifiedKey::new(chain, key);
    let is_match = match identity.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => true,
        Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => false,
        Err(error) if is_of_version_1(&error) => contains_key(&identity),
        Err(error) => return Err(error.to_string()),
    };
    let mismatch = || format!("its private key does not belong to the certificate in {certificate}");
    is_match.then_some(identity).ok_or_else(mismatch)
}

fn contains_key(identity: &CertifiedKey) -> bool {
    let key = identity.key.public_key();
    let (Some(certificate), Some(key)) = (identity.cert.first(), key.as_deref()) else {
        return false;
    };
    certificate.windows(key.len()).any(|part| part == key)
}

/// Reads the files of Docker's clients: the trusted CAs from `ca.pem`, and the identity from `cert.pem` and `key.pem`. Fails
/// with one message for each faulty file.
pub(crate) fn of_docker(
    directory: &Path,
) -> Result<(Vec<CertificateDer<'static>>, CertifiedKey), Vec<String>> {
    let read = |file: &Path| fs::read(file);
    let trusted = parsed(&directory.join("ca.pem"), read, authorities);
    let chain = parsed(&directory.join("cert.pem"), read, chain);
    let key = parsed(&directory.join("key.pem"), read, signing_key);
    let (trusted, chain, key) = match (trusted, chain, key) {
        (Ok(trusted), Ok(chain), Ok(key)) => (trusted, chain, key),
        (trusted, chain, key) => {
            let wrong = [trusted.err(), chain.err(), key.err()];
            return Err(wrong.into_iter().flatten().collect());
        }
    };
    let identity = identity(chain, key, "cert.pem");
    let identity = identity.map_err(|why| vec![format!("{}: {why}", directory.join("key.pem").display())])?;
    Ok((trusted, identity))
}

/// Reads a file, or what else has this path. The error begins with the path.
pub(crate) fn parsed<T>(
    file: &Path,
    read: impl FnOnce(&Path) -> io::Result<Vec<u8>>,
    parse: impl FnOnce(&[u8]) -> Result<T, String>,
) -> Result<T, String> {
    let content = read(file).map_err(|error| error.to_string());
    let parsed = content.and_then(|content| parse(&content));
    parsed.map_err(|why| format!("{}: {why}", file.display()))
}

/// Returns all certificates in the text, at least one. Skips other sections.
fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    let certificates = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| "it is not in PEM format")?;
    if certificates.is_empty() {
        return Err("it has no certificate in PEM format");
    }
    Ok(certificates)
}

/// Returns the first private key in the text.
fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, &'static str> {
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
