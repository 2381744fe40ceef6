//! Which image each delegate should run, by the answers a run got.

use std::collections::HashMap;

use crate::container::ImageId;
use crate::engine::Engine;
use crate::image::{ImageReference, Target, TargetSettings, manager_reference, resolve};
use crate::manager::{Answers, ImageSource, Query, ask_all};
use crate::rollout::reason::Reason;
use crate::rollout::{Member, Rollout};

/// What was found for one delegate when a run started.
#[derive(Debug)]
pub(super) struct Resolved {
    /// The image that was in service then; `None` where the target does not depend on it.
    image_id: Option<ImageId>,
    /// The image it should run, or why it keeps its own.
    target: Result<TargetImage, Reason>,
}

/// The image a delegate should run.
#[derive(Clone, Debug)]
pub(super) struct TargetImage {
    pub(super) reference: ImageReference,
    /// The delegate may run another image under the same reference, so that only the ids tell them apart.
    is_mutable: bool,
}

impl TargetImage {
    fn behind_the_same(reference: ImageReference) -> Self {
        Self {
            reference,
            is_mutable: true,
        }
    }
}

/// Asks which images are published, once for each distinct image and workload, and resolves each delegate's target.
pub(super) async fn resolve_all<E: Engine, M: ImageSource>(
    engine: &E,
    source: &M,
    settings: &TargetSettings,
    rollouts: &[Rollout],
) -> (HashMap<String, Resolved>, Answers) {
    let mut resolved = HashMap::new();
    let mut asked = Vec::new();
    for rollout in rollouts.iter().filter(|rollout| !rollout.opted_out) {
        let Some(member) = rollout.replaceable() else {
            continue;
        };
        match member.image.reference() {
            Ok(current) => {
                let query = Query {
                    workload: rollout.workload.clone(),
                    image: manager_reference(current, settings),
                };
                asked.push((rollout, member, current, query));
            }
            Err(problem) => {
                let target = Err(unknown_reference(member, problem.to_string()));
                resolved.insert(rollout.name.clone(), Resolved::new(member, target));
            }
        }
    }
    let answers = ask_all(source, asked.iter().map(|(.., query)| query.clone())).await;
    let mut registry = Registry {
        engine,
        digests: HashMap::new(),
    };
    for (rollout, member, current, query) in asked {
        let target = match answers.get(&query) {
            Some(Ok(published)) => {
                registry
                    .target(member, resolve(published, current, settings))
                    .await
            }
            Some(Err(error)) => Err(Reason::TargetUnknown(error.clone())),
            None => continue,
        };
        resolved.insert(rollout.name.clone(), Resolved::new(member, target));
    }
    (resolved, answers)
}

impl Resolved {
    fn new(member: &Member, target: Result<TargetImage, Reason>) -> Self {
        Self {
            image_id: Some(member.image_id.clone()),
            target,
        }
    }

    /// The target of a rollback. Where a tag is mutable, the previous image has the same reference.
    pub(super) fn previous_image(reference: ImageReference) -> Self {
        Self {
            image_id: None,
            target: Ok(TargetImage::behind_the_same(reference)),
        }
    }

    /// The image that the container now in service should run, or why it keeps its own.
    pub(super) fn target_of(&self, member: &Member) -> Result<&TargetImage, Reason> {
        // Its owner, another upgrader or this run gave it another image than the one asked about.
        let is_another = self.image_id.as_ref().is_some_and(|id| *id != member.image_id);
        match &self.target {
            Ok(target) if member.runs(&target.reference) && !target.is_mutable => Err(up_to_date(member)),
            Ok(target) if is_another && !member.runs(&target.reference) => Err(not_asked()),
            Err(Reason::UpToDate { .. } | Reason::CustomImage { .. } | Reason::ImageNotComparable { .. })
                if is_another =>
            {
                Err(not_asked())
            }
            target => target.as_ref().map_err(Clone::clone),
        }
    }
}

/// No answer is about the image that it runs.
pub(super) fn not_asked() -> Reason {
    Reason::AwaitingSchedule { published: None }
}

fn up_to_date(member: &Member) -> Reason {
    Reason::UpToDate {
        image: member.image.to_string(),
    }
}

fn unknown_reference(member: &Member, problem: String) -> Reason {
    Reason::ImageNotComparable {
        image: member.image.to_string(),
        problem,
    }
}

/// The registry's digests, each asked for once in a run.
struct Registry<'a, E> {
    engine: &'a E,
    digests: HashMap<String, Result<String, Reason>>,
}

impl<E: Engine> Registry<'_, E> {
    async fn target(&mut self, member: &Member, target: Target) -> Result<TargetImage, Reason> {
        match target {
            Target::Replace(reference) => Ok(TargetImage {
                reference,
                is_mutable: false,
            }),
            Target::CheckDigest(reference) => {
                // A mutable tag remains the same reference; only the registry knows whether it is the same image.
                if self.is_current(&reference, &member.image_id).await? {
                    Err(up_to_date(member))
                } else {
                    Ok(TargetImage::behind_the_same(reference))
                }
            }
            Target::Current => Err(up_to_date(member)),
            Target::HeldBack(image, max) => Err(Reason::HeldBack {
                image: image.to_string(),
                max,
            }),
            Target::NotPinned(image) => Err(Reason::NotPinned {
                image: image.to_string(),
            }),
            Target::CustomImage => Err(Reason::CustomImage {
                image: member.image.to_string(),
            }),
            Target::Unresolvable(problem) => Err(unknown_reference(member, problem)),
        }
    }

    /// Whether the reference stands for the image that runs.
    async fn is_current(&mut self, reference: &ImageReference, running: &ImageId) -> Result<bool, Reason> {
        let digest = self.digest(reference).await?;
        let image = self.engine.inspect_image(running.as_str()).await;
        let image = image.map_err(|error| digest_unknown(reference, error.to_string()))?;
        let known = image.get("RepoDigests").and_then(serde_json::Value::as_array);
        Ok(known.into_iter().flatten().any(|known| {
            let known = known.as_str().and_then(|known| known.rsplit_once('@'));
            known.is_some_and(|(_, known)| known == digest)
        }))
    }

    async fn digest(&mut self, reference: &ImageReference) -> Result<String, Reason> {
        let key = reference.normalised();
        if let Some(known) = self.digests.get(&key) {
            return known.clone();
        }
        let answer = self.engine.registry_digest(reference).await;
        let answer = answer.map_err(|error| digest_unknown(reference, error.explain(reference.registry())));
        self.digests.insert(key, answer.clone());
        answer
    }
}

fn digest_unknown(reference: &ImageReference, problem: String) -> Reason {
    Reason::DigestUnknown {
        image: reference.to_string(),
        problem,
    }
}
