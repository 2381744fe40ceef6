//! The settings for connections to the Manager, receivers of events and registries, and the clients made from them.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::header::HeaderValue;
use reqwest::{Client, NoProxy, Proxy, Url};

use super::certificates;
use super::client::{ClientError, ClientIdentity, Connection};
use super::dns::Resolver;
use crate::text::secret::Secret;

/// The time limit for a connection to a receiver or a registry, including TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How to reach remote servers. The files were valid when the settings were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Egress {
    /// `PROXY_*` or `HTTPS_PROXY`. `None` if `NO_PROXY` covers everything.
    pub proxy: Option<ProxySettings>,
    /// `NO_PROXY`: comma-separated hosts and networks to reach without the proxy.
    pub no_proxy: Option<String>,
    /// `CA_BUNDLE`: certificates to trust besides the system's, of CAs or of single servers.
    pub ca_bundle: Option<PathBuf>,
    /// `CLIENT_CERT`. Set if and only if the key is set.
    pub client_cert: Option<PathBuf>,
    /// `CLIENT_KEY`. Set if and only if the certificate is set.
    pub client_key: Option<PathBuf>,
}

/// A proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxySettings {
    /// `scheme://host:port`, without user and password.
    pub url: String,
    /// The user name. Set if and only if the password is set.
    pub username: Option<String>,
    /// The password in plain text, with the URL's percent-encoding decoded.
    pub password: Option<Secret>,
}

impl Egress {
    /// Creates a client for this URL.
    ///
    /// # Errors
    /// The URL is invalid, which the settings prevent, or [`Self::connection`] fails.
    pub fn client(&self, url: &str) -> Result<Client, ClientError> {
        let url = Url::parse(url).map_err(|error| ClientError::Client(error.to_string()))?;
        self.connection()?.client(&url, CONNECT_TIMEOUT)
    }

    /// Returns the proxy with its exceptions, and the contents of the files.
    ///
    /// # Errors
    /// A file disappeared, or the proxy cannot be used.
    pub fn connection(&self) -> Result<Connection, ClientError> {
        let client_identity = match (&self.client_cert, &self.client_key) {
            (Some(certificate), Some(key)) => Some(ClientIdentity {
                certificate: opened("CLIENT_CERT", certificate, fs::read(certificate))?,
                key: opened("CLIENT_KEY", key, fs::read(key))?,
            }),
            _ => None,
        };
        let ca_bundle = self.ca_bundle.as_deref();
        let ca_bundle = ca_bundle.map(|path| opened("CA_BUNDLE", path, certificates::read_bundle(path)));
        let proxy = self.proxy.as_ref();
        Ok(Connection {
            proxy: proxy.map(|proxy| self.with_exceptions(proxy)).transpose()?,
            proxy_is_plain: proxy.is_some_and(|proxy| proxy.url.starts_with("http://")),
            ca_bundle: ca_bundle.transpose()?,
            client_identity,
            resolver: Resolver::default(),
        })
    }

    fn with_exceptions(&self, settings: &ProxySettings) -> Result<Proxy, ClientError> {
        let problem = |error: reqwest::Error| ClientError::Proxy(error.without_url().to_string());
        let mut proxy = Proxy::all(&settings.url).map_err(problem)?;
        if let (Some(user), Some(password)) = (&settings.username, &settings.password) {
            // reqwest would put the login into a URL, which would turn %41 in a password into A.
            let login = BASE64_STANDARD.encode(format!("{user}:{}", password.expose()));
            let mut login = HeaderValue::try_from(format!("Basic {login}"))
                .map_err(|_| ClientError::Proxy("its login does not fit into a header".to_owned()))?;
            login.set_sensitive(true);
            proxy = proxy.custom_http_auth(login);
        }
        Ok(proxy.no_proxy(self.no_proxy.as_deref().and_then(NoProxy::from_string)))
    }
}

fn opened(variable: &'static str, path: &Path, content: io::Result<Vec<u8>>) -> Result<Vec<u8>, ClientError> {
    content.map_err(|error| ClientError::File {
        variable,
        path: path.display().to_string(),
        error,
    })
}
