//! The names under which a record is stored on a workload, besides the labels of containers.

/// The last finished attempts.
pub const HISTORY: &str = "io.delegate-upgrader.history";
/// The image of the last attempt.
pub const ATTEMPT_IMAGE: &str = "io.delegate-upgrader.attempt-image";
/// The image that ran before the last attempt.
pub const ATTEMPT_FROM: &str = "io.delegate-upgrader.attempt-from";
/// When the last attempt started.
pub const ATTEMPT_SINCE: &str = "io.delegate-upgrader.attempt-since";
/// The intent of the last attempt: `upgrade`, `retry`, `rollback` or `reconfigure`.
pub const ATTEMPT_INTENT: &str = "io.delegate-upgrader.attempt-intent";
/// On a Deployment: the number of its change before the last attempt.
pub const ATTEMPT_REVISION: &str = "io.delegate-upgrader.attempt-revision";
/// `true` after the workload got the image. Written together with the image.
pub const ATTEMPT_APPLIED: &str = "io.delegate-upgrader.attempt-applied";
/// Why this program itself rolled the image back. Written together with the image that it restored.
pub const ATTEMPT_FAILED: &str = "io.delegate-upgrader.attempt-failed";
/// On the tasks themselves: the release that last changed their settings, and the names of these settings.
pub const SETTINGS: &str = "io.delegate-upgrader.settings";
/// The image that failed last.
pub const FAILED_IMAGE: &str = "io.delegate-upgrader.failed-image";
/// How many times that image failed in a row.
pub const FAILED_ATTEMPTS: &str = "io.delegate-upgrader.failed-attempts";
/// When that image failed last.
pub const FAILED_AT: &str = "io.delegate-upgrader.failed-at";
/// Why that image failed, as a sentence.
pub const FAILED_CAUSE: &str = "io.delegate-upgrader.failed-cause";
