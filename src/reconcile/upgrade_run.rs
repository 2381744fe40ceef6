//! One scheduled run: the answers it got, the images it pulled, what it skips.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::concurrency::{awaited_replica, halting_replica, too_many_at_once};
use super::questions::{Answer, Answered, Question, Questions};
use super::resolve::{Open, Resolution, Resolved};
use crate::container::{ContainerId, ImageId};
use crate::engine::Engine;
use crate::image::{ImageReference, TargetSettings, is_mutable_tag};
use crate::manager::{ImageSource, ManagerError, Query};
use crate::net::retry::Retry;
use crate::rollout::reason::Reason;
use crate::rollout::wanted::not_asked;
use crate::rollout::{Desired, Intent, Member, Rollout, RunFacts};

/// The use that a run may make of its answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Replace what differs.
    Upgrade,
    /// Change nothing, only report.
    #[default]
    ReportOnly,
}

/// One run: scheduled, or one that an operator asked for. It lasts until the next one starts, even when nothing is left
/// to do. By default it wants nothing.
#[derive(Debug, Default)]
pub struct UpgradeRun {
    mode: Mode,
    intent: Intent,
    /// The only delegate of the run, where an operator named one.
    only: Option<String>,
    /// The delegates that there were then: the `DELEGATE_NAME` of each, by container name.
    at_start: BTreeMap<String, String>,
    /// The rejected candidates that there were then.
    rejections: HashSet<ContainerId>,
    /// The known target of each delegate, by container name.
    resolutions: HashMap<String, Resolution>,
    /// Why the Manager's last attempt to answer failed, while an answer is awaited.
    pub(super) last_error: Option<String>,
    /// The id behind each pulled reference, or why there is none.
    pulled: HashMap<String, Result<ImageId, Reason>>,
    /// The references that do not replace these images, which delegates run: built for another platform, or the same.
    unsuitable: HashMap<(String, ImageId), Reason>,
    /// The references that were pulled again, since their image had gone.
    pulled_again: HashSet<String>,
    /// The delegates for which a candidate was created, by container name.
    created: HashSet<String>,
    /// The delegates that are not tried again in this run, by container name.
    skipped: HashMap<String, Reason>,
    /// The workloads whose other replicas keep their image: the container that failed, and why.
    halted: HashMap<String, (String, Reason)>,
    /// The delegates that have come to rest, by container name: none waits for them.
    resting: HashSet<String>,
    /// When what failed is tried again: how often that was done, and the next time. `None` where only the next run does so.
    retries: Option<(usize, Option<DateTime<Utc>>)>,
    /// The answers of the Manager.
    answers: Vec<(Query, Result<ImageReference, ManagerError>)>,
}

impl UpgradeRun {
    /// A run whose questions are not asked yet.
    ///
    /// With [`Intent::Retry`], images that were rejected before are tried again.
    pub(super) fn begin(
        mode: Mode,
        intent: Intent,
        settings: &TargetSettings,
        rollouts: &[Rollout],
        now: DateTime<Utc>,
    ) -> Self {
        let resolution =
            |rollout: &Rollout| Some((rollout.name.clone(), Resolution::of(rollout, settings, now)?));
        Self {
            mode,
            intent,
            resolutions: rollouts.iter().filter_map(resolution).collect(),
            ..Self::without_source(rollouts)
        }
    }

    /// A run without open questions.
    pub(crate) async fn answered<E: Engine, M: ImageSource>(
        engine: &Arc<E>,
        source: &Arc<M>,
        settings: &TargetSettings,
        rollouts: &[Rollout],
        now: DateTime<Utc>,
    ) -> Self {
        let mut run = Self::begin(Mode::Upgrade, Intent::Upgrade, settings, rollouts, now);
        let mut questions = Questions::default();
        while run.longest_wait().is_some() {
            for open in run.open() {
                questions.ask(&open.question, engine, source);
            }
            questions.answered().await;
            while let Some(answered) = questions.next() {
                run.note(&answered, settings, now);
            }
        }
        run
    }

    /// A run that asks no questions, and so upgrades nothing.
    pub(super) fn without_source(rollouts: &[Rollout]) -> Self {
        let workload = |rollout: &Rollout| (rollout.name.clone(), rollout.workload.clone());
        // A Swarm starts others in the place of tasks.
        let is_one = |rollout: &&Rollout| !rollout.is_upgrader() && rollout.owner.task_of.is_none();
        let delegates = rollouts.iter().filter(is_one);
        let rejected = rollouts.iter().flat_map(|rollout| &rollout.failed);
        Self {
            at_start: delegates.map(workload).collect(),
            rejections: rejected.map(|rejected| rejected.id.clone()).collect(),
            ..Self::default()
        }
    }

    /// The run that takes one delegate back to an image that is on the host.
    pub(super) fn rollback(
        rollout: &Rollout,
        reference: ImageReference,
        image: ImageId,
        now: DateTime<Utc>,
    ) -> Self {
        Self {
            mode: Mode::Upgrade,
            intent: Intent::Rollback,
            pulled: HashMap::from([(reference.normalised(), Ok(image))]),
            resolutions: HashMap::from([(
                rollout.name.clone(),
                Resolution::Resolved(Resolved::previous_image(reference, now)),
            )]),
            ..Self::without_source(std::slice::from_ref(rollout))
        }
        .limited_to(rollout)
    }

    /// A run for the delegate of this name alone, which asks no questions.
    pub(super) fn only(name: &str) -> Self {
        Self {
            only: Some(name.to_owned()),
            ..Self::default()
        }
    }

    /// The same run, with the images that the run before pulled and did not use. A tag that moves is pulled again.
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

    /// The only delegate that the run concerns, where an operator named one.
    pub(super) fn only_about(&self) -> Option<&str> {
        self.only.as_deref()
    }

    /// The same run, which leaves all other delegates as they are.
    pub(super) fn limited_to(self, rollout: &Rollout) -> Self {
        Self {
            only: Some(rollout.name.clone()),
            ..self
        }
    }

    /// The rejected candidates that this delegate had when the run started.
    pub(super) fn known_rejections(&self, rollout: &Rollout) -> Vec<ContainerId> {
        let ids = rollout.failed.iter().map(|rejected| &rejected.id);
        ids.filter(|id| self.rejections.contains(*id)).cloned().collect()
    }

    /// The Manager's answers, in the order in which they came.
    pub(crate) fn answers(&self) -> &[(Query, Result<ImageReference, ManagerError>)] {
        &self.answers
    }

    /// The delegates that wait for an answer.
    pub(super) fn open(&self) -> impl Iterator<Item = &Open> {
        self.resolutions
            .values()
            .filter_map(|resolution| match resolution {
                Resolution::Open(open) => Some(open.as_ref()),
                Resolution::Resolved(_) => None,
            })
    }

    /// The same, to note since when.
    pub(super) fn open_mut(&mut self) -> impl Iterator<Item = &mut Open> {
        let resolutions = self.resolutions.values_mut();
        resolutions.filter_map(|resolution| match resolution {
            Resolution::Open(open) => Some(open.as_mut()),
            Resolution::Resolved(_) => None,
        })
    }

    /// How long an answer has been waited for; `None` where none is.
    pub(super) fn longest_wait(&self) -> Option<Duration> {
        self.open().map(|open| open.since.elapsed()).max()
    }

    /// Whose answer has been waited for longest.
    pub(super) fn awaited(&self) -> Option<Reason> {
        let open = self.open().min_by_key(|open| open.since)?;
        Some(open.question.awaited(open.since, self.last_error.as_deref()))
    }

    /// Records an answer. It may lead to further questions: see [`Self::open`].
    pub(super) fn note(&mut self, answered: &Answered, settings: &TargetSettings, now: DateTime<Utc>) {
        let Answered {
            question,
            answer,
            asked,
        } = answered;
        let asked_at = now - TimeDelta::from_std(asked.elapsed()).unwrap_or_default();
        let mut is_ours = false;
        for resolution in self.resolutions.values_mut() {
            is_ours |= matches!(resolution, Resolution::Open(open) if open.question == *question);
            resolution.note(question, answer, asked_at, settings);
            if let Resolution::Resolved(resolved) = resolution
                && let Some(reason) = resolved.reason_mut()
            {
                schedule_retry(&mut self.retries, reason, now);
            }
        }
        if let (true, Question::Published(query), Answer::Published(answer)) = (is_ours, question, answer) {
            self.answers.push((query.clone(), answer.clone()));
        }
    }

    /// The delegates that it is about: first those whose replacement is in progress, so that a canary is decided on
    /// before the next replica, then those that work, the one with the fewest tasks first, then by name. The upgrader
    /// itself comes last.
    pub(super) fn in_order<'a>(&self, rollouts: &'a [Rollout]) -> Vec<&'a Rollout> {
        let mut ordered: Vec<&Rollout> = rollouts
            .iter()
            .filter(|rollout| self.only_about().is_none_or(|only| only == rollout.name))
            .collect();
        // One that was broken before says little about an image, so it is not the canary.
        let works = |rollout: &Rollout| rollout.serving.as_ref().is_some_and(Member::works);
        // Those that do not say what they work on come last.
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

    /// Distinguishes the image that a delegate should run from all others, if that is known.
    pub(crate) fn target_identity(&self, rollout: &Rollout) -> Option<String> {
        match self.resolutions.get(&rollout.name)? {
            Resolution::Resolved(resolved) => resolved.target_identity(),
            Resolution::Open(_) => None,
        }
    }

    /// The image that this run wants of a delegate, or why it is not known or not another one.
    pub fn desired(&self, rollout: &Rollout) -> Desired {
        self.image_for(rollout).unwrap_or_else(Desired::Keep)
    }

    fn image_for(&self, rollout: &Rollout) -> Result<Desired, Reason> {
        let (member, resolved) = self.resolved(rollout)?;
        // A candidate that was created after these answers, here or by another upgrader that may know better, is not
        // judged by them: it is finished.
        let candidate = rollout.candidate.as_ref();
        if candidate.is_some_and(|candidate| candidate.created_at > resolved.asked_at) {
            return Err(not_asked());
        }
        let reference = &resolved.target_of(member)?.reference;
        let same = self
            .unsuitable(reference, member)
            .filter(|reason| reason.kind().is_current());
        if let Some(reason) = same {
            return Err(reason.clone());
        }
        let pulled = self.pulled.get(&reference.normalised());
        Ok(Desired::Image {
            reference: reference.clone(),
            id: pulled.and_then(|pulled| pulled.as_ref().ok()).cloned(),
            intent: self.intent,
        })
    }

    fn resolved<'a>(&'a self, rollout: &'a Rollout) -> Result<(&'a Member, &'a Resolved), Reason> {
        let member = rollout.replaceable().ok_or_else(not_asked)?;
        match self.resolutions.get(&rollout.name).ok_or_else(not_asked)? {
            Resolution::Open(open) => Err(open.question.awaited(open.since, self.last_error.as_deref())),
            Resolution::Resolved(resolved) => Ok((member, resolved)),
        }
    }

    fn unsuitable(&self, reference: &ImageReference, member: &Member) -> Option<&Reason> {
        let image = (reference.normalised(), member.image_id.clone());
        self.unsuitable.get(&image)
    }

    /// This run's word on an upgrade of a delegate to the image that it wants, given all others.
    pub(crate) fn facts(&self, rollout: &Rollout, desired: &Desired, all: &[Rollout]) -> RunFacts {
        let given_up = self.skipped.get(&rollout.name).cloned();
        let (Desired::Image { reference, id, .. }, Some(member)) = (desired, rollout.replaceable()) else {
            return RunFacts {
                given_up,
                ..RunFacts::default()
            };
        };
        let pulled = self.pulled.get(&reference.normalised());
        let halted = self.halted.get(&rollout.workload);
        RunFacts {
            given_up,
            unsuitable: self.unsuitable(reference, member).cloned(),
            pull: pulled.and_then(|pulled| pulled.as_ref().err()).cloned(),
            halted: halted.and_then(|halted| halting_replica(rollout, all, id.as_ref(), halted)),
            replica: awaited_replica(rollout, all, &self.resting),
            others: too_many_at_once(all).filter(|_| self.intent == Intent::Upgrade),
            awaits_run: self.mode == Mode::ReportOnly,
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

    /// The same run, which tries again what failed for something that may pass: a nightly schedule would come back to it a
    /// day later.
    pub(super) fn with_retries(self) -> Self {
        let retries = (self.mode == Mode::Upgrade).then_some((0, None));
        Self { retries, ..self }
    }

    /// When to call [`Self::retry`], if ever.
    pub(super) fn retry_at(&self) -> Option<DateTime<Utc>> {
        self.retries?.1
    }

    /// Says in the reason of a failure when it is tried again, if it is.
    pub(super) fn schedule_retry(&mut self, reason: &mut Reason, now: DateTime<Utc>) {
        schedule_retry(&mut self.retries, reason, now);
    }

    /// Asks and pulls again where that is due.
    pub(super) fn retry(&mut self, rollouts: &[Rollout], settings: &TargetSettings, now: DateTime<Utc>) {
        let Some((count, Some(at))) = self.retries else {
            return;
        };
        if now < at {
            return;
        }
        self.retries = Some((count + 1, None));
        self.pulled
            .retain(|_, result| !result.as_ref().is_err_and(Reason::is_retried));
        self.halted.retain(|_, (_, reason)| !reason.is_retried());
        for rollout in rollouts {
            if let Some(Resolution::Resolved(resolved)) = self.resolutions.get_mut(&rollout.name)
                && resolved.reason_mut().is_some_and(|reason| reason.is_retried())
                && let Some(open) = Resolution::of(rollout, settings, now)
            {
                self.resolutions.insert(rollout.name.clone(), open);
            }
        }
    }

    /// Notes that a reference does not replace the image that this delegate runs, and why.
    pub(super) fn note_unsuitable(&mut self, reference: &ImageReference, rollout: &Rollout, reason: Reason) {
        if let Some(member) = rollout.replaceable() {
            let image = (reference.normalised(), member.image_id.clone());
            self.unsuitable.insert(image, reason);
        }
    }

    /// Forgets a pulled image that has disappeared, so that it is pulled again; `false` where it was pulled again
    /// before.
    pub(super) fn pull_again(&mut self, reference: &ImageReference) -> bool {
        self.pulled.remove(&reference.normalised());
        self.pulled_again.insert(reference.normalised())
    }

    /// Notes that a candidate was created. One that is gone is not made again in this run.
    pub(super) fn note_created(&mut self, rollout: &Rollout) {
        self.created.insert(rollout.name.clone());
    }

    /// Whether a candidate was created in this run.
    pub(super) fn has_created(&self, rollout: &Rollout) -> bool {
        self.created.contains(&rollout.name)
    }

    /// Does not try a delegate again before the next run, for this reason.
    pub(super) fn skip_until_next_run(&mut self, rollout: &Rollout, reason: Reason) {
        self.halt_replicas(rollout, &reason);
        self.skipped.insert(rollout.name.clone(), reason);
    }

    /// Notes whether a delegate has come to rest.
    pub(super) fn note_rest(&mut self, rollout: &Rollout, rests: bool) {
        if !rests {
            self.resting.remove(&rollout.name);
        } else if rollout.blocks_replicas() {
            self.resting.insert(rollout.name.clone());
        }
    }

    /// Halts the other replicas of the workload where the reason may apply to them, too.
    pub(super) fn halt_replicas(&mut self, rollout: &Rollout, reason: &Reason) {
        if reason.kind().halts_replicas() && !rollout.is_own_problem(reason) {
            self.halted
                .entry(rollout.workload.clone())
                .or_insert_with(|| (rollout.name.clone(), reason.clone()));
        }
    }
}

/// How long after a failure the next attempts follow, in minutes.
const WAITS: [i64; 5] = [1, 2, 5, 10, 30];
/// The longest that the other end may ask to wait.
const LONGEST_WAIT: TimeDelta = TimeDelta::hours(1);

/// Says in a reason when what failed is tried again. All that failed is tried at the same time.
fn schedule_retry(
    retries: &mut Option<(usize, Option<DateTime<Utc>>)>,
    reason: &mut Reason,
    now: DateTime<Utc>,
) {
    let Some((count, next)) = retries else { return };
    let (Some(minutes), Some(retry)) = (WAITS.get(*count), reason.retry_mut()) else {
        return;
    };
    if let Retry::Later(asked) = retry {
        let asked = asked
            .and_then(|asked| TimeDelta::from_std(asked).ok())
            .unwrap_or_default();
        let wait = TimeDelta::minutes(*minutes).max(asked.min(LONGEST_WAIT));
        let at = next.map_or(now + wait, |next| next.max(now + wait));
        *next = Some(at);
        *retry = Retry::At(at);
    }
}
