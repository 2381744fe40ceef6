//! Why nothing (more) happens to a delegate: every decision not to act is one [`Reason`], which becomes a sentence in
//! the log, in `plan` and in `/status`, and by its [`ReasonKind`] a metric label.

mod kind;
mod topic;
mod words;

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use strum::{EnumDiscriminants, IntoStaticStr};

use super::{FailureCause, HeldBack, InvalidLabel};
use crate::document::{Obstacle, SingleInstance};
use crate::image::{MaxVersion, Pin};
use crate::manager::ManagerError;
use crate::schedule::wave::Wave;
use crate::text::{size, time};

pub(crate) use topic::WORTH_A_WORD;
pub(crate) use words::count;
use words::{after, attempts, health_only, is_published, since, times, unfinished, until_when, whole};

/// Why a delegate is left as it is, for now or for good. An image is named by its reference, a problem is in the
/// engine's words, and a verdict is the health at the last observation.
#[derive(Clone, Debug, PartialEq, thiserror::Error, EnumDiscriminants)]
#[strum_discriminants(
    name(ReasonKind),
    doc = "A [`Reason`] without its details: one word, the same in the log, in metrics and in JSON.",
    derive(
        Hash,
        strum::Display,
        IntoStaticStr,
        strum::VariantNames,
        Serialize,
        Deserialize
    ),
    allow(missing_docs),
    serde(rename_all = "snake_case"),
    strum(serialize_all = "snake_case")
)]
#[allow(missing_docs, reason = "the sentence of each says what it is")]
pub enum Reason {
    #[error("runs the published image {image}")]
    UpToDate { image: String },
    /// The published reference is another one, but the image behind it is the one that runs.
    #[error("already running the image that {image} refers to")]
    SameImage { image: String },
    /// Changes are made in scheduled runs only, and no such run has asked for one yet.
    #[error("{}waiting for the next scheduled run", is_published(.published.as_deref()))]
    AwaitingSchedule {
        /// The published image, where it is known to differ from the one that runs.
        published: Option<String>,
    },
    /// `DISABLE_AUTO_UPGRADE=true`.
    #[error("{}", health_only(.published))]
    HealthOnly {
        /// The published image, where it differs from the one that runs; or why it is not known.
        published: Result<Option<String>, String>,
    },
    /// Its owner does not want it upgraded.
    #[error("its owner opted out with the label {label}=false")]
    OptedOut {
        /// The label's name.
        label: &'static str,
    },
    /// It is stopped, paused or was never started, which is its owner's decision.
    #[error("the container is {state}; only running delegates are upgraded")]
    NotRunning {
        /// The engine's word for its state.
        state: String,
    },
    /// Somebody stops it, or the new one: `docker stop`, or Compose, which makes it anew.
    #[error(
        "somebody asked it or its replacement to stop; if it runs then, the next scheduled run tries again"
    )]
    AskedToStop,
    /// Somebody removed it while it was being replaced, or stopped it where it was started with `--rm`.
    #[error("somebody removed it, so its replacement is removed, too")]
    Removed,
    /// Its image is not a Harness delegate image: the stock one would lose what was added to it.
    #[error(
        "{image} is a custom image, and the stock one would lose what was added to it; to upgrade it, set \
         IMAGE_REPOSITORY to the repository of your own build"
    )]
    CustomImage { image: String },
    /// The published image is newer than `MAX_VERSION`.
    #[error("{image} is published, but it is newer than MAX_VERSION={max}")]
    HeldBack {
        image: String,
        /// The newest version that is permitted.
        max: MaxVersion,
    },
    /// No digest pins the target, and `REQUIRE_DIGEST=true`.
    #[error(
        "REQUIRE_DIGEST=true, but {image} has no digest of its own: publish it as repository:tag@sha256:…; the stock \
         image's digest does not cover variants or custom builds"
    )]
    NotPinned { image: String },
    /// Its owner keeps it at another version.
    #[error("{image} is published, but its label io.delegate-upgrader.pin={pin} permits no other version")]
    Pinned { image: String, pin: Pin },
    /// Its owner wants no replacement before then.
    #[error("{image} is published, but its label io.delegate-upgrader.snooze-until lets nothing begin before {}", time::text(*.until))]
    Snoozed { image: String, until: DateTime<Utc> },
    #[error("{image} is published; waiting for the window {window}, which opens at {}", time::text(*.until))]
    OutsideWindow {
        image: String,
        /// As it was given.
        window: String,
        until: DateTime<Utc>,
    },
    #[error("{image} is published, but changes are paused {}; see `delegate-upgrader resume`", until_when(*.until))]
    Paused {
        image: String,
        /// Until when, where that was said.
        until: Option<DateTime<Utc>>,
    },
    #[error("{image} is published; with UPGRADE_DELAY it begins at {}, since it was first seen at {}", time::text(*.until), time::text(*.first_seen))]
    Delayed {
        image: String,
        first_seen: DateTime<Utc>,
        until: DateTime<Utc>,
    },
    #[error("{image} is published; by its place in UPGRADE_WAVE={wave} this host begins at {}", time::text(*.until))]
    AwaitingWave {
        image: String,
        /// As it was given.
        wave: Wave,
        until: DateTime<Utc>,
    },
    /// `UPGRADE_DELAY` and `UPGRADE_WAVE` begin then.
    #[error(
        "{image} is published, but when it was first seen here cannot be known: {problem}; see `delegate-upgrader doctor`"
    )]
    FirstSeenUnknown { image: String, problem: String },
    /// What its owner wants is not known.
    #[error("{image} is published, but {label}; recreate the delegate with a right one, or without it")]
    InvalidLabel { image: String, label: InvalidLabel },
    /// The image it was created from cannot be read as a reference, so there is nothing to compare.
    #[error("cannot compare its image {image:?} with the published one: {problem}")]
    ImageNotComparable { image: String, problem: String },
    #[error("cannot determine the published image: {0}")]
    TargetUnknown(ManagerError),
    /// A question that is still open: which image is published, or which one a tag refers to. Nothing that is in progress
    /// depends on the answer.
    #[error("waiting for {from}{}", since(*.waited, .last_error.as_deref()))]
    AwaitingAnswer {
        from: Awaited,
        /// How long so far.
        waited: Duration,
        /// Why the last attempt to get an answer failed.
        last_error: Option<String>,
    },
    /// Each other container takes as much of the host as the delegate itself, and has up to its stop timeout.
    #[error(
        "{image} is published; waiting until one of {drains} containers that are to stop has finished its tasks"
    )]
    AwaitingDrains {
        image: String,
        /// How many containers that is, old ones and candidates that were given up.
        drains: usize,
    },
    /// The registry did not say which image a mutable tag refers to.
    #[error("cannot resolve the tag {image} at the registry: {problem}")]
    DigestUnknown { image: String, problem: String },
    #[error("pulling {image}")]
    Pulling { image: String },
    #[error("cannot pull {image}: {problem}")]
    PullFailed { image: String, problem: String },
    /// The published image is not pulled, since it may not fit on the engine's disk.
    #[error(
        "not pulling {image}: it may need {}, but only {} are free on the engine's disk",
        size::needed(*.needed), size::text(*.available)
    )]
    TooLittleDisk {
        image: String,
        /// What it may need: as much as the image that runs, and a margin, in bytes.
        needed: u64,
        /// What is left for images, in bytes.
        available: u64,
    },
    /// The published image is for another platform than the one that runs.
    #[error("{image} is built for {offered}, but the delegate runs on {needed}")]
    WrongPlatform {
        image: String,
        offered: String,
        needed: String,
    },
    /// A candidate with this image was rejected; it is tried again later.
    #[error(
        "{image} failed here {}; next attempt after {}. Publish another image or run `delegate-upgrader retry` to try \
         sooner",
        times(*.attempt), time::text(*.until)
    )]
    Quarantined {
        image: String,
        /// How many times it was rejected in a row.
        attempt: u32,
        until: DateTime<Utc>,
    },
    #[error("cannot recreate this container: {0}")]
    Obstacle(Obstacle),
    /// `start-first` is required, but two containers of this delegate cannot run at once.
    #[error("start-first is not possible: {0}; use auto or stop-first")]
    CannotStartFirst(SingleInstance),
    /// A container that is not ours has the name that the candidate needs.
    #[error("another container has the name {name}, which the new container needs; rename that one")]
    NameTaken { name: String },
    /// The engine refused to create the candidate.
    #[error("cannot create the new container: {problem}")]
    CreateRefused { problem: String },
    /// The candidate differs from the delegate it is to replace.
    #[error("the new container's configuration would differ: {differences}")]
    ConfigurationMismatch { differences: String },
    /// Somebody changed the delegate after its candidate was created, and the old one was restored with the change.
    #[error(
        "it was changed while its replacement was being prepared: {differences}; retrying at the next scheduled run"
    )]
    SettingsChanged {
        /// The differences, or why it cannot be recreated any more.
        differences: String,
    },
    #[error("{image} was rejected: {cause}")]
    Rejected { image: String, cause: FailureCause },
    /// A candidate with this image failed while delegates with other images were unhealthy, too; it is tried again later.
    #[error(
        "no verdict on {image} after {}, since delegates with another image were unhealthy too; next attempt after {}. \
         Publish another image or run `delegate-upgrader retry` to try sooner",
        attempts(*.attempt), time::text(*.until)
    )]
    AwaitingRetry {
        image: String,
        /// How many times it was tried in vain in a row.
        attempt: u32,
        until: DateTime<Utc>,
    },
    /// A candidate failed; before it is rejected the Manager is asked whether it can be reached at all.
    #[error("{image} failed ({cause}); checking that the Manager is reachable before rejecting it")]
    Confirming { image: String, cause: FailureCause },
    /// The candidate failed, but so did something beside it: that says nothing about its image.
    #[error("inconclusive for {image}: {cause}, but {common_cause}; retrying at the next scheduled run{}", after(*.attempts))]
    Inconclusive {
        image: String,
        cause: FailureCause,
        /// What failed beside it.
        common_cause: String,
        /// How many times it was tried in vain in a row, since delegates with another image did no better: that may last,
        /// so there is a pause. 0 where something else failed.
        attempts: u32,
    },
    /// The candidate is gone, and this program did not remove it.
    #[error("{image} failed: {cause}")]
    CandidateVanished { image: String, cause: FailureCause },
    /// An operator rolled back from the published image; the delegate stays until another one is published.
    #[error(
        "rolled back from {image} to {to}; it stays there until another image is published or `delegate-upgrader retry` \
         is run"
    )]
    RolledBack { image: String, to: String },
    /// Another instance of this upgrader acts; this one takes over once it is that one's successor, or outlives it.
    #[error("{name} acts here; this upgrader stands by")]
    StandingBy { name: String },
    /// Another replica of the same delegate is being replaced: one at a time.
    #[error("waiting for {name}: replicas are replaced one at a time")]
    WaitingForReplica { name: String },
    /// As many delegates as a host bears at once have a new container that proves itself.
    #[error("waiting for others: {count} new containers prove themselves already, and no more do at once")]
    WaitingForOthers { count: usize },
    /// The replacement of another replica failed, which halts the rest until the next scheduled run.
    #[error("halted until the next scheduled run, because {name} failed: {because}")]
    Halted {
        name: String,
        /// Its [`Reason::failure`].
        because: String,
    },
    #[error("the new container has been healthy for {} of {} ({verdict})", whole(*.healthy_for), whole(*.needed))]
    Proving {
        /// How long it has been healthy without a break.
        healthy_for: Duration,
        /// How long it has to be.
        needed: Duration,
        verdict: String,
    },
    /// Stop-first: no delegate works between the old container's stop and the new one's start, so a moment without tasks
    /// is waited for.
    #[error(
        "waiting until it has no task to finish, since it stops before the new container starts; it has {}, and is \
         replaced at {} at the latest",
        count(*.tasks), time::text(*.until)
    )]
    WaitingForIdle {
        /// How many tasks it executes.
        tasks: u64,
        until: DateTime<Utc>,
    },
    /// The old container is finishing its tasks.
    #[error("{name} is finishing {}; it has until {}", unfinished(*.tasks), time::text(*.until))]
    Draining {
        name: String,
        /// How many it executes, where it says so.
        tasks: Option<u64>,
        until: DateTime<Utc>,
    },
    /// A container that was asked to stop has to be gone before the next step.
    #[error("waiting for {name} to stop")]
    Stopping { name: String },
    /// The engine has been removing a container for more than ten minutes.
    #[error("Docker has been removing {name} for over 10 minutes; restarting Docker may help")]
    RemovalStuck { name: String },
    /// The old container is kept until its successor is healthy.
    #[error("keeping the old container until the new one is healthy ({verdict})")]
    SuccessorUnhealthy { verdict: String },
    /// The new container does not work, and the old one is gone.
    #[error("the new container is unhealthy ({verdict}) and no old one is left to restore")]
    NoFallback { verdict: String },
    /// No container holds the delegate's name, and none is left to restore.
    #[error("no container holds the delegate's name, and none is left to restore")]
    NoContainer,
    /// It has failed its health checks, and its last start is not long enough ago for a restart.
    #[error("its health check failed {failures} times in a row ({verdict}); restart {attempt} follows after {}", time::text(*.until))]
    RestartBackoff {
        failures: u64,
        verdict: String,
        /// Which restart it will be since it last stayed healthy.
        attempt: u32,
        until: DateTime<Utc>,
    },
    #[error(
        "its health check failed {failures} times in a row ({verdict}), but it is not restarted: {because}"
    )]
    RestartHeldBack {
        failures: u64,
        verdict: String,
        because: HeldBack,
    },
    /// It was asked to stop, and is started again then.
    #[error("restarting {name}; it is finishing {} and has until {}", unfinished(*.tasks), time::text(*.until))]
    Restarting {
        name: String,
        /// How many it executes, where it says so.
        tasks: Option<u64>,
        until: DateTime<Utc>,
    },
    /// Its service is the delegate.
    #[error("it is a task of the Swarm service {service}, which is upgraded as a whole, on a manager")]
    TaskOfService { service: String },
    /// It is a thing of an orchestrator that is never upgraded.
    #[error("never upgraded, since it is {kind}")]
    NotUpgradable { kind: &'static str },
    /// The orchestrator replaces its tasks.
    #[error("{orchestrator} is rolling out {image}: {running} of {wanted} run")]
    RollingOut {
        orchestrator: &'static str,
        image: String,
        /// How many tasks run that image.
        running: u64,
        /// How many are to run.
        wanted: u64,
    },
    /// The orchestrator goes back to the image before.
    #[error("{image} failed; {orchestrator} is rolling back to {to}")]
    RollingBack {
        orchestrator: &'static str,
        image: String,
        to: String,
    },
    /// It was given the image, and no task is to run.
    #[error("updated to {image}, which is not verified: it is scaled to 0")]
    NotVerified { image: String },
    /// Somebody else changes it.
    #[error("{orchestrator} is carrying out an update by somebody else; waiting for its end")]
    UpdatedElsewhere { orchestrator: &'static str },
    /// It stopped in the middle of an update that is not ours, or on its way back.
    #[error("{orchestrator} has paused its update ({message}), and somebody has to look after that")]
    UpdatePaused {
        orchestrator: &'static str,
        message: String,
    },
    /// There is nothing to upgrade under that name.
    #[error(
        "there is no Deployment {name} in the namespace {namespace}; workloadName has to be the name of the delegate's"
    )]
    NoDeployment { name: String, namespace: String },
    /// A patch for that container would add one.
    #[error(
        "the Deployment {deployment} has no container {container:?} (it has {found}); correct containerName"
    )]
    NoSuchContainer {
        deployment: String,
        container: String,
        /// The containers that it has.
        found: String,
    },
    /// `dryRun: true`.
    #[error("dryRun is true, so nothing is written; a run would go on with: {step}")]
    DryRun {
        /// The step.
        step: String,
    },
    /// The engine or the API server failed to do what it was asked; it is tried again.
    #[error("{step}: {problem}")]
    EngineError { step: String, problem: String },
}

/// Whose answer is awaited.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, IntoStaticStr, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Awaited {
    /// The Manager's.
    #[error("the Manager")]
    Manager,
    /// That of the registry with this host name.
    #[error("the registry {0}")]
    Registry(String),
}

impl Reason {
    /// Which reason it is.
    pub fn kind(&self) -> ReasonKind {
        self.into()
    }

    /// Whether the delegate could not be served: see [`ReasonKind::is_failure`].
    pub fn is_failure(&self) -> bool {
        self.kind().is_failure()
    }

    /// What exactly is in the way or went wrong, in one word, where the reason has several kinds of it.
    pub fn cause(&self) -> Option<&'static str> {
        match self {
            Self::Obstacle(obstacle) => Some(obstacle.kind()),
            Self::CannotStartFirst(conflict) => Some(conflict.kind()),
            Self::TargetUnknown(error) => Some(error.kind()),
            Self::AwaitingAnswer { from, .. } => Some(from.into()),
            Self::RestartHeldBack { because, .. } => Some(because.into()),
            Self::Rejected { cause, .. }
            | Self::Confirming { cause, .. }
            | Self::Inconclusive { cause, .. }
            | Self::CandidateVanished { cause, .. } => Some(cause.kind()),
            _ => None,
        }
    }

    /// When it is over at the latest, where tasks are waited for.
    pub fn deadline(&self) -> Option<DateTime<Utc>> {
        match self {
            Self::WaitingForIdle { until, .. }
            | Self::Draining { until, .. }
            | Self::Restarting { until, .. } => Some(*until),
            _ => None,
        }
    }

    /// When it ends by itself, where that is known.
    pub fn ends_at(&self) -> Option<DateTime<Utc>> {
        match self {
            Self::Paused { until, .. } => *until,
            Self::Snoozed { until, .. }
            | Self::Delayed { until, .. }
            | Self::AwaitingWave { until, .. }
            | Self::OutsideWindow { until, .. }
            | Self::Quarantined { until, .. }
            | Self::AwaitingRetry { until, .. }
            | Self::RestartBackoff { until, .. } => Some(*until),
            reason => reason.deadline(),
        }
    }

    /// Whether this failure of one replica halts the replacement of the others until the next scheduled run. That it did
    /// no better than its predecessor says nothing about them.
    pub fn halts_replicas(&self) -> bool {
        match self {
            Self::Inconclusive { attempts, .. } => *attempts == 0,
            reason => reason.kind().halts_replicas(),
        }
    }

    /// What went wrong, to be quoted by a sentence that already says of whom, and that it failed.
    pub fn failure(&self) -> String {
        match self {
            Self::Rejected { cause, .. }
            | Self::Confirming { cause, .. }
            | Self::Inconclusive { cause, .. }
            | Self::CandidateVanished { cause, .. } => cause.to_string(),
            Self::Halted { because, .. } => because.clone(),
            reason => reason.to_string(),
        }
    }
}
