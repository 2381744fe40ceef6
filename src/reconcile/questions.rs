//! Questions to the Manager, to registries and to Prometheus, asked in the background: one task per distinct question.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tracing::debug;

use crate::alerts::Firing;
use crate::container::ImageId;
use crate::container::json::text_at;
use crate::engine::{Engine, EngineError};
use crate::image::ImageReference;
use crate::manager::{ManagerError, Query, UpgraderImage};
use crate::rollout::reason::{Awaited, Reason};

/// A question that only something outside this host can answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Question {
    /// Which image does the Manager publish?
    Published(Query),
    /// Which image is published for upgraders, one of which runs this image?
    Upgrader(ImageReference),
    /// Is a newer version of this upgrader published?
    NewerUpgrader,
    /// Which digest and platforms does the registry have for this reference?
    Distribution(ImageReference),
    /// When was this image built, according to its registry?
    Created(ImageReference),
    /// Does a mutable tag still refer, at its registry, to the running image?
    IsCurrent {
        /// The tag.
        reference: ImageReference,
        /// The running image.
        running: ImageId,
    },
    /// Which alerts of `HOLD_ON_ALERTS` fire?
    Alerts,
}

impl Question {
    /// The reason to wait for its answer since then. `last_error` is the Manager's.
    pub(super) fn awaited(&self, since: Instant, last_error: Option<&str>) -> Reason {
        let (from, last_error) = match self {
            Self::Published(_) | Self::Upgrader(_) | Self::NewerUpgrader => (Awaited::Manager, last_error),
            Self::IsCurrent { reference, .. } | Self::Distribution(reference) | Self::Created(reference) => {
                (Awaited::Registry(reference.registry().to_owned()), None)
            }
            Self::Alerts => (Awaited::Prometheus, None),
        };
        Reason::AwaitingAnswer {
            from,
            waited: since.elapsed(),
            last_error: last_error.map(str::to_owned),
        }
    }
}

/// The answer to a [`Question`] of the same name.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The published image, or why it is not known.
    Published(Result<ImageReference, ManagerError>),
    /// The image published for upgraders; `None` if the source publishes none.
    Upgrader(Option<Result<ImageReference, ManagerError>>),
    /// This upgrader's image beside the published one; the inner `None` if the two cannot be compared, the outer one if either
    /// is unknown.
    NewerUpgrader(Option<Option<UpgraderImage>>),
    /// Its digest and platforms, or the registry's problem.
    Distribution(Result<Value, Reason>),
    /// The time in its document, or the registry's problem.
    Created(Result<Value, String>),
    /// The digest of the other image that the tag refers to, `None` if it refers to the running one, or the registry's problem.
    IsCurrent(Result<Option<String>, Reason>),
    /// The alerts, or why they are unknown.
    Alerts(Firing),
}

/// A question with its answer.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) question: Question,
    pub(super) answer: Answer,
    /// When it was asked.
    pub(super) asked: Instant,
    /// When it was answered.
    pub(super) at: Instant,
}

/// The open questions. Dropping this ends them at once.
#[derive(Debug, Default)]
pub(super) struct Questions {
    tasks: JoinSet<Answered>,
    asked: HashMap<Question, Instant>,
    answered: VecDeque<Answered>,
}

impl Questions {
    /// Asks, unless the same question is already open. Returns since when it has been open.
    pub(super) fn ask<F>(&mut self, question: &Question, ask: impl FnOnce() -> F) -> Instant
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        if let Some(asked) = self.asked.get(question) {
            return *asked;
        }
        let (question, asked) = (question.clone(), Instant::now());
        self.asked.insert(question.clone(), asked);
        self.tasks.spawn(ask().map(move |answer| Answered {
            question,
            answer,
            asked,
            at: Instant::now(),
        }));
        asked
    }

    /// Completes when a question is answered; never if none is open.
    pub(super) async fn answered(&mut self) {
        if self.answered.is_empty() {
            match self.tasks.join_next().await {
                Some(joined) => self.note(joined),
                None => std::future::pending().await,
            }
        }
    }

    /// Whether an answer is ready.
    pub(super) fn has_answer(&self) -> bool {
        !self.answered.is_empty()
    }

    /// Hands out each answer once.
    pub(super) fn next(&mut self) -> Option<Answered> {
        while let Some(joined) = self.tasks.try_join_next() {
            self.note(joined);
        }
        self.answered.pop_front()
    }

    fn note(&mut self, joined: Result<Answered, JoinError>) {
        match joined {
            Ok(answered) => {
                self.asked.remove(&answered.question);
                self.answered.push_back(answered);
            }
            // It is unknown which question failed, so all may be asked again.
            Err(error) => {
                debug!(%error, "internal error: a question ended without an answer");
                self.asked.clear();
            }
        }
    }
}

/// Answers a question to a registry.
pub type AskRegistry = Arc<dyn Fn(Question) -> BoxFuture<'static, Answer> + Send + Sync>;

/// Asks registries through the engine of this host.
pub(super) fn through_engine<E: Engine>(engine: Arc<E>) -> AskRegistry {
    Arc::new(move |question| {
        let engine = Arc::clone(&engine);
        async move {
            match question {
                Question::IsCurrent { reference, running } => {
                    Answer::IsCurrent(newer_digest(engine.as_ref(), &reference, &running).await)
                }
                Question::Distribution(reference) => {
                    let answer = engine.distribution(&reference).await;
                    Answer::Distribution(answer.map_err(|error| digest_unknown(&reference, &error)))
                }
                // A host's engine shows when an image was built.
                _ => Answer::Upgrader(None),
            }
        }
        .boxed()
    })
}

fn digest_unknown(reference: &ImageReference, error: &EngineError) -> Reason {
    Reason::DigestUnknown {
        image: reference.to_string(),
        problem: error.explain(reference.registry()),
        retry: error.retry(),
    }
}

/// The digest that the reference has at its registry, unless the running image has it.
async fn newer_digest<E: Engine>(
    engine: &E,
    reference: &ImageReference,
    running: &ImageId,
) -> Result<Option<String>, Reason> {
    let answer = engine.distribution(reference).await;
    let digest = answer.and_then(|answer| match text_at(&answer, "/Descriptor/digest") {
        "" => Err(EngineError::Malformed(format!("no digest for {reference}"))),
        digest => Ok(digest.to_owned()),
    });
    let digest = digest.map_err(|error| digest_unknown(reference, &error))?;
    let image = match engine.inspect_image(running.as_str()).await {
        // A pull of the moved tag may have removed the running image.
        Err(EngineError::NotFound(_)) => Value::Null,
        // The registry has no part in this.
        image => image.map_err(|error| Reason::DigestUnknown {
            image: reference.to_string(),
            problem: error.to_string(),
            retry: error.retry(),
        })?,
    };
    let known = image["RepoDigests"].as_array().into_iter().flatten();
    let mut known = known.filter_map(|known| known.as_str()?.rsplit_once('@'));
    // In containerd's store the id is the digest.
    let is_current = running.as_str() == digest || known.any(|(_, known)| known == digest);
    Ok((!is_current).then_some(digest))
}
