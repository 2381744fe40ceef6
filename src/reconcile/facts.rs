//! What is known beside the containers, and what is asked for when a decision hangs on it.

use chrono::{DateTime, Utc};
use tracing::warn;

use super::{Reconciler, Stalled};
use crate::document::Obstacle;
use crate::engine::{Engine, EngineError};
use crate::health::HealthEndpoint;
use crate::image::manager_reference;
use crate::manager::{ImageSource, Query};
use crate::observe::too_little_memory;
use crate::rollout::reason::Reason;
use crate::rollout::{Desired, Fact, Facts, Member, Rollout, UpdateOrder};

/// compose puts this on all it makes. Others that copy files in would have to be told by their own signs.
const COMPOSE_PROJECT: &str = "com.docker.compose.project";

/// What fails where the engine does not tell.
const LOOK_FOR_FILES: &str = "look for copied files";

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Reconciler<E, M, H> {
    /// What is known about one delegate.
    pub(super) fn facts(
        &self,
        rollout: &Rollout,
        desired: &Desired,
        stalled: &Stalled,
        now: DateTime<Utc>,
    ) -> Facts {
        let tracked = self.tracked.get(&rollout.name);
        Facts {
            backoff: tracked.and_then(|tracked| tracked.backoff.clone()),
            is_pulling: matches!(
                desired, Desired::Image { reference, .. } if self.pulls.is_in_progress(reference)
            ),
            free_memory: tracked.and_then(|tracked| tracked.free_memory.clone()),
            copied_files: tracked.and_then(|tracked| tracked.copied_files(rollout)),
            manager: self.manager.reach(now),
            stalled_replica: match desired {
                Desired::Keep(Reason::WaitingForReplica { name }) => stalled.get(name).cloned(),
                _ => None,
            },
        }
    }

    /// How one delegate is replaced, as far as is known.
    pub(super) fn update_order(&self, rollout: &Rollout) -> UpdateOrder {
        let tracked = self.tracked.get(&rollout.name);
        let facts = Facts {
            free_memory: tracked.and_then(|tracked| tracked.free_memory.clone()),
            ..Facts::default()
        };
        rollout.update_order(&self.settings.policy, &facts)
    }

    /// Finds out what a decision hangs on.
    pub(super) async fn learn(&mut self, rollout: &Rollout, fact: Fact, now: DateTime<Utc>) {
        match (fact, &rollout.serving) {
            // Until the rollout is over the answer stands.
            (Fact::FreeMemory, Some(serving)) => {
                let scope = &self.settings.scope;
                let too_little = too_little_memory(self.engine.as_ref(), scope, serving).await;
                self.track(rollout).free_memory = Some(too_little.map_or(Ok(()), Err));
            }
            (Fact::CopiedFiles, Some(serving)) => self.learn_copied_files(rollout, serving).await,
            (Fact::ManagerReachable { image }, _) => {
                self.manager.ask(Query {
                    workload: rollout.workload.clone(),
                    image: manager_reference(&image, &self.settings.target),
                });
            }
            (Fact::CommonCause { container, cause }, _) => {
                self.memory.history(&container).note_common_cause(now, cause);
            }
            (Fact::FreeMemory | Fact::CopiedFiles, None) => {}
        }
    }

    /// A replacement that is about to begin may be forbidden by what no document tells.
    async fn learn_copied_files(&mut self, rollout: &Rollout, serving: &Member) {
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
                let (container, workload) = (&rollout.name, &rollout.workload);
                warn!(container, workload, %error, "not allowed to check for copied files; assuming there are none");
                Ok(())
            }
            // Nothing is done before it is known.
            Err(error) => {
                let now = self.now();
                self.backoff(rollout, LOOK_FOR_FILES, error.to_string(), now);
                return;
            }
        };
        let tracked = self.track(rollout);
        tracked.backoff = None;
        tracked.copied_files = Some((serving.id.clone(), answer));
    }

    /// After an inconclusive attempt the image is tried again in the next run, not in this one.
    pub(super) fn note_inconclusive(&mut self, rollout: &Rollout, reason: &Reason) {
        if let Reason::Inconclusive { .. } = reason {
            self.run.skip_until_next_run(rollout, reason.clone());
        }
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
