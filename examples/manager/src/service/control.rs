//! The control API under `/local/`: everyone who can reach the port can use it, so it is for loopback and labs only.
//!
//! An image that is published for one delegate by its name stays in memory: the protocol knows no such thing.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, put};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::Manager;
use super::answer::{Refusal, json_response, refused};
use super::fault::Fault;

pub(super) fn router() -> Router<Manager> {
    Router::new()
        .route("/local/published", get(published).put(publish))
        .route("/local/fault", put(set_fault).delete(clear_fault))
        .route("/local/requests", get(requests).delete(forget_requests))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Publication {
    image_tag: Option<String>,
    delegate_group_name: Option<String>,
}

async fn publish(State(manager): State<Manager>, body: Bytes) -> Response {
    let publication: Publication = match read(&body) {
        Ok(publication) => publication,
        Err(response) => return response,
    };
    match (publication.delegate_group_name, publication.image_tag) {
        (None, Some(image)) => {
            if let Err(error) = manager.publish(image) {
                return refused(&Refusal::from(error));
            }
        }
        (None, None) => return bad_request("imageTag is missing"),
        (Some(group), Some(image)) => drop(manager.lab().published_by_group.insert(group, image)),
        (Some(group), None) => drop(manager.lab().published_by_group.remove(&group)),
    }
    published(State(manager)).await
}

async fn published(State(manager): State<Manager>) -> Response {
    let latest = match manager.store().latest() {
        Ok(latest) => latest,
        Err(error) => return refused(&Refusal::from(error)),
    };
    json_response(
        StatusCode::OK,
        &json!({ "imageTag": latest.image, "byDelegateGroupName": manager.lab().published_by_group }),
    )
}

async fn set_fault(State(manager): State<Manager>, body: Bytes) -> Response {
    match read::<Fault>(&body) {
        Ok(fault) if fault.status.is_some_and(|status| !(200..=599).contains(&status)) => {
            bad_request("status is not within 200 and 599")
        }
        Ok(fault) => {
            manager.fail(fault);
            StatusCode::NO_CONTENT.into_response()
        }
        Err(response) => response,
    }
}

async fn clear_fault(State(manager): State<Manager>) -> StatusCode {
    manager.lab().fault = None;
    StatusCode::NO_CONTENT
}

async fn requests(State(manager): State<Manager>) -> Response {
    json_response(StatusCode::OK, &json!(manager.requests()))
}

async fn forget_requests(State(manager): State<Manager>) -> StatusCode {
    manager.lab().requests.clear();
    StatusCode::NO_CONTENT
}

// The error is the answer.
#[allow(clippy::result_large_err)]
fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Response> {
    serde_json::from_slice(body).map_err(|error| bad_request(&error.to_string()))
}

fn bad_request(reason: &str) -> Response {
    (StatusCode::BAD_REQUEST, format!("{reason}\n")).into_response()
}
