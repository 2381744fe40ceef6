//! The Manager itself: a router that answers as the real one does.

#![allow(
    dead_code,
    reason = "the program uses a part of it, and each of the tests another"
)]

mod control;
mod query;

use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use delegate_upgrader::manager::token::{self, KEY_LEN};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use query::Query;

const HARNESS_ERROR: HeaderName = HeaderName::from_static("x-harness-error");

/// How many questions are remembered.
const MOST_REMEMBERED: usize = 10_000;

/// What a local Manager is started with.
#[derive(Clone, Default)]
pub(crate) struct Settings {
    /// The one account it knows.
    pub(crate) account: String,
    /// The account's delegate tokens, in either form.
    pub(crate) tokens: Vec<String>,
    /// Those that were revoked.
    pub(crate) revoked_tokens: Vec<String>,
    /// The delegate image published at first.
    pub(crate) published: String,
    /// The upgrader image published.
    pub(crate) published_upgrader: String,
    /// A path in front of the protocol's own: empty, or `/gratis`.
    pub(crate) prefix: String,
    /// Whether each request is a line on standard output.
    pub(crate) print: bool,
}

/// A local Manager. Cloning it gives another handle to the same one.
#[derive(Clone)]
pub(crate) struct Manager(Arc<Inner>);

struct Inner {
    account: String,
    keys: Vec<[u8; KEY_LEN]>,
    revoked_keys: Vec<[u8; KEY_LEN]>,
    published_upgrader: String,
    prefix: String,
    print: bool,
    state: Mutex<Lab>,
}

/// What the control API changes and shows.
#[derive(Default)]
struct Lab {
    published: String,
    published_by_group: BTreeMap<String, String>,
    fault: Option<Fault>,
    requests: VecDeque<Asked>,
}

/// A wrong answer, or a late one, instead of the right one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Fault {
    /// The status; without one the answer is the right one.
    pub(crate) status: Option<u16>,
    /// How many questions get it; all of them if not given.
    pub(crate) times: Option<u32>,
    /// The code in the envelope and in `X-Harness-Error`.
    pub(crate) code: Option<String>,
    /// The message in the envelope.
    pub(crate) message: Option<String>,
    /// The body as it is, instead of an envelope.
    pub(crate) body: Option<String>,
    /// Further headers.
    pub(crate) headers: BTreeMap<String, String>,
    /// Milliseconds to wait before answering.
    pub(crate) delay_ms: u64,
}

/// A question that was asked, and how it was answered.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Asked {
    /// Milliseconds since the epoch.
    pub(crate) at_ms: u64,
    /// `delegate-v2`, `delegate` or `upgrader`.
    pub(crate) endpoint: &'static str,
    /// The query, decoded.
    pub(crate) query: BTreeMap<String, String>,
    /// The host that asked, as its token says.
    pub(crate) issuer: Option<String>,
    /// The status of the answer.
    pub(crate) status: u16,
    /// The image in the answer.
    pub(crate) image_tag: Option<String>,
    /// The code of the error in the answer.
    pub(crate) code: Option<String>,
}

/// The questions an upgrader has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Endpoint {
    DelegateV2,
    Delegate,
    Upgrader,
}

impl Endpoint {
    fn name(self) -> &'static str {
        match self {
            Self::DelegateV2 => "delegate-v2",
            Self::Delegate => "delegate",
            Self::Upgrader => "upgrader",
        }
    }

    fn image_parameter(self) -> &'static str {
        match self {
            Self::DelegateV2 | Self::Delegate => "currentDelegateImageTag",
            Self::Upgrader => "currentUpgraderImageTag",
        }
    }
}

/// An error as the Manager tells it.
struct Refusal {
    status: StatusCode,
    code: String,
    message: String,
}

impl Refusal {
    fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self {
            status,
            code: code.to_owned(),
            message: message.into(),
        }
    }
}

impl Manager {
    /// A Manager that has not been asked anything yet.
    pub(crate) fn new(settings: Settings) -> Result<Self, String> {
        let keys = |tokens: &[String]| {
            tokens
                .iter()
                .map(|token| {
                    token::key_from_text(token)
                        .ok_or("a delegate token is 32 hex digits, or the base64 of those".to_owned())
                })
                .collect::<Result<Vec<_>, _>>()
        };
        let prefix = settings.prefix.trim_end_matches('/').to_owned();
        let is_path = prefix.starts_with('/') && !prefix.contains(['{', '}', '*', '?', '#']);
        if !prefix.is_empty() && !is_path {
            return Err(format!("the prefix {prefix:?} is no path such as /gratis"));
        }
        Ok(Self(Arc::new(Inner {
            keys: keys(&settings.tokens)?,
            revoked_keys: keys(&settings.revoked_tokens)?,
            account: settings.account,
            published_upgrader: settings.published_upgrader,
            prefix,
            print: settings.print,
            state: Mutex::new(Lab {
                published: settings.published,
                ..Lab::default()
            }),
        })))
    }

    /// The protocol below the prefix, and the control API under `/local/`.
    pub(crate) fn router(&self) -> Router {
        let question = |endpoint: Endpoint| {
            get(
                move |State(manager): State<Self>, query: RawQuery, headers: HeaderMap| async move {
                    manager.answer(endpoint, query, &headers).await
                },
            )
        };
        let path = |endpoint: Endpoint| format!("{}/api/upgrade-check/{}", self.0.prefix, endpoint.name());
        let mut router = control::router();
        for endpoint in [Endpoint::DelegateV2, Endpoint::Delegate, Endpoint::Upgrader] {
            router = router.route(&path(endpoint), question(endpoint));
        }
        router.with_state(self.clone())
    }

    /// What it serves, on one line.
    pub(crate) fn summary(&self) -> String {
        format!(
            "account {}, path {}/api, published {}",
            self.0.account,
            self.0.prefix,
            self.lab().published
        )
    }

    /// Publishes an image for every delegate without one of its own.
    pub(crate) fn publish(&self, image: impl Into<String>) {
        self.lab().published = image.into();
    }

    /// The next questions get this answer.
    pub(crate) fn fail(&self, fault: Fault) {
        self.lab().fault = Some(fault);
    }

    /// What was asked so far.
    pub(crate) fn requests(&self) -> Vec<Asked> {
        self.lab().requests.iter().cloned().collect()
    }

    fn lab(&self) -> MutexGuard<'_, Lab> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, endpoint: Endpoint, RawQuery(query): RawQuery, headers: &HeaderMap) -> Response {
        let mut asked = Asked {
            at_ms: u64::try_from(since_epoch().as_millis()).unwrap_or(u64::MAX),
            endpoint: endpoint.name(),
            query: BTreeMap::new(),
            issuer: None,
            status: 200,
            image_tag: None,
            code: None,
        };
        let judged = self.judge(
            endpoint,
            query.as_deref().unwrap_or_default(),
            headers,
            &mut asked,
        );
        let fault = self.take_fault();
        if let Some(fault) = &fault {
            tokio::time::sleep(Duration::from_millis(fault.delay_ms)).await;
        }
        let response = match (fault, judged) {
            (Some(fault), _) if fault.status.is_some() => {
                asked.image_tag = None;
                faulty(fault)
            }
            (_, Ok(resource)) => {
                let envelope = json!({ "metaData": {}, "resource": resource, "responseMessages": [] });
                json_response(StatusCode::OK, &envelope)
            }
            (_, Err(refusal)) => refused(&refusal),
        };
        asked.status = response.status().as_u16();
        asked.code = response
            .headers()
            .get(HARNESS_ERROR)
            .and_then(|code| Some(code.to_str().ok()?.to_owned()));
        self.note(asked);
        response
    }

    /// The right answer.
    fn judge(
        &self,
        endpoint: Endpoint,
        query: &str,
        headers: &HeaderMap,
        asked: &mut Asked,
    ) -> Result<Value, Refusal> {
        let query = Query::parse(query);
        asked.query = query.all();
        let missing = |name: &str| {
            Refusal::new(
                StatusCode::BAD_REQUEST,
                "INVALID_ARGUMENT",
                format!("query parameter {name} is missing"),
            )
        };
        let account = query.get("accountId").ok_or_else(|| missing("accountId"))?;
        if account != self.0.account {
            return Err(Refusal::new(
                StatusCode::BAD_REQUEST,
                "INVALID_REQUEST",
                "Access denied",
            ));
        }
        asked.issuer = Some(self.check_token(headers)?);
        let image = endpoint.image_parameter();
        let current = query.get(image).ok_or_else(|| missing(image))?;
        let group = query.get("delegateGroupName");
        if endpoint == Endpoint::DelegateV2 && group.is_none() {
            // The real one trips over the null, too.
            return Err(Refusal::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "UNKNOWN_ERROR",
                "delegateGroupName is null",
            ));
        }
        let published = match endpoint {
            Endpoint::Upgrader => self.0.published_upgrader.clone(),
            Endpoint::DelegateV2 | Endpoint::Delegate => self.published_for(group),
        };
        let should_upgrade = self.without_account_suffix(current) != published;
        asked.image_tag = Some(published.clone());
        Ok(json!({ "imageTag": published, "shouldUpgrade": should_upgrade }))
    }

    fn published_for(&self, group: Option<&str>) -> String {
        let lab = self.lab();
        group
            .and_then(|group| lab.published_by_group.get(group))
            .unwrap_or(&lab.published)
            .clone()
    }

    /// Whoever asks, as the token says; the Manager checks that it decrypts, and `exp`.
    fn check_token(&self, headers: &HeaderMap) -> Result<String, Refusal> {
        let unauthorised = |code, message: &str| Refusal::new(StatusCode::UNAUTHORIZED, code, message);
        let compact = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok()?.strip_prefix("Delegate "))
            .ok_or_else(|| unauthorised("INVALID_TOKEN", "Token is not valid"))?;
        let open = |keys: &[[u8; KEY_LEN]]| keys.iter().find_map(|key| token::open(key, compact).ok());
        let Some(claims) = open(&self.0.keys) else {
            return Err(if open(&self.0.revoked_keys).is_some() {
                unauthorised("REVOKED_TOKEN", "Token is revoked")
            } else {
                unauthorised("INVALID_TOKEN", "Token is not valid")
            });
        };
        let now = i64::try_from(since_epoch().as_secs()).unwrap_or(i64::MAX);
        if claims.exp <= now {
            return Err(unauthorised("EXPIRED_TOKEN", "Token has expired"));
        }
        Ok(claims.iss)
    }

    /// The Manager strips `-<first six letters of the lower-cased account id>`, and nothing else.
    fn without_account_suffix<'a>(&self, image: &'a str) -> &'a str {
        let account: String = self.0.account.to_lowercase().chars().take(6).collect();
        image.strip_suffix(&format!("-{account}")).unwrap_or(image)
    }

    fn take_fault(&self) -> Option<Fault> {
        let mut lab = self.lab();
        let fault = lab.fault.as_mut()?;
        match &mut fault.times {
            None => Some(fault.clone()),
            Some(0) => {
                lab.fault = None;
                None
            }
            Some(times) => {
                *times -= 1;
                Some(fault.clone())
            }
        }
    }

    fn note(&self, asked: Asked) {
        if self.0.print {
            // Whoever read the lines may be gone; the Manager goes on.
            let _ = writeln!(std::io::stdout(), "{}", line(&asked));
        }
        let mut lab = self.lab();
        if lab.requests.len() == MOST_REMEMBERED {
            lab.requests.pop_front();
        }
        lab.requests.push_back(asked);
    }
}

fn line(asked: &Asked) -> String {
    let mut words = vec![clock(asked.at_ms), asked.endpoint.to_owned()];
    let mut say = |text: &str| words.push(text.escape_debug().to_string());
    for name in [
        "delegateGroupName",
        "currentDelegateImageTag",
        "currentUpgraderImageTag",
    ] {
        asked.query.get(name).into_iter().for_each(|value| say(value));
    }
    say(&format!("-> {}", asked.status));
    [&asked.code, &asked.image_tag]
        .into_iter()
        .flatten()
        .for_each(|text| say(text));
    words.join(" ")
}

/// `12:34:56Z`
fn clock(at_ms: u64) -> String {
    let seconds = at_ms / 1_000 % 86_400;
    format!(
        "{:02}:{:02}:{:02}Z",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    )
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn json_response(status: StatusCode, body: &Value) -> Response {
    (
        status,
        [(header::CONTENT_TYPE, "application/json")],
        body.to_string(),
    )
        .into_response()
}

fn refused(refusal: &Refusal) -> Response {
    let mut response = json_response(
        refusal.status,
        &json!({
            "metaData": {},
            "resource": null,
            "responseMessages": [{
                "code": refusal.code,
                "level": "ERROR",
                "message": refusal.message,
                "exception": null,
                "failureTypes": [],
            }],
        }),
    );
    if let Ok(code) = HeaderValue::from_str(&refusal.code) {
        response.headers_mut().insert(HARNESS_ERROR, code);
    }
    response
}

fn faulty(fault: Fault) -> Response {
    let status = fault
        .status
        .and_then(|status| StatusCode::from_u16(status).ok())
        .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = match fault.body {
        Some(body) => (status, Body::from(body)).into_response(),
        None => refused(&Refusal {
            status,
            code: fault.code.unwrap_or_else(|| "UNKNOWN_ERROR".to_owned()),
            message: fault
                .message
                .unwrap_or_else(|| "a fault set under /local/fault".to_owned()),
        }),
    };
    for (name, value) in fault.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
