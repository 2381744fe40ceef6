//! The HTTP client for remote servers such as a Manager or a receiver of events. It uses the configured proxy, trusted
//! certificates and client certificate.

use std::io;
use std::time::Duration;

use reqwest::{Client, Proxy, Url, redirect};
use rustls::sign::CertifiedKey;

use super::dns::Resolver;
use super::{certificates, tls, without_request};
use crate::text::one_line;

/// The most characters of a remote server's message to quote in a log line.
pub(crate) const MAX_SHOWN: usize = 200;

/// The `User-Agent` of this program's requests.
pub(crate) const USER_AGENT: &str = concat!("delegate-upgrader/", env!("CARGO_PKG_VERSION"));

/// How to reach remote servers. Nothing here is read from the environment.
#[derive(Clone, Default)]
pub struct Connection {
    /// The proxy, with its exceptions.
    pub proxy: Option<Proxy>,
    /// Whether the connection to the proxy uses plain HTTP.
    pub proxy_is_plain: bool,
    /// PEM certificates to trust besides the system's: CAs, and certificates of single servers.
    pub ca_bundle: Option<Vec<u8>>,
    /// The client certificate for mTLS.
    pub client_identity: Option<ClientIdentity>,
    /// Resolves host names.
    pub resolver: Resolver,
}

/// The certificate for servers that require mTLS.
#[derive(Clone)]
pub struct ClientIdentity {
    /// The certificate chain in PEM format, starting with the client's own certificate.
    pub certificate: Vec<u8>,
    /// The certificate's private key in PEM format.
    pub key: Vec<u8>,
}

/// The configuration error that prevents the creation of a client, which only its use shows. No message quotes a value that may contain a password.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A file disappeared after the settings were read.
    #[error("{variable}: cannot open {path}: {error}")]
    File {
        /// The variable that names the file.
        variable: &'static str,
        /// The path of the file.
        path: String,
        /// The error from the system.
        error: io::Error,
    },
    /// The proxy's address or login is unusable.
    #[error("PROXY_HOST, HTTPS_PROXY: the proxy cannot be used: {0}")]
    Proxy(String),
    /// The additional certificates are unusable.
    #[error("CA_BUNDLE: {0}; expected one or more certificates in PEM format")]
    CaBundle(String),
    /// The client's certificate or key is unusable.
    #[error("CLIENT_CERT, CLIENT_KEY: {0}; expected a certificate chain and its private key in PEM format")]
    Identity(String),
    /// The client could not be created, most often because the system has no CA certificates.
    #[error(
        "cannot set up the HTTPS client: {0}; if CA certificates are missing, install them (ca-certificates), or set \
         SSL_CERT_FILE to a file of them or CA_BUNDLE to the server's own"
    )]
    Client(String),
}

impl Connection {
    /// Creates a client for this URL, without redirects. `connect` is the time limit for a connection, including TLS.
    pub fn client(&self, url: &Url, connect: Duration) -> Result<Client, ClientError> {
        // For clients without their own TLS configuration, such as those of the tests. An error means that a provider is
        // already installed, which works as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let broken = |reason: &str| ClientError::Client(one_line(reason, MAX_SHOWN));
        let bundle = self.ca_bundle.as_deref();
        let authorities = bundle.map_or(Ok(Vec::new()), certificates::authorities);
        let authorities = authorities.map_err(ClientError::CaBundle)?;
        let identity = self.client_identity.as_ref().map(identity).transpose();
        let identity = identity.map_err(ClientError::Identity)?;
        let plain = url.scheme() == "http" && (self.proxy.is_none() || self.proxy_is_plain);
        let tls = if plain {
            // Without TLS, no CA certificates are needed or loaded.
            tls::without_roots()
        } else {
            tls::with_roots(authorities, identity)
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
