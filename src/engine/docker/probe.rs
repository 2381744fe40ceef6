//! Finds out whether a call is permitted by sending a harmless one, about a container, image, network or volume that does
//! not exist. The engine answers that it does not exist; a proxy that refuses the call never asks the engine.

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};

use super::DockerEngine;
use super::http::Request;
use crate::engine::EngineError;
use crate::engine::permissions::ApiCall;

/// No container has this id.
const NOBODY: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// No image or network can have this name, since it has capital letters, so the engine contacts no registry for it.
const NOTHING: &str = "delegate-upgrader/ASKS-FOR-NOTHING";
/// No volume can have this name, since it has a tilde. A proxy that permits the upgrader's own volumes also permits it.
const NO_VOLUME: &str = "delegate-upgrader.asks-for-nothing~";
const LIMIT: Duration = Duration::from_secs(10);

impl DockerEngine {
    /// Sends a call in a form that changes nothing. Returns why a socket proxy refuses it, or `None` if it is permitted.
    ///
    /// # Errors
    /// The engine is unreachable or does not answer.
    pub(crate) async fn probe(&self, call: &ApiCall) -> Result<Option<String>, EngineError> {
        match self.send(self.harmless(call).await?).await {
            // The engine itself reports this for Swarm calls.
            Err(error) if error.is_not_a_manager() => Ok(None),
            Err(EngineError::Refused {
                status: status @ (401 | 403 | 405 | 501 | 502 | 503),
                message,
            }) => {
                // An error page often repeats the status.
                let status = status.to_string();
                let message = message.strip_prefix(&status).unwrap_or(&message).trim();
                Ok(Some(format!("{status} {message}").trim().to_owned()))
            }
            Err(error @ (EngineError::Unreachable(_) | EngineError::TimedOut(_))) => Err(error),
            _ => Ok(None),
        }
    }

    async fn harmless(&self, call: &ApiCall) -> Result<Request, EngineError> {
        let method = Method::from_bytes(call.method.as_bytes()).unwrap_or(Method::GET);
        let segments = call.path.split('/').filter(|segment| !segment.is_empty());
        let segments = segments.flat_map(|segment| match segment {
            "{id}" => vec![NOBODY],
            "{name}" if call.path == "/volumes/{name}" => vec![NO_VOLUME],
            "{name}" => NOTHING.split('/').collect(),
            other => vec![other],
        });
        let segments: Vec<&str> = segments.collect();
        let mut request = self.request(method, &segments, LIMIT).await?;
        for &(name, value) in query(call.path) {
            request = request.query(name, value);
        }
        Ok(match body(call.path) {
            Some(body) => request.body(&body),
            None => request,
        })
    }
}

fn query(path: &str) -> &'static [(&'static str, &'static str)] {
    match path {
        "/images/create" => &[("fromImage", NOTHING), ("tag", "none")],
        "/containers/create" | "/containers/{id}/rename" => &[("name", "delegate-upgrader-asks-for-nothing")],
        // Both times are in the past, so that the answer ends.
        "/events" => &[("since", "1"), ("until", "1")],
        "/containers/{id}/logs" => &[("stdout", "1"), ("tail", "1")],
        "/containers/{id}/stats" => &[("stream", "false")],
        "/containers/{id}/archive" => &[("path", "/")],
        "/services/{id}/update" => &[("version", "0")],
        _ => &[],
    }
}

fn body(path: &str) -> Option<Value> {
    match path {
        "/containers/create" => Some(json!({ "Image": NOTHING })),
        "/containers/{id}/update" | "/exec/{id}/start" | "/services/{id}/update" => Some(json!({})),
        "/containers/{id}/exec" => Some(json!({ "Cmd": ["true"] })),
        "/volumes/create" => Some(json!({ "Name": NO_VOLUME })),
        "/networks/{name}/connect" => Some(json!({ "Container": NOBODY })),
        _ => None,
    }
}
