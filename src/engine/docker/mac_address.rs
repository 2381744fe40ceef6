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

/// Adds the MAC address that a container's owner chose to its document, which was read at version `api`. It stays
/// unknown where the engine no longer speaks the older version, or a proxy refuses it.
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
