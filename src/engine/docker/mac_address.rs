//! The MAC address that a container's owner chose, which only an older version of the API shows.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;

use super::http::HttpClient;
use crate::container::{ApiVersion, ContainerId};
use crate::engine::EngineError;

/// From this version on, inspect shows the MAC addresses in use, most of them made up by the engine, and no longer
/// `Config.MacAddress`, the one that the owner chose.
const HIDES_MAC: ApiVersion = ApiVersion::new(1, 52);
/// The last version that shows it.
const SHOWS_MAC: ApiVersion = ApiVersion::new(1, 51);

/// Adds the MAC address that a container's owner chose to its document, which was read at version `api`. It stays unknown
/// where the engine no longer speaks the older version, or a proxy refuses it.
pub(super) async fn add_mac(
    http: &HttpClient,
    api: ApiVersion,
    id: &ContainerId,
    document: &mut Value,
    limit: Duration,
) -> Result<(), EngineError> {
    const MAC: &str = "MacAddress";
    let has_network = document
        .pointer("/NetworkSettings/Networks")
        .and_then(Value::as_object)
        .is_some_and(|networks| {
            networks
                .keys()
                .any(|name| !matches!(name.as_str(), "host" | "none"))
        });
    if api < HIDES_MAC || !has_network {
        return Ok(());
    }
    let request = http.request(
        Method::GET,
        Some(SHOWS_MAC),
        &["containers", id.as_str(), "json"],
        limit,
    );
    let older: Value = match http.fetch(request).await {
        Err(EngineError::Refused {
            status: 400..=499, ..
        }) => return Ok(()),
        answer => answer?,
    };
    let mac = older.pointer("/Config/MacAddress").and_then(Value::as_str);
    if let (Some(mac), Some(config)) = (
        mac.filter(|mac| !mac.is_empty()),
        document.get_mut("Config").and_then(Value::as_object_mut),
    ) {
        config.insert(MAC.to_owned(), Value::from(mac));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::extract::Path;
    use axum::http::StatusCode;
    use axum::routing::get;
    use serde_json::json;

    use super::*;
    use crate::engine::{DockerEngine, Engine, EngineHost};

    /// An engine that shows a MAC address as one of this version does.
    async fn engine(api: &'static str, oldest: u8, refusal: StatusCode) -> DockerEngine {
        let version =
            json!({ "ApiVersion": api, "Version": "29.0.0", "Os": "linux", "Arch": "amd64" }).to_string();
        let inspect = move |Path((version, id)): Path<(String, String)>| async move {
            let minor: u8 = version
                .rsplit('.')
                .next()
                .and_then(|minor| minor.parse().ok())
                .unwrap();
            if minor < oldest {
                let message = format!(
                    "client version 1.{minor} is too old. Minimum supported API version is 1.{oldest}"
                );
                return (refusal, json!({ "message": message }).to_string());
            }
            let mut document = json!({
                "Id": id, "Config": { "Image": "x" },
                "NetworkSettings": { "Networks": { "bridge": { "MacAddress": "02:00:00:00:00:09" } } },
            });
            if minor < 52 {
                document["Config"]["MacAddress"] = json!("02:00:00:00:00:01");
            }
            (StatusCode::OK, document.to_string())
        };
        let app = Router::new()
            .route("/version", get(move || async move { version }))
            .route("/{version}/containers/{id}/json", get(inspect));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move { axum::serve(listener, app).await });
        let host = EngineHost::Tcp { address, tls: None };
        DockerEngine::connect(&host).unwrap()
    }

    #[tokio::test]
    async fn an_owner_s_mac_address_is_known_from_an_engine_that_hides_it() {
        let (old, proxy) = (StatusCode::BAD_REQUEST, StatusCode::FORBIDDEN);
        for (api, oldest, refusal, mac) in [
            ("1.51", 24, old, json!("02:00:00:00:00:01")),
            ("1.52", 44, old, json!("02:00:00:00:00:01")),
            ("1.56", 44, old, json!("02:00:00:00:00:01")),
            ("1.56", 52, old, Value::Null),
            ("1.56", 52, proxy, Value::Null),
        ] {
            let engine = engine(api, oldest, refusal).await;
            let inspected = engine.inspect(&ContainerId::new("abc")).await.unwrap();
            assert_eq!(
                inspected.document()["Config"]["MacAddress"],
                mac,
                "{api}, from {oldest}"
            );
        }
    }
}
