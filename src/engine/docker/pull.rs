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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::engine::{DockerEngine, Engine as _, EngineHost};

    /// The outcome of a pull from an engine that answers it with this body, as it is, and closes the connection. The image
    /// exists all along.
    async fn pull_with(body: &'static str) -> Result<(), EngineError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = [0; 4096];
                let count = stream.read(&mut head).await.unwrap_or(0);
                let answer = if head[..count].starts_with(b"POST") {
                    format!("Transfer-Encoding: chunked\r\n\r\n{body}")
                } else {
                    let document = json!({ "ApiVersion": "1.41", "Id": "sha256:old" }).to_string();
                    format!("Content-Length: {}\r\n\r\n{document}", document.len())
                };
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n";
                let _ = stream.write_all(format!("{head}{answer}").as_bytes()).await;
            }
        });
        let host = EngineHost::Tcp { address, tls: None };
        let engine = DockerEngine::connect(&host).unwrap();
        engine.pull(&"r.example/x:1".parse().unwrap(), None, |_| {}).await
    }

    #[tokio::test]
    async fn a_pull_whose_answer_breaks_off_has_failed() {
        const WHOLE: &str = "15\r\n{\"status\":\"Pulling\"}\n\r\n0\r\n\r\n";
        assert_eq!(pull_with(WHOLE).await, Ok(()));
        assert_eq!(
            pull_with("14\r\n{\"status\":\"Pulling\"}\r\n0\r\n\r\n").await,
            Ok(())
        );
        for broken in ["15\r\n{\"status\":\"Pulling\"}\n\r\n", "15\r\n{\"status\":", ""] {
            let error = pull_with(broken).await.unwrap_err().to_string();
            assert!(error.contains("broke off"), "{broken:?}: {error}");
        }
    }

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
