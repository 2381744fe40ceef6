//! The alarm clock of the schedule, with the real clock.

use std::time::Duration;

use chrono::Utc;
use delegate_upgrader::schedule::Schedule;
use delegate_upgrader::schedule::trigger::{Trigger, start};
use delegate_upgrader::schedule::zone::Zone;

async fn started(text: &str, zone: &str, jitter: Duration) -> Trigger {
    let schedule = Schedule::parse(text, Zone::named(zone).unwrap()).unwrap();
    start(schedule, jitter).await.unwrap()
}

#[tokio::test]
async fn triggers_each_occurrence_once_and_never_early() {
    let mut trigger = started("*/5 * * * * *", "Asia/Kathmandu", Duration::ZERO).await;
    let mut last = None;
    for _ in 0..3 {
        let due = trigger.next().await.unwrap().timestamp();
        let now = Utc::now();
        assert!(due % 5 == 0 && now.timestamp() >= due, "{due} at {now}");
        assert!(now.timestamp_millis() < due * 1_000 + 4_900, "{due} at {now}");
        if let Some(last) = last {
            assert_eq!(due, last + 5);
        }
        last = Some(due);
    }
    trigger.shutdown().await;
}

#[tokio::test]
async fn overdue_runs_are_merged_into_one() {
    let mut trigger = started("* * * * * *", "UTC", Duration::ZERO).await;
    let first = trigger.next().await.unwrap().timestamp();
    tokio::time::sleep(Duration::from_millis(3_300)).await;
    let waiting = trigger.next().await.unwrap().timestamp();
    assert_eq!(
        waiting,
        first + 1,
        "the first that came due is the one that waited"
    );
    let following = trigger.next().await.unwrap().timestamp();
    assert!(
        following >= first + 3,
        "{following} was handed out on top of {waiting}"
    );
    trigger.shutdown().await;
}

#[tokio::test]
async fn a_cancelled_wait_loses_no_run() {
    let mut trigger = started("*/5 * * * * *", "UTC", Duration::ZERO).await;
    let first = trigger.next().await.unwrap().timestamp();
    let until = tokio::time::Instant::now() + Duration::from_secs(20);
    let second = loop {
        assert!(tokio::time::Instant::now() < until, "the run never came");
        if let Ok(tick) = tokio::time::timeout(Duration::from_millis(7), trigger.next()).await {
            break tick.unwrap().timestamp();
        }
    };
    assert_eq!(second, first + 5);
}

#[tokio::test]
async fn shutdown_ends_the_task_even_while_a_jittered_run_waits() {
    for (text, jitter) in [("@yearly", 0), ("* * * * * *", 86_400)] {
        let trigger = started(text, "UTC", Duration::from_secs(jitter)).await;
        tokio::time::sleep(Duration::from_millis(1_700)).await;
        tokio::time::timeout(Duration::from_secs(10), trigger.shutdown())
            .await
            .unwrap_or_else(|_| panic!("{text}"));
    }
}
