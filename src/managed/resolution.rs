//! Which image a service or a Deployment should run: a question that is open, and then its answer.

use std::time::Duration;

use tokio::time::Instant;

use super::Managed;
use crate::image::{ImageReference, TargetSettings, manager_reference};
use crate::manager::Query;
use crate::rollout::reason::{Awaited, Reason};
use crate::rollout::wanted::{not_asked, not_comparable, up_to_date};

/// A search for the image that a workload should run: open, or resolved. `Q` is a question that its orchestrator can have.
#[derive(Debug)]
pub(crate) struct Resolution<Q> {
    /// The image that it was to run when the first question was asked.
    image: String,
    state: State<Q>,
}

#[derive(Debug)]
enum State<Q> {
    Open {
        question: Q,
        from: Awaited,
        since: Instant,
    },
    Resolved(Result<ImageReference, Reason>),
}

impl<Q: PartialEq> Resolution<Q> {
    /// Asks the Manager first, in the orchestrator's form of that question.
    pub(crate) fn first(
        managed: &Managed,
        settings: &TargetSettings,
        question: impl FnOnce(Query) -> Q,
    ) -> Self {
        let state = match managed.image.reference() {
            Ok(current) => State::Open {
                question: question(Query {
                    workload: managed.workload.clone(),
                    image: manager_reference(current, settings),
                }),
                from: Awaited::Manager,
                since: Instant::now(),
            },
            Err(problem) => State::Resolved(Err(not_comparable(&managed.image, problem.to_string()))),
        };
        Self {
            image: managed.image.to_string(),
            state,
        }
    }

    /// That which an operator wants, whatever is published.
    pub(crate) fn fixed(managed: &Managed, image: ImageReference) -> Self {
        Self {
            image: managed.image.to_string(),
            state: State::Resolved(Ok(image)),
        }
    }

    /// The open question.
    pub(crate) fn question(&self) -> Option<&Q> {
        match &self.state {
            State::Open { question, .. } => Some(question),
            State::Resolved(_) => None,
        }
    }

    /// How long an answer has been awaited; `None` where none is.
    pub(crate) fn waited(&self) -> Option<Duration> {
        match &self.state {
            State::Open { since, .. } => Some(since.elapsed()),
            State::Resolved(_) => None,
        }
    }

    /// Whose answer is awaited. `last_error` is the Manager's.
    pub(crate) fn awaited(&self, last_error: Option<&str>) -> Option<Reason> {
        match &self.state {
            State::Open { from, since, .. } => Some(awaiting(from, *since, last_error)),
            State::Resolved(_) => None,
        }
    }

    /// The image that it runs, if this is the open question.
    pub(crate) fn asked_about<'a>(&self, managed: &'a Managed, question: &Q) -> Option<&'a ImageReference> {
        let is_open = self.question() == Some(question);
        managed.image.reference().ok().filter(|_| is_open)
    }

    /// The answer leads to another question.
    pub(crate) fn ask_registry(&mut self, reference: &ImageReference, question: Q) {
        self.state = State::Open {
            question,
            from: Awaited::Registry(reference.registry().to_owned()),
            since: Instant::now(),
        };
    }

    /// The answer says which image it should run, or why it keeps its own.
    pub(crate) fn resolve(&mut self, target: Result<ImageReference, Reason>) {
        self.state = State::Resolved(target);
    }

    /// The image that it should run, or why it keeps its own. `last_error` is the Manager's.
    pub(crate) fn target(
        &self,
        managed: &Managed,
        last_error: Option<&str>,
    ) -> Result<ImageReference, Reason> {
        match &self.state {
            State::Open { from, since, .. } => Err(awaiting(from, *since, last_error)),
            // It runs what it was to be given by then, or somebody gave it another image.
            State::Resolved(Ok(target)) if managed.image.refers_to(target) => Err(up_to_date(&managed.image)),
            State::Resolved(Ok(target)) => Ok(target.clone()),
            State::Resolved(Err(reason)) if self.image == managed.image.as_str() => Err(reason.clone()),
            State::Resolved(Err(_)) => Err(not_asked()),
        }
    }
}

fn awaiting(from: &Awaited, since: Instant, last_error: Option<&str>) -> Reason {
    let is_manager = *from == Awaited::Manager;
    Reason::AwaitingAnswer {
        from: from.clone(),
        waited: since.elapsed(),
        last_error: last_error.filter(|_| is_manager).map(str::to_owned),
    }
}
