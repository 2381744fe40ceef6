//! Which image each delegate should run, according to a run's answers.

use chrono::{DateTime, Utc};
use tokio::time::Instant;

use super::questions::{Answer, Question};
use super::subject::Subject;
use crate::container::ImageId;
use crate::image::{
    ImageName, ImageReference, Pull, Target, TargetSettings, is_mutable_tag, manager_reference, resolve,
    resolve_upgrader,
};
use crate::managed::pinned;
use crate::manager::Query;
use crate::rollout::reason::Reason;
use crate::rollout::wanted::{not_asked, not_comparable, up_to_date, wanted};

/// The search for the image that one delegate should run.
#[derive(Debug)]
pub(super) struct Resolution {
    /// The image that ran at the start; `None` if the target does not depend on it.
    about: Option<(ImageName, Option<ImageId>)>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// An answer is awaited.
    Open(Open),
    /// Everything is answered: the image that it should run, or why it keeps its own; and when that was asked for.
    Resolved(Result<TargetImage, Reason>, DateTime<Utc>),
}

/// An open question.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) question: Question,
    pub(super) since: Instant,
}

impl Open {
    pub(super) fn new(question: Question) -> Self {
        let since = Instant::now();
        Self { question, since }
    }
}

/// The image that a delegate should run.
#[derive(Clone, Debug)]
pub(super) struct TargetImage {
    pub(super) reference: ImageReference,
    /// Whether the delegate may run another image under the same reference, so that only the ids differ.
    is_mutable: bool,
    /// The digest of a mutable tag at its registry.
    digest: Option<String>,
    /// The image on this host that an operator wants, whatever its reference refers to now.
    pub(super) id: Option<ImageId>,
}

impl TargetImage {
    fn new(reference: ImageReference, is_mutable: bool, digest: Option<String>) -> Self {
        Self {
            reference,
            is_mutable,
            digest,
            id: None,
        }
    }

    /// Distinguishes it from all other images.
    fn identity(&self) -> String {
        match &self.digest {
            Some(digest) => format!("{}@{digest}", self.reference),
            None => self.reference.to_string(),
        }
    }
}

impl Resolution {
    /// The search with its first question; `None` if there is nothing to ask.
    pub(super) fn of(subject: &Subject<'_>, settings: &TargetSettings, now: DateTime<Utc>) -> Option<Self> {
        let (image, id) = subject.running.filter(|_| !subject.is_left_alone)?;
        let state = match (image.reference(), subject.workload) {
            (Ok(current), workload) => {
                let image = manager_reference(current, settings);
                State::Open(Open::new(match workload.map(str::to_owned) {
                    Some(workload) => Question::Published(Query { workload, image }),
                    None => Question::Upgrader(image),
                }))
            }
            (Err(problem), _) => State::Resolved(Err(not_comparable(image, problem.to_string())), now),
        };
        let about = Some((image.clone(), id.cloned()));
        Some(Self { about, state })
    }

    /// The image that an operator wants, whatever is published. If a tag moved, the previous image has the same reference.
    pub(super) fn previous_image(
        reference: ImageReference,
        id: Option<ImageId>,
        asked_at: DateTime<Utc>,
    ) -> Self {
        let is_mutable = id.is_some();
        let target = TargetImage {
            id,
            ..TargetImage::new(reference, is_mutable, None)
        };
        Self {
            about: None,
            state: State::Resolved(Ok(target), asked_at),
        }
    }

    /// The open question.
    pub(super) fn open(&self) -> Option<&Open> {
        match &self.state {
            State::Open(open) => Some(open),
            State::Resolved(..) => None,
        }
    }

    /// The open question, to note when it was asked.
    pub(super) fn open_mut(&mut self) -> Option<&mut Open> {
        match &mut self.state {
            State::Open(open) => Some(open),
            State::Resolved(..) => None,
        }
    }

    /// Records an answer to the open question: the target, or the question that follows. The image of an orchestrator's workload
    /// must support these platforms.
    pub(super) fn note(
        &mut self,
        answer: &Answer,
        asked_at: DateTime<Utc>,
        settings: &TargetSettings,
        platforms: Option<&[String]>,
    ) {
        let (State::Open(open), Some((image, id))) = (&self.state, &self.about) else {
            return;
        };
        let answer = (&open.question, answer);
        self.state = match found(image, id.as_ref(), answer, settings, platforms) {
            Ok(Ok(target)) => State::Resolved(Ok(target), asked_at),
            Ok(Err(next)) => State::Open(Open::new(next)),
            Err(reason) => State::Resolved(Err(reason), asked_at),
        };
    }

    /// Why the target is unknown or is the current image.
    pub(super) fn reason_mut(&mut self) -> Option<&mut Reason> {
        match &mut self.state {
            State::Resolved(Err(reason), _) => Some(reason),
            _ => None,
        }
    }

    /// Distinguishes the target from all other images, if there is one.
    pub(super) fn target_identity(&self) -> Option<String> {
        match &self.state {
            State::Resolved(Ok(image), _) => Some(image.identity()),
            _ => None,
        }
    }

    /// The image to run instead of this one, and when it was asked for; or why this one stays. `last_error` is the Manager's.
    pub(super) fn target_of(
        &self,
        (image, id): (&ImageName, Option<&ImageId>),
        last_error: Option<&str>,
    ) -> (Result<&TargetImage, Reason>, Option<DateTime<Utc>>) {
        let (target, asked_at) = match &self.state {
            State::Open(open) => return (Err(open.question.awaited(open.since, last_error)), None),
            State::Resolved(target, asked_at) => (target, Some(*asked_at)),
        };
        // Its owner, another upgrader or this run has given it another image since the question.
        let is_another = self
            .about
            .as_ref()
            .is_some_and(|(asked, asked_id)| match asked_id {
                Some(asked_id) => id != Some(asked_id),
                None => asked.as_str() != image.as_str(),
            });
        let target = match target {
            Ok(target) if image.refers_to(&target.reference) && !target.is_mutable => Err(up_to_date(image)),
            Ok(target) if is_another && !image.refers_to(&target.reference) => Err(not_asked()),
            Err(
                Reason::UpToDate { .. }
                | Reason::SameImage { .. }
                | Reason::CustomImage { .. }
                | Reason::OtherGeneration { .. }
                | Reason::ImageNotComparable { .. },
            ) if is_another => Err(not_asked()),
            target => target.as_ref().map_err(Clone::clone),
        };
        (target, asked_at)
    }
}

/// The target that follows from an answer, or another question, or why the running image stays.
fn found(
    image: &ImageName,
    id: Option<&ImageId>,
    answered: (&Question, &Answer),
    settings: &TargetSettings,
    platforms: Option<&[String]>,
) -> Result<Result<TargetImage, Question>, Reason> {
    let current = image
        .reference()
        .map_err(|problem| not_comparable(image, problem.to_string()))?;
    let target = match answered {
        (_, Answer::Published(Ok(published))) => resolve(published, current, settings),
        (_, Answer::Upgrader(Some(Ok(published)))) => resolve_upgrader(published, current, settings),
        (_, Answer::Upgrader(None)) => {
            Target::Unresolvable("nobody publishes the upgrader's image".to_owned())
        }
        (_, Answer::Published(Err(error)) | Answer::Upgrader(Some(Err(error)))) => {
            return Err(Reason::target_unknown(error));
        }
        (_, Answer::IsCurrent(Err(reason)) | Answer::Distribution(Err(reason))) => {
            return Err(reason.clone());
        }
        (Question::IsCurrent { reference, .. }, Answer::IsCurrent(Ok(Some(digest)))) => {
            let (reference, digest) = (reference.clone(), Some(digest.clone()));
            return Ok(Ok(TargetImage::new(reference, true, digest)));
        }
        (_, Answer::IsCurrent(Ok(_))) => return Err(up_to_date(image)),
        (Question::Distribution(reference), Answer::Distribution(Ok(distribution))) => {
            let pinned = pinned(image, reference, distribution, platforms.unwrap_or_default())?;
            return Ok(Ok(TargetImage::new(pinned, false, None)));
        }
        _ => Target::Unresolvable("an answer to another question".to_owned()),
    };
    let (reference, is_mutable) = wanted(target, image)?;
    Ok(match id {
        None if is_mutable || platforms.is_some() || is_mutable_tag(&reference) => {
            Err(Question::Distribution(reference))
        }
        // A mutable tag stays the same reference; only the registry knows whether the image is the same.
        Some(running) if is_mutable && settings.pull != Pull::Never => {
            let running = running.clone();
            Err(Question::IsCurrent { reference, running })
        }
        // If nothing is pulled, the image that was loaded under a mutable tag is the wanted one.
        _ => Ok(TargetImage::new(reference, is_mutable, None)),
    })
}
