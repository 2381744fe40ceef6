//! Questions to the Manager and to registries, asked in the background: one task per distinct question.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::debug;

use crate::container::ImageId;
use crate::engine::{Engine, EngineError};
use crate::image::ImageReference;
use crate::manager::{ImageSource, ManagerError, Query};
use crate::net::retry::Retry;
use crate::rollout::reason::{Awaited, Reason};
use crate::sync::lock;

/// The most open questions, so that a host with many workloads does not overload its Manager.
const MAX_OPEN: usize = 8;

/// A question that only something outside this host can answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Question {
    /// Which image does the Manager publish?
    Published(Query),
    /// Which image is published for upgraders, one of which runs this image?
    Upgrader(ImageReference),
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
}

impl Question {
    /// The reason to wait for its answer since then. `last_error` is the Manager's.
    pub(crate) fn awaited(&self, since: Instant, last_error: Option<&str>) -> Reason {
        let (from, last_error) = match self {
            Self::Published(_) | Self::Upgrader(_) => (Awaited::Manager, last_error),
            Self::IsCurrent { reference, .. } | Self::Distribution(reference) | Self::Created(reference) => {
                (Awaited::Registry(reference.registry().to_owned()), None)
            }
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
    /// Its digest and platforms, or the registry's problem.
    Distribution(Result<serde_json::Value, Reason>),
    /// The time in its document, or the registry's problem.
    Created(Result<serde_json::Value, String>),
    /// Whether the tag is current, or the registry's problem.
    IsCurrent(Result<Currency, Reason>),
}

/// Whether a mutable tag refers to the running image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Currency {
    /// It does.
    Current,
    /// It refers to another one.
    Behind {
        /// The digest of that image.
        digest: String,
    },
}

/// A question with its answer.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) question: Question,
    pub(crate) answer: Answer,
    /// When it was asked.
    pub(crate) asked: Instant,
}

/// The open questions. Dropping this ends them at once.
#[derive(Debug)]
pub(crate) struct Questions {
    tasks: JoinSet<(Question, Answer)>,
    asked: HashMap<Question, Instant>,
    answered: VecDeque<Answered>,
    permits: Arc<Semaphore>,
}

/// By reference, the image that was found behind it, and the digest at that time. An image keeps its digests as long as it
/// exists, so they are not asked for again.
type CurrentDigests = Mutex<HashMap<ImageReference, (ImageId, String)>>;

/// Answers a question that is not for the Manager.
pub(crate) type AskRegistry = Arc<dyn Fn(Question) -> BoxFuture<'static, Answer> + Send + Sync>;

/// Without a way to ask registries, nothing is known of them.
pub(super) fn no_registry(question: Question) -> BoxFuture<'static, Answer> {
    let answer = match question {
        Question::Distribution(reference) => Answer::Distribution(Err(Reason::DigestUnknown {
            image: reference.to_string(),
            problem: "no registry is asked".to_owned(),
            retry: Retry::Never,
        })),
        _ => Answer::Upgrader(None),
    };
    std::future::ready(answer).boxed()
}

/// Asks registries through the engine of this host.
pub(super) fn through_engine<E: Engine>(engine: Arc<E>) -> AskRegistry {
    let current = Arc::new(CurrentDigests::default());
    Arc::new(move |question| {
        let (engine, current) = (Arc::clone(&engine), Arc::clone(&current));
        async move { answer_of(engine.as_ref(), question, &current).await }.boxed()
    })
}

async fn answer_of<E: Engine>(engine: &E, question: Question, current: &CurrentDigests) -> Answer {
    match question {
        Question::IsCurrent { reference, running } => {
            Answer::IsCurrent(is_current(engine, &reference, &running, current).await)
        }
        Question::Distribution(reference) => {
            let problem = |error: EngineError| Reason::DigestUnknown {
                image: reference.to_string(),
                problem: error.explain(reference.registry()),
                retry: error.retry(),
            };
            Answer::Distribution(engine.distribution(&reference).await.map_err(problem))
        }
        // A host's engine shows when an image was built.
        Question::Published(_) | Question::Upgrader(_) | Question::Created(_) => Answer::Upgrader(None),
    }
}

impl Default for Questions {
    fn default() -> Self {
        Self {
            tasks: JoinSet::new(),
            asked: HashMap::new(),
            answered: VecDeque::new(),
            permits: Arc::new(Semaphore::new(MAX_OPEN)),
        }
    }
}

impl Questions {
    /// Asks, unless the same question is already open. Returns since when it has been open.
    pub(crate) fn ask<M: ImageSource>(
        &mut self,
        question: &Question,
        registry: &AskRegistry,
        source: &Arc<M>,
    ) -> Instant {
        if let Some(asked) = self.asked.get(question) {
            return *asked;
        }
        let (question, now) = (question.clone(), Instant::now());
        self.asked.insert(question.clone(), now);
        let (registry, source) = (Arc::clone(registry), Arc::clone(source));
        let permits = Arc::clone(&self.permits);
        self.tasks.spawn(async move {
            let _permit = permits.acquire_owned().await;
            let answer = match &question {
                Question::Published(query) => {
                    Answer::Published(source.published(&query.image, &query.workload).await)
                }
                Question::Upgrader(current) => Answer::Upgrader(source.published_upgrader(current).await),
                question => registry(question.clone()).await,
            };
            (question, answer)
        });
        now
    }

    /// Completes when a question is answered; never if none is open.
    pub(crate) async fn answered(&mut self) {
        if self.answered.is_empty() {
            match self.tasks.join_next().await {
                Some(joined) => self.note(joined),
                None => std::future::pending().await,
            }
        }
    }

    /// Whether an answer is ready.
    pub(crate) fn has_answer(&self) -> bool {
        !self.answered.is_empty()
    }

    /// Hands out each answer once.
    pub(crate) fn next(&mut self) -> Option<Answered> {
        while let Some(joined) = self.tasks.try_join_next() {
            self.note(joined);
        }
        self.answered.pop_front()
    }

    fn note(&mut self, joined: Result<(Question, Answer), tokio::task::JoinError>) {
        match joined {
            Ok((question, answer)) => {
                let asked = self.asked.remove(&question).unwrap_or_else(Instant::now);
                self.answered.push_back(Answered {
                    question,
                    answer,
                    asked,
                });
            }
            // It is unknown which question failed, so all may be asked again.
            Err(error) => {
                debug!(%error, "internal error: a question ended without an answer");
                self.asked.clear();
            }
        }
    }
}

/// Whether the reference refers to the running image.
async fn is_current<E: Engine>(
    engine: &E,
    reference: &ImageReference,
    running: &ImageId,
    current: &CurrentDigests,
) -> Result<Currency, Reason> {
    let unknown = |problem, retry| Reason::DigestUnknown {
        image: reference.to_string(),
        problem,
        retry,
    };
    let digest = engine.registry_digest(reference).await;
    let digest = digest.map_err(|error| unknown(error.explain(reference.registry()), error.retry()))?;
    let found = (running.clone(), digest.clone());
    if lock(current).get(reference) == Some(&found) {
        return Ok(Currency::Current);
    }
    let image = match engine.inspect_image(running.as_str()).await {
        // A pull of the moved tag may have removed the running image.
        Err(EngineError::NotFound(_)) => serde_json::Value::Null,
        image => image.map_err(|error| unknown(error.to_string(), error.retry()))?,
    };
    let known = image.get("RepoDigests").and_then(serde_json::Value::as_array);
    let is_known = known.into_iter().flatten().any(|known| {
        let known = known.as_str().and_then(|known| known.rsplit_once('@'));
        known.is_some_and(|(_, known)| known == digest)
    });
    // In containerd's store the id is the digest.
    Ok(if is_known || running.as_str() == digest {
        lock(current).insert(reference.clone(), found);
        Currency::Current
    } else {
        Currency::Behind { digest }
    })
}
