//! Nothing grows without a bound, and nothing waits for a receiver.

use std::time::Duration;

use delegate_upgrader::events::webhook::{Timing, Webhook};
use delegate_upgrader::health::http::plain_client;
use tokio::time::Instant;

use super::{Log, MILLISECOND, QUICK, Receiver, Then, event, settings, status, until, webhook};

#[tokio::test]
async fn an_unresponsive_receiver_costs_no_time_and_a_bounded_queue() {
    let (log, _guard) = Log::start();
    let receiver = Receiver::start(|_, _| Then::Hang).await;
    let webhook = webhook(&receiver.url);
    let begun = Instant::now();
    for number in 0..1000 {
        webhook.send(&event("d1", number));
        tokio::task::yield_now().await;
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let counts = webhook.counts();
    assert_eq!((counts.queued, counts.dropped), (256, 744));
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("dropping the oldest"), "{lines:#?}");
    // The end does not wait for it either.
    let begun = Instant::now();
    webhook.finish(200 * MILLISECOND).await;
    assert!(begun.elapsed() < Duration::from_secs(2));
    let lines = log.lines();
    assert!(
        lines[1].contains("not all events were delivered") && lines[1].contains("events=256"),
        "{lines:#?}"
    );
}

#[tokio::test]
async fn limits_concurrent_requests_and_attempt_time() {
    let receiver = Receiver::start(|number, _| if number < 4 { Then::Hang } else { status(200) }).await;
    let timing = Timing {
        attempt: 5000 * MILLISECOND,
        ..QUICK
    };
    let webhook = Webhook::new(settings(&receiver.url), plain_client().unwrap(), timing);
    for container in 0..20 {
        webhook.send(&event(&format!("d{container}"), 0));
    }
    until("four are on their way", || receiver.requests().len() == 4).await;
    tokio::time::sleep(100 * MILLISECOND).await;
    assert_eq!(receiver.requests().len(), 4);
    webhook.finish(Duration::from_secs(20)).await;
    let counts = webhook.counts();
    assert_eq!((counts.delivered, counts.failed_attempts), (20, 4));
}

#[tokio::test]
async fn a_webhook_that_is_dropped_sends_nothing_more() {
    let receiver = Receiver::start(|_, _| status(500)).await;
    let webhook = webhook(&receiver.url);
    webhook.send(&event("d1", 0));
    until("it is tried", || !receiver.requests().is_empty()).await;
    drop(webhook);
    tokio::time::sleep(50 * MILLISECOND).await;
    let before = receiver.requests().len();
    tokio::time::sleep(300 * MILLISECOND).await;
    assert_eq!(receiver.requests().len(), before);
}
