//! A remote receiver: one request to it, and the result in words without secrets.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::percent_decode_str;
use reqwest::header::{HeaderMap, LOCATION, RETRY_AFTER};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};

use super::client::MAX_SHOWN;
use super::{causes, redirected_to, without_markup, without_request};
use crate::text::redact::Redactor;
use crate::text::secret::Secret;
use crate::text::{duration, one_line};

/// How many bytes of an error page are read.
const MAX_BODY: usize = 4096;

pub(crate) enum Answer {
    /// A status of 2xx.
    Accepted,
    /// 410: the receiver no longer wants events.
    Gone(String),
    /// The request itself is wrong, so sending it again would not help.
    Rejected(String),
    /// The request may succeed later.
    Failed {
        why: String,
        /// The pause for which the receiver asks.
        retry_after: Option<Duration>,
    },
}

impl Answer {
    fn failed(why: String) -> Self {
        let retry_after = None;
        Self::Failed { why, retry_after }
    }

    /// Returns the reason as an error unless the request was accepted.
    pub(crate) fn accepted(self) -> Result<(), String> {
        match self {
            Self::Accepted => Ok(()),
            Self::Failed {
                why,
                retry_after: Some(after),
            } => Err(format!("{why} (Retry-After: {})", duration::text(after))),
            Self::Gone(why) | Self::Rejected(why) | Self::Failed { why, .. } => Err(why),
        }
    }
}

/// A receiver of requests, whose URL is a secret.
pub(crate) struct Receiver {
    client: Client,
    url: Secret,
    redactor: Redactor,
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receiver(…)")
    }
}

impl Receiver {
    /// `token` is another secret that a request sends.
    pub(crate) fn new(client: Client, url: Secret, token: Option<&Secret>) -> Self {
        let text = url.expose();
        // Redact the URL after the host, as a whole and in parts, since error pages repeat paths.
        let (_, address) = text.split_once("://").unwrap_or(("", text));
        let (before, path) = address.split_once(['/', '?', '#']).unwrap_or((address, ""));
        let user = before.rsplit_once('@').map_or("", |(user, _)| user);
        let parts = [text, path, user].into_iter();
        let parts = parts.chain(path.split(['/', '?', '&', '=', '#', ';', ',']));
        // The login as it is sent.
        let login = BASE64_STANDARD.encode(percent_decode_str(user).collect::<Vec<u8>>());
        let parts = parts.chain([login.as_str(), token.map_or("", Secret::expose)]);
        let redactor = Redactor::new(parts.chain(user.split(':')).map(|part| ("SECRET", part)));
        Self {
            client,
            url,
            redactor,
        }
    }

    /// Sends the request that `make` builds for the URL, and gives up after this time.
    pub(crate) async fn send(
        &self,
        limit: Duration,
        make: impl FnOnce(&Client, &str) -> RequestBuilder,
    ) -> Answer {
        let result = self.fetch(limit, 0, make).await;
        result.map_or_else(|answer| answer, |_| Answer::Accepted)
    }

    /// Sends that request too, and returns at most that many bytes of a good answer.
    ///
    /// # Errors
    /// Any other answer, or none.
    pub(crate) async fn fetch(
        &self,
        limit: Duration,
        most: usize,
        make: impl FnOnce(&Client, &str) -> RequestBuilder,
    ) -> Result<String, Answer> {
        let work = async {
            match make(&self.client, self.url.expose()).send().await {
                Ok(response) if response.status().is_success() => Ok(body(response, most).await),
                Ok(response) => Err(self.read(response).await),
                Err(error) => Err(Answer::failed(self.problem(error))),
            }
        };
        match tokio::time::timeout(limit, work).await {
            Ok(answer) => answer,
            Err(_) => Err(Answer::failed(format!(
                "no answer within {}",
                duration::text(limit)
            ))),
        }
    }

    fn problem(&self, error: reqwest::Error) -> String {
        let error = error.without_url();
        let text = self.shown(&without_request(&error));
        if causes(&error).any(<dyn Error>::is::<rustls::Error>) {
            return format!("{text}; add a private CA to CA_BUNDLE, and check this host's clock");
        }
        text
    }

    async fn read(&self, response: Response) -> Answer {
        let status = response.status();
        if status.is_redirection() {
            return Answer::failed(redirection(status, response.url(), response.headers()));
        }
        let retry_after = retry_after(response.headers());
        let body = self.shown(&words(body(response, MAX_BODY).await));
        let why = match body.as_str() {
            "" => format!("HTTP {}", status.as_u16()),
            body => format!("HTTP {}: {body}", status.as_u16()),
        };
        match status {
            StatusCode::GONE => Answer::Gone(why),
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => {
                Answer::Failed { why, retry_after }
            }
            // This answer comes from the proxy itself.
            StatusCode::PROXY_AUTHENTICATION_REQUIRED => Answer::Failed {
                why: "HTTP 407: the proxy requires a login; check PROXY_USER and PROXY_PASSWORD".to_owned(),
                retry_after,
            },
            status if status.is_client_error() => Answer::Rejected(why),
            _ => Answer::Failed { why, retry_after },
        }
    }

    /// A text from outside on one short line, without secrets.
    fn shown(&self, text: &str) -> String {
        one_line(&self.redactor.line(&without_markup(text)), MAX_SHOWN)
    }
}

fn redirection(status: StatusCode, url: &Url, headers: &HeaderMap) -> String {
    let location = headers.get(LOCATION).and_then(|location| location.to_str().ok());
    let to = location.map_or_else(String::new, |location| {
        format!(" to {}", redirected_to(url, location))
    });
    format!(
        "HTTP {}: it redirects{to}; redirects are not followed (the URL is a secret); use the final URL",
        status.as_u16()
    )
}

/// The receiver's pause, if it is given in seconds; a date is ignored.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?;
    duration::digits(text.trim()).map(Duration::from_secs)
}

/// The sentence in an error of Prometheus, or else the whole text.
fn words(body: String) -> String {
    let json = serde_json::from_str(&body).unwrap_or(serde_json::Value::Null);
    json["error"].as_str().map_or(body, str::to_owned)
}

/// The start of the body, as text.
async fn body(mut response: Response, most: usize) -> String {
    let mut body = Vec::new();
    while body.len() < most
        && let Ok(Some(chunk)) = response.chunk().await
    {
        body.extend(chunk.iter().take(most - body.len()));
    }
    String::from_utf8_lossy(&body).into_owned()
}
