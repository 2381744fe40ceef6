//! The long-running loop: the schedule, health ticks and what is under way wake it; every look is the same look.

use std::borrow::Cow;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::engine::{Engine, EngineError};
use crate::health::HealthEndpoint;
use crate::manager::ImageSource;
use crate::reconcile::Reconciler;
use crate::reconcile::upgrade_run::Mode;
use crate::schedule::Schedule;
use crate::schedule::trigger::Trigger;
use crate::status::Publisher;
use crate::status::report::{DelegateReport, Report};
use crate::text::{duration, time};

/// How soon an engine that cannot be reached is tried again.
const ENGINE_RETRY: Duration = Duration::from_secs(5);

/// How long a single pass waits for an engine that went away.
const ENGINE_PATIENCE: Duration = Duration::from_secs(120);

/// When the loop wakes, and what the first look may do.
pub struct Options {
    /// What the schedule is, for the status.
    pub schedule: Schedule,
    /// `HEALTH_INTERVAL`: the longest time between two looks.
    pub health_interval: Duration,
    /// `RUN_ON_START`: whether the check at start may change something.
    pub run_on_start: bool,
    /// `DISABLE_AUTO_UPGRADE`.
    pub health_only: bool,
}

/// Runs until `shutdown` completes.
///
/// Whatever it is doing then is dropped where it stands. That is safe at every point, because what was begun is on
/// the containers and not in here; so the end comes at once, and the next start goes on.
pub async fn run<E: Engine, M: ImageSource, H: HealthEndpoint>(
    mut reconciler: Reconciler<E, M, H>,
    mut trigger: Trigger,
    options: Options,
    status: Publisher,
    shutdown: impl Future<Output = ()>,
) {
    let mut shutdown = pin!(shutdown);
    let scheduled = if options.health_only {
        Mode::ReportOnly
    } else {
        Mode::Upgrade
    };
    let mut begin = Some(if options.run_on_start {
        scheduled
    } else {
        Mode::ReportOnly
    });
    let mut engine_error = None;
    loop {
        publish_schedule(&status, &options.schedule);
        let outcome = tokio::select! {
            biased;
            () = &mut shutdown => break,
            outcome = look(&mut reconciler, &mut begin) => outcome,
        };
        tell_engine(&mut engine_error, outcome.as_ref().err());
        let mut wait = match &outcome {
            Ok(report) => until(report.next_check).min(options.health_interval),
            Err(_) => ENGINE_RETRY,
        };
        // Who only watches is no auto upgrade, and the Manager is right to show that.
        if !options.health_only {
            reconciler.check_in();
            wait = wait.min(reconciler.next_check_in());
        }
        let manager_status = reconciler.manager_status();
        let steps = reconciler.steps_taken().iter();
        let steps = steps.map(|(step, count)| (Cow::from(*step), *count)).collect();
        status.send_modify(|status| {
            status.steps = steps;
            status.manager = manager_status;
            match outcome {
                Ok(report) => {
                    status.engine_error = None;
                    status.report = Some(report);
                }
                Err(error) => status.engine_error = Some(error.to_string()),
            }
        });
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            Some(tick) = trigger.next() => {
                info!(due = time::text(tick.due), "scheduled pass");
                status.send_modify(|status| status.last_run = Some(Utc::now()));
                begin = Some(scheduled);
            }
            () = tokio::time::sleep(wait) => {}
        }
    }
    info!("stopping; what is under way goes on at the next start");
    trigger.shutdown().await;
}

/// A pass that could not begin, because the engine was away, begins when it is back.
async fn look<E: Engine, M: ImageSource, H: HealthEndpoint>(
    reconciler: &mut Reconciler<E, M, H>,
    begin: &mut Option<Mode>,
) -> Result<Report, EngineError> {
    if let Some(mode) = *begin {
        reconciler.start_run(mode).await?;
        *begin = None;
    }
    reconciler.reconcile().await
}

fn until(wake: Option<DateTime<Utc>>) -> Duration {
    wake.map_or(Duration::MAX, |wake| {
        (wake - Utc::now()).to_std().unwrap_or_default()
    })
}

fn publish_schedule(status: &Publisher, schedule: &Schedule) {
    let next = schedule.next(Utc::now()).map(|next| next.to_utc());
    status.send_modify(|status| status.next_run = next);
}

/// An engine that is away is told once, and once when it is back.
fn tell_engine(before: &mut Option<String>, now: Option<&EngineError>) {
    let now = now.map(ToString::to_string);
    if *before != now {
        if let Some(problem) = &now {
            let interval = duration::text(ENGINE_RETRY);
            error!(
                problem,
                "cannot reach the Docker engine; retrying every {interval}"
            );
        } else {
            info!("the engine answers again");
        }
        *before = now;
    }
}

/// Runs one scheduled pass to its end, drains included. What an earlier process had begun is finished first, towards
/// the image of its day; then it is asked once more.
///
/// An engine that is out of reach at the start is an error. One that goes away later, for a restart say, is waited for.
pub async fn once<E: Engine, M: ImageSource, H: HealthEndpoint>(
    reconciler: &mut Reconciler<E, M, H>,
) -> Result<Report, EngineError> {
    reconciler.start_run(Mode::Upgrade).await?;
    run_to_completion(reconciler, true).await
}

/// Goes on until nothing is under way. With `recheck`, delegates that were not in service when the pass began are
/// asked for once they are.
pub async fn run_to_completion<E: Engine, M: ImageSource, H: HealthEndpoint>(
    reconciler: &mut Reconciler<E, M, H>,
    recheck: bool,
) -> Result<Report, EngineError> {
    let mut begin = None;
    let mut asked_again = !recheck;
    let mut lost = Vec::new();
    let mut away_since = None;
    loop {
        let pause = match look(reconciler, &mut begin).await {
            Ok(report) if report.is_in_progress() => {
                away_since = None;
                until(report.next_check)
            }
            Ok(report) if report.has_unasked() && !asked_again => {
                asked_again = true;
                // The pass to come knows nothing of them.
                lost = report
                    .delegates
                    .into_iter()
                    .filter(DelegateReport::is_gone)
                    .collect();
                begin = Some(Mode::Upgrade);
                Duration::ZERO
            }
            Ok(mut report) => {
                lost.retain(|lost: &DelegateReport| {
                    !report
                        .delegates
                        .iter()
                        .any(|there| there.container == lost.container)
                });
                report.delegates.extend(lost);
                return Ok(report);
            }
            Err(error) => {
                let since = *away_since.get_or_insert_with(Instant::now);
                if since.elapsed() > ENGINE_PATIENCE {
                    return Err(error);
                }
                warn!(%error, "cannot reach the Docker engine; retrying");
                ENGINE_RETRY
            }
        };
        tokio::time::sleep(pause).await;
    }
}
