//! Which image each delegate should run, by the answers a run got.

use chrono::{DateTime, Utc};
use tokio::time::Instant;

use super::questions::{Answer, Currency, Question};
use crate::container::ImageId;
use crate::image::{
    ImageName, ImageReference, Pull, Target, TargetSettings, manager_reference, resolve, resolve_upgrader,
};
use crate::manager::Query;
use crate::rollout::reason::Reason;
use crate::rollout::wanted::{Wanted, not_asked, not_comparable, up_to_date, wanted};
use crate::rollout::{Member, Rollout};

/// The progress in finding the image that one delegate should run.
#[derive(Debug)]
pub(super) enum Resolution {
    /// An answer is awaited.
    Open(Box<Open>),
    /// All is answered.
    Resolved(Resolved),
}

/// A delegate that waits for an answer.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) question: Question,
    pub(super) since: Instant,
    /// The image that was in service when it was asked.
    image_id: ImageId,
    image: ImageName,
    current: ImageReference,
}

/// The target that was found for one delegate.
#[derive(Debug)]
pub(super) struct Resolved {
    /// The image that was in service then; `None` where the target does not depend on it.
    image_id: Option<ImageId>,
    /// The image it should run, or why it keeps its own.
    target: Result<TargetImage, Reason>,
    /// When it was asked for.
    pub(super) asked_at: DateTime<Utc>,
}

/// The image a delegate should run.
#[derive(Clone, Debug)]
pub(super) struct TargetImage {
    pub(super) reference: ImageReference,
    /// The delegate may run another image under the same reference, so that only the ids tell them apart.
    is_mutable: bool,
    /// The digest of a mutable tag at its registry.
    digest: Option<String>,
}

impl TargetImage {
    fn behind_the_same(reference: ImageReference, digest: Option<String>) -> Self {
        Self {
            reference,
            is_mutable: true,
            digest,
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
    /// The first question about a delegate; `None` where nothing is asked about it.
    pub(super) fn of(rollout: &Rollout, settings: &TargetSettings, now: DateTime<Utc>) -> Option<Self> {
        let member = rollout.replaceable().filter(|_| rollout.left_alone().is_none())?;
        Some(match member.image.reference() {
            Ok(current) => Self::Open(Box::new(Open {
                question: question(rollout, manager_reference(current, settings)),
                since: Instant::now(),
                image_id: member.image_id.clone(),
                image: member.image.clone(),
                current: current.clone(),
            })),
            Err(problem) => Self::Resolved(Resolved {
                image_id: Some(member.image_id.clone()),
                target: Err(not_comparable(&member.image, problem.to_string())),
                asked_at: now,
            }),
        })
    }

    /// Records an answer, if it is to the open question: the target, or the question that follows.
    pub(super) fn note(
        &mut self,
        question: &Question,
        answer: &Answer,
        asked_at: DateTime<Utc>,
        settings: &TargetSettings,
    ) {
        let Self::Open(open) = self else { return };
        if open.question != *question {
            return;
        }
        match open.target(answer, settings) {
            Ok(target) => {
                *self = Self::Resolved(Resolved {
                    image_id: Some(open.image_id.clone()),
                    target,
                    asked_at,
                });
            }
            Err(next) => (open.question, open.since) = (*next, Instant::now()),
        }
    }
}

impl Open {
    /// The target that follows from the answer, or another question.
    fn target(
        &self,
        answer: &Answer,
        settings: &TargetSettings,
    ) -> Result<Result<TargetImage, Reason>, Box<Question>> {
        let target = match answer {
            Answer::Published(Ok(published)) => resolve(published, &self.current, settings),
            Answer::Upgrader(Some(Ok(published))) => resolve_upgrader(published, &self.current, settings),
            Answer::Upgrader(None) => {
                Target::Unresolvable("nobody publishes the upgrader's image".to_owned())
            }
            Answer::Published(Err(error)) | Answer::Upgrader(Some(Err(error))) => {
                return Ok(Err(Reason::target_unknown(error)));
            }
            Answer::IsCurrent(answer) => return Ok(self.digest_target(answer)),
            // Nobody asks that about a container.
            Answer::Distribution(_) => Target::Unresolvable("an answer to another question".to_owned()),
        };
        Ok(match wanted(target, &self.image) {
            Ok(Wanted::Image(reference)) => Ok(TargetImage {
                reference,
                is_mutable: false,
                digest: None,
            }),
            // The image that was loaded under the tag is the one to run.
            Ok(Wanted::Digest(reference)) if settings.pull == Pull::Never => {
                Ok(TargetImage::behind_the_same(reference, None))
            }
            // A mutable tag remains the same reference; only the registry knows whether it is the same image.
            Ok(Wanted::Digest(reference)) => {
                return Err(Box::new(Question::IsCurrent {
                    reference,
                    running: self.image_id.clone(),
                }));
            }
            Err(reason) => Err(reason),
        })
    }

    /// The target behind a mutable tag, by what its registry says.
    fn digest_target(&self, answer: &Result<Currency, Reason>) -> Result<TargetImage, Reason> {
        match (answer, &self.question) {
            (Ok(Currency::Behind { digest }), Question::IsCurrent { reference, .. }) => Ok(
                TargetImage::behind_the_same(reference.clone(), Some(digest.clone())),
            ),
            (Ok(_), _) => Err(up_to_date(&self.image)),
            (Err(reason), _) => Err(reason.clone()),
        }
    }
}

impl Resolved {
    /// The target of a rollback. Where a tag is mutable, the previous image has the same reference.
    pub(super) fn previous_image(reference: ImageReference, asked_at: DateTime<Utc>) -> Self {
        Self {
            image_id: None,
            target: Ok(TargetImage::behind_the_same(reference, None)),
            asked_at,
        }
    }

    /// Why the target is not known, or is the present image.
    pub(super) fn reason_mut(&mut self) -> Option<&mut Reason> {
        self.target.as_mut().err()
    }

    /// Distinguishes the target from all other images, where there is one.
    pub(super) fn target_identity(&self) -> Option<String> {
        Some(self.target.as_ref().ok()?.identity())
    }

    /// The image that the container now in service should run, or why it keeps its own.
    pub(super) fn target_of(&self, member: &Member) -> Result<&TargetImage, Reason> {
        // Its owner, another upgrader or this run gave it another image than the one asked about.
        let is_another = self.image_id.as_ref().is_some_and(|id| *id != member.image_id);
        match &self.target {
            Ok(target) if member.runs(&target.reference) && !target.is_mutable => {
                Err(up_to_date(&member.image))
            }
            Ok(target) if is_another && !member.runs(&target.reference) => Err(not_asked()),
            Err(
                Reason::UpToDate { .. }
                | Reason::CustomImage { .. }
                | Reason::OtherGeneration { .. }
                | Reason::ImageNotComparable { .. },
            ) if is_another => Err(not_asked()),
            target => target.as_ref().map_err(Clone::clone),
        }
    }
}

/// The question about a delegate that runs this image, or about the upgrader itself.
fn question(rollout: &Rollout, image: ImageReference) -> Question {
    if rollout.is_upgrader() {
        return Question::Upgrader(image);
    }
    Question::Published(Query {
        workload: rollout.workload.clone(),
        image,
    })
}
