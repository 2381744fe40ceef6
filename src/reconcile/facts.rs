//! Files that were copied into a delegate: asked for when it is about to be replaced, and once.

use tracing::warn;

use super::Reconciler;
use crate::document::Obstacle;
use crate::engine::{Engine, EngineError};
use crate::health::HealthEndpoint;
use crate::manager::ImageSource;
use crate::rollout::{Rollout, Step};

/// compose puts this on all it makes. Others that copy files in would have to be told by their own signs.
const COMPOSE_PROJECT: &str = "com.docker.compose.project";

/// What is troubled where the engine does not tell.
const LOOK_FOR_FILES: &str = "look for copied files";

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Reconciler<E, M, H> {
    /// A replacement that is about to begin may be forbidden by what no document tells. `true` where that was looked at
    /// just now.
    pub(super) async fn learns_of_copied_files(&mut self, rollout: &Rollout, step: &Step) -> bool {
        let begins = matches!(
            step,
            Step::Pull { .. } | Step::CreateStandby { .. } | Step::Create { .. }
        );
        let Some(serving) = rollout.serving.as_ref().filter(|_| begins) else {
            return false;
        };
        let tracked = self.tracked.get(&rollout.name);
        let known = tracked.and_then(|tracked| tracked.copied_files.as_ref());
        if known.is_some_and(|(id, _)| *id == serving.id) {
            return false;
        }
        let engine = self.engine.as_ref();
        let copied = async {
            let container = engine.inspect(&serving.id).await?;
            match container.label(COMPOSE_PROJECT) {
                Some(_) => engine.copied_files(&serving.id).await,
                None => Ok(Vec::new()),
            }
        };
        let answer = match copied.await {
            Ok(files) => match files.into_iter().next() {
                Some(path) => Err(Obstacle::CopiedFile { path }),
                None => Ok(()),
            },
            Err(error) if is_for_good(&error) => {
                let delegate = rollout.name.as_str();
                warn!(delegate, %error, "whether files were copied into it cannot be told; taken for no");
                Ok(())
            }
            // Nothing is done before it is known.
            Err(error) => {
                let now = self.now();
                self.backoff(rollout, LOOK_FOR_FILES, error.to_string(), now);
                return true;
            }
        };
        let tracked = self.track(rollout);
        tracked.backoff = None;
        tracked.copied_files = Some((serving.id.clone(), answer));
        true
    }
}

/// What a proxy lets nobody ask, it lets nobody ask later either. The question needs no right that an upgrade needs.
fn is_for_good(error: &EngineError) -> bool {
    matches!(
        error,
        EngineError::Refused {
            status: 401 | 403 | 405,
            ..
        }
    )
}
