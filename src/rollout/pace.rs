//! Every pause, period and limit of the decision that is not configurable, with the reason for its value.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::text::duration::span;

/// How long a container that has ended is left alone: `docker stop` and `docker restart` take ten seconds, so a start or removal
/// that belongs to them has happened by then.
pub(super) const GRACE: TimeDelta = TimeDelta::seconds(10);
/// The same if Compose may be involved: it first stops all containers of a project, for ten seconds each.
pub(super) const LONG_GRACE: TimeDelta = TimeDelta::seconds(15);
/// How long an ended withdrawn candidate is left to its owner: `docker-compose up` removes a container that it has just stopped,
/// and fails if a removal is already running.
pub(super) const OTHERS_REMOVE_FIRST: TimeDelta = TimeDelta::seconds(3);
/// How long a container with Compose's temporary name counts as being replaced. Compose removes the other one within its stop
/// time-out (ten seconds by default); two minutes after the last change it has failed.
pub(super) const COMPOSE_REPLACES: TimeDelta = TimeDelta::minutes(2);

/// How long a container without tasks gets to stop if it keeps a delegate out of service: Docker's own default.
pub(super) const WITHOUT_TASKS: Duration = Duration::from_secs(10);
/// How long after its deadline a container is asked again, to stop at once. Engines 23.0 to 24.0.2 may forget the deadline.
pub(super) const STOP_SLACK: TimeDelta = TimeDelta::milliseconds(500);
/// How long a removal is waited for: an engine that takes ten minutes never completes it.
pub(super) const REMOVAL_TIMEOUT: TimeDelta = TimeDelta::minutes(10);

/// Restarts after which a candidate counts as crashing, not slow: a slow start may fail twice for lack of a dependency. Docker's
/// own pauses spread them over some seconds.
pub(super) const CRASH_LOOP: u64 = 3;
/// How many starts may fail because of the engine before they count against the image: the engine may be restarting.
pub(super) const START_ATTEMPTS: u32 = 3;
/// How long an upgrader may take to take over the name, which is its first call.
pub(super) const NAME_DEADLINE: Duration = Duration::from_secs(30);

/// How many further containers of a delegate may drain at once: each takes as many resources as the one in service.
pub(super) const MOST_DRAINS: usize = 2;
/// How often to report the progress of a pull. Its end wakes the loop anyway, and observations take engine time from it.
pub(super) const PULL_INTERVAL: TimeDelta = TimeDelta::seconds(2);
/// How often to check whether the other containers that are using the host's memory have finished.
pub(super) const CROWD_INTERVAL: TimeDelta = TimeDelta::seconds(5);
/// How often to ask a delegate whether it is idle: an idle moment may be short.
pub(super) const IDLE_INTERVAL: TimeDelta = TimeDelta::seconds(1);
/// How often to look for the end of a container that nothing else waits for.
pub(super) const END_INTERVAL: TimeDelta = TimeDelta::seconds(1);

/// The failed checks in a row after which a delegate is restarted.
pub(crate) const FAILED_CHECKS: u64 = 3;
/// The longest that a life must last before a restart may end it.
pub(super) const RESTART_PAUSE_LIMIT: TimeDelta = TimeDelta::minutes(60);
/// The oldest check on which a restart may rely: the delegate may have recovered since.
pub(super) const FRESH: TimeDelta = TimeDelta::seconds(5);
/// How long an engine has to start a container after stopping it for a restart.
pub(super) const RESTART_DELAY: TimeDelta = TimeDelta::seconds(10);

/// The quarantine of an image after its first rejection; doubled with each further one.
pub(super) const QUARANTINE: Duration = Duration::from_secs(3600);
/// The longest quarantine.
pub(super) const QUARANTINE_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// The longest pause between attempts for which a run still waits.
pub(super) const LONGEST_PAUSE: TimeDelta = TimeDelta::seconds(60);
/// The longest pause for a leftover container that nobody waits for: each attempt may hold up everything else for a minute.
pub(super) const LONGEST_BESIDE: TimeDelta = TimeDelta::hours(1);
/// After this many attempts in a row (five minutes), a run stops waiting for a delegate's next step.
pub(super) const MAX_AWAITED_RETRIES: u32 = 9;
/// A call that is needed again this long after its pause starts over at the shortest pause.
pub(super) const FORGOTTEN_AFTER: TimeDelta = TimeDelta::minutes(10);

/// Two observations further apart than this say nothing about the time between them.
pub(super) const MAX_OBSERVATION_GAP: Duration = Duration::from_secs(120);
/// At most this much of the time between two observations counts against a candidate, which is checked every five seconds:
/// during the excess, this process was suspended or got no CPU time.
pub(super) const MAX_WATCHED: TimeDelta = TimeDelta::seconds(6);
/// The same for a successor in service, which is checked every ten seconds while an old container drains.
pub(super) const MAX_WATCHED_IN_SERVICE: TimeDelta = TimeDelta::seconds(12);

/// The most candidates that may prove themselves at once: each takes as many resources as the delegate beside it.
pub(crate) const MAX_PROVING: usize = 10;

/// How soon to look again at something that others are doing, such as a running check.
pub(super) const SOON: TimeDelta = TimeDelta::milliseconds(500);

/// When to look again at a requested stop or restart: often at first, later every ten seconds.
pub(super) fn next_check(asked: DateTime<Utc>, now: DateTime<Utc>) -> DateTime<Utc> {
    now + ((now - asked) / 10).clamp(SOON, TimeDelta::seconds(10))
}

/// How often a candidate is checked while it proves itself: six times, within sensible bounds.
pub(super) fn proof_interval(healthy_time: Duration) -> TimeDelta {
    (span(healthy_time) / 6).clamp(TimeDelta::milliseconds(250), TimeDelta::seconds(5))
}
