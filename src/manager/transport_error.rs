//! Why a Manager was not reached, from the errors of the layers below.

use std::error::Error;
use std::time::Duration;

use rustls::AlertDescription;

use super::error::ManagerError;
use super::response::MAX_SHOWN;
use crate::text::one_line;

/// What went wrong on the way to the Manager, or on the way back. `timeout` was the whole attempt's.
pub(super) fn transport(error: reqwest::Error, timeout: Duration) -> ManagerError {
    let error = error.without_url();
    if error.is_timeout() {
        // A connection that was not made says so; the whole attempt's bound says how long it was.
        return if error.is_connect() {
            ManagerError::Unreachable("no connection in time".to_owned())
        } else {
            ManagerError::Timeout(timeout)
        };
    }
    // reqwest's type for it is not public.
    let tunnel = causes(&error).find_map(|cause| {
        cause
            .to_string()
            .strip_prefix("tunnel error: ")
            .map(str::to_owned)
    });
    match tunnel.as_deref() {
        Some("proxy authorization required") => return ManagerError::ProxyLogin,
        Some("unsuccessful") => {
            let reason =
                "the proxy makes no connection to it, or refuses the login (PROXY_USER, PROXY_PASSWORD)";
            return ManagerError::Unreachable(reason.to_owned());
        }
        _ => {}
    }
    let text = one_line(&reason(&error), MAX_SHOWN);
    match causes(&error).find_map(<dyn Error>::downcast_ref) {
        Some(rustls::Error::AlertReceived(alert)) if is_about_our_certificate(*alert) => {
            ManagerError::ClientCertificate(text)
        }
        Some(tls) => ManagerError::Tls(format!("{text}; {}", advice(tls))),
        None => ManagerError::Unreachable(text),
    }
}

/// What the other side says where it wants a certificate of ours, or another one.
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

/// What to do about it.
fn advice(error: &rustls::Error) -> &'static str {
    use rustls::CertificateError as Wrong;

    match error {
        rustls::Error::InvalidCertificate(Wrong::NotValidForName | Wrong::NotValidForNameContext { .. }) => {
            "MANAGER_HOST_AND_PORT must have a name that the certificate is for"
        }
        rustls::Error::InvalidCertificate(
            Wrong::Expired
            | Wrong::ExpiredContext { .. }
            | Wrong::NotValidYet
            | Wrong::NotValidYetContext { .. },
        ) => "the certificate needs to be renewed, or this host's clock is wrong",
        rustls::Error::InvalidMessage(_) => {
            "nobody speaks TLS there: check the port and the scheme in MANAGER_HOST_AND_PORT, and PROXY_SCHEME"
        }
        // What TLS 1.2 has for a certificate that is missing, and for much else.
        rustls::Error::AlertReceived(AlertDescription::HandshakeFailure) => {
            "the Manager may want a client certificate: CLIENT_CERT and CLIENT_KEY"
        }
        _ => "a private CA belongs in CA_BUNDLE, and this host's clock must be right",
    }
}

/// An error and its causes, outermost first.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error: &&'a (dyn Error + 'static)| {
        // `io::Error` hides the error it wraps: its source is that error's source.
        match error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref)
        {
            Some(inner) => Some(inner),
            None => error.source(),
        }
    })
}

/// The causes of an error on one line, without repetitions and without the outermost, which only names the request.
pub(super) fn reason(error: &(dyn Error + 'static)) -> String {
    let mut texts: Vec<String> = Vec::new();
    for cause in causes(error) {
        let text = cause.to_string();
        if texts.last() != Some(&text) {
            texts.push(text);
        }
    }
    // The outermost says "error sending request", which is no news.
    if texts.len() > 1 {
        texts.remove(0);
    }
    texts.join(": ")
}
