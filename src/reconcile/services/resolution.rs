//! Which image a service should run: what is published, pinned to the digest that the registry has for it now.

use serde_json::Value;
use tokio::time::Instant;

use super::super::questions::{Answer, Question};
use super::super::wanted::{Wanted, not_asked, not_comparable, up_to_date, wanted};
use crate::document::offered_platforms;
use crate::image::{ImageReference, TargetSettings, manager_reference, resolve};
use crate::managed::Managed;
use crate::manager::Query;
use crate::rollout::reason::{Awaited, Reason};

/// What is known about the image that one service should run.
#[derive(Debug)]
pub(super) struct Resolution {
    /// The image that it was to run when it was asked for.
    image: String,
    state: State,
}

#[derive(Debug)]
enum State {
    Open { question: Question, since: Instant },
    Resolved(Result<ImageReference, Reason>),
}

impl Resolution {
    /// The first question about a service; `None` where nothing is asked about it.
    pub(super) fn of(managed: &Managed, settings: &TargetSettings) -> Option<Self> {
        if managed.opted_out.is_some() || managed.unsupported.is_some() {
            return None;
        }
        let state = match managed.image.reference() {
            Ok(current) => State::Open {
                question: Question::Published(Query {
                    workload: managed.workload.clone(),
                    image: manager_reference(current, settings),
                }),
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
    pub(super) fn question(&self) -> Option<&Question> {
        match &self.state {
            State::Open { question, .. } => Some(question),
            State::Resolved(_) => None,
        }
    }

    /// The image that it should run, or why it keeps its own.
    pub(super) fn target(&self, managed: &Managed) -> Result<ImageReference, Reason> {
        match &self.state {
            State::Open { question, since } => Err(Reason::AwaitingAnswer {
                from: match question {
                    Question::Distribution(reference) => Awaited::Registry(reference.registry().to_owned()),
                    _ => Awaited::Manager,
                },
                waited: since.elapsed(),
                last_error: None,
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
        (question, answer): (&Question, &Answer),
        settings: &TargetSettings,
        platforms: &[String],
    ) {
        if self.question() != Some(question) {
            return;
        }
        let Ok(current) = managed.image.reference() else {
            return;
        };
        self.state = match (question, answer) {
            (_, Answer::Published(Err(error))) => State::Resolved(Err(Reason::TargetUnknown(error.clone()))),
            (_, Answer::Published(Ok(published))) => {
                match wanted(resolve(published, current, settings), &managed.image) {
                    Ok(Wanted::Image(reference) | Wanted::Digest(reference)) => State::Open {
                        question: Question::Distribution(reference),
                        since: Instant::now(),
                    },
                    Err(reason) => State::Resolved(Err(reason)),
                }
            }
            (Question::Distribution(reference), Answer::Distribution(answer)) => {
                State::Resolved(pinned(managed, current, reference, answer, platforms))
            }
            _ => return,
        };
    }
}

/// The reference with the digest of its index, where the registry has it for all platforms that are needed.
fn pinned(
    managed: &Managed,
    current: &ImageReference,
    reference: &ImageReference,
    answer: &Result<Value, Reason>,
    platforms: &[String],
) -> Result<ImageReference, Reason> {
    let distribution = answer.as_ref().map_err(Clone::clone)?;
    let image = || reference.to_string();
    let unknown = |problem: &str| Reason::DigestUnknown {
        image: image(),
        problem: problem.to_owned(),
    };
    let digest = distribution.pointer("/Descriptor/digest").and_then(Value::as_str);
    let digest = digest.filter(|digest| !digest.is_empty());
    let digest = digest.ok_or_else(|| unknown("it answers without a digest"))?;
    if current.digest() == Some(digest) {
        return Err(if current.tag() == reference.tag() {
            up_to_date(&managed.image)
        } else {
            Reason::SameImage { image: image() }
        });
    }
    if let Some(offered) = offered_platforms(distribution)
        && let Some(needed) = platforms.iter().find(|needed| !offered.contains(needed))
    {
        return Err(Reason::WrongPlatform {
            image: image(),
            offered: offered.join(", "),
            needed: needed.clone(),
        });
    }
    let written = image();
    let name = written.split_once('@').map_or(written.as_str(), |(name, _)| name);
    format!("{name}@{digest}")
        .parse()
        .map_err(|_| unknown("its digest is not one"))
}
