//! Watches `GET /events`, which sends one JSON document per line.

use std::collections::HashMap;
use std::time::Duration;

use hyper::Method;
use serde::Deserialize;

use super::DockerEngine;
use super::stream::LONGEST;
use crate::container::label;
use crate::engine::{EngineError, Happening};
use crate::net::lines::Lines;

/// How long to watch over one connection. A proxy or firewall may drop a connection without closing it.
const WATCH: Duration = Duration::from_secs(3600);

/// The events that change what an observation shows. An engine treats `health_status` as a prefix of all its variants.
const WATCHED: &str = r#"{"type":["container","volume"],"event":["create","start","die","pause","unpause","rename","destroy","health_status"]}"#;

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "Type", default)]
    kind: String,
    #[serde(rename = "Actor")]
    actor: Actor,
}

#[derive(Deserialize)]
struct Actor {
    #[serde(rename = "ID", default)]
    id: String,
    /// For a container, these include its labels.
    #[serde(rename = "Attributes", default)]
    attributes: HashMap<String, String>,
}

impl DockerEngine {
    pub(super) async fn watch_events(
        &self,
        mut report: impl FnMut(Happening<'_>) + Send,
    ) -> Result<(), EngineError> {
        let request = self.request(Method::GET, &["events"], WATCH).await?;
        let request = request.query("filters", WATCHED);
        let mut lines = Lines::of_at_most(LONGEST);
        let take = |chunk: &[u8]| {
            lines.read(chunk, |line, _| {
                // A line that is cut or cannot be parsed is not an event of a container.
                let Ok(Line { kind, actor }) = serde_json::from_slice(line) else {
                    return;
                };
                report(match kind.as_str() {
                    "volume" => Happening::Volume(&actor.id),
                    _ => Happening::Container {
                        id: &actor.id,
                        is_ours: actor.attributes.contains_key(label::NAME),
                    },
                });
            });
        };
        // The call is neither counted nor logged, since its duration says nothing about the engine.
        let ended = self.shared.http.stream(request, usize::MAX, take).await;
        self.track_session(ended).await
    }
}
