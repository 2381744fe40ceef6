//! How long a container may take to finish its tasks once it is asked to stop.

use std::time::Duration;

use super::Scope;
use crate::container::{Inspected, label};
use crate::rollout::StopTimeoutSource;
use crate::text::duration;

/// Docker's own default: a process that has just started may miss the signal.
const UPGRADER_STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a container may take to stop, and which setting says so. An upgrader has no tasks, so it stops at once.
pub(super) fn stop_timeout(
    container: &Inspected,
    scope: &Scope,
    is_upgrader: bool,
) -> (Duration, StopTimeoutSource) {
    use StopTimeoutSource::{Bound, Endless, Label, Own, Setting};
    let label = container.label(label::STOP_TIMEOUT).and_then(duration::foreign);
    let (limit, source) = match (label, container.stop_timeout()) {
        (Some(label), _) => (label, Label),
        (None, own) if is_upgrader => (own.unwrap_or(UPGRADER_STOP_TIMEOUT), Own),
        (None, Some(own)) if container.has_endless_stop() => (own, Endless),
        (None, Some(own)) if own > scope.stop_timeout => (own, Own),
        _ => (scope.stop_timeout, Setting),
    };
    match scope.max_stop_timeout {
        Some(most) if most < limit => (most, Bound),
        _ => (limit, source),
    }
}
