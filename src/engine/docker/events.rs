//! `GET /events`: one JSON document to a line, and so read line by line.

use std::time::Duration;

use reqwest::Method;
use serde::Deserialize;

use super::DockerEngine;
use super::stream::Lines;
use crate::container::ContainerId;
use crate::engine::EngineError;

/// How long one connection reports changes. A proxy or a firewall may drop it without closing it.
const WATCH: Duration = Duration::from_secs(3600);

/// The changes of containers that an observation shows. An engine matches `health_status` as a prefix of all its kinds.
const WATCHED: &str =
    r#"{"type":["container"],"event":["start","die","pause","unpause","rename","destroy","health_status"]}"#;

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "Actor")]
    actor: Actor,
}

#[derive(Deserialize)]
struct Actor {
    #[serde(rename = "ID", default)]
    id: String,
}

impl DockerEngine {
    pub(super) async fn watch_containers(
        &self,
        mut report: impl FnMut(&ContainerId) + Send,
    ) -> Result<(), EngineError> {
        let session = self.session().await?;
        let http = &self.shared.http;
        let request = http
            .request(Method::GET, Some(session.info.api), &["events"], WATCH)
            .query("filters", WATCHED);
        let mut lines = Lines::default();
        let take = |chunk: &[u8]| {
            lines.read(chunk, |line| {
                // A line that cannot be read is not an event of a container.
                if let Ok(line) = serde_json::from_slice::<Line>(line) {
                    report(&ContainerId::new(line.actor.id));
                }
            });
        };
        self.track_session(http.follow(request, usize::MAX, take).await)
            .await
    }
}
