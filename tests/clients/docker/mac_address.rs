//! The MAC address that a container's owner chose, which only an older version of the API shows.

use delegate_upgrader::container::ContainerId;
use delegate_upgrader::engine::Engine as _;
use serde_json::{Value, json};

use super::scripted::{ScriptedEngine, answer_json, refusal};

/// An engine that shows a MAC address as one of this version does.
async fn engine(api: &str, oldest: u8, refused_with: u16) -> ScriptedEngine {
    ScriptedEngine::of(api, "29.0.0", move |line| {
        let version = line.split('/').nth(1).unwrap();
        let minor: u8 = version.strip_prefix("v1.").unwrap().parse().unwrap();
        if minor < oldest {
            let message =
                format!("client version 1.{minor} is too old. Minimum supported API version is 1.{oldest}");
            return refusal(refused_with, &message);
        }
        let mut document = json!({
            "Id": "abc", "Config": { "Image": "x" },
            "NetworkSettings": { "Networks": { "bridge": { "MacAddress": "02:00:00:00:00:09" } } },
        });
        if minor < 52 {
            document["Config"]["MacAddress"] = json!("02:00:00:00:00:01");
        }
        answer_json(200, &document)
    })
    .await
}

#[tokio::test]
async fn reads_owner_mac_address_that_the_engine_hides() {
    let (old, proxy) = (400, 403);
    for (api, oldest, refused_with, mac) in [
        ("1.51", 24, old, json!("02:00:00:00:00:01")),
        ("1.52", 44, old, json!("02:00:00:00:00:01")),
        ("1.56", 44, old, json!("02:00:00:00:00:01")),
        ("1.56", 52, old, Value::Null),
        ("1.56", 52, proxy, Value::Null),
    ] {
        let engine = engine(api, oldest, refused_with).await;
        let inspected = engine.docker.inspect(&ContainerId::new("abc")).await.unwrap();
        assert_eq!(
            inspected.document()["Config"]["MacAddress"],
            mac,
            "{api}, from {oldest}"
        );
    }
}
