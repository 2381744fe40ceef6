//! Pulling an image: the stream of an answer whose status is 200 whether it succeeds or not.

use std::collections::HashMap;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error as BollardError;
use bollard::models::CreateImageInfo;
use bollard::query_parameters::CreateImageOptions;
use futures_util::StreamExt;
use tokio::time::{Instant, timeout_at};

use super::DockerEngine;
use super::call_log::logged;
use super::errors::{from_bollard, in_stream};
use super::messages::{LayerStatus, is_unfinished_line, layer_status};
use crate::engine::credentials::header::Login;
use crate::engine::{EngineError, PullProgress};
use crate::image::ImageReference;
use crate::text::duration;

/// A pull may take any time, but must not stand still for longer than this.
pub(super) const IDLE: Duration = Duration::from_secs(120);
/// The same once all bytes are there: some engines say nothing while they unpack a layer.
const UNPACKING: Duration = Duration::from_secs(1800);

impl DockerEngine {
    /// Pulls with this login, and counts the call.
    pub(super) async fn pull_with(
        &self,
        reference: &ImageReference,
        platform: Option<&str>,
        login: Option<&Login>,
        progress: impl FnMut(PullProgress) + Send,
    ) -> Result<(), EngineError> {
        let session = self.session().await?;
        let pulled = pull(&session.docker, reference, platform, login, progress);
        let call = format!("POST /images/create?fromImage={reference}");
        let pulled = logged(&self.shared.http.calls, call, pulled).await;
        self.track_session(pulled).await
    }
}

/// Pulls an image. A stream that ends well may still have brought nothing: inspecting the image shows it.
async fn pull(
    docker: &Docker,
    reference: &ImageReference,
    platform: Option<&str>,
    login: Option<&Login>,
    mut progress: impl FnMut(PullProgress) + Send,
) -> Result<(), EngineError> {
    let (from_image, tag) = pull_source(reference);
    let options = CreateImageOptions {
        from_image: Some(from_image),
        tag,
        platform: platform.unwrap_or_default().to_owned(),
        ..CreateImageOptions::default()
    };
    let credentials = login.map(Login::credentials);
    let mut stream = std::pin::pin!(docker.create_image(Some(options), None, credentials));
    let mut layers = Layers::default();
    let mut moved = Instant::now();
    loop {
        let limit = layers.limit();
        let line = timeout_at(moved + limit, stream.next()).await;
        // The containerd store repeats a layer that stands still ten times a second.
        let line = line.ok().filter(|_| moved.elapsed() < limit);
        match line {
            // The engine is there, and waits for the registry.
            None => {
                let (idle, registry) = (duration::text(limit), reference.registry());
                return Err(in_stream(&format!(
                    "nothing arrived for {idle}; check that the engine can reach {registry}"
                )));
            }
            Some(None) => return Ok(()),
            // The end of the stream after all; inspecting the image shows whether the pull succeeded.
            Some(Some(Err(BollardError::IOError { err }))) if is_unfinished_line(&err.to_string()) => {
                return Ok(());
            }
            Some(Some(Err(BollardError::IOError { err }))) => {
                return Err(in_stream(&format!("the engine's answer broke off: {err}")));
            }
            Some(Some(Err(error))) => return Err(from_bollard(error, IDLE)),
            // `{"error": …}` alone: bollard does not know that field, so all fields of the line are empty.
            Some(Some(Ok(line))) if line == CreateImageInfo::default() => {
                return Err(in_stream("the engine broke off the pull"));
            }
            Some(Some(Ok(line))) => {
                if layers.moves(&line) {
                    moved = Instant::now();
                }
                if let Some(now) = layers.take(line) {
                    progress(now);
                }
            }
        }
    }
}

/// `fromImage` and `tag` of a pull. Without a tag the engine would pull every tag of the repository.
fn pull_source(reference: &ImageReference) -> (String, Option<String>) {
    let text = reference.to_string();
    let last = text.rsplit('/').next().unwrap_or_default();
    let tag = (!last.contains([':', '@'])).then(|| "latest".to_owned());
    (text, tag)
}

/// How far each layer of a pull has come.
#[derive(Default)]
struct Layers {
    bytes: HashMap<String, PullProgress>,
    /// The engine's last word on each: its status, and a number.
    said: HashMap<String, (String, Option<i64>)>,
}

impl Layers {
    /// Whether a line says something new.
    fn moves(&mut self, line: &CreateImageInfo) -> bool {
        let count = line.progress_detail.as_ref().and_then(|detail| detail.current);
        let now = (line.status.clone().unwrap_or_default(), count);
        let before = self.said.insert(line.id.clone().unwrap_or_default(), now.clone());
        before != Some(now)
    }

    /// How long it may stand still.
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

    fn take(&mut self, line: CreateImageInfo) -> Option<PullProgress> {
        let id = line.id?;
        match layer_status(line.status.as_deref()?) {
            LayerStatus::Downloading => {
                let detail = line.progress_detail?;
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

    fn line(id: &str, status: &str, current: i64) -> CreateImageInfo {
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
