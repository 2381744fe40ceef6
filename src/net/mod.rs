//! What the HTTP clients share: TLS, whom it trusts, PEM, and the gist of errors and error pages.

pub(crate) mod certificates;
pub(crate) mod pem;
pub(crate) mod trust;

use std::error::Error;
use std::sync::Arc;

/// A rustls configuration on ring, the only provider that is linked.
pub(crate) fn tls_builder()
-> Result<rustls::ConfigBuilder<rustls::ClientConfig, rustls::WantsVerifier>, String> {
    rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())
}

/// A configuration for a client that never uses TLS. Without one, reqwest would look for a CA bundle.
pub(crate) fn tls_without_roots() -> Result<rustls::ClientConfig, String> {
    Ok(tls_builder()?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth())
}

/// An error and its causes, outermost first.
pub(crate) fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error: &&'a (dyn Error + 'static)| {
        // `io::Error` hides the error that it wraps: its source is that error's source.
        match error.downcast_ref().and_then(std::io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => error.source(),
        }
    })
}

/// The innermost cause, which says what happened; those around it say where, and may quote a URL.
pub(crate) fn innermost(error: &(dyn Error + 'static)) -> String {
    causes(error).last().unwrap_or(error).to_string()
}

/// The text of an HTML error page, which proxies answer with, on one line. Any other text stays as it is.
pub(crate) fn without_markup(text: &str) -> String {
    if !text.trim_start().starts_with('<') {
        return text.to_owned();
    }
    // A tag that is cut off has no text behind it.
    let parts = text.split('<').skip(1);
    let words = parts.filter_map(|part| Some(part.split_once('>')?.1));
    let words = words.flat_map(str::split_whitespace);
    words.collect::<Vec<_>>().join(" ")
}
