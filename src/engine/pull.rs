//! Pulling an image: the stream of an answer that is 200 whatever comes of it.

use std::collections::HashMap;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error as BollardError;
use bollard::models::CreateImageInfo;
use bollard::query_parameters::CreateImageOptions;
use futures_util::StreamExt;
use tokio::time::timeout;

use super::auth::Login;
use super::repaired::{in_stream, translate};
use super::{EngineError, PullProgress};
use crate::image::ImageReference;

/// A pull may take any time, but not stand still for longer than this.
pub(super) const IDLE: Duration = Duration::from_secs(120);

/// Pulls an image. A stream that ends well may still have brought nothing: that is for the image to tell.
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
            // The engine is there; it is the registry that it waits for.
            Err(_) => {
                let (seconds, registry) = (IDLE.as_secs(), reference.registry());
                return Err(in_stream(format!(
                    "nothing came for {seconds} s; does {registry} answer the engine?"
                )));
            }
            Ok(None) => return Ok(()),
            // bollard reports the end of a stream without a final line break as an error; whether
            // the pull succeeded is for the image to tell.
            Ok(Some(Err(BollardError::IOError { err }))) if err.kind() == std::io::ErrorKind::Other => {
                return Ok(());
            }
            Ok(Some(Err(error))) => return Err(translate(error, IDLE)),
            // `{"error": …}` alone: bollard knows no such field, so the line comes out blank.
            Ok(Some(Ok(line))) if line == CreateImageInfo::default() => {
                return Err(in_stream("the engine broke the pull off".to_owned()));
            }
            Ok(Some(Ok(line))) => {
                if let Some(now) = layers.take(line) {
                    progress(now);
                }
            }
        }
    }
}

/// `fromImage` and `tag` of a pull. Without a tag the engine would pull every tag there is.
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
        // Extraction counts its own bytes again.
        match line.status.as_deref()? {
            "Downloading" => {
                let detail = line.progress_detail?;
                let layer = PullProgress {
                    current: u64::try_from(detail.current?).ok()?,
                    total: u64::try_from(detail.total.unwrap_or_default()).ok()?,
                };
                self.0.insert(id, layer);
            }
            "Download complete" => {
                let layer = self.0.get_mut(&id)?;
                layer.current = layer.total;
            }
            _ => return None,
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn progress_adds_up_over_layers() {
        let line = |id: &str, status: &str, current: i64, total: i64| -> CreateImageInfo {
            serde_json::from_value(json!({
                "id": id, "status": status, "progressDetail": { "current": current, "total": total },
            }))
            .unwrap()
        };
        let mut layers = Layers::default();
        layers.take(line("a", "Downloading", 10, 100));
        let both = layers.take(line("b", "Downloading", 5, 50));
        assert_eq!(
            both,
            Some(PullProgress {
                current: 15,
                total: 150
            })
        );
        assert_eq!(layers.take(line("a", "Extracting", 1, 900)), None);
        let done = layers.take(line("a", "Download complete", 0, 0));
        assert_eq!(
            done,
            Some(PullProgress {
                current: 105,
                total: 150
            })
        );
    }
}
