//! The trigger: announces the runs of the schedule, one at a time.
//!
//! tokio-cron-scheduler tells when a run is due. Its own cron jobs would always use one fixed offset from UTC and start
//! even if the last run is not over, and while started, it checks its jobs twice a second. So it is not started: it
//! gets a single one-shot job, for the next run that [`Schedule`] computes, and is asked when that is due.

use std::time::Duration;

use chrono::{DateTime, FixedOffset, TimeDelta, Utc};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_cron_scheduler::{Job, JobScheduler, JobSchedulerError};
use uuid::Uuid;

use super::Schedule;
use crate::text::{duration, time};

/// How often the trigger checks the clock while nothing is due, and by how much the clock may be set back unnoticed.
///
/// A run is due by the wall clock, which may be set in the meantime, or advance while the host sleeps.
const CLOCK_CHECK: Duration = Duration::from_secs(60);

/// How long to wait after the scheduler has refused or lost a job.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Announces the runs of the schedule. Dropping it stops the scheduler.
#[derive(Debug)]
pub struct Trigger {
    ticks: mpsc::Receiver<DateTime<FixedOffset>>,
    next_run: watch::Receiver<Option<DateTime<Utc>>>,
    task: JoinHandle<()>,
}

/// Starts the scheduler. Each run is delayed by a random time of up to `jitter`.
pub async fn start(schedule: Schedule, jitter: Duration) -> Result<Trigger, JobSchedulerError> {
    let scheduler = JobScheduler::new().await?;
    let (sender, ticks) = mpsc::channel(1);
    let first = schedule.next(Utc::now()).map(|first| first.to_utc());
    let (armed, next_run) = watch::channel(first);
    let task = tokio::spawn(run(scheduler, schedule, jitter, sender, armed));
    Ok(Trigger {
        ticks,
        next_run,
        task,
    })
}

impl Trigger {
    /// Waits for the next run, and returns its time in the schedule, in whole seconds and without the jitter. A run that became due since the last call is returned at once; several such runs count
    /// as one. `None` if the schedule has no further run. Cancel safe.
    pub async fn next(&mut self) -> Option<DateTime<FixedOffset>> {
        self.ticks.recv().await
    }

    /// When the next run starts, including its jitter; `None` if the schedule has no further run.
    pub fn next_run(&self) -> Option<DateTime<Utc>> {
        *self.next_run.borrow()
    }

    /// Stops the scheduler and waits until it has stopped.
    pub async fn shutdown(mut self) {
        self.ticks.close();
        // An error means that the task has already ended.
        let _ = (&mut self.task).await;
    }
}

/// Schedules one run after another until the receiver is gone.
async fn run(
    mut scheduler: JobScheduler,
    schedule: Schedule,
    jitter: Duration,
    ticks: mpsc::Sender<DateTime<FixedOffset>>,
    next_run: watch::Sender<Option<DateTime<Utc>>>,
) {
    let mut last = None;
    while let Some(due) = schedule.following(last, Utc::now()) {
        let delay = random_up_to(jitter);
        next_run.send_replace(Some(due.to_utc() + delay));
        let woken = tokio::select! {
            () = ticks.closed() => break,
            woken = wait_until(&mut scheduler, due) => woken,
        };
        match woken {
            Ok(Woken::Due) => {
                tokio::select! {
                    () = ticks.closed() => break,
                    () = tokio::time::sleep(delay) => {}
                }
                // If the channel is full, a run is already waiting, and this one merges with it.
                let _ = ticks.try_send(due);
                last = Some(due.to_utc());
            }
            Ok(Woken::ClockSetBack) => {
                tracing::warn!(
                    due = time::text(due),
                    "system clock was set back; rescheduling the next run"
                );
                last = None;
            }
            Err(error) => {
                let delay = duration::text(RETRY_DELAY);
                tracing::error!(%error, "could not schedule the next run; retrying in {delay}");
                tokio::select! {
                    () = ticks.closed() => break,
                    () = tokio::time::sleep(RETRY_DELAY) => {}
                }
            }
        }
    }
    next_run.send_replace(None);
    // This never fails: it only sets a flag.
    let _ = scheduler.shutdown().await;
}

enum Woken {
    Due,
    ClockSetBack,
}

/// Waits until a one-shot job of the scheduler is due.
async fn wait_until(
    scheduler: &mut JobScheduler,
    due: DateTime<FixedOffset>,
) -> Result<Woken, JobSchedulerError> {
    let armed = Utc::now();
    // The scheduler counts from the current whole second, so give it whole seconds. If the next second starts before it
    // counts, the run is a second late, but never early.
    let seconds = u64::try_from(due.timestamp() - armed.timestamp()).unwrap_or(0);
    let job = Job::new_one_shot(Duration::from_secs(seconds), |_, _| {})?;
    let job = scheduler.add(job).await?;
    let woken = loop {
        let next = scheduler.next_tick_for_job(job).await?;
        let next = next.ok_or(JobSchedulerError::JobTick)?;
        let now = Utc::now();
        if set_back(armed, now) {
            break Woken::ClockSetBack;
        }
        match (next - now).to_std() {
            Ok(left) if !left.is_zero() => tokio::time::sleep(left.min(CLOCK_CHECK)).await,
            _ => break Woken::Due,
        }
    };
    scheduler.remove(&job).await?;
    Ok(woken)
}

/// Whether the clock was set back far enough to matter. After a correction by seconds, a run could be announced twice.
fn set_back(armed: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    TimeDelta::from_std(CLOCK_CHECK).is_ok_and(|check| now + check < armed)
}

fn random_up_to(limit: Duration) -> Duration {
    // The low 32 bits of a version 4 UUID are random.
    let [.., a, b, c, d] = *Uuid::new_v4().as_bytes();
    limit.mul_f64(f64::from(u32::from_be_bytes([a, b, c, d])) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clock_set_back_by_over_a_minute_triggers_a_check() {
        let at = |time: &str| {
            let text = format!("2026-01-01T{time}Z");
            DateTime::parse_from_rfc3339(&text).unwrap().to_utc()
        };
        let armed = at("12:00:00");
        assert!(!set_back(armed, at("12:10:00")));
        assert!(!set_back(armed, at("11:59:30")));
        assert!(set_back(armed, at("11:58:30")));
    }

    #[test]
    fn jitter_varies_within_its_bounds() {
        let limit = Duration::from_secs(10);
        let delays: Vec<Duration> = (0..100).map(|_| random_up_to(limit)).collect();
        assert!(delays.iter().all(|delay| *delay <= limit));
        assert!(
            delays.iter().any(|delay| *delay > limit / 2) && delays.iter().any(|delay| *delay < limit / 2)
        );
        assert_eq!(random_up_to(Duration::ZERO), Duration::ZERO);
    }
}
