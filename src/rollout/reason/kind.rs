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
    /// It is left alone or waits, as intended.
    Fine,
    /// It could not be upgraded because of something that its owner did not choose.
    Failure,
    /// A failure that may also affect the other replicas, such as that of an image. They share one disk.
    Shared,
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
    Current: UpToDate SameImage;
    WentBack: RolledBack;
    Unwanted: HeldBack CustomImage OtherGeneration;
    Forbidden: NotPinned;
    Fine: AwaitingSchedule AwaitingAnswer AwaitingDrains WaitingForIdle WaitingForReplica WaitingForOthers;
    Fine: HealthOnly OptedOut NotRunning NotADelegate OtherAccount TaskOfService SwarmOff NotUpgradable DryRun;
    Fine: Pinned Snoozed Paused Delayed AwaitingWave OutsideWindow StandingBy;
    Fine: Pulling Proving Interrupted Returning ReplacedByCompose Draining Stopping;
    Fine: RollingOut NotVerified UpdatedElsewhere;
    Failure: ImageNotComparable InvalidLabel FirstSeenUnknown TargetUnknown DigestUnknown RecreatedByAnother;
    Failure: WrongPlatform Obstacle CannotStartFirst NameTaken CreateRefused StartRefused ConfigurationMismatch;
    Failure: SettingsChanged CandidateVanished Halted SuccessorUnhealthy NobodyServes NoContainer;
    Failure: RestartBackoff RestartDeferred Restarting RollingBack UpdatePaused NoDeployment NoSuchContainer;
    Failure: NotPermitted EngineError;
    Shared: PullFailed TooLittleDisk Quarantined Rejected;
}

impl ReasonKind {
    /// The word for users, in snake case.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether the delegate should run another image but could not, because of something that its owner did not choose. `once`
    /// then exits with 1.
    pub fn is_failure(self) -> bool {
        matches!(
            self.meaning(),
            Meaning::Forbidden | Meaning::Failure | Meaning::Shared
        )
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
        self.meaning() == Meaning::Shared
    }
}
