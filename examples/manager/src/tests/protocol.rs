//! The client and the local Manager understand each other.

use std::sync::atomic::{AtomicI64, Ordering};

use chrono::{DateTime, TimeDelta, Utc};
use delegate_upgrader::manager::{
    HttpManager, ImageSource as _, ManagerConfig, ManagerError, ManagerSettings,
};
use reqwest::StatusCode;
use reqwest::header::AUTHORIZATION;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::service::resolve::{Release, Wanted};
use crate::service::{Fault, Manager, Settings};
use kit::manager::{ACCOUNT, RawServer, TOKEN, answer, ask, client, config, published, reference};

pub(super) struct Local {
    pub(super) manager: Manager,
    pub(super) url: String,
}

pub(super) async fn start(settings: Settings) -> Local {
    let prefix = settings.prefix.clone();
    let manager = Manager::new(&settings).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}{prefix}", listener.local_addr().unwrap());
    let router = manager.router();
    tokio::spawn(async move { axum::serve(listener, router).await });
    Local { manager, url }
}

pub(super) fn settings() -> Settings {
    Settings {
        account: ACCOUNT.to_owned(),
        tokens: vec![TOKEN.to_owned()],
        published: "harness/delegate:26.03.88501".to_owned(),
        published_upgrader: "harness/upgrader:1.2.3".to_owned(),
        ..Settings::default()
    }
}

impl Local {
    fn endpoints(&self) -> Vec<&'static str> {
        self.manager
            .requests()
            .iter()
            .map(|asked| asked.endpoint)
            .collect()
    }
}

#[tokio::test]
async fn the_published_image_is_asked_with_everything_the_manager_wants_to_know() {
    let local = start(settings()).await;
    let answer = ask(&client(&local.url)).await;
    assert_eq!(answer, Ok(reference("harness/delegate:26.03.88501")));

    let asked = local.manager.requests().remove(0);
    assert_eq!(asked.endpoint, "delegate-v2");
    assert_eq!(asked.issuer.as_deref(), Some("upgrader-host"));
    assert_eq!(
        json!(asked.query),
        json!({
            "accountId": ACCOUNT,
            "currentDelegateImageTag": "harness/delegate:26.02.88404",
            "delegateGroupName": "docker-delegate",
        })
    );
}

#[tokio::test]
async fn one_that_only_looks_leaves_no_stamp() {
    let local = start(settings()).await;
    let looking = HttpManager::new(ManagerConfig {
        reports_upgrader: false,
        ..config(&local.url)
    })
    .unwrap();
    let set = Wanted {
        tags: ["docker-delegate".to_owned()].into(),
        image: "own/delegate:1".to_owned(),
        ..Wanted::default()
    };
    let set = set
        .into_override(&Release::default(), Utc::now().timestamp())
        .unwrap();
    local.manager.store().set_override(&set).unwrap();
    assert_eq!(ask(&looking).await, Ok(reference("own/delegate:1")));
    assert_eq!(local.endpoints(), ["delegate"]);
    assert_eq!(local.manager.store().delegates().unwrap(), []);
}

#[tokio::test]
async fn a_manager_below_a_path_is_found() {
    let local = start(Settings {
        prefix: "/gratis".to_owned(),
        ..settings()
    })
    .await;
    for url in [local.url.clone(), format!("{}/", local.url)] {
        assert!(ask(&client(&url)).await.is_ok(), "{url}");
    }
    let wrong = ask(&client(&local.url.replace("/gratis", "/other"))).await;
    assert!(
        matches!(wrong, Err(ManagerError::Refused { status: 404, .. })),
        "{wrong:?}"
    );
}

#[tokio::test]
async fn names_and_references_with_odd_characters_arrive_as_they_are() {
    let local = start(settings()).await;
    let name = "my delegate+1 & söhne=100%/#?";
    client(&local.url)
        .published(&reference("localhost:5000/a/b:c_1.2-x"), name)
        .await
        .unwrap();
    let asked = local.manager.requests().remove(0);
    assert_eq!(asked.query["delegateGroupName"], name);
    assert_eq!(
        asked.query["currentDelegateImageTag"],
        "localhost:5000/a/b:c_1.2-x"
    );
}

#[tokio::test]
async fn what_is_wrong_with_the_token_is_told_apart_and_not_asked_twice() {
    for (tokens, revoked_tokens, expected) in [
        (vec!["ff".repeat(16)], vec![], ManagerError::TokenUnknown),
        (
            vec!["ff".repeat(16)],
            vec![TOKEN.to_owned()],
            ManagerError::TokenRevoked,
        ),
    ] {
        let local = start(Settings {
            tokens,
            revoked_tokens,
            ..settings()
        })
        .await;
        assert_eq!(ask(&client(&local.url)).await, Err(expected));
        assert_eq!(local.endpoints().len(), 1);
    }
}

#[tokio::test]
async fn a_clock_that_is_wrong_is_told_by_how_much() {
    let local = start(settings()).await;
    let late = HttpManager::new(ManagerConfig {
        clock: || Utc::now() - TimeDelta::hours(2),
        ..config(&local.url)
    })
    .unwrap();
    let error = ask(&late).await.unwrap_err();
    let ManagerError::TokenExpired {
        skew_seconds: Some(skew),
    } = error
    else {
        panic!("{error:?}");
    };
    assert!((-7_205..=-7_195).contains(&skew), "{skew}");
    assert_eq!(local.endpoints().len(), 1);
}

#[tokio::test]
async fn an_unknown_account_is_told() {
    let local = start(settings()).await;
    let other = HttpManager::new(ManagerConfig {
        manager: ManagerSettings {
            account_id: "another".to_owned(),
            ..kit::manager::settings(&local.url, kit::manager::KEY)
        },
        ..config(&local.url)
    })
    .unwrap();
    assert_eq!(ask(&other).await, Err(ManagerError::AccessDenied));
    assert_eq!(local.endpoints().len(), 1);
}

#[tokio::test]
async fn a_refusal_is_never_asked_again() {
    for (status, code, kind) in [
        (401, "INVALID_AGENT_MTLS_AUTHORITY", "wrong_endpoint"),
        (401, "SOMETHING_ELSE", "refused"),
        (400, "INVALID_REQUEST", "invalid_request"),
        (400, "INVALID_ARGUMENT", "invalid_request"),
        (403, "WHATEVER", "refused"),
        (407, "WHATEVER", "proxy_login"),
    ] {
        let local = start(settings()).await;
        local.manager.fail(Fault {
            status: Some(status),
            code: Some(code.to_owned()),
            ..Fault::default()
        });
        assert_eq!(
            ask(&client(&local.url)).await.map_err(|error| error.kind()),
            Err(kind)
        );
        assert_eq!(local.endpoints().len(), 1, "{status} {code}");
    }
}

#[tokio::test]
async fn a_manager_that_stumbles_is_asked_again() {
    for status in [500, 502, 503, 504, 429] {
        let local = start(settings()).await;
        local.manager.fail(Fault {
            status: Some(status),
            times: Some(2),
            ..Fault::default()
        });
        assert_eq!(
            ask(&client(&local.url)).await,
            Ok(reference("harness/delegate:26.03.88501"))
        );
        assert_eq!(local.endpoints().len(), 3, "{status}");
    }
}

#[tokio::test]
async fn one_token_serves_until_five_minutes_before_it_expires() {
    static NOW: AtomicI64 = AtomicI64::new(1_800_000_000);

    let server = RawServer::start(vec![published("a:1")]).await;
    let client = HttpManager::new(ManagerConfig {
        clock: || DateTime::from_timestamp(NOW.load(Ordering::SeqCst), 0).unwrap(),
        ..config(&server.url)
    })
    .unwrap();
    for now in [1_800_000_000, 1_800_001_499, 1_800_001_500, 1_800_001_501] {
        NOW.store(now, Ordering::SeqCst);
        ask(&client).await.unwrap();
    }
    let tokens: Vec<_> = server.requests().iter().map(|head| authorization(head)).collect();
    assert_eq!(tokens[0], tokens[1]);
    assert_ne!(tokens[1], tokens[2]);
    assert_eq!(tokens[2], tokens[3]);
}

#[tokio::test]
async fn a_token_that_was_refused_is_not_used_again() {
    let refused = answer(401, "X-Harness-Error: EXPIRED_TOKEN\r\n", "");
    let server = RawServer::start(vec![refused, published("a:1")]).await;
    let client = client(&server.url);
    assert!(ask(&client).await.is_err());
    assert!(ask(&client).await.is_ok());
    let requests = server.requests();
    assert_ne!(authorization(&requests[0]), authorization(&requests[1]));
}

fn authorization(head: &str) -> String {
    head.lines()
        .find_map(|line| line.strip_prefix("authorization: Delegate "))
        .unwrap_or_else(|| panic!("{head}"))
        .to_owned()
}

// The local Manager itself, where the client would never go.

pub(super) async fn get(url: String, token: Option<&str>) -> (StatusCode, Option<String>, Value) {
    let mut request = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .build()
        .unwrap()
        .get(url);
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, format!("Delegate {token}"));
    }
    let response = request.send().await.unwrap();
    let code = response
        .headers()
        .get("x-harness-error")
        .map(|code| code.to_str().unwrap().to_owned());
    let status = response.status();
    let body = response.text().await.unwrap();
    (
        status,
        code,
        serde_json::from_str(&body).unwrap_or(Value::String(body)),
    )
}

pub(super) fn token() -> String {
    use delegate_upgrader::manager::token::{Claims, DelegateToken};
    let now = Utc::now().timestamp();
    let claims = Claims {
        iss: "test".to_owned(),
        sub: ACCOUNT.to_owned(),
        aud: "http://test:80".to_owned(),
        exp: now + 60,
        nbf: now,
        iat: now,
        jti: "1".to_owned(),
    };
    DelegateToken::from(kit::manager::KEY).seal(&claims).unwrap()
}

#[tokio::test]
async fn the_local_manager_refuses_what_the_real_one_refuses() {
    // The client installs the cryptography that every HTTP client of this process needs.
    let local = start(settings()).await;
    drop(client(&local.url));
    let token = token();
    let image = "currentDelegateImageTag=x";
    let known = format!("accountId={ACCOUNT}&{image}");
    for (path, token, status, code) in [
        (
            format!("delegate-v2?{known}"),
            Some(&token),
            500,
            Some("UNKNOWN_ERROR"),
        ),
        (
            format!("delegate-v2?{image}"),
            Some(&token),
            400,
            Some("INVALID_ARGUMENT"),
        ),
        (
            format!("delegate?accountId={ACCOUNT}"),
            Some(&token),
            400,
            Some("INVALID_ARGUMENT"),
        ),
        (
            format!("delegate?accountId=x&{image}"),
            Some(&token),
            400,
            Some("INVALID_REQUEST"),
        ),
        (format!("delegate?{known}"), None, 401, Some("INVALID_TOKEN")),
        (format!("delegate?{known}"), Some(&token), 200, None),
        (format!("delegate-v3?{known}"), Some(&token), 404, None),
    ] {
        let url = format!("{}/api/upgrade-check/{path}", local.url);
        let (given_status, given_code, body) = get(url, token.map(String::as_str)).await;
        assert_eq!(given_status.as_u16(), status, "{path}");
        assert_eq!(given_code.as_deref(), code, "{path}");
        if let Some(code) = code {
            assert_eq!(body["resource"], Value::Null, "{path}");
            assert_eq!(body["responseMessages"][0]["code"], code, "{path}");
            assert_eq!(body["responseMessages"][0]["level"], "ERROR", "{path}");
        }
    }
}

#[tokio::test]
async fn the_local_manager_compares_references_as_text_but_for_the_account_suffix() {
    let local = start(settings()).await;
    drop(client(&local.url));
    let token = token();
    for (current, should_upgrade) in [
        ("harness/delegate:26.03.88501", false),
        ("harness/delegate:26.03.88501-acct-t", false), // the first six of acct-test_…
        ("harness/delegate:26.03.88501-ACCT-T", true),
        ("harness/delegate:26.03.88501.minimal", true),
        ("docker.io/harness/delegate:26.03.88501", true),
        ("harness/delegate:26.04.1", true),
    ] {
        let url = format!(
            "{}/api/upgrade-check/delegate?accountId={ACCOUNT}&currentDelegateImageTag={current}",
            local.url
        );
        let (_, _, body) = get(url, Some(&token)).await;
        assert_eq!(
            body["resource"],
            json!({"imageTag": "harness/delegate:26.03.88501", "shouldUpgrade": should_upgrade}),
            "{current}"
        );
    }
    let url = format!(
        "{}/api/upgrade-check/upgrader?accountId={ACCOUNT}&currentUpgraderImageTag=harness/upgrader:1.2.3",
        local.url
    );
    let (_, _, body) = get(url, Some(&token)).await;
    assert_eq!(
        body["resource"],
        json!({"imageTag": "harness/upgrader:1.2.3", "shouldUpgrade": false})
    );
}

#[tokio::test]
async fn what_the_local_manager_publishes_can_be_changed_while_it_runs() {
    let local = start(settings()).await;
    let client = client(&local.url);
    let http = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .build()
        .unwrap();
    let put = async |body: Value| {
        let request = http
            .put(format!("{}/local/published", local.url))
            .body(body.to_string());
        request.send().await.unwrap().status().as_u16()
    };
    let current = reference("harness/delegate:1");
    let image = async |name: &str| client.published(&current, name).await.unwrap().to_string();

    assert_eq!(put(json!({"imageTag": "harness/delegate:2"})).await, 200);
    assert_eq!(
        put(json!({"imageTag": "harness/delegate:3", "delegateGroupName": "blue"})).await,
        200
    );
    assert_eq!(image("green").await, "harness/delegate:2");
    assert_eq!(image("blue").await, "harness/delegate:3");
    assert_eq!(
        put(json!({"imageTag": null, "delegateGroupName": "blue"})).await,
        200
    );
    assert_eq!(image("blue").await, "harness/delegate:2");
    for wrong in [
        json!({}),
        json!({"image": "x"}),
        json!({"imageTag": 5}),
        json!(null),
    ] {
        assert_eq!(put(wrong.clone()).await, 400, "{wrong}");
    }
    assert_eq!(image("green").await, "harness/delegate:2");
}
