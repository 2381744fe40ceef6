//! The delivered events, their order, and the retries.

use std::time::Duration;

use chrono::Utc;
use delegate_upgrader::events::Action;
use delegate_upgrader::events::webhook::{Timing, Webhook};
use delegate_upgrader::health::http::plain_client;

use super::{Log, MILLISECOND, QUICK, Receiver, Then, event, settings, status, until, webhook};

const LONG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn events_of_a_delegate_arrive_in_order_and_once() {
    let receiver = Receiver::start(|_, _| status(204)).await;
    let webhook = webhook(&receiver.url);
    for number in 0..20 {
        webhook.send(&event("d1", number));
        webhook.send(&event("d2", number));
    }
    assert_eq!(webhook.counts().queued, 40);
    webhook.finish(LONG).await;
    let requests = receiver.requests();
    for container in ["d1", "d2"] {
        let of = requests.iter().filter(|request| request.container() == container);
        let messages: Vec<String> = of
            .map(|request| request.json()["data"]["message"].as_str().unwrap().to_owned())
            .collect();
        let expected: Vec<String> = (0..20).map(|number| format!("number {number}")).collect();
        assert_eq!(messages, expected);
    }
    let counts = webhook.counts();
    assert_eq!(
        (counts.delivered, counts.queued, counts.failed_attempts),
        (40, 0, 0)
    );
    assert!(
        requests
            .iter()
            .all(|request| request.head.starts_with("POST /services/"))
    );
}

#[tokio::test]
async fn a_recovered_receiver_gets_every_event_with_its_original_id() {
    let (log, _guard) = Log::start();
    let receiver = Receiver::start(|number, _| status(if number < 4 { 503 } else { 200 })).await;
    let webhook = webhook(&receiver.url);
    for number in 0..3 {
        webhook.send(&event("d1", number));
    }
    webhook.finish(LONG).await;
    let ids: Vec<String> = receiver
        .requests()
        .iter()
        .map(|request| request.header("webhook-id").unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), 7);
    assert!(ids[..5].iter().all(|id| *id == ids[0]), "{ids:?}");
    assert!(ids[4] != ids[5] && ids[5] != ids[6], "{ids:?}");
    let counts = webhook.counts();
    assert_eq!(
        (counts.delivered, counts.failed_attempts, counts.last_error),
        (3, 4, None)
    );
    // One line for the first failure, and one for the recovery.
    let lines = log.lines();
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(lines[0].contains("WARN") && lines[0].contains("retrying for up to 20s"));
    assert!(lines[0].contains("HTTP 503"), "{lines:#?}");
    assert!(lines[1].contains("INFO") && lines[1].contains("accepts events again"));
}

#[tokio::test]
async fn a_delegate_with_a_refused_event_delays_no_other() {
    let receiver =
        Receiver::start(|_, request| status(if request.container() == "d1" { 500 } else { 200 })).await;
    let webhook = webhook(&receiver.url);
    webhook.send(&event("d1", 0));
    webhook.send(&event("d1", 1));
    webhook.send(&event("d2", 0));
    until("d2 is served", || webhook.counts().delivered == 1).await;
    until("d1 is tried again", || webhook.counts().failed_attempts > 3).await;
    let tried = receiver.requests();
    let ids = tried.iter().filter(|request| request.container() == "d1");
    assert!(
        ids.clone()
            .all(|request| request.json()["data"]["message"] == "number 0")
    );
    assert_eq!(webhook.counts().queued, 2);
}

#[tokio::test]
async fn gives_up_on_an_event_after_its_time_limit() {
    let (log, _guard) = Log::start();
    let receiver = Receiver::start(|_, _| status(502)).await;
    let timing = Timing {
        give_up_after: Duration::from_secs(2),
        ..QUICK
    };
    let webhook = Webhook::new(settings(&receiver.url), plain_client().unwrap(), timing);
    webhook.send(&event("d1", 0));
    webhook.send(&event("d1", 1));
    webhook.finish(LONG).await;
    let counts = webhook.counts();
    assert_eq!((counts.given_up, counts.delivered, counts.queued), (2, 0, 0));
    assert!(counts.failed_attempts > 4, "{counts:?}");
    let lines = log.lines();
    assert_eq!(lines.len(), 3, "{lines:#?}");
    for line in &lines[1..] {
        assert!(
            line.contains("gave up an event") && line.contains("within 2s"),
            "{line}"
        );
        assert!(line.contains(r#"container="d1""#), "{line}");
    }
}

#[tokio::test]
async fn a_rejected_event_is_not_sent_again_and_the_reason_is_logged_once() {
    let (log, _guard) = Log::start();
    let receiver = Receiver::start(|_, request| {
        // Like many error pages, it repeats the requested path.
        let path = request.head.split(' ').nth(1).unwrap();
        Then::Answer(
            404,
            String::new(),
            format!("<html><p>no such hook: {path}</p>\u{1b}[31m{}", "x".repeat(9999)),
        )
    })
    .await;
    let webhook = webhook(&receiver.url);
    for number in 0..3 {
        webhook.send(&event("d1", number));
    }
    webhook.finish(LONG).await;
    assert_eq!(receiver.requests().len(), 3);
    let counts = webhook.counts();
    assert_eq!((counts.given_up, counts.failed_attempts), (3, 3));
    let problem = counts.last_error.unwrap();
    assert!(
        problem.starts_with("HTTP 404: no such hook: /***") && problem.chars().count() < 250,
        "{problem}"
    );
    assert!(!problem.contains('\u{1b}'), "{problem}");
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("not sent again"), "{lines:#?}");
}

#[tokio::test]
async fn temporarily_refused_events_are_resent() {
    for code in [301, 307, 407, 408, 425, 429, 500, 503] {
        let receiver = Receiver::start(move |number, _| status(if number == 0 { code } else { 200 })).await;
        let webhook = webhook(&receiver.url);
        webhook.send(&event("d1", 0));
        webhook.finish(LONG).await;
        let counts = webhook.counts();
        assert_eq!((counts.delivered, counts.failed_attempts), (1, 1), "{code}");
        assert_eq!((counts.failing_since, counts.last_error), (None, None), "{code}");
    }
}

#[tokio::test]
async fn a_receiver_that_answers_gone_gets_nothing_further() {
    let (log, _guard) = Log::start();
    let receiver = Receiver::start(|_, _| status(410)).await;
    let webhook = webhook(&receiver.url);
    for number in 0..5 {
        webhook.send(&event("d1", number));
    }
    webhook.finish(LONG).await;
    webhook.send(&event("d2", 0));
    webhook.finish(LONG).await;
    assert_eq!(receiver.requests().len(), 1);
    let counts = webhook.counts();
    assert_eq!((counts.given_up, counts.dropped, counts.queued), (5, 1, 0));
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(
        lines[0].contains("ERROR") && lines[0].contains("unset WEBHOOK_URL"),
        "{lines:#?}"
    );
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let other = Receiver::start(|_, _| status(200)).await;
    let to = other.url.clone();
    let receiver =
        Receiver::start(move |_, _| Then::Answer(307, format!("Location: {to}\r\n"), String::new())).await;
    let webhook = webhook(&receiver.url);
    webhook.send(&event("d1", 0));
    let begun = Utc::now();
    until("it is refused again", || webhook.counts().failed_attempts > 1).await;
    let counts = webhook.counts();
    let (problem, since) = (counts.last_error.unwrap(), counts.failing_since.unwrap());
    assert!(since >= begun && since < Utc::now(), "since the first attempt");
    assert!(problem.contains("redirects are not followed"), "{problem}");
    assert!(!problem.contains(super::KEY_OF_URL), "{problem}");
    assert_eq!(other.requests().len(), 0);
}

#[tokio::test]
async fn a_capped_retry_after_applies_to_all_events() {
    for (asked, least, most) in [("1", 900, 3000), ("99999", 1900, 4000)] {
        let pause = format!("Retry-After: {asked}\r\n");
        let receiver = Receiver::start(move |number, _| {
            let code = if number < 2 { 429 } else { 200 };
            Then::Answer(
                code,
                if number < 2 { pause.clone() } else { String::new() },
                String::new(),
            )
        })
        .await;
        let timing = Timing {
            longest_retry_after: 2000 * MILLISECOND,
            ..QUICK
        };
        let webhook = Webhook::new(settings(&receiver.url), plain_client().unwrap(), timing);
        let problem = webhook.test(&event("d1", 0)).await.unwrap_err();
        assert!(problem.starts_with("HTTP 429 (Retry-After: "), "{problem}");
        webhook.send(&event("d1", 0));
        until("it is asked to wait", || webhook.counts().failed_attempts == 1).await;
        webhook.send(&event("d2", 0));
        webhook.finish(LONG).await;
        let times: Vec<_> = receiver.requests().iter().map(|request| request.at).collect();
        assert_eq!(times.len(), 4);
        for time in &times[2..] {
            let waited = *time - times[1];
            assert!(
                waited > least * MILLISECOND && waited < most * MILLISECOND,
                "{waited:?}"
            );
        }
    }
}

#[tokio::test]
async fn only_the_chosen_events_are_sent() {
    let receiver = Receiver::start(|_, _| status(200)).await;
    let mut settings = settings(&receiver.url);
    settings.events = vec!["rejected".to_owned(), "health_lost".to_owned()];
    let webhook = Webhook::new(settings, plain_client().unwrap(), QUICK);
    for action in [
        Action::Upgraded,
        Action::Rejected,
        Action::Skipped,
        Action::HealthLost,
    ] {
        let mut event = event("d1", 0);
        event.action = action;
        webhook.send(&event);
    }
    webhook.finish(LONG).await;
    let types: Vec<_> = receiver
        .requests()
        .iter()
        .map(|request| request.json()["type"].clone())
        .collect();
    assert_eq!(
        types,
        [
            "io.delegate-upgrader.rejected",
            "io.delegate-upgrader.health_lost"
        ]
    );
}
