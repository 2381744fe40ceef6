//! The trigger: hands out the schedule's runs, one at a time.
//!
//! tokio-cron-scheduler is the alarm clock. Its own cron jobs keep one fixed offset from UTC for ever, and start whether or
//! not the last run is over. So it only ever gets one one-shot job, for the next run that [`Schedule`] computes, and the job
//! does nothing but put a token into a channel of capacity one.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use chrono_tz::Tz;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_cron_scheduler::{Job, JobScheduler, JobSchedulerError};
use uuid::Uuid;

use super::Schedule;
use crate::text::{duration, time};

/// How often the trigger checks the clock while nothing is due, and how far the clock may be set back unnoticed.
///
/// The scheduler waits for a moment of the wall clock. If the clock is wrong at start and set back later, it would wait for
/// days.
const CLOCK_CHECK: Duration = Duration::from_secs(60);

/// How long to wait after the scheduler refused or lost a job.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// A run that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// The moment that the schedule names, in whole seconds: without the jitter and the scheduler's half second.
    pub due: DateTime<Tz>,
}

/// Hands out the schedule's runs; dropping it stops the scheduler.
#[derive(Debug)]
pub struct Trigger {
    ticks: mpsc::Receiver<Tick>,
    task: JoinHandle<()>,
}

/// The scheduler did not start.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the scheduler: {0}")]
pub struct TriggerError(#[from] JobSchedulerError);

/// Starts the scheduler. Each run comes after a random delay of up to `jitter`.
pub async fn start(schedule: Schedule, jitter: Duration) -> Result<Trigger, TriggerError> {
    let scheduler = JobScheduler::new().await?;
    scheduler.start().await?;
    let (sender, ticks) = mpsc::channel(1);
    let task = tokio::spawn(run(scheduler, schedule, jitter, sender));
    Ok(Trigger { ticks, task })
}

impl Trigger {
    /// Waits for the next run. A run that came due since the last call is returned at once; several such runs are one.
    /// `None` when the schedule has no further run. Cancel safe.
    pub async fn next(&mut self) -> Option<Tick> {
        self.ticks.recv().await
    }

    /// Stops the scheduler and waits until it has.
    pub async fn shutdown(mut self) {
        self.ticks.close();
        // An error means that the task has ended already.
        let _ = (&mut self.task).await;
    }
}

/// Arms the scheduler for one run after the other until the receiver is gone.
async fn run(mut scheduler: JobScheduler, schedule: Schedule, jitter: Duration, ticks: mpsc::Sender<Tick>) {
    let mut last = None;
    while let Some(due) = following(&schedule, last, Utc::now()) {
        let woken = tokio::select! {
            () = ticks.closed() => break,
            woken = wait_until(&scheduler, due) => woken,
        };
        match woken {
            Ok(Woken::Due) => {
                tokio::select! {
                    () = ticks.closed() => break,
                    () = tokio::time::sleep(random_up_to(jitter)) => {}
                }
                // A full channel means that a run is waiting already, and this one merges with it.
                let _ = ticks.try_send(Tick { due });
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
    // Never fails: it sets a flag that the scheduler reads twice a second.
    let _ = scheduler.shutdown().await;
}

/// The run after `last`. Runs that passed meanwhile are not made up for: `last` was handed out after them.
fn following(schedule: &Schedule, last: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Option<DateTime<Tz>> {
    last.and_then(|last| schedule.next(last))
        .filter(|next| *next > now)
        .or_else(|| schedule.next(now))
}

enum Woken {
    Due,
    ClockSetBack,
}

/// Waits for the moment by a one-shot job of the scheduler, which looks at the clock twice a second.
async fn wait_until(scheduler: &JobScheduler, due: DateTime<Tz>) -> Result<Woken, JobSchedulerError> {
    let armed = Utc::now();
    let (alarm, mut rings) = mpsc::channel(1);
    // The scheduler counts from the current whole second, so it gets whole seconds. Should the next second begin before it
    // counts, the run is a second late, never early.
    let seconds = u64::try_from(due.timestamp() - armed.timestamp()).unwrap_or(0);
    let job = Job::new_one_shot(Duration::from_secs(seconds), move |_, _| {
        let _ = alarm.try_send(());
    })?;
    let job = scheduler.add(job).await?;
    loop {
        tokio::select! {
            ring = rings.recv() => {
                // The channel closes when the scheduler drops the job, which it does after the run.
                let due = ring.is_some() || due.to_utc() <= Utc::now();
                return if due { Ok(Woken::Due) } else { Err(JobSchedulerError::JobTick) };
            }
            () = tokio::time::sleep(CLOCK_CHECK) => {
                if set_back(armed, Utc::now()) {
                    scheduler.remove(&job).await?;
                    return Ok(Woken::ClockSetBack);
                }
            }
        }
    }
}

/// Whether the clock was set back far enough to matter. After a correction by seconds a run could be handed out twice.
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

    fn schedule(text: &str, zone: &str) -> Schedule {
        Schedule::parse(text, zone.parse().unwrap()).unwrap()
    }

    fn at(text: &str) -> DateTime<Utc> {
        DateTime::parse_from_rfc3339(text).unwrap().to_utc()
    }

    fn seconds(tick: Option<Tick>) -> i64 {
        tick.expect("a schedule without end").due.timestamp()
    }

    #[tokio::test]
    async fn every_occurrence_is_handed_out_once_and_never_early() {
        let mut trigger = start(schedule("*/2 * * * * *", "Asia/Kathmandu"), Duration::ZERO)
            .await
            .unwrap();
        let mut last = None;
        for _ in 0..3 {
            let due = seconds(trigger.next().await);
            let now = Utc::now();
            assert!(due % 2 == 0 && now.timestamp() >= due, "{due} at {now}");
            assert!(now.timestamp_millis() < due * 1_000 + 1_900, "{due} at {now}");
            if let Some(last) = last {
                assert_eq!(due, last + 2);
            }
            last = Some(due);
        }
        trigger.shutdown().await;
    }

    #[tokio::test]
    async fn runs_that_come_due_while_nobody_listens_are_one() {
        let mut trigger = start(schedule("* * * * * *", "UTC"), Duration::ZERO)
            .await
            .unwrap();
        let first = seconds(trigger.next().await);
        tokio::time::sleep(Duration::from_millis(3_300)).await;
        let waiting = seconds(trigger.next().await);
        assert_eq!(
            waiting,
            first + 1,
            "the first that came due is the one that waited"
        );
        let following = seconds(trigger.next().await);
        assert!(
            following >= first + 3,
            "{following} was handed out on top of {waiting}"
        );
        trigger.shutdown().await;
    }

    #[tokio::test]
    async fn a_cancelled_wait_loses_no_run() {
        let mut trigger = start(schedule("*/2 * * * * *", "UTC"), Duration::ZERO)
            .await
            .unwrap();
        let first = seconds(trigger.next().await);
        let until = tokio::time::Instant::now() + Duration::from_secs(8);
        let second = loop {
            assert!(tokio::time::Instant::now() < until, "the run never came");
            if let Ok(tick) = tokio::time::timeout(Duration::from_millis(7), trigger.next()).await {
                break seconds(tick);
            }
        };
        assert_eq!(second, first + 2);
    }

    #[tokio::test]
    async fn shutdown_ends_the_task_even_while_a_jittered_run_waits() {
        for (text, jitter) in [("@yearly", 0), ("* * * * * *", 86_400)] {
            let trigger = start(schedule(text, "UTC"), Duration::from_secs(jitter))
                .await
                .unwrap();
            tokio::time::sleep(Duration::from_millis(1_700)).await;
            tokio::time::timeout(Duration::from_secs(1), trigger.shutdown())
                .await
                .expect(text);
        }
    }

    #[test]
    fn the_following_run_is_reckoned_from_the_last_so_that_lateness_adds_up_to_nothing() {
        let every = schedule("@every 15m", "UTC");
        let next = |last, now| following(&every, last, at(now)).unwrap().to_utc();
        let last = Some(at("2026-01-01T12:00:00Z"));
        assert_eq!(next(None, "2026-01-01T12:00:00.4Z"), at("2026-01-01T12:15:00Z"));
        assert_eq!(next(last, "2026-01-01T12:00:09Z"), at("2026-01-01T12:15:00Z"));
        // The host slept for an hour: one run, then on from now.
        assert_eq!(next(last, "2026-01-01T13:00:00Z"), at("2026-01-01T13:15:00Z"));
    }

    #[test]
    fn each_run_around_a_clock_change_comes_once() {
        let hourly = schedule("0 * * * *", "Europe/Berlin");
        let nightly = schedule("30 2 * * *", "Europe/Berlin");
        let mut last = at("2026-10-24T23:00:00Z");
        for _ in 0..5 {
            // The scheduler is up to half a second late.
            let late = last + TimeDelta::milliseconds(400);
            let next = following(&hourly, Some(last), late).unwrap().to_utc();
            assert_eq!(next - last, TimeDelta::hours(1));
            last = next;
        }
        let first = following(&nightly, None, at("2026-10-24T23:00:00Z"))
            .unwrap()
            .to_utc();
        let second = following(&nightly, Some(first), first + TimeDelta::milliseconds(400))
            .unwrap()
            .to_utc();
        assert_eq!(second - first, TimeDelta::hours(25));
    }

    #[test]
    fn only_a_clock_set_back_by_more_than_a_minute_is_worth_a_look() {
        let armed = at("2026-01-01T12:00:00Z");
        assert!(!set_back(armed, at("2026-01-01T12:10:00Z")));
        assert!(!set_back(armed, at("2026-01-01T11:59:30Z")));
        assert!(set_back(armed, at("2026-01-01T11:58:30Z")));
    }

    #[test]
    fn jitter_stays_in_its_bounds_and_varies() {
        let limit = Duration::from_secs(10);
        let delays: Vec<Duration> = (0..100).map(|_| random_up_to(limit)).collect();
        assert!(delays.iter().all(|delay| *delay <= limit));
        assert!(
            delays.iter().any(|delay| *delay > limit / 2) && delays.iter().any(|delay| *delay < limit / 2)
        );
        assert_eq!(random_up_to(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn a_trigger_can_be_sent_between_tasks() {
        fn assert_send<T: Send>(_: T) {}
        assert_send(start(schedule("@hourly", "UTC"), Duration::ZERO));
        assert_send(None::<Trigger>);
    }
}
