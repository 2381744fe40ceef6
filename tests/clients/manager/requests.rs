//! The exact request, and the printed form of the client that sends it.

use chrono::Utc;
use delegate_upgrader::config::Egress;
use delegate_upgrader::manager::{HttpManager, ImageSource as _, ManagerConfig, ManagerSettings};
use delegate_upgrader::status::{Mode, Status, metrics};

use kit::manager::{ACCOUNT, KEY, RawServer, answer, ask, client, config, published, reference, settings};

use super::tls::with_password;

/// The address that a client with this base URL requests, as a proxy reads it.
async fn asked_address(base_url: &str, reports_upgrader: bool) -> String {
    let proxy = RawServer::start(vec![published("a:1")]).await;
    let client = HttpManager::new(ManagerConfig {
        manager: ManagerSettings {
            account_id: "acct id&x=1".to_owned(),
            ..settings(base_url, KEY)
        },
        reports_upgrader,
        egress: Egress {
            proxy: Some(with_password(&proxy.url)),
            ..Egress::default()
        },
        ..config(base_url)
    });
    let current = reference("localhost:5000/harness/delegate:1");
    client.unwrap().published(&current, "a b/ü").await.unwrap();
    let head = proxy.requests().remove(0);
    let (_, address) = head.lines().next().unwrap().split_once(' ').unwrap();
    address.strip_suffix(" HTTP/1.1").unwrap().to_owned()
}

#[tokio::test]
async fn request_url_keeps_base_path_and_encodes_values() {
    let query = "accountId=acct+id%26x%3D1&currentDelegateImageTag=localhost%3A5000%2Fharness%2Fdelegate%3A1\
                 &delegateGroupName=a+b%2F%C3%BC";
    for (base, path) in [
        ("http://m", "http://m/api"),
        ("http://m/", "http://m/api"),
        ("http://m:8080/gratis", "http://m:8080/gratis/api"),
        ("http://m/a/b/", "http://m/a/b/api"),
        (" http://m ", "http://m/api"),
    ] {
        assert_eq!(
            asked_address(base, false).await,
            format!("{path}/upgrade-check/delegate?{query}")
        );
        assert_eq!(
            asked_address(base, true).await,
            format!("{path}/upgrade-check/delegate-v2?{query}")
        );
    }
}

#[tokio::test]
async fn the_request_for_the_upgraders_own_image_names_no_delegate() {
    let server = RawServer::start(vec![published("team/upgrader:1.1.0")]).await;
    let own = reference("team/upgrader:1.0.0");
    let answer = client(&format!("{}/gratis", server.url))
        .published_upgrader(&own)
        .await;
    assert_eq!(answer.unwrap().unwrap(), reference("team/upgrader:1.1.0"));
    let head = server.requests().remove(0);
    assert!(
        head.starts_with(&format!(
            "GET /gratis/api/upgrade-check/upgrader?accountId={ACCOUNT}&currentUpgraderImageTag=team%2Fupgrader%3A1.0.0 "
        )),
        "{head}"
    );
}

#[test]
fn debug_output_never_contains_the_key() {
    let config = ManagerConfig::new(settings("http://m", [0xAB; 16]), "host-1");
    let shown = format!("{config:?} {config:#?}");
    let manager = HttpManager::new(config).unwrap();
    let shown = format!("{shown} {manager:?} {manager:#?}");
    assert!(!shown.contains("171"), "{shown}"); // 0xAB as Debug writes it
}

#[tokio::test]
async fn each_attempt_is_counted_by_its_outcome() {
    let server = RawServer::start(vec![
        answer(503, "", ""),
        answer(503, "", ""),
        published("a:1"),
        answer(401, "", ""),
    ])
    .await;
    let client = client(&server.url);
    ask(&client).await.unwrap();
    let refused = ask(&client).await.unwrap_err();
    let status = Status {
        manager_requests: client.requests(),
        ..Status::new(Mode::Upgrade, "@hourly", Utc::now())
    };
    let text = metrics::text(&status);
    for (result, count) in [("server", 2), ("ok", 1), (refused.kind(), 1)] {
        let line = format!("delegate_upgrader_manager_requests_total{{result=\"{result}\"}} {count}");
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}
