//! The Manager itself: a router that answers as the real one does.

mod answer;
mod asked;
mod check;
mod control;
mod fault;
mod jwe;
mod query;
pub(crate) mod resolve;
mod rest;
pub(crate) mod scope;
pub(crate) mod store;
pub(crate) mod support;
pub(crate) mod tokens;

use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::response::Response;
use chrono::{DateTime, Utc};
use delegate_upgrader::manager::DelegateToken;

pub(crate) use asked::Asked;
pub(crate) use fault::Fault;
use scope::Scope;
use store::{Kind, Store, StoreError};

/// How many questions are remembered.
const MOST_REMEMBERED: usize = 10_000;

/// The settings that a local Manager starts with.
#[derive(Clone, Default)]
pub(crate) struct Settings {
    /// The one account it knows; empty takes the database's.
    pub(crate) account: String,
    /// The file of what it knows. Without one that is in memory.
    pub(crate) database: Option<PathBuf>,
    /// Delegate tokens of the account's, in either form. The four settings from here on are for one in memory.
    pub(crate) tokens: Vec<String>,
    /// Those that were revoked.
    pub(crate) revoked_tokens: Vec<String>,
    /// API keys.
    pub(crate) api_keys: Vec<String>,
    /// The delegate image published at first, if not empty.
    pub(crate) published: String,
    /// The upgrader image published, if not empty.
    pub(crate) published_upgrader: String,
    /// A path in front of the protocol's own: empty, or `/gratis`.
    pub(crate) prefix: String,
    /// Whether each request is a line on standard output.
    pub(crate) print: bool,
    pub(crate) clock: Clock,
}

#[derive(Clone, Copy)]
pub(crate) struct Clock(pub(crate) fn() -> DateTime<Utc>);

impl Default for Clock {
    fn default() -> Self {
        Self(Utc::now)
    }
}

/// A local Manager. Cloning it gives another handle to the same one.
#[derive(Clone)]
pub(crate) struct Manager(Arc<Inner>);

struct Inner {
    prefix: String,
    print: bool,
    clock: Clock,
    has_control: bool,
    /// Its calls take well under a millisecond, so even async code makes them in place.
    store: Mutex<Store>,
    lab: Mutex<Lab>,
}

/// The state that the control API changes and shows, beside the store.
#[derive(Default)]
struct Lab {
    published_by_group: BTreeMap<String, String>,
    fault: Option<Fault>,
    requests: VecDeque<Asked>,
}

impl Manager {
    /// A Manager that has not been asked anything yet.
    pub(crate) fn new(settings: &Settings) -> Result<Self, String> {
        let prefix = settings.prefix.trim_end_matches('/').to_owned();
        let is_path = prefix.starts_with('/') && !prefix.contains(['{', '}', '*', '?', '#']);
        if !prefix.is_empty() && !is_path {
            return Err(format!("the prefix {prefix:?} is not a path such as /gratis"));
        }
        let store = match &settings.database {
            Some(path) => {
                let account = Some(settings.account.as_str()).filter(|account| !account.is_empty());
                Store::create(path, account)?
            }
            None => in_memory(settings)?,
        };
        Ok(Self(Arc::new(Inner {
            prefix,
            print: settings.print,
            clock: settings.clock,
            has_control: settings.database.is_none(),
            store: Mutex::new(store),
            lab: Mutex::default(),
        })))
    }

    /// The protocol and the REST below the prefix. The control API under `/local/` asks nobody who they are, so it is
    /// there only if nothing is kept.
    pub(crate) fn router(&self) -> Router {
        let mut router = check::router(&self.0.prefix).merge(rest::router(&self.0.prefix));
        if self.0.has_control {
            router = router.merge(control::router());
        }
        router.with_state(self.clone())
    }

    /// Its account, its path and the published image, on one line.
    pub(crate) fn summary(&self) -> Result<String, StoreError> {
        let store = self.store();
        let published = store.latest()?.image;
        Ok(format!(
            "account {}, path {}/api, published {}",
            store.account(),
            self.0.prefix,
            published.as_deref().unwrap_or("nothing yet")
        ))
    }

    /// Publishes an image for every delegate without one of its own.
    pub(crate) fn publish(&self, image: impl AsRef<str>) -> Result<(), StoreError> {
        self.store().publish(image.as_ref(), self.now().timestamp())
    }

    /// The next questions get this answer.
    pub(crate) fn fail(&self, fault: Fault) {
        self.lab().fault = Some(fault);
    }

    /// The questions so far, as many as it remembers.
    pub(crate) fn requests(&self) -> Vec<Asked> {
        self.lab().requests.iter().cloned().collect()
    }

    pub(crate) fn store(&self) -> MutexGuard<'_, Store> {
        self.0.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lab(&self) -> MutexGuard<'_, Lab> {
        self.0.lab.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn published_in_lab(&self, group: &str) -> Option<String> {
        self.lab().published_by_group.get(group).cloned()
    }

    fn now(&self) -> DateTime<Utc> {
        (self.0.clock.0)()
    }

    /// Tells a question, and remembers it for the control API, with the status and code of its answer.
    fn note(&self, mut asked: Asked, response: &Response) {
        asked.status = response.status().as_u16();
        asked.code = response
            .headers()
            .get(answer::HARNESS_ERROR)
            .and_then(|code| Some(code.to_str().ok()?.to_owned()));
        if self.0.print {
            // The reader of the lines may be gone; the Manager continues.
            let _ = writeln!(std::io::stdout(), "{}", asked.line());
        }
        // Only the control API shows them.
        if !self.0.has_control {
            return;
        }
        let mut lab = self.lab();
        if lab.requests.len() == MOST_REMEMBERED {
            lab.requests.pop_front();
        }
        lab.requests.push_back(asked);
    }
}

fn in_memory(settings: &Settings) -> Result<Store, String> {
    let now = settings.clock.0().timestamp();
    let store = Store::in_memory(&settings.account)?;
    if !settings.published.is_empty() {
        store.publish(&settings.published, now)?;
    }
    if !settings.published_upgrader.is_empty() {
        store.publish_upgrader(&settings.published_upgrader)?;
    }
    for (number, value) in settings.api_keys.iter().enumerate() {
        store.add_api_key(&format!("key-{number}"), value, now)?;
    }
    let all = settings.tokens.iter().chain(&settings.revoked_tokens);
    for (number, text) in all.enumerate() {
        let token =
            DelegateToken::parse(text).ok_or("a delegate token is 32 hex digits, or the base64 of those")?;
        let name = format!("token-{number}");
        store.add_token(&name, token.key(), &Scope::Account, now)?;
        if number >= settings.tokens.len() {
            store.revoke(Kind::Token, &name, now)?;
        }
    }
    Ok(store)
}
