//! The client of a Harness Manager.

use std::error::Error;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::header::{
    ACCEPT, AUTHORIZATION, DATE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
};
use reqwest::{Certificate, Client, Identity, Proxy, Url, redirect};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::time::Instant;
use uuid::Uuid;

use super::answer::{Answer, printable};
use super::token::{self, Claims, Issued, KEY_LEN};
use super::{Published, PublishedError};
use crate::image::ImageReference;

const HARNESS_ERROR: HeaderName = HeaderName::from_static("x-harness-error");

/// Bytes of the largest answer that is read: thirty times the usual one would do.
const MOST_BODY: usize = 64 * 1024;

/// How to reach a Manager, and as whom.
pub struct ManagerConfig {
    /// `MANAGER_HOST_AND_PORT`: scheme, host, and port and path prefix where there are some.
    pub base_url: String,
    /// `ACCOUNT_ID`.
    pub account_id: String,
    /// The key in the delegate token; see [`token::key_from_text`].
    pub key: [u8; KEY_LEN],
    /// This host's name: who asks.
    pub host_name: String,
    /// Whether asking counts as "auto upgrade is on" in the Manager's UI: true for an upgrader that upgrades, false
    /// for one that only looks.
    pub stamps: bool,
    /// `User-Agent`.
    pub user_agent: String,
    /// The proxy to go through, with its exceptions; nothing is read from the environment here.
    pub proxy: Option<Proxy>,
    /// PEM certificates to trust beside those of the system.
    pub ca_bundle: Option<Vec<u8>>,
    /// PEM certificate chain and private key, for mTLS.
    pub client_identity: Option<Vec<u8>>,
    /// The bounds on waiting.
    pub timing: Timing,
    /// The clock: seconds matter, since a token has a time in which it is good.
    pub clock: fn() -> DateTime<Utc>,
}

impl ManagerConfig {
    /// What is needed; the rest as in production.
    pub fn new(
        base_url: impl Into<String>,
        account_id: impl Into<String>,
        key: [u8; KEY_LEN],
        host_name: impl Into<String>,
    ) -> Self {
        Self {
            base_url: base_url.into(),
            account_id: account_id.into(),
            key,
            host_name: host_name.into(),
            stamps: false,
            user_agent: concat!("delegate-upgrader/", env!("CARGO_PKG_VERSION")).to_owned(),
            proxy: None,
            ca_bundle: None,
            client_identity: None,
            timing: Timing::default(),
            clock: Utc::now,
        }
    }
}

impl fmt::Debug for ManagerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagerConfig")
            .field("account_id", &self.account_id)
            .field("host_name", &self.host_name)
            .field("stamps", &self.stamps)
            .field("timing", &self.timing)
            .finish_non_exhaustive()
    }
}

/// The bounds on waiting for a Manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// For a connection, TLS included.
    pub connect: Duration,
    /// For one question, its retries and the pauses between them included.
    pub total: Duration,
    /// The pause before the first retry; it doubles with each.
    pub first_pause: Duration,
    /// A retry with less time left than this is not begun.
    pub least_attempt: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            total: Duration::from_secs(30),
            first_pause: Duration::from_millis(500),
            least_attempt: Duration::from_secs(5),
        }
    }
}

/// Why a client could not be made: the configuration is wrong. No text repeats a value that may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagerSetupError {
    /// The base URL.
    #[error("MANAGER_HOST_AND_PORT: {0}; it is https://host[:port][/path], as in https://app.harness.io")]
    BaseUrl(String),
    /// The additional certificates.
    #[error("CA_BUNDLE: {0}; it holds one or more certificates in PEM form")]
    CaBundle(String),
    /// The client's certificate and key.
    #[error("CLIENT_CERT, CLIENT_KEY: {0}; they are a certificate chain and its private key in PEM form")]
    ClientIdentity(String),
    /// The whole: most often there are no CA certificates on the system.
    #[error("the HTTPS client cannot be set up: {0}")]
    Client(String),
}

/// A Harness Manager, asked over HTTP.
pub struct HttpManager {
    client: Client,
    endpoint: Url,
    account_id: String,
    key: [u8; KEY_LEN],
    host_name: String,
    audience: String,
    stamps: bool,
    timing: Timing,
    clock: fn() -> DateTime<Utc>,
    token: Mutex<Option<Issued>>,
}

impl fmt::Debug for HttpManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpManager")
            .field("endpoint", &self.endpoint.as_str())
            .field("account_id", &self.account_id)
            .field("stamps", &self.stamps)
            .finish_non_exhaustive()
    }
}

impl HttpManager {
    /// A client of the Manager that the configuration names. Nothing is sent yet.
    pub fn new(config: ManagerConfig) -> Result<Self, ManagerSetupError> {
        let base = base_url(&config.base_url)?;
        let endpoint = endpoint(&base, config.stamps)?;
        let client = client(&config, &base)?;
        Ok(Self {
            client,
            endpoint,
            audience: audience(&base),
            account_id: config.account_id,
            key: config.key,
            host_name: config.host_name,
            stamps: config.stamps,
            timing: config.timing,
            clock: config.clock,
            token: Mutex::new(None),
        })
    }

    fn question(&self, current: &ImageReference, delegate_name: &str) -> Url {
        let mut url = self.endpoint.clone();
        let mut query = url.query_pairs_mut();
        query
            .append_pair("accountId", &self.account_id)
            .append_pair("currentDelegateImageTag", &current.to_string());
        if self.stamps {
            query.append_pair("delegateGroupName", delegate_name);
        }
        drop(query);
        url
    }

    /// The token for this moment: the last one while it is good, else a new one.
    fn token(&self) -> Result<String, PublishedError> {
        let now = (self.clock)().timestamp();
        let mut kept = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(issued) = kept.as_ref().filter(|issued| issued.is_good_at(now)) {
            return Ok(issued.compact.clone());
        }
        let claims = Claims {
            iss: self.host_name.clone(),
            sub: self.account_id.clone(),
            aud: self.audience.clone(),
            exp: now + Issued::LIFETIME,
            nbf: now,
            iat: now,
            jti: Uuid::new_v4().to_string(),
        };
        let compact =
            token::seal(&self.key, &claims).map_err(|error| PublishedError::NoToken(error.to_string()))?;
        *kept = Some(Issued::new(compact.clone(), now));
        Ok(compact)
    }

    fn forget_token(&self) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Asks until there is an answer that asking again would not change, or no time is left.
    async fn ask(&self, url: &Url) -> Result<ImageReference, PublishedError> {
        let deadline = Instant::now() + self.timing.total;
        let mut pause = self.timing.first_pause;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let error = match self.attempt(url, left).await {
                Err(error) if error.is_transient() => error,
                settled => return settled,
            };
            let wait = match &error {
                PublishedError::RateLimited {
                    retry_after: Some(asked),
                } => jittered(pause).max(*asked),
                _ => jittered(pause),
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left < wait.saturating_add(self.timing.least_attempt) {
                return Err(error);
            }
            tracing::debug!(%error, wait = ?wait, "the Manager is asked again");
            tokio::time::sleep(wait).await;
            pause = pause.saturating_mul(2);
        }
    }

    async fn attempt(&self, url: &Url, timeout: Duration) -> Result<ImageReference, PublishedError> {
        let token = self.token()?;
        let mut authorization = HeaderValue::try_from(format!("Delegate {token}"))
            .map_err(|_| PublishedError::NoToken("it does not fit into a header".to_owned()))?;
        authorization.set_sensitive(true);
        let response = self
            .client
            .get(url.clone())
            .header(AUTHORIZATION, authorization)
            .header(ACCEPT, "application/json")
            .timeout(timeout)
            .send()
            .await
            .map_err(|error| transport(error, timeout))?;
        let answer = receive(response, &token, timeout).await?;
        if answer.status == 401 {
            // Whatever is wrong with it: once that is mended, the next question shall not carry the old one.
            self.forget_token();
        }
        answer.read((self.clock)())
    }
}

impl Published for HttpManager {
    async fn published(
        &self,
        current: &ImageReference,
        delegate_name: &str,
    ) -> Result<ImageReference, PublishedError> {
        self.ask(&self.question(current, delegate_name)).await
    }
}

/// Reads an answer within the bound. Should anybody echo the request's token, it goes no further than this.
async fn receive(
    mut response: reqwest::Response,
    token: &str,
    timeout: Duration,
) -> Result<Answer, PublishedError> {
    let header = |headers: &HeaderMap, name| {
        let value = headers.get(name)?.to_str().ok()?;
        Some(value.replace(token, "***"))
    };
    let headers = response.headers();
    let mut answer = Answer {
        status: response.status().as_u16(),
        date: header(headers, DATE),
        retry_after: header(headers, RETRY_AFTER),
        harness_error: header(headers, HARNESS_ERROR),
        redirected_to: header(headers, LOCATION).map(|location| redirected_to(response.url(), &location)),
        body: Vec::new(),
    };
    let too_large = PublishedError::TooLarge { limit: MOST_BODY };
    let most = u64::try_from(MOST_BODY).unwrap_or(u64::MAX);
    if response.content_length().is_some_and(|length| length > most) {
        return Err(too_large);
    }
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| transport(error, timeout))?
    {
        if answer.body.len() + chunk.len() > MOST_BODY {
            return Err(too_large);
        }
        answer.body.extend_from_slice(&chunk);
    }
    if let Ok(text) = std::str::from_utf8(&answer.body)
        && text.contains(token)
    {
        answer.body = text.replace(token, "***").into_bytes();
    }
    Ok(answer)
}

/// Scheme, host and port of where a redirect leads: the rest may hold secrets.
fn redirected_to(from: &Url, location: &str) -> String {
    from.join(location).map_or_else(
        |_| "an address that is none".to_owned(),
        |to| printable(&to.origin().ascii_serialization()),
    )
}

fn transport(error: reqwest::Error, timeout: Duration) -> PublishedError {
    let error = error.without_url();
    if error.is_timeout() {
        // A connection that was not made says so; the whole attempt's bound says how long it was.
        return if error.is_connect() {
            PublishedError::Unreachable("no connection in time".to_owned())
        } else {
            PublishedError::Timeout(timeout)
        };
    }
    let text = printable(&reason(&error));
    if is_tls(&error) {
        PublishedError::Tls(text)
    } else {
        PublishedError::Unreachable(text)
    }
}

/// The causes of an error, outermost first, without those that only repeat the one before.
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

fn reason(error: &(dyn Error + 'static)) -> String {
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

fn is_tls(error: &(dyn Error + 'static)) -> bool {
    causes(error).any(<dyn Error>::is::<rustls::Error>)
}

/// Between a half of it and the whole, so that many hosts do not ask at once.
fn jittered(pause: Duration) -> Duration {
    let mut byte = [u8::MAX];
    // Without random numbers the pause is the whole one.
    let _ = SystemRandom::new().fill(&mut byte);
    let [byte] = byte;
    pause.mul_f64(0.5 + f64::from(byte) / f64::from(u8::MAX) / 2.0)
}

fn base_url(text: &str) -> Result<Url, ManagerSetupError> {
    let refuse = |reason: &str| Err(ManagerSetupError::BaseUrl(reason.to_owned()));
    let Ok(url) = Url::parse(text.trim()) else {
        return refuse("this is no URL");
    };
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return refuse("the scheme is neither https nor http");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refuse("a user name or password has no place in it");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return refuse("a query or a fragment has no place in it");
    }
    Ok(url)
}

fn endpoint(base: &Url, stamps: bool) -> Result<Url, ManagerSetupError> {
    let mut endpoint = base.clone();
    let question = if stamps { "delegate-v2" } else { "delegate" };
    endpoint
        .path_segments_mut()
        .map_err(|()| ManagerSetupError::BaseUrl("it can have no path".to_owned()))?
        .pop_if_empty()
        .extend(["api", "upgrade-check", question]);
    Ok(endpoint)
}

/// `scheme://host:port`, the port always there.
fn audience(base: &Url) -> String {
    let host = base.host_str().unwrap_or_default();
    let port = base.port_or_known_default().unwrap_or_default();
    format!("{}://{host}:{port}", base.scheme())
}

fn client(config: &ManagerConfig, base: &Url) -> Result<Client, ManagerSetupError> {
    // Err: somebody installed one before, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .user_agent(&config.user_agent)
        .redirect(redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .connect_timeout(config.timing.connect);
    let plain = base.scheme() == "http" && config.proxy.is_none();
    if let Some(proxy) = &config.proxy {
        builder = builder.proxy(proxy.clone());
    }
    if plain {
        // No TLS: so no CA certificates need be there, nor be loaded.
        builder = builder.tls_certs_only([]);
    } else if let Some(pem) = &config.ca_bundle {
        let refuse = |reason: &str| ManagerSetupError::CaBundle(reason.to_owned());
        let certificates = Certificate::from_pem_bundle(pem).map_err(|_| refuse("it is not PEM"))?;
        if certificates.is_empty() {
            return Err(refuse("there is no certificate in it"));
        }
        builder = builder.tls_certs_merge(certificates);
    }
    if let Some(pem) = &config.client_identity {
        let identity =
            Identity::from_pem(pem).map_err(|error| ManagerSetupError::ClientIdentity(reason(&error)))?;
        builder = builder.identity(identity);
    }
    builder
        .build()
        .map_err(|error| ManagerSetupError::Client(printable(&reason(&error.without_url()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manager(base_url: &str, stamps: bool) -> Result<HttpManager, ManagerSetupError> {
        HttpManager::new(ManagerConfig {
            stamps,
            ..ManagerConfig::new(base_url, "acct id&x=1", [7; 16], "host-1")
        })
    }

    fn question(base_url: &str, stamps: bool) -> String {
        let current = "localhost:5000/harness/delegate:1".parse().unwrap();
        manager(base_url, stamps)
            .unwrap()
            .question(&current, "a b/ü")
            .to_string()
    }

    #[test]
    fn the_question_goes_below_the_base_urls_path_with_its_values_encoded() {
        let query =
            "accountId=acct+id%26x%3D1&currentDelegateImageTag=localhost%3A5000%2Fharness%2Fdelegate%3A1";
        for (base, path) in [
            ("http://m", "http://m/api"),
            ("http://m/", "http://m/api"),
            ("http://m:8080/gratis", "http://m:8080/gratis/api"),
            ("http://m/a/b/", "http://m/a/b/api"),
            (" http://m ", "http://m/api"),
        ] {
            assert_eq!(
                question(base, false),
                format!("{path}/upgrade-check/delegate?{query}")
            );
            assert_eq!(
                question(base, true),
                format!("{path}/upgrade-check/delegate-v2?{query}&delegateGroupName=a+b%2F%C3%BC")
            );
        }
    }

    #[test]
    fn a_base_url_that_cannot_be_is_refused_and_never_repeated() {
        for base in [
            "",
            "app.harness.io",
            "app.harness.io:443",
            "ftp://hunter2.example",
            "file:///hunter2",
            "https://user:hunter2@app.harness.io",
            "https://hunter2@app.harness.io",
            "https://app.harness.io?token=hunter2",
            "https://app.harness.io#hunter2",
            "https://",
            "mailto:hunter2@example",
        ] {
            let error = manager(base, true).err().unwrap_or_else(|| panic!("{base}"));
            assert!(matches!(error, ManagerSetupError::BaseUrl(_)), "{base}: {error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn the_audience_always_has_its_port() {
        for (base, expected) in [
            ("https://manager.example", "https://manager.example:443"),
            ("https://manager.example/gratis", "https://manager.example:443"),
            ("http://m:8080", "http://m:8080"),
            ("http://[::1]", "http://[::1]:80"),
        ] {
            assert_eq!(audience(&base_url(base).unwrap()), expected);
        }
    }

    #[test]
    fn no_debug_text_holds_the_key_or_the_token() {
        let config = ManagerConfig::new("http://m", "acct", [0xAB; 16], "host-1");
        let shown = format!("{config:?}");
        let manager = HttpManager::new(config).unwrap();
        let token = manager.token().unwrap();
        let shown = format!("{shown} {manager:?} {manager:#?} {:?}", manager.token);
        assert!(!shown.contains(&token), "{shown}");
        assert!(!shown.contains("171"), "{shown}"); // 0xAB as Debug writes it
    }

    #[test]
    fn a_pause_is_between_a_half_and_the_whole_and_not_always_the_same() {
        let pause = Duration::from_secs(8);
        let pauses: Vec<_> = (0..200).map(|_| jittered(pause)).collect();
        assert!(pauses.iter().all(|p| (pause / 2..=pause).contains(p)));
        assert!(pauses.iter().any(|p| *p != pauses[0]));
    }

    #[test]
    fn certificates_that_are_none_are_refused() {
        let config = || ManagerConfig::new("https://m", "acct", [0; 16], "host-1");
        for pem in [
            "",
            "garbage",
            "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----",
        ] {
            let with_ca = ManagerConfig {
                ca_bundle: Some(pem.into()),
                ..config()
            };
            let error = HttpManager::new(with_ca).err().unwrap();
            assert!(matches!(error, ManagerSetupError::CaBundle(_)), "{error}");
            let with_identity = ManagerConfig {
                client_identity: Some(pem.into()),
                ..config()
            };
            let error = HttpManager::new(with_identity).err().unwrap();
            assert!(matches!(error, ManagerSetupError::ClientIdentity(_)), "{error}");
        }
    }
}
