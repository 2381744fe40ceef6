//! The upgrade check: which image is published for a delegate or for the upgrader that asks.

use std::time::Duration;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::get;
use serde_json::{Value, json};

use super::Manager;
use super::answer::{Refusal, granted, refused};
use super::asked::Asked;
use super::fault::Fault;
use super::query::Query;
use super::resolve::{Tags, resolve};
use super::tokens::{Asker, check_token};

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

pub(super) fn router(prefix: &str) -> Router<Manager> {
    let mut router = Router::new();
    for endpoint in [Endpoint::DelegateV2, Endpoint::Delegate, Endpoint::Upgrader] {
        let path = format!("{prefix}/api/upgrade-check/{}", endpoint.name());
        let answer = move |State(manager): State<Manager>, RawQuery(query): RawQuery, headers: HeaderMap| async move {
            let query = Query::parse(query.as_deref().unwrap_or_default());
            manager.answer(endpoint, query, &headers).await
        };
        router = router.route(&path, get(answer));
    }
    router
}

impl Manager {
    async fn answer(&self, endpoint: Endpoint, query: Query, headers: &HeaderMap) -> Response {
        let mut asked = Asked::new(endpoint.name(), self.now().timestamp_millis());
        asked.query = query.firsts();
        let fault = Fault::take(&mut self.lab().fault);
        let is_wrong = fault.as_ref().is_some_and(|fault| fault.status.is_some());
        let judged = self.judge(endpoint, &query, headers, &mut asked, !is_wrong);
        if let Some(fault) = &fault {
            tokio::time::sleep(Duration::from_millis(fault.delay_ms)).await;
        }
        let response = match (fault, judged) {
            (Some(fault), _) if is_wrong => {
                asked.image_tag = None;
                fault.into_response()
            }
            (_, Ok(resource)) => granted(&resource),
            (_, Err(refusal)) => refused(&refusal),
        };
        self.note(asked, &response);
        response
    }

    /// The right answer; `stamps` is false if it will not be given.
    fn judge(
        &self,
        endpoint: Endpoint,
        query: &Query,
        headers: &HeaderMap,
        asked: &mut Asked,
        stamps: bool,
    ) -> Result<Value, Refusal> {
        let now = self.now().timestamp();
        let store = self.store();
        let account = query
            .get("accountId")
            .ok_or_else(|| Refusal::missing("accountId"))?;
        if account != store.account() {
            return Err(Refusal::access_denied());
        }
        let Asker { host, scope } = check_token(&store, headers, now)?;
        asked.issuer = Some(host.clone());
        let image = endpoint.image_parameter();
        let current = query.get(image).ok_or_else(|| Refusal::missing(image))?;
        let current = without_account_suffix(current, store.account());
        let group = query.get("delegateGroupName");
        let published = match (endpoint, group) {
            (Endpoint::Upgrader, _) => store.published_upgrader()?,
            (Endpoint::DelegateV2, None) => {
                // The real one also trips over the null.
                return Err(Refusal::new(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "UNKNOWN_ERROR",
                    "delegateGroupName is null",
                ));
            }
            (Endpoint::DelegateV2 | Endpoint::Delegate, group) => {
                let tags = group.map_or(Ok(Tags::new()), |group| store.tags_of(&scope, group))?;
                let found = resolve(&scope, &tags, &store.overrides()?, &store.latest()?, now);
                group.and_then(|group| self.published_in_lab(group)).or(found)
            }
        };
        if let (Endpoint::DelegateV2, Some(group), true) = (endpoint, group, stamps) {
            store.stamp(&scope, group, &host, current, now)?;
            if published.as_deref() == Some(current) {
                store.note_synchronized(&scope, group)?;
            }
        }
        let published = published.ok_or_else(|| {
            Refusal::invalid("no image is published yet; `manager publish IMAGE` publishes one")
        })?;
        let should_upgrade = current != published;
        asked.image_tag = Some(published.clone());
        Ok(json!({ "imageTag": published, "shouldUpgrade": should_upgrade }))
    }
}

/// The Manager strips `-<first six letters of the lower-cased account id>`, and nothing else.
fn without_account_suffix<'a>(image: &'a str, account: &str) -> &'a str {
    let account: String = account.to_lowercase().chars().take(6).collect();
    image.strip_suffix(&format!("-{account}")).unwrap_or(image)
}
