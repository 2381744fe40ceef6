//! Every pause, period and limit of the decision, each with the reason for its number. What an operator sets is in the
//! configuration.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::text::duration::span;

/// How long a container that has ended is left as it is: ten seconds is what `docker stop` and `docker restart` take, so a
/// start or a removal that belongs to that stop has come by then.
pub(super) const GRACE: TimeDelta = TimeDelta::seconds(10);
/// The same where Compose may be at work: it stops all containers of a project, for ten seconds each, before it removes or
/// starts the first one.
pub(super) const LONG_GRACE: TimeDelta = TimeDelta::seconds(15);
/// For how long a withdrawn candidate that has ended is left to its owner: `docker-compose up` removes a container that it has
/// just stopped, and fails if the container is being removed already.
pub(super) const OTHERS_REMOVE_FIRST: TimeDelta = TimeDelta::seconds(3);
/// How long Compose's own name for a moment counts as one. It removes the other container within the stop time-out of a
/// service, ten seconds unless it was set; two minutes after the last change it has failed.
pub(super) const COMPOSE_REPLACES: TimeDelta = TimeDelta::minutes(2);

/// How long a container has to stop that keeps a delegate out of service and has no tasks: as long as `docker stop` gives it.
pub(super) const WITHOUT_TASKS: Duration = Duration::from_secs(10);
/// How long after its deadline a container that was asked to stop is asked again, to stop at once. Engines 23.0 to
/// 24.0.2 forget the deadline when the client that asked is gone.
pub(super) const STOP_SLACK: TimeDelta = TimeDelta::milliseconds(500);
/// A removal that takes longer is not waited for: an engine that has not removed a container in ten minutes never does.
pub(super) const REMOVAL_TIMEOUT: TimeDelta = TimeDelta::minutes(10);

/// Restarts after which a candidate counts as crashing rather than as slow: a slow start may fail twice for want of a
/// dependency. Docker's own pauses between them make that some seconds.
pub(super) const CRASH_LOOP: u64 = 3;
/// How often to try a start that the engine itself fails at before that counts against the image: it may be restarting.
pub(super) const START_ATTEMPTS: u32 = 3;
/// So long an upgrader may take to take its name, once it can. That is its first call.
pub(super) const NAME_DEADLINE: Duration = Duration::from_secs(30);

/// So many other containers of a delegate finish their tasks at a time: each takes as much of the host as the one in
/// service.
pub(super) const MOST_DRAINS: usize = 2;
/// How often to show how far a pull has come. Its end wakes the loop, and to observe takes time that the engine needs for it.
pub(super) const PULL_INTERVAL: TimeDelta = TimeDelta::seconds(2);
/// How often to check whether the other containers that are using the host's memory have finished.
pub(super) const CROWD_INTERVAL: TimeDelta = TimeDelta::seconds(5);
/// How often a delegate is asked whether it has a task to finish: an idle moment may be short.
pub(super) const IDLE_INTERVAL: TimeDelta = TimeDelta::seconds(1);
/// How often to look for the end of a container that nothing else waits for.
pub(super) const END_INTERVAL: TimeDelta = TimeDelta::seconds(1);

/// A restart needs a check that is not older: a busy process may have checked long ago, and the delegate has recovered.
pub(super) const FRESH: TimeDelta = TimeDelta::seconds(5);
/// An engine has so long for the start after the stop of a restart.
pub(super) const RESTART_DELAY: TimeDelta = TimeDelta::seconds(10);

/// When to check on a task of others, such as a check that is being made.
pub(super) fn soon(now: DateTime<Utc>) -> DateTime<Utc> {
    now + TimeDelta::milliseconds(500)
}

/// When to look again at a stop or a restart that was asked for: often at first, every ten seconds later.
pub(super) fn next_check(asked: DateTime<Utc>, now: DateTime<Utc>) -> DateTime<Utc> {
    now + ((now - asked) / 10).clamp(TimeDelta::milliseconds(500), TimeDelta::seconds(10))
}

/// How often a candidate is checked while it proves itself: six times, so that a break shows, but neither without pause nor
/// less often than people look.
pub(super) fn proof_interval(healthy_time: Duration) -> TimeDelta {
    (span(healthy_time) / 6).clamp(TimeDelta::milliseconds(250), TimeDelta::seconds(5))
}
