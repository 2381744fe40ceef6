//! Which image a Deployment should run: what the Manager publishes, by its tag. No registry is asked: the nodes pull.

use tokio::time::Instant;

use crate::image::{ImageReference, TargetSettings, manager_reference, resolve};
use crate::managed::Managed;
use crate::manager::{ManagerError, Query};
use crate::reconcile::wanted::{Wanted, not_asked, not_comparable, up_to_date, wanted};
use crate::rollout::reason::{Awaited, Reason};

/// The answer so far to which image one Deployment should run.
#[derive(Debug)]
pub(super) struct Resolution {
    /// The image that it was to run when it was asked for.
    image: String,
    state: State,
}

#[derive(Debug)]
enum State {
    Open { query: Query, since: Instant },
    Resolved(Result<ImageReference, Reason>),
}

impl Resolution {
    /// The question about a Deployment; `None` where nothing is asked about it.
    pub(super) fn of(managed: &Managed, settings: &TargetSettings) -> Option<Self> {
        if managed.opted_out.is_some() {
            return None;
        }
        let state = match managed.image.reference() {
            Ok(current) => State::Open {
                query: Query {
                    workload: managed.workload.clone(),
                    image: manager_reference(current, settings),
                },
                since: Instant::now(),
            },
            Err(problem) => State::Resolved(Err(not_comparable(&managed.image, problem.to_string()))),
        };
        Some(Self {
            image: managed.image.to_string(),
            state,
        })
    }

    /// That which an operator wants, whatever is published.
    pub(super) fn fixed(managed: &Managed, image: ImageReference) -> Self {
        Self {
            image: managed.image.to_string(),
            state: State::Resolved(Ok(image)),
        }
    }

    /// The open question.
    pub(super) fn query(&self) -> Option<&Query> {
        match &self.state {
            State::Open { query, .. } => Some(query),
            State::Resolved(_) => None,
        }
    }

    /// The image that it should run, or why it keeps its own.
    pub(super) fn target(
        &self,
        managed: &Managed,
        last_error: Option<&ManagerError>,
    ) -> Result<ImageReference, Reason> {
        match &self.state {
            State::Open { since, .. } => Err(Reason::AwaitingAnswer {
                from: Awaited::Manager,
                waited: since.elapsed(),
                last_error: last_error.map(ToString::to_string),
            }),
            // It runs what it was to be given by then, or somebody gave it another image.
            State::Resolved(Ok(target)) if managed.image.refers_to(target) => Err(up_to_date(&managed.image)),
            State::Resolved(Ok(target)) => Ok(target.clone()),
            State::Resolved(Err(reason)) if self.image == managed.image.as_str() => Err(reason.clone()),
            State::Resolved(Err(_)) => Err(not_asked()),
        }
    }

    /// Takes in an answer, if it is to the open question.
    pub(super) fn note(
        &mut self,
        managed: &Managed,
        query: &Query,
        answer: &Result<ImageReference, ManagerError>,
        settings: &TargetSettings,
    ) {
        let (Ok(current), true) = (managed.image.reference(), self.query() == Some(query)) else {
            return;
        };
        let target = match answer {
            Err(error) => Err(Reason::TargetUnknown(error.clone())),
            Ok(published) => match wanted(resolve(published, current, settings), &managed.image) {
                Ok(Wanted::Image(reference)) => Ok(reference),
                // The same reference is the same for Kubernetes, too: it would restart nothing.
                Ok(Wanted::Digest(_)) => Err(up_to_date(&managed.image)),
                Err(reason) => Err(reason),
            },
        };
        self.state = State::Resolved(target);
    }
}
