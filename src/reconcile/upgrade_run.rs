//! One run: its answers, the images that it pulled, and what it skips.

mod of_orchestrators;

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, TimeDelta, Utc};

use super::concurrency::{awaited_replica, halting_replica, too_many_at_once};
use super::questions::{Answer, Answered, Question};
use super::resolve::{Open, Resolution, TargetImage};
use super::retries::Retries;
use super::subject::Subject;
use crate::container::{ContainerId, ImageId};
use crate::image::{ImageName, ImageReference, TargetSettings, is_mutable_tag};
use crate::managed::{Orchestrator, Record};
use crate::manager::{ManagerError, Query};
use crate::rollout::reason::Reason;
use crate::rollout::wanted::not_asked;
use crate::rollout::{Desired, Intent, Member, Rollout, RunFacts};

/// One run, scheduled or requested. It lasts until the next one starts, even with nothing left to do. The default wants nothing.
#[derive(Debug, Default)]
pub struct UpgradeRun {
    pub(super) intent: Intent,
    /// The keys of the only delegates of the run, if an operator named them.
    only: Option<Vec<String>>,
    /// The delegates at the start of the run: the `DELEGATE_NAME` of each, by container name.
    at_start: BTreeMap<String, String>,
    /// The rejected candidates at the start of the run.
    rejections: HashSet<ContainerId>,
    /// The known target of each delegate, by its key.
    resolutions: HashMap<String, Resolution>,
    /// The open questions for the release days of running images.
    days: Vec<Open>,
    /// Why the Manager's last attempt to answer failed, while an answer is awaited.
    pub(super) last_error: Option<String>,
    /// The id behind each pulled reference, or why there is none.
    pulled: HashMap<String, Result<ImageId, Reason>>,
    /// References that cannot replace these running images, and why: built for another platform, or the same image.
    unsuitable: HashMap<(String, ImageId), Reason>,
    /// The references that were pulled again because their image had disappeared.
    pulled_again: HashSet<String>,
    /// The delegates for which this run created a candidate, by container name. If it disappears, this run creates no other.
    pub(super) created: HashSet<String>,
    /// The workloads of an orchestrator, by key, whose attempt has ended: an operator's request covers one.
    ended: HashSet<String>,
    /// The workloads of an orchestrator, by key, to which this run gave other settings, with the record of that.
    started: HashMap<String, Record>,
    /// The delegates that this run does not try again, by key.
    skipped: HashMap<String, Reason>,
    /// The containers (`None`) or the orchestrator's workloads with this `DELEGATE_NAME` of which the others keep their image: the
    /// one that failed, and why.
    halted: HashMap<(Option<Orchestrator>, String), (String, Reason)>,
    /// The delegates that are at rest, by container name: none waits for them.
    resting: HashSet<String>,
    /// When failures are retried.
    pub(super) retries: Retries,
    /// The Manager's answers, in order of arrival.
    pub(crate) answers: Vec<(Query, Result<ImageReference, ManagerError>)>,
}

impl UpgradeRun {
    /// The same run with the first question about each of these, not asked yet.
    pub(super) fn about<'a>(
        self,
        subjects: impl IntoIterator<Item = Subject<'a>>,
        settings: &TargetSettings,
        now: DateTime<Utc>,
    ) -> Self {
        let resolution =
            |subject: Subject<'_>| Some((subject.key.to_owned(), Resolution::of(&subject, settings, now)?));
        let resolutions = subjects.into_iter().filter_map(resolution).collect();
        Self { resolutions, ..self }
    }

    /// A run of this kind without delegates yet. With [`Intent::Retry`], images that were rejected before are tried again.
    pub(super) fn new(intent: Intent) -> Self {
        Self {
            intent,
            ..Self::default()
        }
    }

    /// The same run, which also asks when these images were released. It ends no earlier, but no step waits for that.
    pub(super) fn dating(self, images: impl Iterator<Item = ImageReference>) -> Self {
        let days = images.map(|image| Open::new(Question::Created(image))).collect();
        Self { days, ..self }
    }

    /// Whether the release day of this image is asked for.
    pub(super) fn awaits_day(&self, image: &ImageName) -> bool {
        let is_it =
            |open: &Open| matches!(&open.question, Question::Created(asked) if image.refers_to(asked));
        self.days.iter().any(is_it)
    }

    /// The same run, with the delegates that exist at its start.
    pub(super) fn over(mut self, rollouts: &[Rollout]) -> Self {
        // A Swarm replaces its own tasks, so a missing one is not lost.
        let is_one = |rollout: &&Rollout| {
            // A delegate that was gone before is not lost now, even if leftovers of it are there.
            let is_there = rollout.representative().is_some();
            is_there
                && !rollout.is_upgrader()
                && rollout.owner.task_of.is_none()
                && self.is_about(&rollout.name)
        };
        let delegates = rollouts.iter().filter(is_one);
        let workload = |rollout: &Rollout| (rollout.name.clone(), rollout.workload.clone());
        self.at_start = delegates.map(workload).collect();
        let rejected = rollouts.iter().flat_map(|rollout| &rollout.failed);
        self.rejections = rejected.map(|rejected| rejected.id.clone()).collect();
        self
    }

    /// The same run, which gives the delegate with this key an operator's image, whatever is published, and is about no others
    /// but such.
    pub(super) fn taking_back(
        mut self,
        key: &str,
        reference: ImageReference,
        id: Option<ImageId>,
        now: DateTime<Utc>,
    ) -> Self {
        let resolution = Resolution::previous_image(reference, id, now);
        self.only.get_or_insert_default().push(key.to_owned());
        self.resolutions.insert(key.to_owned(), resolution);
        self
    }

    /// The same run, with the images that the previous run pulled but did not use. A moving tag is pulled again.
    pub(super) fn after(mut self, before: &Self) -> Self {
        if before.created.is_empty() {
            let is_fixed = |image: &str| image.parse().is_ok_and(|image| !is_mutable_tag(&image));
            let unused = before.pulled.iter();
            let unused = unused.filter(|(image, result)| result.is_ok() && is_fixed(image));
            self.pulled
                .extend(unused.map(|(image, result)| (image.clone(), result.clone())));
        }
        self
    }

    /// Whether the run is about the delegate with this key.
    pub(super) fn is_about(&self, key: &str) -> bool {
        self.only
            .as_ref()
            .is_none_or(|only| only.iter().any(|only| only == key))
    }

    /// The same run, which leaves all other delegates alone.
    pub(super) fn limited_to(mut self, key: &str) -> Self {
        self.at_start.retain(|name, _| name == key);
        self.resolutions.retain(|other, _| other == key);
        self.only = Some(vec![key.to_owned()]);
        self
    }

    /// The rejected candidates of this delegate at the start of the run.
    pub(super) fn known_rejections(&self, rollout: &Rollout) -> Vec<ContainerId> {
        let ids = rollout.failed.iter().map(|rejected| &rejected.id);
        ids.filter(|id| self.rejections.contains(*id)).cloned().collect()
    }

    /// The open questions, to note when they were asked.
    pub(super) fn open_mut(&mut self) -> impl Iterator<Item = &mut Open> {
        let targets = self.resolutions.values_mut().filter_map(Resolution::open_mut);
        targets.chain(&mut self.days)
    }

    /// The reason for the longest wait for an answer.
    pub(super) fn awaited(&self) -> Option<Reason> {
        let targets = self.resolutions.values().filter_map(Resolution::open);
        let open = targets.chain(&self.days).min_by_key(|open| open.since)?;
        Some(open.question.awaited(open.since, self.last_error.as_deref()))
    }

    /// Records an answer. It may lead to further questions.
    pub(super) fn note(
        &mut self,
        answered: &Answered,
        settings: &TargetSettings,
        platforms: Option<&[String]>,
        now: DateTime<Utc>,
    ) {
        let Answered {
            question,
            answer,
            asked,
            ..
        } = answered;
        let asked_at = now - TimeDelta::from_std(asked.elapsed()).unwrap_or_default();
        self.days.retain(|open| open.question != *question);
        let mut is_ours = false;
        let all = self.resolutions.values_mut();
        for resolution in all.filter(|it| it.open().is_some_and(|open| open.question == *question)) {
            is_ours = true;
            resolution.note(answer, asked_at, settings, platforms);
            if let Some(reason) = resolution.reason_mut() {
                self.retries.schedule(reason, now);
            }
        }
        if let (true, Question::Published(query), Answer::Published(answer)) = (is_ours, question, answer) {
            self.answers.push((query.clone(), answer.clone()));
        }
    }

    /// The delegates of the run: first those with a replacement in progress, so that a canary is decided before the next replica;
    /// then working ones, by the number of tasks and then by name. The upgrader itself comes last.
    pub(super) fn in_order<'a>(&self, rollouts: &'a [Rollout]) -> Vec<&'a Rollout> {
        let mut ordered: Vec<&Rollout> = rollouts
            .iter()
            .filter(|rollout| self.is_about(&rollout.name))
            .collect();
        // A delegate that was broken before says little about an image, so it is not the canary.
        let works = |rollout: &Rollout| rollout.serving.as_ref().is_some_and(Member::works);
        // Delegates that do not report their tasks come last.
        let tasks = |rollout: &Rollout| {
            let work = rollout.serving.as_ref().and_then(|serving| serving.work);
            work.map_or(u64::MAX, |work| work.tasks)
        };
        ordered.sort_by_key(|rollout| {
            (
                rollout.is_upgrader(),
                !rollout.blocks_replicas(),
                !works(rollout),
                tasks(rollout),
                rollout.name.as_str(),
            )
        });
        ordered
    }

    /// The delegates that lost their last container since the run started, each with its `DELEGATE_NAME`.
    pub(super) fn gone<'a>(&'a self, rollouts: &'a [Rollout]) -> impl Iterator<Item = (&'a str, &'a str)> {
        let is_there = |name: &str| rollouts.iter().any(|rollout| rollout.name == name);
        let at_start = self
            .at_start
            .iter()
            .map(|(name, workload)| (name.as_str(), workload.as_str()));
        at_start.filter(move |(name, _)| !is_there(name))
    }

    /// Identifies the image that a delegate should run, if known.
    pub(super) fn target_identity(&self, rollout: &Rollout) -> Option<String> {
        self.resolutions.get(&rollout.name)?.target_identity()
    }

    /// The image that this run wants for a delegate, or why that is unknown or unchanged.
    pub(super) fn desired(&self, rollout: &Rollout) -> Desired {
        self.image_for(rollout).unwrap_or_else(Desired::Keep)
    }

    fn image_for(&self, rollout: &Rollout) -> Result<Desired, Reason> {
        let (target, asked_at) = self.target(&rollout.into());
        // These answers do not judge a candidate that was created after them, here or by another upgrader.
        let candidate = rollout.candidate.as_ref();
        if candidate.is_some_and(|candidate| asked_at.is_some_and(|at| candidate.created_at > at)) {
            return Err(not_asked());
        }
        let TargetImage { reference, id, .. } = target?;
        let member = rollout.replaceable().ok_or_else(not_asked)?;
        let same = self
            .unsuitable(reference, member)
            .filter(|reason| reason.kind().is_current());
        if let Some(reason) = same {
            return Err(reason.clone());
        }
        let pulled = self.pulled.get(&reference.normalised());
        Ok(Desired::Image {
            reference: reference.clone(),
            id: id
                .as_ref()
                .or(pulled.and_then(|pulled| pulled.as_ref().ok()))
                .cloned(),
            intent: self.intent.clone(),
        })
    }

    /// The image to run instead of the current one, and when it was asked for.
    fn target(&self, subject: &Subject<'_>) -> (Result<&TargetImage, Reason>, Option<DateTime<Utc>>) {
        match (subject.running, self.resolutions.get(subject.key)) {
            (Some(running), Some(found)) => found.target_of(running, self.last_error.as_deref()),
            _ => (Err(not_asked()), None),
        }
    }

    fn unsuitable(&self, reference: &ImageReference, member: &Member) -> Option<&Reason> {
        let image = (reference.normalised(), member.image_id.clone());
        self.unsuitable.get(&image)
    }

    /// This run's facts about upgrading a delegate to the wanted image, given all others.
    pub(super) fn facts(&self, rollout: &Rollout, desired: &Desired, all: &[Rollout]) -> RunFacts {
        let given_up = self.skipped.get(&rollout.name).cloned();
        let (Desired::Image { reference, id, .. }, Some(member)) = (desired, rollout.replaceable()) else {
            return RunFacts {
                given_up,
                ..RunFacts::default()
            };
        };
        let pulled = self.pulled.get(&reference.normalised());
        let halted = self.halted.get(&(None, rollout.workload.clone()));
        // That another replica runs the image well says nothing about new settings.
        let proven = id
            .as_ref()
            .filter(|_| !matches!(self.intent, Intent::Reconfigure(..)));
        RunFacts {
            given_up,
            unsuitable: self.unsuitable(reference, member).cloned(),
            pull: pulled.and_then(|pulled| pulled.as_ref().err()).cloned(),
            halted: halted.and_then(|halted| halting_replica(rollout, all, proven, halted)),
            replica: awaited_replica(rollout, all, &self.resting),
            others: too_many_at_once(all).filter(|_| !self.intent.is_requested()),
            ..RunFacts::default()
        }
    }

    /// Notes the id behind a pulled reference, or why there is none.
    pub(super) fn note_pulled(&mut self, reference: &ImageReference, result: Result<ImageId, Reason>) {
        self.pulled.insert(reference.normalised(), result);
    }

    /// Whether a pull of this image failed in this run.
    pub(super) fn cannot_pull(&self, reference: &ImageReference) -> bool {
        self.pulled
            .get(&reference.normalised())
            .is_some_and(Result::is_err)
    }

    /// Asks and pulls again.
    pub(super) fn retry<'a>(
        &mut self,
        subjects: impl Iterator<Item = Subject<'a>>,
        settings: &TargetSettings,
        now: DateTime<Utc>,
    ) {
        self.pulled
            .retain(|_, result| !result.as_ref().is_err_and(|reason| reason.retried_at().is_some()));
        self.halted.retain(|_, (_, reason)| reason.retried_at().is_none());
        for subject in subjects {
            let found = self.resolutions.get_mut(subject.key);
            if let Some(found) = found
                && found
                    .reason_mut()
                    .is_some_and(|reason| reason.retried_at().is_some())
                && let Some(open) = Resolution::of(&subject, settings, now)
            {
                *found = open;
            }
        }
    }

    /// Notes why a reference cannot replace this delegate's image.
    pub(super) fn note_unsuitable(&mut self, reference: &ImageReference, rollout: &Rollout, reason: Reason) {
        if let Some(member) = rollout.replaceable() {
            let image = (reference.normalised(), member.image_id.clone());
            self.unsuitable.insert(image, reason);
        }
    }

    /// Forgets a pulled image that has disappeared, so that it is pulled again; `false` if that was already done once.
    pub(super) fn pull_again(&mut self, reference: &ImageReference) -> bool {
        self.pulled.remove(&reference.normalised());
        self.pulled_again.insert(reference.normalised())
    }

    /// Skips a delegate until the next run, for this reason.
    pub(super) fn skip_until_next_run(&mut self, rollout: &Rollout, reason: Reason) {
        self.halt_replicas(rollout, &reason);
        self.skipped.insert(rollout.name.clone(), reason);
    }

    /// Notes whether a delegate is at rest.
    pub(super) fn note_rest(&mut self, rollout: &Rollout, rests: bool) {
        if !rests {
            self.resting.remove(&rollout.name);
        } else if rollout.blocks_replicas() {
            self.resting.insert(rollout.name.clone());
        }
    }

    /// Halts the other replicas of the workload if the reason may affect them.
    pub(super) fn halt_replicas(&mut self, rollout: &Rollout, reason: &Reason) {
        if reason.kind().halts_replicas() && !rollout.is_own_problem(reason) {
            self.halt((None, rollout.workload.clone()), &rollout.name, reason.clone());
        }
    }

    fn halt(&mut self, replicas: (Option<Orchestrator>, String), name: &str, because: Reason) {
        self.halted
            .entry(replicas)
            .or_insert_with(|| (name.to_owned(), because));
    }
}
