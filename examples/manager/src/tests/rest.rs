//! The local Manager's REST, and the answers that the client gets after it was used.

use chrono::{DateTime, Utc};
use delegate_upgrader::manager::{HttpManager, ImageSource as _, ManagerConfig, ManagerError};
use reqwest::Method;
use serde_json::{Value, json};

use super::protocol::{Local, settings, start};
use crate::service::scope::Scope;
use crate::service::store::{Kind, Store};
use crate::service::{Clock, Settings};
use kit::manager::{ACCOUNT, client, config, reference};

const API_KEY: &str = "an-api-key";
const PUBLISHED: &str = "harness/delegate:26.03.88501";

async fn site() -> Local {
    let local = start(Settings {
        api_keys: vec![API_KEY.to_owned()],
        ..settings()
    })
    .await;
    // The client installs the cryptography that every HTTP client of this process needs.
    drop(client(&local.url));
    local
}

struct Answer {
    status: u16,
    code: Option<String>,
    body: Value,
}

impl Answer {
    fn message(&self) -> &str {
        self.body["responseMessages"][0]["message"]
            .as_str()
            .unwrap_or_default()
    }
}

impl Local {
    async fn call(&self, method: Method, call: &str, key: Option<&str>, body: &str) -> Answer {
        let http = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .build()
            .unwrap();
        let url = format!("{}/ng/api/delegate-setup/{call}", self.url);
        let mut request = http.request(method, url).body(body.to_owned());
        if let Some(key) = key {
            request = request.header("x-api-key", key);
        }
        let response = request.send().await.unwrap();
        let code = response.headers().get("x-harness-error");
        let code = code.map(|code| code.to_str().unwrap().to_owned());
        let status = response.status().as_u16();
        let text = response.text().await.unwrap();
        Answer {
            status,
            code,
            body: serde_json::from_str(&text).unwrap_or(Value::String(text)),
        }
    }

    /// A call that has to succeed; its resource. `QUERY` comes after the account.
    async fn done(&self, method: Method, call: &str, query: &str) -> Value {
        let call = format!("{call}?accountIdentifier={ACCOUNT}{query}");
        let mut answer = self.call(method, &call, Some(API_KEY), "").await;
        assert_eq!(
            (answer.status, answer.code),
            (200, None),
            "{call}: {}",
            answer.body
        );
        answer.body["resource"].take()
    }

    async fn set(&self, query: &str) -> Value {
        self.done(Method::PUT, "override-delegate-tag", query).await
    }

    async fn overrides(&self, query: &str) -> Value {
        self.done(Method::GET, "override-delegate-tag", query).await["versionOverrides"].take()
    }

    async fn delegates(&self, query: &str) -> Value {
        self.done(Method::POST, "listDelegates", query).await
    }

    /// A token of a scope, and the client that has it.
    fn client_of(&self, name: &str, key: u8, scope: &Scope) -> HttpManager {
        self.manager
            .store()
            .add_token(name, &[key; 16], scope, 0)
            .unwrap();
        HttpManager::new(ManagerConfig {
            reports_upgrader: true,
            ..ManagerConfig::new(kit::manager::settings(&self.url, [key; 16]), "host-1")
        })
        .unwrap()
    }
}

async fn image(client: &HttpManager, delegate: &str) -> String {
    let current = reference("harness/delegate:26.02.88404");
    client.published(&current, delegate).await.unwrap().to_string()
}

#[tokio::test]
async fn an_override_is_what_the_clients_of_its_scope_are_told() {
    let local = site().await;
    let org = Scope::new(Some("o"), None).unwrap();
    let project = Scope::new(Some("o"), Some("p")).unwrap();
    let account = client(&local.url);
    let of_org = local.client_of("org", 1, &org);
    let of_project = local.client_of("project", 2, &project);
    let tagged = ["linux".to_owned(), "big".to_owned()].into();
    local
        .manager
        .store()
        .register(&project, "tagged", &tagged, 0)
        .unwrap();
    let told = async || {
        [
            image(&account, "plain").await,
            image(&of_org, "plain").await,
            image(&of_project, "plain").await,
            image(&of_project, "tagged").await,
        ]
    };
    assert_eq!(told().await, [PUBLISHED; 4]);

    let said = local.set("&orgIdentifier=o&delegateTag=own/delegate:1").await;
    assert_eq!(said, "Updated Delegate image tag to own/delegate:1");
    let own = "own/delegate:1";
    assert_eq!(told().await, [PUBLISHED, own, own, own]);

    // As Harness's documentation writes several tags.
    local.set("&delegateTag=own/delegate:2&tags=linux,tags=big").await;
    assert_eq!(told().await, [PUBLISHED, own, own, "own/delegate:2"]);

    local.set("&orgIdentifier=o&delegateTag=own/delegate:3").await;
    let own = "own/delegate:3";
    assert_eq!(told().await, [PUBLISHED, own, own, "own/delegate:2"]);

    local
        .done(Method::DELETE, "delete-delegate-override", "&tags=big,linux")
        .await;
    local
        .done(Method::DELETE, "delete-delegate-override", "&orgIdentifier=o")
        .await;
    assert_eq!(told().await, [PUBLISHED; 4]);

    // The name of a delegate is one of its tags, and a version alone is one of Harness's images.
    local.set("&delegateTag=26.04.82804.minimal&tags=plain").await;
    let minimal = "harness/delegate:26.04.82804.minimal";
    assert_eq!(told().await, [minimal, minimal, minimal, PUBLISHED]);

    let trail = local.done(Method::GET, "audit-trail", "&orgIdentifier=o").await;
    let trail = trail.as_array().unwrap();
    let by_key = trail.iter().filter(|entry| entry["actor"] == "key key-0");
    let by_key: Vec<_> = by_key
        .map(|entry| {
            (
                entry["action"].as_str().unwrap(),
                entry["subject"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        by_key,
        [
            ("set override", "own/delegate:1 without tags"),
            ("set override", "own/delegate:3 without tags"),
            ("delete override", "without tags"),
        ]
    );
    assert_eq!(trail[0]["actor"], "SYSTEM");
    let of_account = local.done(Method::GET, "audit-trail", "").await;
    assert!(of_account.as_array().unwrap().len() > trail.len());
}

#[tokio::test]
async fn overrides_are_shown_per_scope_until_they_are_over() {
    let local = site().await;
    local.set("&delegateTag=a:1&validForDays=2").await;
    local
        .set("&delegateTag=a:2&tags=x&tags=b&validTillNextRelease=true")
        .await;
    local
        .set("&delegateTag=a:3&orgIdentifier=o&projectIdentifier=p")
        .await;
    let shown = local.overrides("").await;
    let until = shown[0]["validUntil"].as_i64().unwrap() - Utc::now().timestamp_millis();
    assert!((172_700_000..=172_800_000).contains(&until), "{until}");
    assert_eq!(
        (
            &shown[0]["version"],
            &shown[0]["tags"],
            &shown[0]["orgIdentifier"]
        ),
        (&json!("a:1"), &json!([]), &Value::Null)
    );
    assert_eq!(
        (
            &shown[1]["version"],
            &shown[1]["tags"],
            &shown[1]["validTillNextRelease"]
        ),
        (&json!("a:2"), &json!(["b", "x"]), &json!(true))
    );
    local.manager.publish("a:4").unwrap();
    assert_eq!(local.overrides("").await.as_array().unwrap().len(), 1);
    let of_project = local.overrides("&orgIdentifier=o&projectIdentifier=p").await;
    assert_eq!(
        (&of_project[0]["version"], &of_project[0]["projectIdentifier"]),
        (&json!("a:3"), &json!("p"))
    );
    assert_eq!(local.overrides("&orgIdentifier=o").await, json!([]));
}

#[tokio::test]
async fn the_latest_version_is_the_published_one_and_its_minimal_variant() {
    let local = site().await;
    local.set("&delegateTag=own/delegate:1").await;
    for image in [PUBLISHED, "mirror:5000/harness/delegate:26.03.88501.minimal"] {
        local.manager.publish(image).unwrap();
        assert_eq!(
            local.done(Method::GET, "latest-supported-version", "").await,
            json!({
                "latestSupportedVersion": "26.03.88501",
                "latestSupportedMinimalVersion": "26.03.88501.minimal",
            })
        );
    }
}

#[tokio::test]
async fn whatever_is_wrong_with_a_call_is_told_and_changes_nothing() {
    let local = site().await;
    local.set("&delegateTag=a:1").await;
    let known = format!("?accountIdentifier={ACCOUNT}");
    let put = format!("override-delegate-tag{known}");
    let delete = format!("delete-delegate-override{known}");
    let list = format!("listDelegates{known}");
    let key = Some(API_KEY);
    for (method, call, key, body, status, code, words) in [
        (
            Method::PUT,
            put.clone(),
            None,
            "",
            401,
            "INVALID_TOKEN",
            "x-api-key",
        ),
        (
            Method::PUT,
            put.clone(),
            Some("other"),
            "",
            401,
            "INVALID_TOKEN",
            "not known",
        ),
        (
            Method::PUT,
            "override-delegate-tag?accountIdentifier=x&delegateTag=a:2".to_owned(),
            key,
            "",
            400,
            "INVALID_REQUEST",
            "Access denied",
        ),
        (
            Method::PUT,
            "override-delegate-tag?delegateTag=a:2".to_owned(),
            key,
            "",
            400,
            "INVALID_ARGUMENT",
            "accountIdentifier",
        ),
        (
            Method::PUT,
            put.clone(),
            key,
            "",
            400,
            "INVALID_ARGUMENT",
            "delegateTag",
        ),
        (
            Method::PUT,
            format!("{put}&delegateTag=A%20B"),
            key,
            "",
            400,
            "INVALID_REQUEST",
            "harness/delegate:26.02.88404",
        ),
        (
            Method::PUT,
            format!("{put}&delegateTag=a:2&validForDays=181"),
            key,
            "",
            400,
            "INVALID_REQUEST",
            "1 to 180",
        ),
        (
            Method::PUT,
            format!("{put}&delegateTag=a:2&validTillNextRelease=yes"),
            key,
            "",
            400,
            "INVALID_REQUEST",
            "true or false",
        ),
        (
            Method::PUT,
            format!("{put}&delegateTag=a:2&projectIdentifier=p"),
            key,
            "",
            400,
            "INVALID_REQUEST",
            "organisation",
        ),
        (
            Method::DELETE,
            format!("{delete}&tags=x"),
            key,
            "",
            400,
            "INVALID_REQUEST",
            "one without tags",
        ),
        (
            Method::POST,
            list.clone(),
            key,
            r#"{"delegateType": "DOCKER"}"#,
            400,
            "INVALID_REQUEST",
            "delegateType: no upgrader tells",
        ),
        (
            Method::POST,
            list.clone(),
            key,
            r#"{"state": "CONNECTED"}"#,
            400,
            "INVALID_REQUEST",
            "delegateName",
        ),
    ] {
        let answer = local.call(method, &call, key, body).await;
        assert_eq!(answer.status, status, "{call}: {}", answer.body);
        assert_eq!(answer.code.as_deref(), Some(code), "{call}");
        assert_eq!(answer.body["resource"], Value::Null, "{call}");
        assert!(answer.message().contains(words), "{call}: {}", answer.body);
    }
    let shown = local.overrides("").await;
    assert_eq!(
        (&shown[0]["version"], shown.as_array().unwrap().len()),
        (&json!("a:1"), 1)
    );
}

#[tokio::test]
async fn a_revoked_api_key_opens_nothing() {
    let local = site().await;
    local.manager.store().revoke(Kind::ApiKey, "key-0", 0).unwrap();
    let call = format!("listDelegates?accountIdentifier={ACCOUNT}");
    let answer = local.call(Method::POST, &call, Some(API_KEY), "").await;
    assert_eq!(
        (answer.status, answer.code.as_deref()),
        (401, Some("REVOKED_TOKEN"))
    );
}

#[tokio::test]
async fn delegates_are_listed_with_what_their_upgraders_asked() {
    let start_of_2027 = || DateTime::from_timestamp(1_798_761_600, 0).unwrap();
    let local = start(Settings {
        api_keys: vec![API_KEY.to_owned()],
        clock: Clock(start_of_2027),
        ..settings()
    })
    .await;
    let asking = HttpManager::new(ManagerConfig {
        clock: start_of_2027,
        ..config(&local.url)
    })
    .unwrap();
    let now = start_of_2027().timestamp();
    let tags = ["linux".to_owned()].into();
    for (name, created) in [("new", now - 60), ("silent", now - 6_000)] {
        let registered = local
            .manager
            .store()
            .register(&Scope::Account, name, &tags, created);
        registered.unwrap();
    }
    image(&asking, "asked-for").await;
    let published = reference(PUBLISHED);
    asking.published(&published, "upgraded").await.unwrap();
    let looking = HttpManager::new(ManagerConfig {
        clock: start_of_2027,
        reports_upgrader: false,
        ..config(&local.url)
    })
    .unwrap();
    image(&looking, "only-looked-at").await;

    let shown = local.delegates("").await;
    let upgraded: Vec<_> = shown
        .as_array()
        .unwrap()
        .iter()
        .map(|delegate| {
            (
                delegate["name"].as_str().unwrap(),
                delegate["autoUpgrade"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        upgraded,
        [
            ("asked-for", "SYNCHRONIZING"),
            ("new", "DETECTING"),
            ("silent", "OFF"),
            ("upgraded", "ON"),
        ]
    );
    assert_eq!(
        shown[0]["delegateReplicas"],
        json!([{
            "hostName": "upgrader-host",
            "image": "harness/delegate:26.02.88404",
            "version": "26.02.88404",
            "lastSeen": now * 1_000,
            "expiringAt": 1_788_220_800_000_i64,
            "endOfSupport": "2026-08",
            "endOfLife": "2026-10",
            "standing": "END_OF_LIFE",
        }])
    );
    assert_eq!(shown[1]["tags"], json!(["linux"]));
    assert_eq!(local.delegates("&orgIdentifier=o").await, json!([]));

    // The API has a second path.
    let call = format!("../../../gateway/ng/api/delegate-setup/listDelegates?accountIdentifier={ACCOUNT}");
    for (filter, expected) in [
        (json!({ "delegateName": "new", "delegateTags": ["linux"] }), "new"),
        (json!({ "delegateName": "new", "delegateTags": ["windows"] }), ""),
        (
            json!({ "delegateGroupIdentifier": "silent", "description": "", "tags": {} }),
            "silent",
        ),
        (json!({ "status": "CONNECTED" }), "asked-for upgraded"),
        (json!({ "status": "DISCONNECTED" }), "new silent"),
        (json!({ "status": "DELETED" }), ""),
        (json!({ "autoUpgrade": "SYNCHRONIZING" }), "asked-for"),
        (json!({ "hostName": "upgrader-host" }), "asked-for upgraded"),
        (json!({ "hostName": "other" }), ""),
        (
            json!({ "delegateInstanceFilter": "EXPIRED" }),
            "asked-for upgraded",
        ),
        (json!({ "delegateInstanceFilter": "AVAILABLE" }), ""),
        (
            json!({ "versionStatus": "UNSUPPORTED", "delegateTags": null }),
            "asked-for upgraded",
        ),
        (json!({ "versionStatus": "ACTIVE" }), ""),
    ] {
        let mut body = filter;
        body["filterType"] = "Delegate".into();
        let body = body.to_string();
        let answer = local.call(Method::POST, &call, Some(API_KEY), &body).await;
        let found = answer.body["resource"].as_array().unwrap().iter();
        let found: Vec<&str> = found.map(|delegate| delegate["name"].as_str().unwrap()).collect();
        assert_eq!(found.join(" "), expected, "{body}");
    }
}

#[tokio::test]
async fn an_answer_that_was_not_given_is_no_sign_of_an_upgrader() {
    let local = site().await;
    local.manager.fail(crate::service::Fault {
        status: Some(401),
        ..Default::default()
    });
    assert!(kit::manager::ask(&client(&local.url)).await.is_err());
    assert_eq!(local.delegates("").await, json!([]));
}

#[tokio::test]
async fn only_one_of_the_questions_is_a_sign_of_an_upgrader() {
    let local = site().await;
    for (question, image, listed) in [
        ("delegate", "currentDelegateImageTag", 0),
        ("upgrader", "currentUpgraderImageTag", 0),
        ("delegate-v2", "currentDelegateImageTag", 1),
    ] {
        let url = format!(
            "{}/api/upgrade-check/{question}?accountId={ACCOUNT}&{image}=a:1&delegateGroupName=blue",
            local.url
        );
        let (status, _, _) = super::protocol::get(url, Some(&super::protocol::token())).await;
        assert_eq!(status.as_u16(), 200, "{question}");
        assert_eq!(
            local.delegates("").await.as_array().unwrap().len(),
            listed,
            "{question}"
        );
    }
}

#[tokio::test]
async fn what_is_written_into_the_file_of_a_running_manager_counts_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("manager.db");
    let local = start(Settings {
        account: ACCOUNT.to_owned(),
        database: Some(path.clone()),
        ..Settings::default()
    })
    .await;
    let client = client(&local.url);
    let file = Store::open(&path).unwrap();
    assert_eq!(kit::manager::ask(&client).await, Err(ManagerError::TokenUnknown));

    file.add_token("docker", &kit::manager::KEY, &Scope::Account, 0)
        .unwrap();
    let error = kit::manager::ask(&client).await.unwrap_err().to_string();
    assert!(error.contains("no image is published yet"), "{error}");

    file.publish(PUBLISHED, 0).unwrap();
    assert_eq!(kit::manager::ask(&client).await, Ok(reference(PUBLISHED)));

    file.revoke(Kind::Token, "docker", 0).unwrap();
    assert_eq!(kit::manager::ask(&client).await, Err(ManagerError::TokenRevoked));

    // The control API, which asks nobody who they are, is missing.
    let url = format!("{}/local/published", local.url);
    let (status, _, _) = super::protocol::get(url, None).await;
    assert_eq!(status.as_u16(), 404);
    assert!(local.manager.requests().is_empty(), "nobody can read them there");
}
