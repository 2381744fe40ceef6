//! The names under which a record is written, in addition to the containers' labels.

/// The last attempts that are over.
pub const HISTORY: &str = "io.delegate-upgrader.history";
/// The image that was tried last.
pub const ATTEMPT_IMAGE: &str = "io.delegate-upgrader.attempt-image";
/// The image before that one.
pub const ATTEMPT_FROM: &str = "io.delegate-upgrader.attempt-from";
/// When that started.
pub const ATTEMPT_SINCE: &str = "io.delegate-upgrader.attempt-since";
/// `upgrade`, `retry` or `rollback`.
pub const ATTEMPT_INTENT: &str = "io.delegate-upgrader.attempt-intent";
/// `true` once the workload was given the image; written together with it.
pub const ATTEMPT_APPLIED: &str = "io.delegate-upgrader.attempt-applied";
/// Why the image was taken away again; written together with the one before, if that is done by hand.
pub const ATTEMPT_FAILED: &str = "io.delegate-upgrader.attempt-failed";
/// The image that failed last.
pub const FAILED_IMAGE: &str = "io.delegate-upgrader.failed-image";
/// How many times in a row.
pub const FAILED_ATTEMPTS: &str = "io.delegate-upgrader.failed-attempts";
/// When it failed last.
pub const FAILED_AT: &str = "io.delegate-upgrader.failed-at";
/// Why, in a sentence.
pub const FAILED_CAUSE: &str = "io.delegate-upgrader.failed-cause";
