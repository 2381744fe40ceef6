//! The REST beside the upgrade check, for administrators and their scripts: overrides, versions, delegates.

use axum::Router;
use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::{delete, get, post};
use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Manager;
use super::answer::{Refusal, granted, refused};
use super::asked::Asked;
use super::query::Query;
use super::resolve::{Tags, Wanted};
use super::scope::Scope;
use super::store::{By, Delegate, Replica, Store, in_words};
use super::support::{AutoUpgrade, Standing, Version};
use super::tokens::check_api_key;

/// A call that is allowed, and what it is about.
struct Call<'a> {
    store: &'a Store,
    query: &'a Query,
    scope: Scope,
    /// The API key, and the time in seconds since the epoch.
    by: By,
}

impl Call<'_> {
    /// The parameter `tags`: repeated, or as in Harness's documentation one value `a,tags=b`.
    fn tags(&self) -> Tags {
        let all = self.query.all("tags").flat_map(|value| value.split(','));
        let tags = all.map(|tag| tag.trim().trim_start_matches("tags="));
        tags.filter(|tag| !tag.is_empty()).map(str::to_owned).collect()
    }
}

type Outcome = Result<Value, Refusal>;

pub(super) fn router(prefix: &str) -> Router<Manager> {
    // Harness has the same API at both paths.
    ["/ng/api", "/gateway/ng/api"]
        .into_iter()
        .fold(Router::new(), |router, api| {
            let path = |call: &str| format!("{prefix}{api}/delegate-setup/{call}");
            router
                .route(&path("latest-supported-version"), get(latest_supported_version))
                .route(&path("override-delegate-tag"), get(overrides).put(set_override))
                .route(&path("delete-delegate-override"), delete(delete_override))
                .route(&path("listDelegates"), post(list_delegates))
                .route(&path("audit-trail"), get(audit_trail))
        })
}

async fn latest_supported_version(
    State(manager): State<Manager>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    manager.rest("latest-supported-version", query, &headers, |call| {
        let latest = call.store.latest()?.image.ok_or_else(|| {
            Refusal::invalid("no image is published yet; `manager publish IMAGE` publishes one")
        })?;
        let version = Version::of(&latest).ok_or_else(|| {
            Refusal::invalid(format!(
                "the published image {latest} has no version such as 26.02.88404 in its tag"
            ))
        })?;
        Ok(json!({
            "latestSupportedVersion": version.plain,
            "latestSupportedMinimalVersion": format!("{}.minimal", version.plain),
        }))
    })
}

async fn set_override(
    State(manager): State<Manager>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    manager.rest("override-delegate-tag", query, &headers, |call| {
        let image = call.query.get("delegateTag");
        let image = image.ok_or_else(|| Refusal::missing("delegateTag"))?;
        let till_next_release = match call.query.get("validTillNextRelease").unwrap_or("false") {
            "true" => true,
            "false" => false,
            other => {
                return Err(Refusal::invalid(format!(
                    "validTillNextRelease is {other:?}; it is true or false"
                )));
            }
        };
        let wanted = Wanted {
            tags: call.tags(),
            scope: call.scope,
            image: image.to_owned(),
            till_next_release,
            days: call.query.get("validForDays").map(str::to_owned),
        };
        let scope = wanted.scope.clone();
        call.store.audited(&call.by, "set override", &scope, |store| {
            let set = wanted
                .into_override(&store.latest()?, call.by.now)
                .map_err(Refusal::invalid)?;
            store.set_override(&set)?;
            let subject = format!("{} {}", set.image, in_words(&set.tags));
            let unknown = store.without_delegates(&set.scope, &set.tags)?;
            Ok((
                subject,
                json!(format!("Updated Delegate image tag to {}{unknown}", set.image)),
            ))
        })
    })
}

async fn overrides(
    State(manager): State<Manager>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    manager.rest("override-delegate-tag", query, &headers, |call| {
        let (latest, all) = (call.store.latest()?, call.store.overrides()?);
        let overrides: Vec<Value> = all
            .iter()
            .filter(|found| found.scope == call.scope && found.holds(&latest, call.by.now))
            .map(|found| {
                json!({
                    "version": found.image,
                    "orgIdentifier": found.scope.org(),
                    "projectIdentifier": found.scope.project(),
                    "tags": found.tags,
                    "validTillNextRelease": found.till_next_release,
                    "validUntil": found.valid_until * 1_000,
                })
            })
            .collect();
        Ok(json!({ "versionOverrides": overrides }))
    })
}

async fn delete_override(
    State(manager): State<Manager>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    manager.rest("delete-delegate-override", query, &headers, |call| {
        let tags = call.tags();
        call.store
            .audited(&call.by, "delete override", &call.scope, |store| {
                store.delete_override(&call.scope, &tags)?;
                Ok((in_words(&tags), json!("Deleted the override")))
            })
    })
}

async fn audit_trail(
    State(manager): State<Manager>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    manager.rest("audit-trail", query, &headers, |call| {
        let trail = call.store.audit_trail()?;
        let is_wanted = |above: Scope| above == call.scope;
        let entries = trail
            .into_iter()
            .filter(|entry| entry.scope.and_above().any(is_wanted));
        Ok(entries
            .map(|entry| {
                json!({
                    "timestamp": entry.at * 1_000,
                    "actor": entry.actor,
                    "action": entry.action,
                    "orgIdentifier": entry.scope.org(),
                    "projectIdentifier": entry.scope.project(),
                    "subject": entry.subject,
                })
            })
            .collect())
    })
}

/// The body of `listDelegates`: the fields of Harness's `DelegateFilterPropertiesDTO`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct Filter {
    /// Says only what kind of filter this is.
    #[serde(rename = "filterType")]
    _filter_type: Option<String>,
    delegate_name: Option<String>,
    /// Here, a delegate's group is named like the delegate.
    delegate_group_identifier: Option<String>,
    delegate_tags: Option<Tags>,
    host_name: Option<String>,
    status: Option<Status>,
    #[serde(rename = "delegateInstanceFilter")]
    instance: Option<InstanceStatus>,
    version_status: Option<VersionStatus>,
    auto_upgrade: Option<String>,
    /// Upgraders send none of these, so a value is refused.
    description: Value,
    delegate_type: Value,
    runner: Value,
    tags: Value,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Status {
    Connected,
    Disconnected,
    Enabled,
    WaitingForApproval,
    Disabled,
    Deleted,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum InstanceStatus {
    Available,
    Expired,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum VersionStatus {
    Active,
    Expiring,
    Expired,
    Unsupported,
}

impl VersionStatus {
    fn of(version: &Version, now: DateTime<Utc>) -> Self {
        match version.standing(now) {
            Standing::EndOfLife => Self::Unsupported,
            Standing::EndOfSupport => Self::Expired,
            Standing::Supported if version.expires_at() - now < TimeDelta::days(30) => Self::Expiring,
            Standing::Supported => Self::Active,
        }
    }
}

impl Filter {
    fn read(body: &[u8]) -> Result<Self, Refusal> {
        if body.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        let filter: Self = serde_json::from_slice(body).map_err(|error| {
            Refusal::invalid(format!(
                "the body: {error}; it is empty or {{\"delegateName\": …, \"delegateTags\": […]}}"
            ))
        })?;
        let is_empty = |value: &Value| matches!(value.to_string().as_str(), "null" | "\"\"" | "{}" | "false");
        let unknown = [
            ("description", &filter.description),
            ("delegateType", &filter.delegate_type),
            ("runner", &filter.runner),
            ("tags", &filter.tags),
        ];
        if let Some((name, _)) = unknown.into_iter().find(|(_, value)| !is_empty(value)) {
            return Err(Refusal::invalid(format!(
                "{name}: no upgrader tells a local Manager about it; leave it out"
            )));
        }
        Ok(filter)
    }

    fn wants(&self, delegate: &Delegate, now: DateTime<Utc>) -> bool {
        fn is<T: PartialEq>(wanted: Option<&T>, found: &T) -> bool {
            wanted.is_none_or(|wanted| wanted == found)
        }
        let auto_upgrade = delegate.auto_upgrade(now);
        let is_connected = matches!(auto_upgrade, AutoUpgrade::On | AutoUpgrade::Synchronizing);
        let of_replica = |replica: &Replica| {
            let version = Version::of(&replica.image);
            let status = version.map(|version| VersionStatus::of(&version, now));
            let is_expired = matches!(status, Some(VersionStatus::Expired | VersionStatus::Unsupported));
            let instance = if is_expired {
                InstanceStatus::Expired
            } else {
                InstanceStatus::Available
            };
            is(self.host_name.as_ref(), &replica.host)
                && is(self.instance.as_ref(), &instance)
                && self.version_status.is_none_or(|wanted| status == Some(wanted))
        };
        let of_any = self.host_name.is_none() && self.instance.is_none() && self.version_status.is_none();
        is(self.delegate_name.as_ref(), &delegate.name)
            && is(self.delegate_group_identifier.as_ref(), &delegate.name)
            && self
                .delegate_tags
                .as_ref()
                .is_none_or(|tags| tags.is_subset(&delegate.tags))
            && is(
                self.auto_upgrade.as_ref(),
                &format!("{auto_upgrade:?}").to_uppercase(),
            )
            && match self.status {
                None | Some(Status::Enabled) => true,
                Some(Status::Connected) => is_connected,
                Some(Status::Disconnected) => !is_connected,
                Some(Status::WaitingForApproval | Status::Disabled | Status::Deleted) => false,
            }
            && (of_any || delegate.current_replicas().any(of_replica))
    }
}

async fn list_delegates(
    State(manager): State<Manager>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    manager.rest("listDelegates", query, &headers, |call| {
        let filter = Filter::read(&body)?;
        let now = DateTime::from_timestamp(call.by.now, 0).unwrap_or_default();
        let all = call.store.delegates()?;
        let wanted = all
            .iter()
            .filter(|delegate| delegate.scope == call.scope && filter.wants(delegate, now));
        Ok(wanted.map(|delegate| shown(delegate, now)).collect())
    })
}

fn shown(delegate: &Delegate, now: DateTime<Utc>) -> Value {
    let replicas: Vec<Value> = delegate
        .current_replicas()
        .map(|replica| {
            let version = Version::of(&replica.image);
            let month = |month: chrono::NaiveDate| month.format("%Y-%m").to_string();
            json!({
                "hostName": replica.host,
                "image": replica.image,
                "version": version.as_ref().map(|version| &version.plain),
                "lastSeen": replica.seen_at * 1_000,
                "expiringAt": version.as_ref().map(|version| version.expires_at().timestamp_millis()),
                "endOfSupport": version.as_ref().map(|version| month(version.end_of_support())),
                "endOfLife": version.as_ref().map(|version| month(version.end_of_life())),
                "standing": version.as_ref().map(|version| version.standing(now)),
            })
        })
        .collect();
    json!({
        "name": delegate.name,
        "orgIdentifier": delegate.scope.org(),
        "projectIdentifier": delegate.scope.project(),
        "tags": delegate.tags,
        "createdAt": delegate.created_at * 1_000,
        "upgraderLastUpdated": delegate.asked_at.map(|asked| asked * 1_000),
        "autoUpgrade": delegate.auto_upgrade(now),
        "delegateReplicas": replicas,
    })
}

impl Manager {
    /// Checks who calls and what about, and answers.
    fn rest(
        &self,
        name: &'static str,
        query: Option<String>,
        headers: &HeaderMap,
        act: impl FnOnce(Call<'_>) -> Outcome,
    ) -> Response {
        let now = self.now();
        let query = Query::parse(&query.unwrap_or_default());
        let mut asked = Asked::new(name, now.timestamp_millis());
        asked.query = query.firsts();
        let outcome = self.permitted(&query, headers, &mut asked).and_then(|scope| {
            let by = By {
                actor: format!("key {}", asked.issuer.as_deref().unwrap_or_default()),
                now: now.timestamp(),
            };
            act(Call {
                store: &self.store(),
                query: &query,
                scope,
                by,
            })
        });
        let response = match outcome {
            Ok(resource) => granted(&resource),
            Err(refusal) => refused(&refusal),
        };
        self.note(asked, &response);
        response
    }

    fn permitted(&self, query: &Query, headers: &HeaderMap, asked: &mut Asked) -> Result<Scope, Refusal> {
        let store = self.store();
        asked.issuer = Some(check_api_key(&store, headers)?);
        let account = query.get("accountIdentifier");
        let account = account.ok_or_else(|| Refusal::missing("accountIdentifier"))?;
        if account != store.account() {
            return Err(Refusal::access_denied());
        }
        Scope::new(query.get("orgIdentifier"), query.get("projectIdentifier")).map_err(Refusal::invalid)
    }
}
