//! The meaning of a reason for the delegate and its replicas.

use super::ReasonKind;

impl ReasonKind {
    /// The word users see, in snake case.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether the delegate could not be served: it should run another image, and something is in the way that
    /// its owner did not choose. `once` exits with 1.
    pub fn is_failure(self) -> bool {
        match self {
            Self::UpToDate
            | Self::SameImage
            | Self::AwaitingSchedule
            | Self::AwaitingAnswer
            | Self::AwaitingDrains
            | Self::WaitingForIdle
            | Self::HealthOnly
            | Self::OptedOut
            | Self::NotRunning
            | Self::NotADelegate
            | Self::CustomImage
            | Self::OtherGeneration
            | Self::OtherAccount
            | Self::HeldBack
            | Self::Pinned
            | Self::Snoozed
            | Self::Paused
            | Self::Delayed
            | Self::AwaitingWave
            | Self::OutsideWindow
            | Self::RolledBack
            | Self::StandingBy
            | Self::WaitingForReplica
            | Self::WaitingForOthers
            | Self::Pulling
            | Self::Proving
            | Self::Interrupted
            | Self::Returning
            | Self::ReplacedByCompose
            | Self::Draining
            | Self::TaskOfService
            | Self::SwarmOff
            | Self::NotUpgradable
            | Self::DryRun
            | Self::RollingOut
            | Self::NotVerified
            | Self::UpdatedElsewhere
            | Self::Stopping => false,
            Self::ImageNotComparable
            | Self::NotPinned
            | Self::InvalidLabel
            | Self::FirstSeenUnknown
            | Self::TargetUnknown
            | Self::DigestUnknown
            | Self::PullFailed
            | Self::TooLittleDisk
            | Self::RecreatedByAnother
            | Self::WrongPlatform
            | Self::Quarantined
            | Self::Obstacle
            | Self::CannotStartFirst
            | Self::NameTaken
            | Self::CreateRefused
            | Self::StartRefused
            | Self::ConfigurationMismatch
            | Self::SettingsChanged
            | Self::Rejected
            | Self::CandidateVanished
            | Self::Halted
            | Self::SuccessorUnhealthy
            | Self::NobodyServes
            | Self::NoContainer
            | Self::RestartBackoff
            | Self::RestartHeldBack
            | Self::Restarting
            | Self::RollingBack
            | Self::UpdatePaused
            | Self::NoDeployment
            | Self::NoSuchContainer
            | Self::NotPermitted
            | Self::EngineError => true,
        }
    }

    /// Whether the delegate runs the image that it is meant to run.
    pub fn runs_the_target(self) -> bool {
        matches!(self, Self::UpToDate | Self::SameImage | Self::RolledBack)
    }

    /// Whether it says that the image which is wanted runs already.
    pub(crate) fn is_current(self) -> bool {
        matches!(self, Self::UpToDate | Self::SameImage)
    }

    /// Whether it says that the published image is not wanted here.
    pub(crate) fn is_unwanted(self) -> bool {
        matches!(
            self,
            Self::HeldBack | Self::NotPinned | Self::CustomImage | Self::OtherGeneration
        )
    }

    /// Whether such a failure of one replica may also apply to the others.
    pub(crate) fn halts_replicas(self) -> bool {
        matches!(
            self,
            // One disk holds the images of all of them.
            Self::PullFailed | Self::TooLittleDisk | Self::Quarantined | Self::Rejected
        )
    }
}
