//! Pulls an image. The status of the answer is always 200, and the stream shows whether the pull succeeds.

use std::collections::HashMap;
use std::time::Duration;

use hyper::Method;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use super::DockerEngine;
use super::http::{HttpClient, Request, next_chunk};
use super::messages::{LayerStatus, layer_status};
use super::stream::LONGEST;
use crate::engine::credentials::header::Account;
use crate::engine::{EngineError, PullProgress};
use crate::image::ImageReference;
use crate::net::innermost;
use crate::net::lines::Lines;
use crate::text::duration;

/// A pull may take any time, but must make progress within this time.
const IDLE: Duration = Duration::from_secs(120);
/// The same limit once all bytes have arrived: some engines send nothing while they unpack a layer.
const UNPACKING: Duration = Duration::from_secs(1800);
/// The most layers to track. An image has at most 127 layers.
const MAX_LAYERS: usize = 1000;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Line {
    id: Option<String>,
    status: Option<String>,
    #[serde(rename = "progressDetail")]
    detail: Option<Detail>,
    error: Option<String>,
}

/// The progress of a layer, in bytes.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Detail {
    current: Option<i64>,
    total: Option<i64>,
}

impl DockerEngine {
    pub(super) async fn pull_with(
        &self,
        reference: &ImageReference,
        platform: Option<&str>,
        login: Option<&Account>,
        progress: impl FnMut(PullProgress) + Send,
    ) -> Result<(), EngineError> {
        let http = &self.shared.http;
        let image = reference.to_string();
        // Without a tag, the engine would pull every tag of the repository.
        let has_version = image
            .rsplit('/')
            .next()
            .is_some_and(|last| last.contains([':', '@']));
        let tag = (!has_version).then_some("latest");
        let request = self.request(Method::POST, &["images", "create"], IDLE).await?;
        let request = request.query("fromImage", image.as_str()).query("tag", tag);
        let request = request
            .query("platform", platform)
            .with(login, reference.registry());
        let call = request.to_string();
        self.counted(call, pull(http, request, reference, progress)).await
    }
}

/// Pulls an image. Even after a successful stream the image may be missing, which inspecting it shows.
async fn pull(
    http: &HttpClient,
    request: Request,
    reference: &ImageReference,
    mut progress: impl FnMut(PullProgress) + Send,
) -> Result<(), EngineError> {
    let mut answer = http.open(request).await?;
    let (mut layers, mut lines) = (Layers::default(), Lines::of_at_most(LONGEST));
    let mut moved = Instant::now();
    loop {
        let limit = layers.limit();
        let chunk = timeout_at(moved + limit, next_chunk(answer.body_mut())).await;
        // The containerd store repeats the status of a stalled layer ten times a second.
        let chunk = chunk.ok().filter(|_| moved.elapsed() < limit);
        // The engine is reachable, but the registry does not answer it.
        let Some(chunk) = chunk else {
            let (idle, registry) = (duration::text(limit), reference.registry());
            return Err(EngineError::in_stream(&format!(
                "nothing arrived for {idle}; check that the engine can reach {registry}"
            )));
        };
        let chunk = chunk.map_err(|error| {
            let why = innermost(&error);
            EngineError::in_stream(&format!("the engine's answer broke off: {why}"))
        })?;
        let mut problem = None;
        let mut take = |line: &[u8], is_cut: bool| match read(line, is_cut) {
            Ok(line) => {
                if layers.moves(&line) {
                    moved = Instant::now();
                }
                if let Some(now) = layers.take(line) {
                    progress(now);
                }
            }
            Err(error) => problem = problem.take().or(Some(error)),
        };
        let Some(chunk) = chunk else {
            // The last line may lack a line break.
            lines.end(take);
            return problem.map_or(Ok(()), Err);
        };
        lines.read(&chunk, &mut take);
        if let Some(error) = problem {
            return Err(error);
        }
        if lines.is_cut() {
            return Err(too_long());
        }
    }
}

fn too_long() -> EngineError {
    EngineError::in_stream("the engine's answer has a line that is too much to know")
}

fn read(line: &[u8], is_cut: bool) -> Result<Line, EngineError> {
    if is_cut {
        return Err(too_long());
    }
    if line.iter().all(u8::is_ascii_whitespace) {
        return Ok(Line::default());
    }
    let line: Line = serde_json::from_slice(line)
        .map_err(|error| EngineError::Malformed(format!("a line of a pull: {error}")))?;
    match line.error {
        Some(error) => Err(EngineError::in_stream(&error)),
        None => Ok(line),
    }
}

/// The progress of each layer of a pull.
#[derive(Default)]
struct Layers {
    bytes: HashMap<String, PullProgress>,
    /// The last status and number that the engine reported for each layer.
    said: HashMap<String, (String, Option<i64>)>,
}

impl Layers {
    /// Whether a line reports progress.
    fn moves(&mut self, line: &Line) -> bool {
        let count = line.detail.as_ref().and_then(|detail| detail.current);
        let now = (line.status.clone().unwrap_or_default(), count);
        let id = line.id.clone().unwrap_or_default();
        if self.said.len() >= MAX_LAYERS && !self.said.contains_key(&id) {
            return false;
        }
        let before = self.said.insert(id, now.clone());
        before != Some(now)
    }

    /// Returns how long the pull may make no progress.
    fn limit(&self) -> Duration {
        let mut limit = IDLE;
        for (status, _) in self.said.values() {
            match layer_status(status) {
                LayerStatus::Downloading | LayerStatus::Awaited => return IDLE,
                LayerStatus::Downloaded | LayerStatus::Unpacking => limit = UNPACKING,
                LayerStatus::Other => {}
            }
        }
        limit
    }

    fn take(&mut self, line: Line) -> Option<PullProgress> {
        let id = line.id.filter(|id| self.said.contains_key(id))?;
        match layer_status(line.status.as_deref()?) {
            LayerStatus::Downloading => {
                let detail = line.detail?;
                let layer = PullProgress {
                    current: u64::try_from(detail.current?).ok()?,
                    total: u64::try_from(detail.total.unwrap_or_default()).ok()?,
                };
                self.bytes.insert(id, layer);
            }
            LayerStatus::Downloaded => {
                let layer = self.bytes.get_mut(&id)?;
                layer.current = layer.total;
            }
            LayerStatus::Unpacking | LayerStatus::Awaited | LayerStatus::Other => return None,
        }
        Some(
            self.bytes
                .values()
                .fold(PullProgress::default(), |sum, layer| PullProgress {
                    current: sum.current.saturating_add(layer.current),
                    total: sum.total.saturating_add(layer.total),
                }),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: &str, status: &str, current: i64) -> Line {
        let line = serde_json::json!({ "id": id, "status": status, "progressDetail": { "current": current, "total": 9 } });
        serde_json::from_value(line).unwrap()
    }

    #[test]
    fn repeated_layer_status_is_not_progress() {
        let mut layers = Layers::default();
        let said = [
            (("1", "Pulling from x", 0), true, IDLE),
            (("a", "Waiting", 0), true, IDLE),
            (("a", "Downloading", 5), true, IDLE),
            (("b", "Download complete", 0), true, IDLE),
            (("a", "Downloading", 5), false, IDLE),
            (("b", "Download complete", 0), false, IDLE),
            (("a", "Downloading", 6), true, IDLE),
            (("a", "Download complete", 0), true, UNPACKING),
            (("a", "Extracting", 1), true, UNPACKING),
            (("a", "Extracting", 2), true, UNPACKING),
            (("c", "Retrying in 5 seconds", 0), true, IDLE),
        ];
        for ((id, status, current), moves, limit) in said {
            let line = line(id, status, current);
            assert_eq!((layers.moves(&line), layers.limit()), (moves, limit), "{line:?}");
        }
    }
}
