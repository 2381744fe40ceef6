//! Finds out why a Manager was not reached from the errors of the lower layers.

use std::error::Error;
use std::time::Duration;

use rustls::AlertDescription;

use super::error::ManagerError;
use crate::net::client::MAX_SHOWN;
use crate::net::trust::is_authority_as_server;
use crate::net::{causes, without_request};
use crate::text::one_line;

/// Explains why a request got no response, or only part of one. `timeout` is the limit of the whole attempt.
pub(super) fn transport(error: reqwest::Error, timeout: Duration) -> ManagerError {
    let error = error.without_url();
    if error.is_timeout() {
        return if error.is_connect() {
            ManagerError::Unreachable("connection timed out".to_owned())
        } else {
            ManagerError::Timeout(timeout)
        };
    }
    // reqwest does not export the type of this error.
    let tunnel = causes(&error).find_map(|cause| {
        cause
            .to_string()
            .strip_prefix("tunnel error: ")
            .map(str::to_owned)
    });
    match tunnel.as_deref() {
        Some("proxy authorization required") => return ManagerError::ProxyLogin,
        Some("unsuccessful") => {
            let reason = "the proxy cannot connect to it, or rejected the login (PROXY_USER, PROXY_PASSWORD)";
            return ManagerError::Unreachable(reason.to_owned());
        }
        _ => {}
    }
    let text = one_line(&without_request(&error), MAX_SHOWN);
    match causes(&error).find_map(<dyn Error>::downcast_ref) {
        Some(rustls::Error::AlertReceived(alert)) if is_about_our_certificate(*alert) => {
            ManagerError::ClientCertificate(text)
        }
        Some(tls) => ManagerError::Tls(format!("{text}; {}", advice(tls))),
        None => ManagerError::Unreachable(text),
    }
}

/// Whether the alert comes from a server that requires a client certificate, or a different one.
fn is_about_our_certificate(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::CertificateRequired
            | AlertDescription::NoCertificate
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
    )
}

fn advice(error: &rustls::Error) -> &'static str {
    use rustls::CertificateError as Wrong;

    match error {
        rustls::Error::InvalidCertificate(Wrong::NotValidForName | Wrong::NotValidForNameContext { .. }) => {
            "set MANAGER_HOST_AND_PORT to a name that the certificate is valid for"
        }
        rustls::Error::InvalidCertificate(
            Wrong::Expired
            | Wrong::ExpiredContext { .. }
            | Wrong::NotValidYet
            | Wrong::NotValidYetContext { .. },
        ) => "renew the certificate, or correct this host's clock",
        rustls::Error::InvalidMessage(_) => {
            "the other side does not speak TLS: check the port and the scheme in MANAGER_HOST_AND_PORT, and PROXY_SCHEME"
        }
        _ if is_authority_as_server(error) => {
            "a server shows the certificate of a CA (CA:TRUE): add exactly this certificate to CA_BUNDLE"
        }
        // TLS 1.2 sends this alert for a missing certificate, and in many other cases.
        rustls::Error::AlertReceived(AlertDescription::HandshakeFailure) => {
            "the Manager may require a client certificate: set CLIENT_CERT and CLIENT_KEY"
        }
        _ => "add a private CA to CA_BUNDLE, and check this host's clock",
    }
}
