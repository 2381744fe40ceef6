//! Which image a workload of an orchestrator should run: a question that is open, and then its answer.

use std::time::Duration;

use tokio::time::Instant;

use crate::image::{ImageReference, TargetSettings, is_mutable_tag, manager_reference, resolve};
use crate::managed::{Managed, pinned};
use crate::manager::Query;
use crate::reconcile::questions::{Answer, Question};
use crate::rollout::reason::Reason;
use crate::rollout::wanted::{Wanted, not_asked, not_comparable, up_to_date, wanted};

/// A search for the image that a workload should run: open, or resolved.
#[derive(Debug)]
pub(super) struct Resolution {
    /// The image that it was to run when the first question was asked.
    image: String,
    state: State,
}

#[derive(Debug)]
enum State {
    Open { question: Question, since: Instant },
    Resolved(Result<ImageReference, Reason>),
}

impl State {
    fn open(question: Question) -> Self {
        let since = Instant::now();
        Self::Open { question, since }
    }
}

impl Resolution {
    /// Asks the Manager first; `None` where nothing is asked about a workload.
    pub(super) fn of(managed: &Managed, settings: &TargetSettings) -> Option<Self> {
        let state = match managed.image.reference() {
            _ if managed.left_alone.is_some() => return None,
            Ok(current) => State::open(Question::Published(Query {
                workload: managed.workload.clone(),
                image: manager_reference(current, settings),
            })),
            Err(problem) => State::Resolved(Err(not_comparable(&managed.image, problem.to_string()))),
        };
        let image = managed.image.to_string();
        Some(Self { image, state })
    }

    /// That which an operator wants, whatever is published.
    pub(super) fn fixed(managed: &Managed, image: ImageReference) -> Self {
        Self {
            image: managed.image.to_string(),
            state: State::Resolved(Ok(image)),
        }
    }

    /// The open question, and since when it is.
    pub(super) fn question(&self) -> Option<(&Question, Instant)> {
        match &self.state {
            State::Open { question, since } => Some((question, *since)),
            State::Resolved(_) => None,
        }
    }

    /// How long an answer has been awaited; `None` where none is.
    pub(super) fn waited(&self) -> Option<Duration> {
        Some(self.question()?.1.elapsed())
    }

    /// Whose answer is awaited. `last_error` is the Manager's.
    pub(super) fn awaited(&self, last_error: Option<&str>) -> Option<Reason> {
        let (question, since) = self.question()?;
        Some(question.awaited(since, last_error))
    }

    /// Takes in an answer, if it is to the open question. With `platforms`, the registry is asked for the digest of each image,
    /// which has to be there for all of them; without, for that of a tag that may move.
    pub(super) fn note(
        &mut self,
        managed: &Managed,
        (question, answer): (&Question, &Answer),
        settings: &TargetSettings,
        platforms: Option<&[String]>,
    ) {
        let Ok(current) = managed.image.reference() else {
            return;
        };
        if self.question().is_none_or(|(open, _)| open != question) {
            return;
        }
        self.state = State::Resolved(match (question, answer) {
            (_, Answer::Published(Err(error))) => Err(Reason::target_unknown(error)),
            (_, Answer::Published(Ok(published))) => {
                match (
                    wanted(resolve(published, current, settings), &managed.image),
                    platforms,
                ) {
                    (Ok(Wanted::Image(image)), None) if !is_mutable_tag(&image) => Ok(image),
                    (Ok(Wanted::Image(image) | Wanted::Digest(image)), _) => {
                        self.state = State::open(Question::Distribution(image));
                        return;
                    }
                    (Err(reason), _) => Err(reason),
                }
            }
            (Question::Distribution(reference), Answer::Distribution(answer)) => {
                let platforms = platforms.unwrap_or_default();
                let pinned = |answer| pinned(&managed.image, reference, answer, platforms);
                answer.as_ref().map_err(Clone::clone).and_then(pinned)
            }
            _ => return,
        });
    }

    /// The image that it should run, or why it keeps its own. `last_error` is the Manager's.
    pub(super) fn target(
        &self,
        managed: &Managed,
        last_error: Option<&str>,
    ) -> Result<ImageReference, Reason> {
        match &self.state {
            State::Open { .. } => Err(self.awaited(last_error).unwrap_or_else(not_asked)),
            // The workload has the image by now, or its owner gave it another one.
            State::Resolved(Ok(target)) if managed.image.refers_to(target) => Err(up_to_date(&managed.image)),
            State::Resolved(Ok(target)) => Ok(target.clone()),
            State::Resolved(Err(reason)) if self.image == managed.image.as_str() => Err(reason.clone()),
            State::Resolved(Err(_)) => Err(not_asked()),
        }
    }
}
