//! The rows of the decision. `docs/development/managed.md` is generated from the sentences here.

use crate::rollout::rows;

rows! {
    GUARDS: "Guards" {
        /// The last call failed, and its pause is not over: wait; after ten failures, or if it is not permitted, rest.
        CallFailed
        /// The owner opted it out, it is a job or another account's, or `SWARM` is false: rest.
        LeftAlone
        /// Health checks only: rest.
        HealthOnly
    }
    TRIED: "It has the image of the attempt" {
        /// It is being updated, or not all tasks run, and it has time left for that: wait.
        RollingOut
        /// All tasks run, for less than `UPGRADE_HEALTHY_TIME` so far, and there is time left for that: wait.
        Proving
        /// It is neither proven nor has time left, and the end of the update is not long ago: go back to the image before.
        TooLate
        /// A failure stopped the update: go back to the image before.
        Stopped
        /// It is scaled to 0, and no other image is wanted: rest.
        NotVerified
    }
    BEFORE: "It has the image before the attempt" {
        /// It is on its way back, or a Deployment still shows the exceeded deadline: wait.
        RollingBack
        /// It is back, and the attempt failed: put the image in quarantine, or forget it if no task could be made.
        Failed
        /// It is back, and no task failed: note that someone went back.
        WentBack
    }
    IDLE: "No attempt is in progress" {
        /// Someone else gave the Deployment a third image while the attempt's image is still published: note that someone went back.
        ThirdImage
        /// Someone else's update is in progress: wait.
        UpdatedElsewhere
        /// Someone else's update is paused: rest.
        UpdatePaused
        /// The list of blockers depends on records of the engine, which were not read just now: read them.
        HoldsUnknown
        /// With `UPGRADE_DELAY` or `UPGRADE_WAVE`, the image is new on this host: note the time.
        FirstSeen
        /// The list of blockers is not empty: rest, with the first one.
        Blocked
        /// Nothing is in the way: note the attempt, and give it the image.
        Begin
    }
}
