//! Trusts the servers that WebPKI trusts, and servers that present exactly one of the given certificates.
//!
//! `openssl req -x509` marks a server's certificate as a CA (`CA:TRUE`). WebPKI accepts such a certificate as an issuer, but
//! never as a server's own certificate. An operator who lists one in `CA_BUNDLE` or `ca.pem` means exactly that server.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// Whether verification failed because the server's own certificate is marked as a CA.
pub(crate) fn is_authority_as_server(error: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(other)) = error else {
        return false;
    };
    other.0.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity)
}

/// Trusts WebPKI roots and these exact certificates.
#[derive(Debug)]
pub(crate) struct Trust {
    pub(crate) webpki: Arc<dyn ServerCertVerifier>,
    /// The certificates from the operator.
    pub(crate) authorities: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verdict =
            self.webpki
                .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verdict {
            // WebPKI returns this error after it has checked the dates, but before it checks the issuer and the name.
            Err(error) if is_authority_as_server(&error) && self.is_given(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

impl Trust {
    fn is_given(&self, certificate: &CertificateDer<'_>) -> bool {
        self.authorities
            .iter()
            .any(|authority| authority.as_ref() == certificate.as_ref())
    }
}
