//! The daemon's loop. The schedule, the health interval and replacements in progress wake it, and each time it does the
//! same things.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::events::webhook::Webhook;
use crate::events::{DeadMan, Listeners};
use crate::reconcile::clock::Clock;
use crate::reconcile::controller::Controller;
use crate::rollout::Intent;
use crate::rollout::reason::ReasonKind;
use crate::schedule::Schedule;
use crate::schedule::trigger::Trigger;
use crate::status::Publisher;
use crate::status::liveness::Liveness;
use crate::status::next_upgrade::NextUpgrade;
use crate::status::report::{DelegateReport, Report};
use crate::text::{duration, time};

/// The interval between attempts to reach an engine or an API server.
const API_RETRY: Duration = Duration::from_secs(5);

/// How long a daemon in a container waits for the engine at its socket. A socket that was mounted as a file is never
/// replaced: after the engine has restarted, the container must restart to reach the new socket.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(300);

/// How long a single run waits for an engine or an API server after it becomes unreachable.
const API_TIMEOUT: Duration = Duration::from_secs(120);

/// How long the process waits at its end for events to be delivered.
const LAST_EVENTS: Duration = Duration::from_secs(2);

/// When the loop wakes, and what it may do.
pub struct Options {
    /// The schedule, to publish the success that is due and the next upgrade.
    pub schedule: Schedule,
    /// `HEALTH_INTERVAL`: the longest time between two observations.
    pub health_interval: Duration,
    /// `RUN_ON_START`: whether the run at the start may make changes.
    pub run_on_start: bool,
    /// `DISABLE_AUTO_UPGRADE`.
    pub health_only: bool,
    /// The receivers of outcomes.
    pub listeners: Arc<Listeners>,
    /// Whether the engine is reached through a socket that is mounted into this program's container.
    pub has_mounted_socket: bool,
}

/// The clock for the reconciler in the loop. The reconciler reads it before and after each observation, and each
/// reading shows that the loop makes progress.
pub fn clock_of_the_loop(clock: Clock, liveness: Liveness) -> Clock {
    Arc::new(move || {
        liveness.works();
        clock()
    })
}

/// Runs until `shutdown` completes and returns its value, or returns `None` once a mounted socket has been dead for
/// five minutes. The loop reports to `liveness` each time it starts or finishes something.
///
/// Work in progress is then dropped at once. That is always safe, because its whole state is on the containers and not
/// in this process: the next start resumes it.
pub async fn run<C: Controller, T>(
    mut reconciler: C,
    mut trigger: Trigger,
    options: Options,
    status: Publisher,
    liveness: Liveness,
    shutdown: impl Future<Output = T>,
) -> Option<T> {
    let mut shutdown = pin!(shutdown);
    let scheduled = if options.health_only {
        Intent::Report
    } else {
        Intent::Upgrade
    };
    reconciler.start_run(if options.run_on_start {
        scheduled.clone()
    } else {
        Intent::Report
    });
    let mut api_error = None;
    let mut unreachable_since = None;
    // The time at which the scheduled run was due whose outcome is not yet logged.
    let mut due = None;
    let mut is_running = false;
    publish_success(&status, &options.schedule, None);
    let ended = loop {
        liveness.works();
        let next = trigger.next_run();
        reconciler.core_mut().next_run = next;
        status.send_modify(|status| status.next_run = next);
        let outcome = tokio::select! {
            biased;
            ended = &mut shutdown => break Some(ended),
            outcome = reconciler.reconcile() => outcome,
        };
        let is_dead = options.has_mounted_socket && outcome.as_ref().is_err_and(C::is_unreachable);
        unreachable_since = is_dead.then(|| unreachable_since.unwrap_or_else(Instant::now));
        liveness.set_unreachable_since(unreachable_since);
        if unreachable_since.is_some_and(|since| since.elapsed() >= SOCKET_TIMEOUT) {
            break None;
        }
        log_reach::<C>(&mut api_error, outcome.as_ref().err());
        let is_reachable = outcome.is_ok();
        if let Ok(report) = &outcome {
            log_run(&mut due, report);
            if is_running && report.has_succeeded() {
                is_running = false;
                publish_success(&status, &options.schedule, Some(Utc::now()));
                if let Some(dead_man) = &options.listeners.dead_man {
                    dead_man.ask();
                }
            }
        }
        let mut wait = match &outcome {
            Ok(report) => until(report.next_check).min(options.health_interval),
            Err(_) => API_RETRY,
        };
        // Without upgrades, do not check in with the Manager: it would show auto upgrade as on.
        if !options.health_only {
            reconciler.check_in();
            wait = wait.min(reconciler.next_check_in());
        }
        status.send_modify(|status| {
            let ledger = &reconciler.core().ledger;
            status.manager = reconciler.manager_status();
            status.upgrader_image = reconciler.upgrader_image().cloned();
            status.tally.clone_from(&ledger.tally);
            status.pauses.clone_from(&ledger.pauses);
            status.audit_log = ledger.unwritten();
            status.webhook = options.listeners.webhook.as_ref().map(Webhook::counts);
            status.dead_man = options.listeners.dead_man.as_ref().map(DeadMan::counts);
            match outcome {
                Ok(report) => {
                    status.engine_error = None;
                    let zone = options.schedule.zone();
                    status.next_upgrade = NextUpgrade::of(&report, zone, report.observed_at);
                    status.report = Some(report);
                }
                Err(error) => status.engine_error = Some(C::problem(&error)),
            }
        });
        liveness.wakes_in(wait);
        tokio::select! {
            biased;
            ended = &mut shutdown => break Some(ended),
            Some(run) = trigger.next() => {
                if !reconciler.stands_by() {
                    due = Some(time::text(run));
                    is_running = true;
                    status.send_modify(|status| status.last_run = Some(Utc::now()));
                    reconciler.start_run(scheduled.clone());
                }
            }
            // While the engine is unreachable, an answer is of no use yet.
            () = reconciler.answered(), if is_reachable => {}
            () = tokio::time::sleep(wait) => {}
        }
    };
    trigger.shutdown().await;
    options.listeners.finish(LAST_EVENTS).await;
    ended
}

fn until(next_check: Option<DateTime<Utc>>) -> Duration {
    next_check.map_or(Duration::MAX, |next_check| {
        (next_check - Utc::now()).to_std().unwrap_or_default()
    })
}

/// Publishes when a scheduled run last succeeded, if one did, and by when the next one should succeed.
fn publish_success(status: &Publisher, schedule: &Schedule, success: Option<DateTime<Utc>>) {
    let runs = schedule.next_runs(success.unwrap_or_else(Utc::now), 2);
    status.send_modify(|status| {
        status.last_success = success;
        status.success_due = runs.get(1).map(DateTime::to_utc);
    });
}

/// Logs the outcome of a scheduled run once it waits for no more answers. A run without delegates is logged elsewhere.
fn log_run(due: &mut Option<String>, report: &Report) {
    let is_open = report
        .delegates
        .iter()
        .any(|delegate| delegate.reason == ReasonKind::AwaitingAnswer);
    if !is_open
        && let Some(due) = due.take()
        && !report.delegates.is_empty()
    {
        info!(due, "scheduled run: {}", report.summary());
    }
}

/// Logs an outage of the API when it starts, when its cause changes, and when it ends.
fn log_reach<C: Controller>(before: &mut Option<String>, now: Option<&C::Error>) {
    let now = now.map(C::problem);
    if *before != now {
        if let Some(problem) = &now {
            let interval = duration::text(API_RETRY);
            error!(problem, "cannot reach {}; retrying every {interval}", C::API);
        } else {
            info!("{} is answering again", C::API);
        }
        *before = now;
    }
}

/// Completes one run, including drains. It first finishes the replacements that an earlier process started, with the
/// images of that process, and then checks those delegates for a newer image.
///
/// # Errors
/// The engine was unreachable at the start, or later for two minutes. A restart of the engine takes less time.
pub async fn once<C: Controller>(reconciler: &mut C) -> Result<Report, C::Error> {
    reconciler.start_run(Intent::Upgrade);
    let first = reconciler.reconcile().await?;
    completed(reconciler, Ok(first), true, &|_| false).await
}

/// Reconciles until nothing is in progress, or `is_enough` returns true.
///
/// # Errors
/// The engine was unreachable for two minutes.
pub async fn run_until<C: Controller>(
    reconciler: &mut C,
    is_enough: &dyn Fn(&C) -> bool,
) -> Result<Report, C::Error> {
    let first = reconciler.reconcile().await;
    completed(reconciler, first, false, is_enough).await
}

/// Continues from the first report until nothing is in progress. With `recheck`, also asks for the images of delegates
/// that were not in service when the run started, once they are.
async fn completed<C: Controller>(
    reconciler: &mut C,
    first: Result<Report, C::Error>,
    recheck: bool,
    is_enough: &dyn Fn(&C) -> bool,
) -> Result<Report, C::Error> {
    let mut outcome = first;
    let mut may_recheck = recheck;
    let mut gone = Vec::new();
    let mut unreachable_since = None;
    loop {
        let is_reachable = outcome.is_ok();
        let pause = match outcome {
            Ok(report) if is_enough(reconciler) => return Ok(report),
            Ok(report) if report.is_in_progress() => {
                unreachable_since = None;
                until(report.next_check)
            }
            Ok(report) if report.has_unasked() && may_recheck => {
                may_recheck = false;
                // Keep the delegates without a container, since the next run will not know that they existed.
                gone = report.delegates;
                gone.retain(|delegate| delegate.reason == ReasonKind::NoContainer);
                reconciler.start_run(Intent::Upgrade);
                Duration::ZERO
            }
            Ok(mut report) => {
                let is_back = |gone: &DelegateReport| {
                    let mut delegates = report.delegates.iter();
                    delegates.any(|delegate| delegate.container == gone.container)
                };
                gone.retain(|gone| !is_back(gone));
                report.delegates.extend(gone);
                return Ok(report);
            }
            Err(error) => {
                let since = *unreachable_since.get_or_insert_with(Instant::now);
                if since.elapsed() > API_TIMEOUT {
                    return Err(error);
                }
                warn!(%error, "cannot reach {}; retrying", C::API);
                API_RETRY
            }
        };
        tokio::select! {
            () = reconciler.answered(), if is_reachable => {}
            () = tokio::time::sleep(pause) => {}
        }
        outcome = reconciler.reconcile().await;
    }
}
