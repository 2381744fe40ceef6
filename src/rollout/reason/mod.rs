//! Why nothing (more) happens to a delegate: a [`Reason`] becomes a sentence in log, `plan` and `/status`, and its [`ReasonKind`] a label.

mod awaited;
mod ends;
mod kind;
mod log_once;
mod of_member;
mod words;

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use strum::{EnumDiscriminants, IntoStaticStr};

use super::{InvalidLabel, Rejection, RestartDeferral};
use crate::document::{Obstacle, SingleInstance};
use crate::host::place::command_for;
use crate::image::Version;
use crate::manager::ManagerError;
use crate::schedule::wave::Wave;
use crate::text::{size, time};

pub use crate::net::retry::Retry;

/// The page with an entry for each reason, which `explain` and the status page show.
pub const REFERENCE: &str = include_str!("../../../docs/reference/reasons.md");
pub use awaited::Awaited;
pub(crate) use kind::Standing;
pub(crate) use log_once::WORTH_A_WORD;
use words::{
    changed, health_only, held_until, is_published, not_a_delegate, paused, retry, returning, since, soaking,
    times, unfinished, whole,
};
pub(crate) use words::{count, next_step};

/// Why a delegate is left alone, for now or for good. Images are given as references, problems in the engine's words, and a
/// verdict is the health at the last observation.
#[derive(Clone, Debug, PartialEq, thiserror::Error, EnumDiscriminants)]
#[strum_discriminants(
    name(ReasonKind),
    doc = "A [`Reason`] without its details: one word, the same in the log, in metrics and in JSON.",
    derive(Default, Hash, Serialize, strum::Display, IntoStaticStr, strum::VariantArray),
    allow(missing_docs),
    serde(rename_all = "snake_case"),
    strum(serialize_all = "snake_case")
)]
#[allow(missing_docs, reason = "the sentence of each says what it is")]
pub enum Reason {
    #[error("runs the published image {image}")]
    UpToDate { image: String },
    /// The published reference differs, but its image runs already.
    #[error("already running the image that {image} refers to")]
    SameImage { image: String },
    /// An operator gave it other settings.
    #[error("has the new settings {settings}")]
    Reconfigured { settings: String },
    /// Changes are made only in scheduled runs, and none has requested one yet.
    #[error("{}waiting for the next scheduled run", is_published(.published.as_deref()))]
    AwaitingSchedule {
        /// The published image, if it is known to differ from the running one.
        published: Option<String>,
    },
    /// `DISABLE_AUTO_UPGRADE=true`.
    #[error("{}", health_only(.published))]
    HealthOnly {
        /// The published image, if it differs from the running one; or why it is unknown.
        published: Result<Option<String>, String>,
    },
    #[error("its owner opted out with the label {label}=false")]
    OptedOut { label: &'static str },
    /// It is stopped, paused or was never started, which is its owner's decision.
    #[error("the container is {state}; only running delegates are upgraded")]
    NotRunning {
        /// The engine's word for its state.
        state: String,
    },
    #[error("not a delegate, and left alone: {}", not_a_delegate(.image.as_deref()))]
    NotADelegate { image: Option<String> },
    /// Its image is not a Harness delegate image: the stock one would lose what was added to it.
    #[error(
        "{image} is a custom image, and the stock one would lose what was added to it; to upgrade it, set \
         IMAGE_REPOSITORY to the repository of your own build"
    )]
    CustomImage { image: String },
    /// Harness Delegate 3.x shares a repository with the delegate versioned by year and month.
    #[error(
        "{image} is published, but it is another product than this delegate: Harness Delegate 3.x and versions such as 26.03 do not replace each other"
    )]
    OtherGeneration { image: String },
    /// Its `ACCOUNT_ID` is not this upgrader's.
    #[error("it belongs to the account {account} (its ACCOUNT_ID), and this upgrader serves another one")]
    OtherAccount { account: String },
    /// Something else owns the container, such as a unit or a playbook.
    #[error(
        "another tool recreated it from {image} right after each of the last two upgrades; upgrade it with that tool, or run `{}`",
        retry(.delegate)
    )]
    RecreatedByAnother { delegate: String, image: String },
    #[error("{image} is published, but it is newer than MAX_VERSION={max}")]
    HeldBack { image: String, max: Version },
    /// No digest pins the target, and `REQUIRE_DIGEST=true`.
    #[error(
        "REQUIRE_DIGEST=true, but {image} has no digest of its own: publish it as repository:tag@sha256:…; the stock \
         image's digest does not cover variants or custom builds"
    )]
    NotPinned { image: String },
    #[error("{image} is published, but its label io.delegate-upgrader.pin={pin} permits no other version")]
    Pinned { image: String, pin: Version },
    #[error("{image} is published; snoozed until {} by the label io.delegate-upgrader.snooze-until", time::text(*.until))]
    Snoozed { image: String, until: DateTime<Utc> },
    #[error("{image} is published; waiting for the window {window}, which opens at {}", time::text(*.until))]
    OutsideWindow {
        image: String,
        /// As configured.
        window: String,
        until: DateTime<Utc>,
    },
    #[error("{image} is published, but {}", paused(.delegate.as_deref(), *.until))]
    Paused {
        image: String,
        /// The container name of the only delegate that is paused.
        delegate: Option<String>,
        /// Until when, if that was said.
        until: Option<DateTime<Utc>>,
    },
    #[error("{image} is published; delayed until {} (UPGRADE_DELAY; first seen {})", time::text(*.until), time::text(*.first_seen))]
    Delayed {
        image: String,
        first_seen: DateTime<Utc>,
        until: DateTime<Utc>,
    },
    #[error("{image} is published; this host's turn (UPGRADE_WAVE={wave}) is at {}", time::text(*.until))]
    AwaitingWave {
        image: String,
        /// As configured.
        wave: Wave,
        until: DateTime<Utc>,
    },
    /// A replica that runs the image already is too young, or unhealthy.
    #[error("{image} is published, but {}", soaking(.name, *.until, .verdict))]
    Soaking {
        image: String,
        name: String,
        /// When it has run for long enough; `None` while it is unhealthy.
        until: Option<DateTime<Utc>>,
        verdict: String,
    },
    /// Such an alert fires anywhere.
    #[error("{image} is published, but alerts fire (HOLD_ON_ALERTS): {alerts}")]
    AlertFiring { image: String, alerts: String },
    #[error("{image} is published, but which alerts fire is unknown (HOLD_ON_ALERTS): {problem}{}", held_until(*.until))]
    AlertsUnknown {
        image: String,
        problem: String,
        /// When the upgrade starts nevertheless, with `HOLD_TIMEOUT`.
        until: Option<DateTime<Utc>>,
    },
    /// The time from which `UPGRADE_DELAY` and `UPGRADE_WAVE` count.
    #[error(
        "{image} is published, but it is unknown when this host first saw it: {problem}; see `{}`",
        command_for("doctor", "")
    )]
    FirstSeenUnknown { image: String, problem: String },
    #[error("{image} is published, but {label}; recreate the delegate with a valid label, or without it")]
    InvalidLabel { image: String, label: InvalidLabel },
    /// The image of its configuration cannot be parsed as a reference, so there is nothing to compare.
    #[error("cannot compare its image {image:?} with the published one: {problem}")]
    ImageNotComparable { image: String, problem: String },
    #[error("cannot determine the published image: {error}{retry}")]
    TargetUnknown { error: ManagerError, retry: Retry },
    /// An open question: which image is published, or which one a tag refers to. Nothing in progress depends on the answer.
    #[error("waiting for {from}{}", since(*.waited, .last_error.as_deref()))]
    AwaitingAnswer {
        from: Awaited,
        /// How long it has taken so far.
        waited: Duration,
        /// Why the last attempt to get an answer failed.
        last_error: Option<String>,
    },
    /// Each further container takes as many resources as the delegate itself, for up to its stop timeout.
    #[error(
        "{image} is published; waiting until one of {drains} containers that are to stop has finished its tasks"
    )]
    AwaitingDrains {
        image: String,
        /// How many such containers there are: old ones, and candidates that were given up.
        drains: usize,
    },
    #[error("cannot resolve the tag {image} at the registry: {problem}{retry}")]
    DigestUnknown {
        image: String,
        problem: String,
        retry: Retry,
    },
    #[error("pulling {image}")]
    Pulling { image: String },
    #[error("cannot pull {image}: {problem}{retry}")]
    PullFailed {
        image: String,
        problem: String,
        retry: Retry,
    },
    #[error(
        "not pulling {image}: it may need {}, but only {} are free on the engine's disk",
        size::needed(*.needed), size::text(*.available)
    )]
    TooLittleDisk {
        image: String,
        /// The space that it may need, in bytes: as much as the running image, plus a margin.
        needed: u64,
        /// The space left for images, in bytes.
        available: u64,
    },
    #[error("{image} is built for {offered}, but the delegate runs on {needed}")]
    WrongPlatform {
        image: String,
        offered: String,
        needed: String,
    },
    #[error(
        "{image} failed here {}; next attempt after {}. Publish another image or run `{}` to try \
         sooner",
        times(*.attempt), time::text(*.until), retry(.delegate)
    )]
    Quarantined {
        delegate: String,
        image: String,
        /// How many times it was rejected in a row.
        attempt: u32,
        until: DateTime<Utc>,
    },
    #[error("cannot recreate this container: {0}")]
    Obstacle(Obstacle),
    #[error("start-first is not possible: {0}; use auto or stop-first")]
    CannotStartFirst(SingleInstance),
    /// A container that is not ours has the name that the candidate needs.
    #[error("another container has the name {name}, which the new container needs; rename that one")]
    NameTaken { name: String },
    #[error("cannot create the new container: {problem}")]
    CreateRefused { problem: String },
    /// The engine refused to start a container like the candidate, before the container in service was asked to stop.
    #[error("not stopped, since Docker cannot start the new container: {problem}")]
    StartRefused { problem: String },
    #[error("the new container's configuration would differ: {differences}")]
    ConfigurationMismatch { differences: String },
    /// The delegate's limits, networks or restart policy were changed after its candidate was created.
    #[error("its settings were changed while its replacement was being prepared{}", changed(.what, .again.as_deref()))]
    SettingsChanged { what: String, again: Option<String> },
    #[error("{image} was rejected: {rejection}")]
    Rejected { image: String, rejection: Rejection },
    /// A candidate that this run created is gone, and this program did not remove it.
    #[error("someone stopped or removed the new container with {image}; retrying at the next scheduled run")]
    CandidateVanished { image: String },
    /// The container in service has stopped while its candidate proves itself.
    #[error("{name} does not run; its replacement is withdrawn unless it runs again within 15 s")]
    Interrupted { name: String },
    /// The old container will serve again.
    #[error("{name} has stopped; {}", returning(*.at))]
    Returning {
        name: String,
        /// When this program starts it; `None` if Docker does.
        at: Option<DateTime<Utc>>,
    },
    /// Compose gives one of two containers such a name temporarily.
    #[error("Compose is replacing this container; waiting until it is done")]
    ReplacedByCompose,
    /// An operator rolled back from the published image; the delegate stays until another one is published.
    #[error(
        "rolled back from {image} to {to}; it stays there until another image is published or you run `{}`",
        retry(.delegate)
    )]
    RolledBack {
        delegate: String,
        image: String,
        to: String,
    },
    /// Another instance of this upgrader acts; this instance takes over once it is the successor, or outlives the other.
    #[error("{name} acts here; this upgrader stands by")]
    StandingBy { name: String },
    #[error("waiting for {name}: replicas are replaced one at a time")]
    WaitingForReplica { name: String },
    /// The host already has as many candidates as may prove themselves at once.
    #[error("waiting for {count} other replacements")]
    WaitingForOthers { count: usize },
    /// The replacement of another replica failed, which halts the rest of this run.
    #[error("halted, because {name} failed: {because}")]
    Halted {
        name: String,
        /// Its [`Reason::failure`].
        because: String,
    },
    #[error("the new container has been healthy for {} of {} ({verdict})", whole(*.healthy_for), whole(*.needed))]
    Proving {
        /// How long it has been continuously healthy.
        healthy_for: Duration,
        needed: Duration,
        verdict: String,
    },
    /// Stop-first: no delegate works between the old container's stop and the new one's start, so this waits until it is idle.
    #[error(
        "waiting until it has no task to finish, since it stops before the new container starts; it has {}, and is \
         replaced at {} at the latest",
        count(*.tasks), time::text(*.until)
    )]
    WaitingForIdle { tasks: u64, until: DateTime<Utc> },
    #[error("{name} is finishing {}; it has until {}", unfinished(*.tasks), time::text(*.until))]
    Draining {
        name: String,
        /// How many it executes, if it reports that.
        tasks: Option<u64>,
        until: DateTime<Utc>,
    },
    /// Two cannot run at once, and the successor is gone.
    #[error(
        "no delegate takes tasks since {}: {name} is finishing {}, has until {}, and is started again then",
        time::text(*.since), unfinished(*.tasks), time::text(*.until)
    )]
    NobodyServes {
        name: String,
        /// How many it executes, if it reports that.
        tasks: Option<u64>,
        since: DateTime<Utc>,
        until: DateTime<Utc>,
    },
    /// A container that was asked to stop must be gone before the next step.
    #[error("waiting until {name} is gone")]
    Stopping { name: String },
    #[error("keeping the old container until the new one is healthy ({verdict})")]
    SuccessorUnhealthy { verdict: String },
    #[error("no container holds the delegate's name, and none is left to restore")]
    #[strum_discriminants(default)]
    NoContainer,
    /// It has failed its health checks, but its last start was too recent for a restart.
    #[error("its health check failed {failures} times in a row ({verdict}); restart {attempt} follows after {}", time::text(*.until))]
    RestartBackoff {
        failures: u64,
        verdict: String,
        /// The number of the restart, counted since it last stayed healthy.
        attempt: u32,
        until: DateTime<Utc>,
    },
    #[error(
        "its health check failed {failures} times in a row ({verdict}), but it is not restarted: {because}"
    )]
    RestartDeferred {
        failures: u64,
        verdict: String,
        because: RestartDeferral,
    },
    #[error("restarting {name}; it is finishing {} and has until {}", unfinished(*.tasks), time::text(*.until))]
    Restarting {
        name: String,
        tasks: Option<u64>,
        until: DateTime<Utc>,
    },
    #[error(
        "it is a task of the Swarm service {service}, which is upgraded as a whole, on a manager with SWARM=true"
    )]
    TaskOfService { service: String },
    #[error("Swarm services are left alone; SWARM=true also upgrades them")]
    SwarmOff,
    /// An object of an orchestrator that is never upgraded.
    #[error("never upgraded, since it is {kind}")]
    NotUpgradable { kind: &'static str },
    /// The orchestrator replaces its tasks.
    #[error("{orchestrator} is rolling out {image}: {running} of {wanted} run")]
    RollingOut {
        orchestrator: &'static str,
        image: String,
        running: u64,
        wanted: u64,
    },
    #[error("{image} failed; {orchestrator} is rolling back to {to}")]
    RollingBack {
        orchestrator: &'static str,
        image: String,
        to: String,
    },
    /// It has the new image, but no task should run.
    #[error("updated to {image}, which is not verified: it is scaled to 0")]
    NotVerified { image: String },
    #[error("{orchestrator} is carrying out an update by someone else; waiting for its end")]
    UpdatedElsewhere { orchestrator: &'static str },
    /// Its update has stopped halfway, either someone else's or a rollback.
    #[error("{orchestrator} has paused its update ({message}), which needs attention")]
    UpdatePaused {
        orchestrator: &'static str,
        message: String,
    },
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
        found: String,
    },
    #[error("dryRun is true, so nothing is written; a run would continue with: {step}")]
    DryRun { step: String },
    /// This program may not take the step; the problem names what is missing.
    #[error("{step}: not permitted: {problem}")]
    NotPermitted { step: String, problem: String },
    /// The engine or the API server failed to do this; it is tried again.
    #[error("{step}: {problem}")]
    EngineError { step: String, problem: String },
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

    /// The exact obstacle or failure, as one word, if the reason has several kinds of it.
    pub fn cause(&self) -> Option<&'static str> {
        match self {
            Self::Obstacle(obstacle) => Some(obstacle.kind()),
            Self::CannotStartFirst(conflict) => Some(conflict.kind()),
            Self::TargetUnknown { error, .. } => Some(error.kind()),
            Self::AwaitingAnswer { from, .. } => Some(from.into()),
            Self::RestartDeferred { because, .. } => Some(because.into()),
            Self::Rejected { rejection, .. } => Some(rejection.cause.kind()),
            _ => None,
        }
    }

    /// The failure, for a sentence that already names the delegate and says that it failed.
    pub fn failure(&self) -> String {
        match self {
            Self::Rejected { rejection, .. } => rejection.to_string(),
            Self::Halted { because, .. } => because.clone(),
            reason => reason.to_string(),
        }
    }
}
