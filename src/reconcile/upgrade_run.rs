//! One scheduled run: the answers it got, the images it pulled, what it skips.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};

use super::resolve::{Resolved, not_asked, resolve_all};
use crate::container::ImageId;
use crate::engine::Engine;
use crate::image::{ImageReference, TargetSettings};
use crate::manager::{Answers, ImageSource};
use crate::rollout::reason::Reason;
use crate::rollout::{Desired, Intent, Rollout};

/// What a run may do with the answers it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Replace what differs.
    Upgrade,
    /// Change nothing, only report.
    ReportOnly,
}

/// One scheduled run. It lasts until the next one starts, even when nothing is left to do.
#[derive(Debug)]
pub struct UpgradeRun {
    mode: Mode,
    intent: Intent,
    asked_at: DateTime<Utc>,
    /// What was found for each delegate, by container name.
    resolved: HashMap<String, Resolved>,
    /// The id behind each pulled reference, or why there is none.
    pulled: HashMap<String, Result<ImageId, Reason>>,
    /// The references that were pulled again, since their image had gone.
    pulled_again: HashSet<String>,
    /// The delegates that are not tried again in this run, by container name.
    given_up: HashMap<String, Reason>,
    /// The workloads whose other replicas keep their image: the container that failed, and why.
    halted: HashMap<String, (String, Reason)>,
    answers: Answers,
}

impl UpgradeRun {
    /// Asks which images are published, once for each distinct image and workload, and resolves each delegate's target.
    ///
    /// With [`Intent::Retry`], images that were rejected before are tried again.
    pub async fn start<E: Engine, M: ImageSource>(
        mode: Mode,
        intent: Intent,
        engine: &E,
        source: &M,
        settings: &TargetSettings,
        rollouts: &[Rollout],
        now: DateTime<Utc>,
    ) -> Self {
        let (resolved, answers) = resolve_all(engine, source, settings, rollouts).await;
        Self {
            resolved,
            answers,
            ..Self::new(mode, intent, now)
        }
    }

    /// The run that takes one delegate back to an image that is on the host.
    pub fn rollback(name: &str, reference: ImageReference, image: ImageId, now: DateTime<Utc>) -> Self {
        Self {
            pulled: HashMap::from([(reference.normalised(), Ok(image))]),
            resolved: HashMap::from([(name.to_owned(), Resolved::previous_image(reference))]),
            ..Self::new(Mode::Upgrade, Intent::Rollback, now)
        }
    }

    fn new(mode: Mode, intent: Intent, now: DateTime<Utc>) -> Self {
        Self {
            mode,
            intent,
            asked_at: now,
            resolved: HashMap::new(),
            pulled: HashMap::new(),
            pulled_again: HashSet::new(),
            given_up: HashMap::new(),
            halted: HashMap::new(),
            answers: Answers::default(),
        }
    }

    /// What the Manager answered when the run started.
    pub(crate) fn answers(&self) -> &Answers {
        &self.answers
    }

    /// What this run wants of a delegate, given all others.
    pub fn desired(&self, rollout: &Rollout, all: &[Rollout]) -> Desired {
        self.image_for(rollout, all).unwrap_or_else(Desired::Keep)
    }

    fn image_for(&self, rollout: &Rollout, all: &[Rollout]) -> Result<Desired, Reason> {
        if let Some(reason) = self.given_up.get(&rollout.name) {
            return Err(reason.clone());
        }
        let member = rollout.replaceable().ok_or_else(not_asked)?;
        let resolved = self.resolved.get(&rollout.name).ok_or_else(not_asked)?;
        // A candidate that was created after these answers, here or by another upgrader that may know better, is not
        // judged by them: it is finished.
        let candidate = rollout.candidate.as_ref();
        if candidate.is_some_and(|candidate| candidate.created_at > self.asked_at) {
            return Err(not_asked());
        }
        let reference = &resolved.target_of(member)?.reference;
        let id = self.pulled.get(&reference.normalised()).cloned().transpose()?;
        if self.mode == Mode::ReportOnly {
            return Err(Reason::AwaitingSchedule {
                published: Some(reference.to_string()),
            });
        }
        if candidate.is_none()
            && let Some(reason) = self.others_first(rollout, all)
        {
            return Err(reason);
        }
        Ok(Desired::Image {
            reference: reference.clone(),
            id,
            intent: self.intent,
        })
    }

    /// Replicas go one at a time, and a failure halts the rest.
    fn others_first(&self, rollout: &Rollout, all: &[Rollout]) -> Option<Reason> {
        if let Some((name, because)) = self.halted.get(&rollout.delegate)
            && *name != rollout.name
        {
            return Some(Reason::Halted {
                name: name.clone(),
                because: because.failure(),
            });
        }
        all.iter()
            .find(|other| {
                other.name != rollout.name && other.delegate == rollout.delegate && other.blocks_replicas()
            })
            .map(|other| Reason::WaitingForReplica {
                name: other.name.clone(),
            })
    }

    /// Notes the id behind a pulled reference, or why there is none.
    pub fn note_pulled(&mut self, reference: &ImageReference, result: Result<ImageId, Reason>) {
        self.pulled.insert(reference.normalised(), result);
    }

    /// Forgets a pull, since the image is gone again; `false` where that has happened before in this run.
    pub fn forget_pulled(&mut self, reference: &ImageReference) -> bool {
        self.pulled.remove(&reference.normalised());
        self.pulled_again.insert(reference.normalised())
    }

    /// Gives up on a delegate until the next scheduled run.
    pub fn give_up(&mut self, rollout: &Rollout, reason: Reason) {
        self.note_failure(rollout, &reason);
        self.given_up.insert(rollout.name.clone(), reason);
    }

    /// Halts the other replicas where the reason is one that may hit them too.
    pub fn note_failure(&mut self, rollout: &Rollout, reason: &Reason) {
        if reason.kind().halts_replicas() {
            self.halted
                .entry(rollout.delegate.clone())
                .or_insert_with(|| (rollout.name.clone(), reason.clone()));
        }
    }
}
