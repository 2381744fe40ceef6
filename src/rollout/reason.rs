//! Why nothing happens: every decision not to act is one value of one enum, which becomes a sentence in the log, in
//! `plan` and in `/status`, and a metric label.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::FailureCause;
use crate::document::{Obstacle, SingleInstance};
use crate::image::MaxVersion;
use crate::manager::ManagerError;
use crate::text::{duration, time};

const MIB: u64 = 1024 * 1024;

/// Why a delegate is left as it is, for now or for good.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// It runs the published image.
    UpToDate {
        /// The image reference it runs.
        image: String,
    },
    /// The published reference is another one, but the image behind it is the one that runs.
    SameImage {
        /// The published reference.
        image: String,
    },
    /// Changes are made on schedule only, and no scheduled pass has asked for one yet.
    AwaitingSchedule {
        /// The published image, where it is known to differ from the one that runs.
        published: Option<String>,
    },
    /// `DISABLE_AUTO_UPGRADE=true`.
    HealthOnly {
        /// The published image, where it differs from the one that runs; or why that is not known.
        published: Result<Option<String>, String>,
    },
    /// Its owner set the label `io.delegate-upgrader.enable=false`.
    OptedOut,
    /// It is stopped, paused or was never started: its owner's business.
    NotRunning {
        /// The engine's word for its state.
        state: String,
    },
    /// Its image is not a Harness delegate image: the stock one would lose what was added to it.
    CustomImage {
        /// The image reference it runs.
        image: String,
    },
    /// What is published is newer than `MAX_VERSION`.
    HeldBack {
        /// The target.
        image: String,
        /// The newest that is let in.
        max: MaxVersion,
    },
    /// No digest pins what is published, and `REQUIRE_DIGEST=true`.
    NotPinned {
        /// The target.
        image: String,
    },
    /// The image it was created from cannot be read as a reference, so there is nothing to compare.
    UnknownReference {
        /// What the container says.
        image: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The Manager did not say which image is published.
    Unpublished(ManagerError),
    /// The registry did not say which image a moving tag stands for.
    DigestUnknown {
        /// The moving reference.
        image: String,
        /// The engine's words.
        problem: String,
    },
    /// The published image is being pulled.
    Pulling {
        /// The reference.
        image: String,
    },
    /// The published image could not be pulled.
    PullFailed {
        /// The reference.
        image: String,
        /// The engine's words.
        problem: String,
    },
    /// The published image is not pulled, since it may not fit on the engine's disk.
    TooLittleDisk {
        /// The reference.
        image: String,
        /// What it may need: as much as the image that runs, and a margin, in bytes.
        needed: u64,
        /// What is left for images, in bytes.
        available: u64,
    },
    /// The published image is for another platform than the one that runs.
    WrongPlatform {
        /// The reference.
        image: String,
        /// What the image is for.
        offered: String,
        /// What the delegate runs on.
        needed: String,
    },
    /// A candidate with this image was rejected; it is tried again later.
    Quarantined {
        /// The rejected image's reference.
        image: String,
        /// How many times it was rejected in a row.
        attempt: u32,
        /// When it may be tried again.
        until: DateTime<Utc>,
    },
    /// The container cannot be recreated as it is.
    Obstacle(Obstacle),
    /// `start-first` is asked for, but two cannot live at once.
    CannotStartFirst(SingleInstance),
    /// The name the candidate needs belongs to somebody else's container.
    NameTaken {
        /// The name.
        name: String,
    },
    /// The engine would not create the candidate.
    CreateRefused {
        /// The engine's words.
        problem: String,
    },
    /// The candidate differs from the delegate it is to replace.
    NotTheSame {
        /// What differs.
        differences: String,
    },
    /// The candidate was rejected.
    Rejected {
        /// The rejected image's reference.
        image: String,
        /// What it did wrong.
        cause: FailureCause,
    },
    /// A candidate failed; before it is rejected the Manager is asked whether it can be reached at all.
    Confirming {
        /// Its image's reference.
        image: String,
        /// What it did wrong.
        cause: FailureCause,
    },
    /// The candidate could not prove itself, but something from outside was in the way: no verdict on its image.
    Inconclusive {
        /// Its image's reference.
        image: String,
        /// What was wrong with it.
        cause: FailureCause,
        /// What was in the way.
        common_cause: String,
    },
    /// The candidate is gone, and this program did not remove it.
    CandidateVanished {
        /// What is known of it.
        cause: FailureCause,
    },
    /// An operator went back from the published image; it is left alone until another one is published.
    RolledBack {
        /// The image that was left.
        image: String,
        /// The image that runs.
        to: String,
    },
    /// Another replica of the same delegate is being replaced: one at a time.
    AnotherReplica {
        /// That replica's name.
        name: String,
    },
    /// The replacement of another replica failed, which halts the rest until the next scheduled pass.
    Halted {
        /// That replica's name.
        name: String,
        /// What happened to it, in a sentence.
        because: String,
    },
    /// The candidate is proving itself.
    Proving {
        /// How long it has been healthy without a break.
        healthy_for: Duration,
        /// How long it has to be.
        needed: Duration,
        /// The last verdict on it.
        verdict: String,
    },
    /// The old container is finishing its tasks.
    Draining {
        /// The old container's name now.
        name: String,
        /// When its time is up.
        until: DateTime<Utc>,
    },
    /// A container that was told to stop has to be gone before the next step.
    Stopping {
        /// Its name.
        name: String,
    },
    /// The engine has been removing a container for minutes.
    Stuck {
        /// Its name.
        name: String,
    },
    /// The old container is kept until its successor is healthy.
    SuccessorUnhealthy {
        /// The last verdict on the successor.
        verdict: String,
    },
    /// The new container does not work, and the old one is not there any more.
    NoWayBack {
        /// The last verdict on the new one.
        verdict: String,
    },
    /// No container holds the delegate's name, and none is left to restore.
    Gone,
    /// The engine did not do what it was asked; it is looked at again.
    Engine {
        /// What was asked.
        step: String,
        /// The engine's words.
        problem: String,
    },
}

impl Reason {
    /// The metric label: one word per kind of reason.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::UpToDate { .. } => "up_to_date",
            Self::SameImage { .. } => "same_image",
            Self::AwaitingSchedule { .. } => "awaiting_schedule",
            Self::HealthOnly { .. } => "health_only",
            Self::OptedOut => "opted_out",
            Self::NotRunning { .. } => "not_running",
            Self::CustomImage { .. } => "custom_image",
            Self::HeldBack { .. } => "held_back",
            Self::NotPinned { .. } => "not_pinned",
            Self::UnknownReference { .. } => "unknown_reference",
            Self::Unpublished(_) => "unpublished",
            Self::DigestUnknown { .. } => "digest_unknown",
            Self::Pulling { .. } => "pulling",
            Self::PullFailed { .. } => "pull_failed",
            Self::TooLittleDisk { .. } => "too_little_disk",
            Self::WrongPlatform { .. } => "wrong_platform",
            Self::Quarantined { .. } => "quarantined",
            Self::Obstacle(_) => "obstacle",
            Self::CannotStartFirst(_) => "cannot_start_first",
            Self::NameTaken { .. } => "name_taken",
            Self::CreateRefused { .. } => "create_refused",
            Self::NotTheSame { .. } => "not_the_same",
            Self::Rejected { .. } => "rejected",
            Self::Confirming { .. } => "confirming",
            Self::Inconclusive { .. } => "inconclusive",
            Self::CandidateVanished { .. } => "candidate_vanished",
            Self::RolledBack { .. } => "rolled_back",
            Self::AnotherReplica { .. } => "another_replica",
            Self::Halted { .. } => "halted",
            Self::Proving { .. } => "proving",
            Self::Draining { .. } => "draining",
            Self::Stopping { .. } => "stopping",
            Self::Stuck { .. } => "stuck",
            Self::SuccessorUnhealthy { .. } => "successor_unhealthy",
            Self::NoWayBack { .. } => "no_way_back",
            Self::Gone => "gone",
            Self::Engine { .. } => "engine",
        }
    }

    /// Whether the delegate could not be served: it should run another image, and something is in the way that
    /// its owner did not choose. `once` exits with 1.
    pub fn is_failure(&self) -> bool {
        match self {
            Self::UpToDate { .. }
            | Self::SameImage { .. }
            | Self::AwaitingSchedule { .. }
            | Self::HealthOnly { .. }
            | Self::OptedOut
            | Self::NotRunning { .. }
            | Self::CustomImage { .. }
            | Self::HeldBack { .. }
            | Self::RolledBack { .. }
            | Self::AnotherReplica { .. }
            | Self::Pulling { .. }
            | Self::Proving { .. }
            | Self::Confirming { .. }
            | Self::Draining { .. }
            | Self::Stopping { .. } => false,
            Self::UnknownReference { .. }
            | Self::NotPinned { .. }
            | Self::Unpublished(_)
            | Self::DigestUnknown { .. }
            | Self::PullFailed { .. }
            | Self::TooLittleDisk { .. }
            | Self::WrongPlatform { .. }
            | Self::Quarantined { .. }
            | Self::Obstacle(_)
            | Self::CannotStartFirst(_)
            | Self::NameTaken { .. }
            | Self::CreateRefused { .. }
            | Self::NotTheSame { .. }
            | Self::Rejected { .. }
            | Self::Inconclusive { .. }
            | Self::CandidateVanished { .. }
            | Self::Halted { .. }
            | Self::Stuck { .. }
            | Self::SuccessorUnhealthy { .. }
            | Self::NoWayBack { .. }
            | Self::Gone
            | Self::Engine { .. } => true,
        }
    }

    /// Whether this failure of one replica halts the replacement of the others until the next scheduled pass.
    pub fn halts_replicas(&self) -> bool {
        matches!(
            self,
            // One disk holds the images of all of them.
            Self::PullFailed { .. }
                | Self::TooLittleDisk { .. }
                | Self::WrongPlatform { .. }
                | Self::CreateRefused { .. }
                | Self::NotTheSame { .. }
                | Self::Quarantined { .. }
                | Self::Rejected { .. }
                | Self::Inconclusive { .. }
                | Self::CandidateVanished { .. }
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UpToDate { image } => write!(f, "runs the published image {image}"),
            Self::SameImage { image } => write!(f, "already runs the image that {image} stands for"),
            Self::AwaitingSchedule { published: None } => f.write_str("changes are made on schedule only"),
            Self::AwaitingSchedule {
                published: Some(image),
            } => {
                write!(f, "{image} is published; changes are made on schedule only")
            }
            Self::HealthOnly { published: Ok(None) } => {
                f.write_str("DISABLE_AUTO_UPGRADE is true: health checks only")
            }
            Self::HealthOnly {
                published: Ok(Some(image)),
            } => {
                write!(
                    f,
                    "{image} is published, but DISABLE_AUTO_UPGRADE is true: health checks only"
                )
            }
            Self::HealthOnly { published: Err(why) } => {
                write!(
                    f,
                    "DISABLE_AUTO_UPGRADE is true: health checks only; whether a newer version is published is not \
                     known: {why}"
                )
            }
            Self::OptedOut => f.write_str("its owner set the label io.delegate-upgrader.enable=false"),
            Self::NotRunning { state } => write!(f, "it is {state}; only running delegates are replaced"),
            Self::CustomImage { image } => write!(
                f,
                "{image} is not a harness/delegate image, and the stock one would lose what was added to it; \
                 set IMAGE_REPOSITORY to the repository of your own build to have it upgraded"
            ),
            Self::HeldBack { image, max } => {
                write!(f, "{image} is published, which is newer than MAX_VERSION={max}")
            }
            Self::NotPinned { image } => write!(
                f,
                "{image} is what is published, and REQUIRE_DIGEST=true takes only what is published with a digest \
                 (repository:tag@sha256:…) and has it as its own: a variant or a build of your own has another"
            ),
            Self::UnknownReference { image, problem } => {
                write!(
                    f,
                    "its image {image:?} cannot be compared with the published one: {problem}"
                )
            }
            Self::Unpublished(error) => write!(f, "which image is published is not known: {error}"),
            Self::DigestUnknown { image, problem } => {
                write!(
                    f,
                    "the registry did not say which image {image} stands for now: {problem}"
                )
            }
            Self::Pulling { image } => write!(f, "{image} is being pulled"),
            Self::PullFailed { image, problem } => write!(f, "{image} could not be pulled: {problem}"),
            Self::TooLittleDisk {
                image,
                needed,
                available,
            } => write!(
                f,
                "{image} is not pulled: it may need {} MiB of the engine's disk, which has {} MiB left",
                needed.div_ceil(MIB),
                available / MIB
            ),
            Self::WrongPlatform {
                image,
                offered,
                needed,
            } => {
                write!(f, "{image} is for {offered}, the delegate runs on {needed}")
            }
            Self::Quarantined {
                image,
                attempt,
                until,
            } => write!(
                f,
                "{image} was rejected here {attempt} time(s); it is tried again after {}, at once when another \
                 image is published, or by `delegate-upgrader retry`",
                time::text(*until)
            ),
            Self::Obstacle(obstacle) => write!(f, "it cannot be recreated as it is: {obstacle}"),
            Self::CannotStartFirst(conflict) => write!(
                f,
                "start-first is asked for, but two of it cannot run at once: {conflict}; \
                 use auto or stop-first"
            ),
            Self::NameTaken { name } => {
                write!(
                    f,
                    "the name {name} is needed for the new container, but another container has it"
                )
            }
            Self::CreateRefused { problem } => write!(f, "the new container could not be created: {problem}"),
            Self::NotTheSame { differences } => {
                write!(
                    f,
                    "the new container would not be configured as the old one: {differences}"
                )
            }
            Self::Rejected { image, cause } => write!(f, "{image} was rejected: {cause}"),
            Self::Confirming { image, cause } => write!(
                f,
                "{image} failed: {cause}; before it is rejected the Manager is asked whether it can be reached"
            ),
            Self::Inconclusive {
                image,
                cause,
                common_cause,
            } => write!(
                f,
                "{image} could not prove itself, which is no verdict on it: {cause}; but {common_cause}; it is tried \
                 again at the next scheduled pass"
            ),
            Self::CandidateVanished { cause } => write!(f, "{cause}"),
            Self::RolledBack { image, to } => write!(
                f,
                "it was rolled back from {image} to {to}, and stays there until another image is published or \
                 `delegate-upgrader retry` is called"
            ),
            Self::AnotherReplica { name } => write!(f, "{name} is being replaced; replicas go one at a time"),
            Self::Halted { name, because } => write!(f, "halted, since {name} failed: {because}"),
            Self::Proving {
                healthy_for,
                needed,
                verdict,
            } => write!(
                f,
                "the new container has been healthy for {} of {} ({verdict})",
                duration::text(*healthy_for),
                duration::text(*needed)
            ),
            Self::Draining { name, until } => {
                write!(
                    f,
                    "{name} is finishing its tasks and has until {}",
                    time::text(*until)
                )
            }
            Self::Stopping { name } => write!(f, "{name} was told to stop"),
            Self::Stuck { name } => write!(
                f,
                "the engine does not get done with the removal of {name}; a restart of the engine may help"
            ),
            Self::SuccessorUnhealthy { verdict } => {
                write!(
                    f,
                    "the old container is kept until the new one is healthy ({verdict})"
                )
            }
            Self::NoWayBack { verdict } => write!(
                f,
                "the new container is not healthy ({verdict}), and there is no old one to go back to"
            ),
            Self::Gone => f.write_str("no container has the delegate's name any more"),
            Self::Engine { step, problem } => write!(f, "{step}: {problem}"),
        }
    }
}
