//! TLS to an engine, with the files that every Docker client reads: `ca.pem`, `cert.pem` and `key.pem`.

use std::fs;
use std::path::Path;

use rustls::pki_types::CertificateDer;

use crate::net::{pem, tls_builder};

/// The set-up of a client that trusts and shows the certificates of this directory. Errs with the file that is wrong.
pub(super) fn mutual_tls(directory: &Path) -> Result<rustls::ClientConfig, String> {
    let mut roots = rustls::RootCertStore::empty();
    let authority = directory.join("ca.pem");
    for certificate in certificates(&authority)? {
        roots
            .add(certificate)
            .map_err(|error| format!("{}: {error}", authority.display()))?;
    }
    let key_file = directory.join("key.pem");
    let key = pem::private_key(&read(&key_file)?).map_err(|why| format!("{}: {why}", key_file.display()))?;
    tls_builder()?
        .with_root_certificates(roots)
        .with_client_auth_cert(certificates(&directory.join("cert.pem"))?, key)
        .map_err(|error| format!("{}: {error}", directory.display()))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    pem::certificates(&read(file)?).map_err(|why| format!("{}: {why}", file.display()))
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error| format!("{}: {error}", file.display()))
}
