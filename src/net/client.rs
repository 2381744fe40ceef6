//! The HTTP client for servers elsewhere, a Manager or a receiver of events: through the proxy, if any, with the
//! authorities that are trusted and the certificate that is shown.

use std::time::Duration;

use reqwest::{Client, Proxy, Url, redirect};
use rustls::sign::CertifiedKey;

use super::dns::Resolver;
use super::{certificates, tls, tls_without_roots, without_request};
use crate::text::one_line;

/// The longest quote of a foreign message in a log line, in characters.
pub(crate) const MAX_SHOWN: usize = 200;

/// The name of this program in its requests.
pub(crate) const USER_AGENT: &str = concat!("delegate-upgrader/", env!("CARGO_PKG_VERSION"));

/// How to reach servers elsewhere; nothing is read from the environment here.
#[derive(Clone, Default)]
pub struct Connection {
    /// The proxy to go through, with its exceptions.
    pub proxy: Option<Proxy>,
    /// Whether that proxy is reached over plain HTTP.
    pub proxy_is_plain: bool,
    /// PEM certificates to trust beside those of the system: authorities, and servers' own.
    pub ca_bundle: Option<Vec<u8>>,
    /// For mTLS.
    pub client_identity: Option<ClientIdentity>,
    /// Finds the addresses of names.
    pub resolver: Resolver,
}

/// The client certificate for a server that requires one.
#[derive(Clone)]
pub struct ClientIdentity {
    /// PEM certificate chain, the client's own certificate first.
    pub certificate: Vec<u8>,
    /// PEM private key of that certificate.
    pub key: Vec<u8>,
}

/// Why a client could not be created: the configuration is wrong. No text repeats a value that may contain a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The additional certificates.
    #[error("CA_BUNDLE: {0}; expected one or more certificates in PEM format")]
    CaBundle(String),
    /// The client's certificate and key.
    #[error("CLIENT_CERT, CLIENT_KEY: {0}; expected a certificate chain and its private key in PEM format")]
    Identity(String),
    /// The client as a whole: most often the system has no CA certificates.
    #[error(
        "cannot set up the HTTPS client: {0}; if CA certificates are missing, install them (ca-certificates), or set \
         SSL_CERT_FILE to a file of them or CA_BUNDLE to the server's own"
    )]
    Client(String),
}

impl Connection {
    /// A client for this URL: no redirects, nothing from the environment. `connect` bounds a connection, TLS included.
    pub fn client(&self, url: &Url, connect: Duration) -> Result<Client, ClientError> {
        // For clients without a TLS configuration of their own, such as those of the tests. Err: one is installed
        // already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let broken = |reason: &str| ClientError::Client(one_line(reason, MAX_SHOWN));
        let authorities = match &self.ca_bundle {
            Some(pem) => certificates::authorities(pem).map_err(ClientError::CaBundle)?,
            None => Vec::new(),
        };
        let identity = match &self.client_identity {
            Some(files) => Some(identity(files).map_err(ClientError::Identity)?),
            None => None,
        };
        let plain = url.scheme() == "http" && (self.proxy.is_none() || self.proxy_is_plain);
        let tls = if plain {
            // Without TLS, no CA certificates are needed or loaded.
            tls_without_roots()
        } else {
            tls::tls(authorities, identity)
        };
        let mut builder = Client::builder()
            .user_agent(USER_AGENT)
            .redirect(redirect::Policy::none())
            .referer(false)
            .no_proxy()
            .dns_resolver(self.resolver.clone())
            .connect_timeout(connect)
            .tls_backend_preconfigured(tls.map_err(|error| broken(&error))?);
        if let Some(proxy) = &self.proxy {
            builder = builder.proxy(proxy.clone());
        }
        builder
            .build()
            .map_err(|error| broken(&without_request(&error.without_url())))
    }
}

fn identity(files: &ClientIdentity) -> Result<CertifiedKey, String> {
    certificates::identity(
        certificates::chain(&files.certificate)?,
        certificates::signing_key(&files.key)?,
        "CLIENT_CERT",
    )
}
