//! The meaning of each kind of reason for the delegate and its replicas, in one table.

use super::ReasonKind;

/// The meaning of a kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// It runs the wanted image.
    Current,
    /// It runs the image to which its owner rolled back.
    WentBack,
    /// The published image is not wanted here.
    Unwanted,
    /// The published image is not permitted here; its publisher must correct that.
    Forbidden,
    /// It is as its owner chose, or its new image works.
    Chosen,
    /// It waits for its turn or its time.
    Waits,
    /// An answer, a pull, a proof or another container is awaited: the run is not over.
    UnderWay,
    /// It could not be upgraded because of something that its owner did not choose.
    Failure,
    /// Such a failure, which another event reports: about a replacement, another replica, or the delegate's health.
    Reported,
    /// A failure that may also affect the other replicas, such as that of an image. They share one disk.
    Shared,
    /// The same of an image whose rejection another event reports.
    Rejected,
}

/// Whether the upgrader can serve a delegate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It cannot, and an event says so.
    Skipped,
    /// It can, or the owner has chosen this state.
    Served,
    /// Unknown yet, or reported by another event.
    Open,
}

/// Gives each kind its meaning. The compiler rejects a kind without one.
macro_rules! meanings {
    ($($meaning:ident: $($kind:ident)+;)+) => {
        impl ReasonKind {
            fn meaning(self) -> Meaning {
                match self {
                    $($(Self::$kind)|+ => Meaning::$meaning,)+
                }
            }
        }
    };
}

meanings! {
    Current: UpToDate SameImage Reconfigured;
    WentBack: RolledBack;
    Unwanted: HeldBack CustomImage OtherGeneration;
    Forbidden: NotPinned;
    Chosen: HealthOnly OptedOut NotRunning NotADelegate OtherAccount TaskOfService SwarmOff NotUpgradable;
    Chosen: Pinned Snoozed Paused Delayed AwaitingWave Soaking AlertFiring WaitingForIdle Draining NotVerified;
    Waits: AwaitingSchedule AwaitingDrains OutsideWindow Stopping RollingOut UpdatedElsewhere DryRun;
    UnderWay: AwaitingAnswer WaitingForReplica WaitingForOthers StandingBy;
    UnderWay: Pulling Proving Interrupted Returning ReplacedByCompose;
    Failure: ImageNotComparable InvalidLabel FirstSeenUnknown TargetUnknown DigestUnknown RecreatedByAnother;
    Failure: WrongPlatform Obstacle CannotStartFirst NameTaken CreateRefused StartRefused ConfigurationMismatch;
    Failure: AlertsUnknown SettingsChanged UpdatePaused NoContainer NoDeployment NoSuchContainer NotPermitted EngineError;
    Reported: CandidateVanished Halted SuccessorUnhealthy NobodyServes;
    Reported: RestartBackoff RestartDeferred Restarting RollingBack;
    Shared: PullFailed TooLittleDisk;
    Rejected: Quarantined Rejected;
}

impl ReasonKind {
    /// The word for users, in snake case.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether it should run another image but could not, for a cause that its owner did not choose: `once` exits with 1.
    pub fn is_failure(self) -> bool {
        use Meaning::{Failure, Forbidden, Rejected, Reported, Shared};
        matches!(self.meaning(), Forbidden | Failure | Reported | Shared | Rejected)
    }

    /// Whether the delegate runs the image that it should run.
    pub fn runs_the_target(self) -> bool {
        matches!(self.meaning(), Meaning::Current | Meaning::WentBack)
    }

    /// Whether the wanted image already runs.
    pub(crate) fn is_current(self) -> bool {
        self.meaning() == Meaning::Current
    }

    /// Whether the published image is not wanted here.
    pub(crate) fn is_unwanted(self) -> bool {
        matches!(self.meaning(), Meaning::Unwanted | Meaning::Forbidden)
    }

    /// Whether such a failure of one replica may also affect the others.
    pub(crate) fn halts_replicas(self) -> bool {
        matches!(self.meaning(), Meaning::Shared | Meaning::Rejected)
    }

    /// Whether the run is not over: an answer, a pull, a proof or another container is awaited.
    pub(crate) fn is_under_way(self) -> bool {
        self.meaning() == Meaning::UnderWay
    }

    /// Whether the upgrader can serve the delegate.
    pub(crate) fn standing(self) -> Standing {
        match self.meaning() {
            Meaning::Forbidden | Meaning::Failure | Meaning::Shared => Standing::Skipped,
            Meaning::Current | Meaning::WentBack | Meaning::Unwanted | Meaning::Chosen => Standing::Served,
            Meaning::Waits | Meaning::UnderWay | Meaning::Reported | Meaning::Rejected => Standing::Open,
        }
    }
}
