//! Pulling an image: the stream of an answer whose status is 200 whether it succeeds or not.

use std::collections::HashMap;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error as BollardError;
use bollard::models::CreateImageInfo;
use bollard::query_parameters::CreateImageOptions;
use futures_util::StreamExt;
use tokio::time::timeout;

use super::errors::{from_bollard, in_stream};
use super::messages::{LayerStatus, is_unfinished_line, layer_status};
use crate::engine::credentials::header::Login;
use crate::engine::{EngineError, PullProgress};
use crate::image::ImageReference;
use crate::text::duration;

/// A pull may take any time, but must not stand still for longer than this.
pub(super) const IDLE: Duration = Duration::from_secs(120);

/// Pulls an image. A stream that ends well may still have brought nothing: inspecting the image shows it.
pub(super) async fn pull(
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
    loop {
        match timeout(IDLE, stream.next()).await {
            // The engine is there, and waits for the registry.
            Err(_) => {
                let (idle, registry) = (duration::text(IDLE), reference.registry());
                return Err(in_stream(&format!(
                    "nothing arrived for {idle}; check that the engine can reach {registry}"
                )));
            }
            Ok(None) => return Ok(()),
            // The end of the stream after all; inspecting the image shows whether the pull succeeded.
            Ok(Some(Err(BollardError::IOError { err }))) if is_unfinished_line(&err.to_string()) => {
                return Ok(());
            }
            Ok(Some(Err(BollardError::IOError { err }))) => {
                return Err(in_stream(&format!("the engine's answer broke off: {err}")));
            }
            Ok(Some(Err(error))) => return Err(from_bollard(error, IDLE)),
            // `{"error": …}` alone: bollard does not know that field, so all fields of the line are empty.
            Ok(Some(Ok(line))) if line == CreateImageInfo::default() => {
                return Err(in_stream("the engine broke off the pull"));
            }
            Ok(Some(Ok(line))) => {
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
struct Layers(HashMap<String, PullProgress>);

impl Layers {
    fn take(&mut self, line: CreateImageInfo) -> Option<PullProgress> {
        let id = line.id?;
        match layer_status(line.status.as_deref()?) {
            LayerStatus::Downloading => {
                let detail = line.progress_detail?;
                let layer = PullProgress {
                    current: u64::try_from(detail.current?).ok()?,
                    total: u64::try_from(detail.total.unwrap_or_default()).ok()?,
                };
                self.0.insert(id, layer);
            }
            LayerStatus::Downloaded => {
                let layer = self.0.get_mut(&id)?;
                layer.current = layer.total;
            }
            LayerStatus::Other => return None,
        }
        Some(
            self.0
                .values()
                .fold(PullProgress::default(), |sum, layer| PullProgress {
                    current: sum.current.saturating_add(layer.current),
                    total: sum.total.saturating_add(layer.total),
                }),
        )
    }
}
