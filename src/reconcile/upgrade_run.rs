//! What one scheduled pass wants: the answers it got, the images it pulled, what it gave up on.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};

use crate::container::ImageId;
use crate::engine::Engine;
use crate::image::{ImageReference, Target, TargetSettings, manager_reference, resolve};
use crate::manager::{Answers, ImageSource, Query, ask_all};
use crate::rollout::reason::Reason;
use crate::rollout::{Desired, Intent, Rollout, problem};

/// What a pass may do with what it learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Replace what differs.
    Upgrade,
    /// Only tell.
    ReportOnly,
}

/// One scheduled pass, from the tick until everything it began is settled. Another tick begins another one.
#[derive(Debug)]
pub struct UpgradeRun {
    mode: Mode,
    intent: Intent,
    asked_at: DateTime<Utc>,
    /// The images that were in service then.
    asked_for: HashMap<String, ImageId>,
    targets: HashMap<String, Result<Target, Reason>>,
    pulled: HashMap<String, Result<ImageId, Reason>>,
    vanished: HashSet<String>,
    given_up: HashMap<String, Reason>,
    halted: HashMap<String, (String, Reason)>,
    /// What the Manager was asked.
    answers: Answers,
}

impl UpgradeRun {
    /// Asks for the published image, once for each distinct image and delegate name, and finds each delegate's target.
    ///
    /// With [`Intent::Retry`] what was rejected before is tried again.
    pub async fn start<E: Engine, M: ImageSource>(
        mode: Mode,
        intent: Intent,
        engine: &E,
        source: &M,
        settings: &TargetSettings,
        rollouts: &[Rollout],
        now: DateTime<Utc>,
    ) -> Self {
        let mut targets = HashMap::new();
        let mut asked = Vec::new();
        for rollout in rollouts.iter().filter(|rollout| !rollout.opted_out) {
            let Some(serving) = rollout.replaceable() else {
                continue;
            };
            match serving.image.parse::<ImageReference>() {
                Ok(current) => {
                    let query = Query {
                        workload: rollout.delegate.clone(),
                        image: manager_reference(&current, settings),
                    };
                    asked.push((rollout, serving, current, query));
                }
                Err(problem) => {
                    let reason = Reason::UnknownReference {
                        image: serving.image.clone(),
                        problem: problem.to_string(),
                    };
                    targets.insert(rollout.name.clone(), Err(reason));
                }
            }
        }
        let answers = ask_all(source, asked.iter().map(|(.., query)| query.clone())).await;
        let mut digests: HashMap<String, Result<String, Reason>> = HashMap::new();
        for (rollout, serving, current, query) in asked {
            let target = match answers.get(&query) {
                Some(Ok(published)) => Ok(resolve(published, &current, settings)),
                Some(Err(error)) => Err(Reason::Unpublished(error.clone())),
                None => continue,
            };
            let target = match target {
                Ok(Target::CheckDigest(reference)) => {
                    by_digest(engine, reference, &serving.image_id, &mut digests).await
                }
                target => target,
            };
            targets.insert(rollout.name.clone(), target);
        }
        let serving = rollouts.iter().filter_map(|rollout| {
            let serving = rollout.replaceable()?;
            Some((rollout.name.clone(), serving.image_id.clone()))
        });
        Self {
            mode,
            intent,
            asked_at: now,
            asked_for: serving.collect(),
            targets,
            pulled: HashMap::new(),
            vanished: HashSet::new(),
            given_up: HashMap::new(),
            halted: HashMap::new(),
            answers,
        }
    }

    /// The pass that takes one delegate back to an image that is on the host.
    pub fn rollback(name: &str, reference: ImageReference, image: ImageId, now: DateTime<Utc>) -> Self {
        let pulled = HashMap::from([(reference.normalised(), Ok(image))]);
        // Where its tag moves, the image before has the same reference.
        let targets = HashMap::from([(name.to_owned(), Ok(Target::CheckDigest(reference)))]);
        Self {
            mode: Mode::Upgrade,
            intent: Intent::Rollback,
            asked_at: now,
            asked_for: HashMap::new(),
            targets,
            pulled,
            vanished: HashSet::new(),
            given_up: HashMap::new(),
            halted: HashMap::new(),
            answers: Answers::default(),
        }
    }

    /// What the Manager said when the pass began.
    pub(crate) fn answers(&self) -> &Answers {
        &self.answers
    }

    /// What this pass wants of a delegate, given all others.
    pub fn desired(&self, rollout: &Rollout, all: &[Rollout]) -> Desired {
        if let Some(reason) = self.given_up.get(&rollout.name) {
            return Desired::Keep(reason.clone());
        }
        let Some(serving) = rollout.replaceable() else {
            return Desired::Keep(Reason::AwaitingSchedule { published: None });
        };
        // Made after these answers were given, here or by another upgrader that may know better: it is not judged by
        // them, and is finished.
        if rollout
            .candidate
            .as_ref()
            .is_some_and(|candidate| candidate.created_at > self.asked_at)
        {
            return Desired::Keep(Reason::AwaitingSchedule { published: None });
        }
        // Another image by now, by its owner or by another upgrader: unless it is what these answers led to, they are
        // not about it.
        let asked_for = self.asked_for.get(&rollout.name);
        let is_another = asked_for.is_some_and(|asked_for| *asked_for != serving.image_id);
        let reference = match self.targets.get(&rollout.name) {
            Some(Ok(Target::Current)) if is_another => {
                return Desired::Keep(Reason::AwaitingSchedule { published: None });
            }
            Some(Ok(Target::Replace(reference) | Target::CheckDigest(reference)))
                if is_another && !serving.runs(reference) =>
            {
                return Desired::Keep(Reason::AwaitingSchedule { published: None });
            }
            None => return Desired::Keep(Reason::AwaitingSchedule { published: None }),
            Some(Err(reason)) => return Desired::Keep(reason.clone()),
            Some(Ok(Target::Current)) => {
                return Desired::Keep(Reason::UpToDate {
                    image: serving.image.clone(),
                });
            }
            Some(Ok(Target::Unresolvable(problem))) => {
                return Desired::Keep(Reason::UnknownReference {
                    image: serving.image.clone(),
                    problem: problem.clone(),
                });
            }
            Some(Ok(Target::HeldBack(image, max))) => {
                return Desired::Keep(Reason::HeldBack {
                    image: image.to_string(),
                    max: max.clone(),
                });
            }
            Some(Ok(Target::NotPinned(image))) => {
                return Desired::Keep(Reason::NotPinned {
                    image: image.to_string(),
                });
            }
            Some(Ok(Target::CustomImage)) => {
                return Desired::Keep(Reason::CustomImage {
                    image: serving.image.clone(),
                });
            }
            // Replaced since the target was found.
            Some(Ok(Target::Replace(reference))) if serving.runs(reference) => {
                return Desired::Keep(Reason::UpToDate {
                    image: serving.image.clone(),
                });
            }
            Some(Ok(Target::Replace(reference) | Target::CheckDigest(reference))) => reference,
        };
        let id = match self.pulled.get(&reference.normalised()) {
            Some(Err(reason)) => return Desired::Keep(reason.clone()),
            Some(Ok(id)) => Some(id.clone()),
            None => None,
        };
        if self.mode == Mode::ReportOnly {
            return Desired::Keep(Reason::AwaitingSchedule {
                published: Some(reference.to_string()),
            });
        }
        if rollout.candidate.is_none()
            && let Some(reason) = self.others_first(rollout, all)
        {
            return Desired::Keep(reason);
        }
        Desired::Image {
            reference: reference.clone(),
            id,
            intent: self.intent,
        }
    }

    /// Replicas go one at a time, and a failure halts the rest.
    fn others_first(&self, rollout: &Rollout, all: &[Rollout]) -> Option<Reason> {
        if let Some((name, because)) = self.halted.get(&rollout.delegate)
            && *name != rollout.name
        {
            return Some(Reason::Halted {
                name: name.clone(),
                because: because.to_string(),
            });
        }
        all.iter()
            .find(|other| {
                other.name != rollout.name && other.delegate == rollout.delegate && other.blocks_replicas()
            })
            .map(|other| Reason::AnotherReplica {
                name: other.name.clone(),
            })
    }

    /// Notes the id behind a pulled reference, or why there is none.
    pub fn note_pulled(&mut self, reference: &ImageReference, result: Result<ImageId, Reason>) {
        self.pulled.insert(reference.normalised(), result);
    }

    /// Forgets a pull, since the image is gone again; `false` where that has happened before in this pass.
    pub fn forget_pulled(&mut self, reference: &ImageReference) -> bool {
        self.pulled.remove(&reference.normalised());
        self.vanished.insert(reference.normalised())
    }

    /// Gives up on a delegate until the next scheduled pass.
    pub fn give_up(&mut self, rollout: &Rollout, reason: Reason) {
        self.note_failure(rollout, &reason);
        self.given_up.insert(rollout.name.clone(), reason);
    }

    /// Halts the other replicas where the reason is one that may hit them too.
    pub fn note_failure(&mut self, rollout: &Rollout, reason: &Reason) {
        if reason.halts_replicas() {
            self.halted
                .entry(rollout.delegate.clone())
                .or_insert_with(|| (rollout.name.clone(), reason.clone()));
        }
    }
}

/// A moving tag is the same reference for ever; only the registry knows whether it is the same image.
async fn by_digest<E: Engine>(
    engine: &E,
    reference: ImageReference,
    running: &ImageId,
    digests: &mut HashMap<String, Result<String, Reason>>,
) -> Result<Target, Reason> {
    let unknown = |problem: String| Reason::DigestUnknown {
        image: reference.to_string(),
        problem,
    };
    let key = reference.normalised();
    if !digests.contains_key(&key) {
        let answer = engine
            .registry_digest(&reference)
            .await
            .map_err(|error| unknown(problem(&error, reference.registry())));
        digests.insert(key.clone(), answer);
    }
    let digest = match digests.get(&key) {
        Some(Ok(digest)) => digest,
        Some(Err(reason)) => return Err(reason.clone()),
        None => return Ok(Target::Current),
    };
    let image = engine
        .inspect_image(running.as_str())
        .await
        .map_err(|error| unknown(error.to_string()))?;
    let known = image.get("RepoDigests").and_then(serde_json::Value::as_array);
    let is_current = known.into_iter().flatten().any(|known| {
        known
            .as_str()
            .and_then(|known| known.rsplit_once('@'))
            .is_some_and(|(_, known)| known == digest)
    });
    Ok(if is_current {
        Target::Current
    } else {
        Target::CheckDigest(reference)
    })
}
