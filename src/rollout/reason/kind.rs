//! The meaning of each kind of reason for the delegate and its replicas: one table.

use super::ReasonKind;

/// The meaning of a kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// The wanted image runs.
    Current,
    /// The image that its owner went back to runs.
    WentBack,
    /// The published image is not wanted here.
    Unwanted,
    /// The published image is not permitted here, which its publisher has to mend.
    Forbidden,
    /// It is left as it is, or waits, as it should.
    Fine,
    /// The delegate could not be served: something is in the way that its owner did not choose.
    Failure,
    /// A failure that may also apply to the other replicas, such as that of an image. One disk holds the images of all of them.
    Shared,
}

/// Gives each kind its meaning. The compiler finds a kind that has none.
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
    Failure: RestartBackoff RestartHeldBack Restarting RollingBack UpdatePaused NoDeployment NoSuchContainer;
    Failure: NotPermitted EngineError;
    Shared: PullFailed TooLittleDisk Quarantined Rejected;
}

impl ReasonKind {
    /// The word users see, in snake case.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether the delegate could not be served: it should run another image, and something is in the way that
    /// its owner did not choose. `once` exits with 1.
    pub fn is_failure(self) -> bool {
        matches!(
            self.meaning(),
            Meaning::Forbidden | Meaning::Failure | Meaning::Shared
        )
    }

    /// Whether the delegate runs the image that it is meant to run.
    pub fn runs_the_target(self) -> bool {
        matches!(self.meaning(), Meaning::Current | Meaning::WentBack)
    }

    /// Whether it says that the image which is wanted runs already.
    pub(crate) fn is_current(self) -> bool {
        self.meaning() == Meaning::Current
    }

    /// Whether it says that the published image is not wanted here.
    pub(crate) fn is_unwanted(self) -> bool {
        matches!(self.meaning(), Meaning::Unwanted | Meaning::Forbidden)
    }

    /// Whether such a failure of one replica may also apply to the others.
    pub(crate) fn halts_replicas(self) -> bool {
        self.meaning() == Meaning::Shared
    }
}
