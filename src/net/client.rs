//! The HTTP client for remote servers such as a Manager or a receiver of events. It uses the configured proxy, trusted
//! certificates and client certificate.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::header::HeaderValue;
use reqwest::{Client, NoProxy, Proxy, Url, redirect};
use rustls::sign::CertifiedKey;

use super::dns::Resolver;
use super::{certificates, tls, without_request};
use crate::text::one_line;
use crate::text::secret::Secret;

/// The most characters of a remote server's message to quote in a log line.
pub(crate) const MAX_SHOWN: usize = 200;

/// The `User-Agent` of this program's requests.
pub(crate) const USER_AGENT: &str = concat!("delegate-upgrader/", env!("CARGO_PKG_VERSION"));

/// The time limit for a connection to a remote server, including TLS.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How to reach remote servers. The files were valid when the settings were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Egress {
    /// `PROXY_*` or `HTTPS_PROXY`. `None` if `NO_PROXY` covers everything.
    pub proxy: Option<ProxySettings>,
    /// `NO_PROXY`: comma-separated hosts and networks to reach without the proxy.
    pub no_proxy: Option<String>,
    /// `CA_BUNDLE`: certificates to trust besides the system's, of CAs or of single servers.
    pub ca_bundle: Option<PathBuf>,
    /// `CLIENT_CERT` and `CLIENT_KEY`.
    pub client_identity: Option<(PathBuf, PathBuf)>,
    /// Resolves host names.
    pub resolver: Resolver,
}

/// A proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxySettings {
    /// `scheme://host:port`, without user and password.
    pub url: String,
    /// The user name and the password in plain text, with the URL's percent-encoding decoded.
    pub login: Option<(String, Secret)>,
}

impl Egress {
    /// Creates a client for this URL, without redirects. `connect` is the time limit for a connection, including TLS.
    ///
    /// # Errors
    /// A file disappeared, the proxy or the system's certificates cannot be used, or the URL is invalid, which the settings
    /// prevent. No message quotes a value that may contain a password.
    pub fn client(&self, url: &str, connect: Duration) -> Result<Client, String> {
        // For clients without their own TLS configuration, such as those of the tests. An error means that a provider is
        // already installed, which works as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let broken = |reason: &str| {
            format!(
                "cannot set up the HTTPS client: {}; if CA certificates are missing, install them (ca-certificates), or set \
                 SSL_CERT_FILE to a file of them or CA_BUNDLE to the server's own",
                one_line(reason, MAX_SHOWN)
            )
        };
        let url = Url::parse(url).map_err(|error| broken(&error.to_string()))?;
        let mut authorities = Vec::new();
        if let Some(path) = &self.ca_bundle {
            let bundle = opened("CA_BUNDLE", path, certificates::read_bundle(path))?;
            authorities = certificates::authorities(&bundle).map_err(|problem| {
                format!("CA_BUNDLE: {problem}; expected one or more certificates in PEM format")
            })?;
        }
        let identity = self.identity()?;
        let is_plain = |proxy: &ProxySettings| proxy.url.starts_with("http://");
        let tls = if url.scheme() == "http" && self.proxy.as_ref().is_none_or(is_plain) {
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
            builder = builder.proxy(self.with_exceptions(proxy)?);
        }
        builder
            .build()
            .map_err(|error| broken(&without_request(&error.without_url())))
    }

    fn identity(&self) -> Result<Option<CertifiedKey>, String> {
        let Some((certificate, key)) = &self.client_identity else {
            return Ok(None);
        };
        let chain = opened("CLIENT_CERT", certificate, fs::read(certificate))?;
        let key = opened("CLIENT_KEY", key, fs::read(key))?;
        let identity = certificates::chain(&chain)
            .and_then(|chain| certificates::identity(chain, certificates::signing_key(&key)?, "CLIENT_CERT"));
        identity.map(Some).map_err(|problem| {
            format!("CLIENT_CERT, CLIENT_KEY: {problem}; expected a certificate chain and its private key in PEM format")
        })
    }

    fn with_exceptions(&self, settings: &ProxySettings) -> Result<Proxy, String> {
        let problem = |reason: &str| format!("PROXY_HOST, HTTPS_PROXY: the proxy cannot be used: {reason}");
        let mut proxy =
            Proxy::all(&settings.url).map_err(|error| problem(&error.without_url().to_string()))?;
        if let Some((user, password)) = &settings.login {
            // reqwest would put the login into a URL, which would turn %41 in a password into A.
            let login = BASE64_STANDARD.encode(format!("{user}:{}", password.expose()));
            let mut login = HeaderValue::try_from(format!("Basic {login}"))
                .map_err(|_| problem("its login does not fit into a header"))?;
            login.set_sensitive(true);
            proxy = proxy.custom_http_auth(login);
        }
        Ok(proxy.no_proxy(self.no_proxy.as_deref().and_then(NoProxy::from_string)))
    }
}

fn opened(variable: &str, path: &Path, content: io::Result<Vec<u8>>) -> Result<Vec<u8>, String> {
    content.map_err(|error| format!("{variable}: cannot open {}: {error}", path.display()))
}
