//! The client of a Harness Manager.

use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use reqwest::header::{
    ACCEPT, AUTHORIZATION, DATE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
};
use reqwest::{Client, Url};
use tokio::time::Instant;
use uuid::Uuid;

use super::client_config::{ManagerConfig, audience};
use super::error::ManagerError;
use super::requests::ManagerRequests;
use super::response::Response;
use super::source::ImageSource;
use super::token::{Claims, LIFETIME, may_be_sent};
use super::transport_error::transport;
use crate::image::ImageReference;
use crate::net::{jittered, redirected_to};
use crate::sync::lock;

const HARNESS_ERROR: HeaderName = HeaderName::from_static("x-harness-error");

/// The most bytes of a body to read. A typical body has a few hundred.
const MAX_BODY: usize = 64 * 1024;

/// The longest `Retry-After` to respect, so that a mistaken value cannot block requests forever.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3600);

/// A client of a Harness Manager over HTTP.
pub struct HttpManager {
    client: Client,
    base: Url,
    config: ManagerConfig,
    learned: Mutex<Learned>,
    requests: ManagerRequests,
}

/// State that a request leaves for later requests.
#[derive(Default)]
struct Learned {
    /// The last token, and when it was issued, in seconds.
    token: Option<(String, i64)>,
    /// This host's clock minus the Manager's, in seconds, according to the last response.
    skew: Option<i64>,
    /// Earliest time of the next request of any caller, on the monotonic clock. Set by the Manager's `Retry-After`.
    not_before: Option<Instant>,
    /// The error of the last attempt, while another attempt is pending.
    last_error: Option<ManagerError>,
}

impl fmt::Debug for HttpManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.config.fmt(f)
    }
}

impl HttpManager {
    /// Creates a client of the Manager in the configuration. Sends nothing.
    ///
    /// # Errors
    /// The certificates or the client as a whole are unusable, or the URL is invalid, which the settings prevent.
    pub fn new(config: ManagerConfig) -> Result<Self, String> {
        let url = &config.manager.base_url;
        let client = config.egress.client(url, config.timing.connect)?;
        let base = Url::parse(url).map_err(|error| error.to_string())?;
        Ok(Self {
            client,
            base,
            config,
            learned: Mutex::default(),
            requests: ManagerRequests::default(),
        })
    }

    /// Limits each question to a single attempt that ends after this time.
    pub fn ask_once_within(&mut self, limit: Duration) {
        self.config.timing.total = limit;
        self.config.timing.min_attempt = limit;
    }

    /// The URL of an upgrade check, with the image in the parameter of this name. Of the delegate endpoints, only `delegate-v2`
    /// records the time from which the Manager's UI derives AUTO UPGRADE.
    fn url(&self, resource: &str, parameter: &str, current: &ImageReference) -> Url {
        let mut url = self.base.clone();
        // An error means a URL without a host, which the settings prevent.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(["api", "upgrade-check", resource]);
        }
        url.query_pairs_mut()
            .append_pair("accountId", &self.config.manager.account_id)
            .append_pair(parameter, &current.to_string());
        url
    }

    /// Returns the last token while it is valid, or a new one.
    fn token(&self) -> Result<String, ManagerError> {
        let now = (self.config.clock)().timestamp();
        let mut learned = lock(&self.learned);
        if let Some((token, issued_at)) = &learned.token
            && may_be_sent(*issued_at, now)
        {
            return Ok(token.clone());
        }
        let claims = Claims {
            iss: self.config.host_name.clone(),
            sub: self.config.manager.account_id.clone(),
            aud: audience(&self.base),
            exp: now + LIFETIME,
            nbf: now,
            iat: now,
            jti: Uuid::new_v4().to_string(),
        };
        let sealed = self.config.manager.token.seal(&claims);
        let token = sealed.map_err(|why| ManagerError::NoToken(why.to_owned()))?;
        learned.token = Some((token.clone(), now));
        Ok(token)
    }

    /// This host's clock minus the Manager's, in seconds. `None` without a response or if the last one had no `Date`.
    pub fn skew_seconds(&self) -> Option<i64> {
        lock(&self.learned).skew
    }

    /// Returns the remaining wait of the Manager's `Retry-After`.
    fn retry_after(&self) -> Option<Duration> {
        let left = lock(&self.learned)
            .not_before?
            .saturating_duration_since(Instant::now());
        Some(left).filter(|left| !left.is_zero())
    }

    /// Repeats the request until a retry would not change the answer, or until too little time is left for a retry.
    async fn send_with_retries(&self, url: &Url) -> Result<ImageReference, ManagerError> {
        let timing = self.config.timing;
        let deadline = Instant::now() + timing.total;
        let mut pause = timing.first_pause;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let answer = match self.retry_after() {
                None => {
                    let answer = self.send(url, left).await;
                    self.requests.note(answer.as_ref().err());
                    answer
                }
                retry_after => Err(ManagerError::RateLimited { retry_after }),
            };
            let error = match answer {
                Err(error) if error.is_transient() => error,
                settled => {
                    lock(&self.learned).last_error = None;
                    return settled;
                }
            };
            lock(&self.learned).last_error = Some(error.clone());
            let wait = match &error {
                ManagerError::RateLimited {
                    retry_after: Some(asked),
                } => jittered(pause).max(*asked),
                _ => jittered(pause),
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left < wait.saturating_add(timing.min_attempt) {
                lock(&self.learned).last_error = None;
                return Err(error);
            }
            tracing::debug!(%error, wait = ?wait, "asking the Manager again");
            tokio::time::sleep(wait).await;
            pause = pause.saturating_mul(2);
        }
    }

    async fn send(&self, url: &Url, timeout: Duration) -> Result<ImageReference, ManagerError> {
        let token = self.token()?;
        let mut authorization = HeaderValue::try_from(format!("Delegate {token}"))
            .map_err(|_| ManagerError::NoToken("it does not fit into a header".to_owned()))?;
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
        let now = (self.config.clock)();
        let read = answer.read(now);
        let mut learned = lock(&self.learned);
        if answer.status == 401 {
            // After the cause is fixed, the next request must not use the old token.
            learned.token = None;
        }
        // If a proxy rejects the login, the answer has the proxy's time.
        let skew = (read != Err(ManagerError::ProxyLogin)).then(|| answer.skew_seconds(now));
        learned.skew = skew.flatten();
        if let Err(ManagerError::RateLimited {
            retry_after: Some(asked),
        }) = &read
        {
            learned.not_before = Some(Instant::now() + (*asked).min(MAX_RETRY_AFTER));
        }
        read
    }
}

impl ImageSource for HttpManager {
    async fn published(
        &self,
        current: &ImageReference,
        workload: &str,
    ) -> Result<ImageReference, ManagerError> {
        let resource = if self.config.reports_upgrader {
            "delegate-v2"
        } else {
            "delegate"
        };
        let mut url = self.url(resource, "currentDelegateImageTag", current);
        // The endpoint requires no name, but the Manager uses it to find an image override by name or tag.
        url.query_pairs_mut().append_pair("delegateGroupName", workload);
        self.send_with_retries(&url).await
    }

    async fn published_upgrader(
        &self,
        current: &ImageReference,
    ) -> Option<Result<ImageReference, ManagerError>> {
        let url = self.url("upgrader", "currentUpgraderImageTag", current);
        Some(self.send_with_retries(&url).await)
    }

    fn last_error(&self) -> Option<ManagerError> {
        lock(&self.learned).last_error.clone()
    }

    fn requests(&self) -> ManagerRequests {
        self.requests.clone()
    }
}

/// Reads a response up to the size limit. Masks the token in case the server echoes it.
async fn receive(
    mut response: reqwest::Response,
    token: &str,
    timeout: Duration,
) -> Result<Response, ManagerError> {
    let header = |headers: &HeaderMap, name| {
        let value = headers.get(name)?.to_str().ok()?;
        Some(value.replace(token, "***"))
    };
    let headers = response.headers();
    let mut answer = Response {
        status: response.status().as_u16(),
        date: header(headers, DATE),
        retry_after: header(headers, RETRY_AFTER),
        harness_error: header(headers, HARNESS_ERROR),
        redirected_to: header(headers, LOCATION).map(|location| redirected_to(response.url(), &location)),
        body: Vec::new(),
    };
    // An error response keeps its status, however long its page is.
    let is_success = response.status().is_success();
    let most = u64::try_from(MAX_BODY).unwrap_or(u64::MAX);
    let mut too_large = response.content_length().is_some_and(|length| length > most);
    while !too_large {
        let Some(chunk) = response
            .chunk()
            .await
            .map_err(|error| transport(error, timeout))?
        else {
            break;
        };
        too_large = answer.body.len() + chunk.len() > MAX_BODY;
        if !too_large {
            answer.body.extend_from_slice(&chunk);
        }
    }
    if too_large && is_success {
        return Err(ManagerError::TooLarge { limit: MAX_BODY });
    }
    let text = String::from_utf8_lossy(&answer.body);
    if text.contains(token) {
        answer.body = text.replace(token, "***").into_bytes();
    }
    Ok(answer)
}
