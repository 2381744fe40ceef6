//! The bodies in the form that receivers get.

use delegate_upgrader::config::WebhookFormat;
use delegate_upgrader::events::webhook::{Webhook, body};
use delegate_upgrader::events::{Action, Event};
use delegate_upgrader::health::http::plain_client;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::Duration;
use strum::VariantArray as _;

use super::{QUICK, Receiver, event, settings, status};

fn json_of(format: &WebhookFormat, event: &Event) -> Value {
    serde_json::from_str(&body(format, event)).unwrap()
}

/// An event whose texts contain markup that is special in one of the formats.
fn odd() -> Event {
    Event {
        action: Action::Rejected,
        workload: "`a` & <b>".to_owned(),
        message: "<!channel> *not* healthy\n[x](https://evil.example) & more".to_owned(),
        from: None,
        tasks_cut_short: Some(2),
        ..event("d_1", 7)
    }
}

#[test]
fn a_cloud_event_has_the_event_as_its_data() {
    let event = event("delegate-1", 7);
    assert_eq!(
        json_of(&WebhookFormat::CloudEvents, &event),
        json!({
            "specversion": "1.0",
            "id": event.id.as_str(),
            "source": "/delegate-upgrader/host%201",
            "type": "io.delegate-upgrader.upgraded",
            "subject": "delegate-1",
            "time": "2026-11-24T21:42:00Z",
            "datacontenttype": "application/json",
            "data": {
                "id": event.id.as_str(),
                "time": "2026-11-24T21:42:00Z",
                "host": "host 1",
                "version": "0.1.0",
                "actor": "SYSTEM",
                "action": "upgraded",
                "workload": "docker-delegate",
                "container": "delegate-1",
                "container_id": "43fd99e33e63",
                "from": "harness/delegate:26.02.88404",
                "to": "harness/delegate:26.03.88501",
                "message": "number 7",
                "seconds": { "pull": 12.0, "proof": 65.4, "drain": 0.25 },
                "release": 3,
            },
        })
    );
}

#[test]
fn slack_gets_a_title_a_message_and_facts() {
    let field = |text: &str| json!({ "type": "mrkdwn", "text": text });
    assert_eq!(
        json_of(&WebhookFormat::Slack, &event("delegate-1", 7)),
        json!({
            "text": "✅ Upgraded: delegate-1: number 7",
            "blocks": [
                { "type": "section", "text": field("*✅ Upgraded: delegate-1*\nnumber 7") },
                { "type": "section", "fields": [
                    field("*Host*\n`host 1`"),
                    field("*Workload*\n`docker-delegate`"),
                    field("*Container*\n`delegate-1`"),
                    field("*Image*\n`harness/delegate:26.02.88404 → harness/delegate:26.03.88501`"),
                    field("*Time*\n`pull 12s, proof 1m5s, drain 250ms`"),
                ] },
            ],
        })
    );
    let text = body(&WebhookFormat::Slack, &odd());
    assert!(
        !text.contains('<') && text.contains("&lt;!channel&gt; *not* healthy"),
        "{text}"
    );
    assert!(
        text.contains("`'a' &amp; &lt;b&gt;`") && text.contains("Tasks cut short"),
        "{text}"
    );
}

#[test]
fn teams_gets_an_adaptive_card_whose_texts_are_literal() {
    let bold = |text: &str| json!({ "type": "TextRun", "text": text, "weight": "Bolder" });
    let plain = |text: &str| json!({ "type": "TextRun", "text": text });
    let block = |inlines: Value| json!({ "type": "RichTextBlock", "inlines": inlines });
    assert_eq!(
        json_of(&WebhookFormat::Teams, &odd()),
        json!({
            "type": "message",
            "attachments": [{
                "contentType": "application/vnd.microsoft.card.adaptive",
                "contentUrl": null,
                "content": {
                    "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                    "type": "AdaptiveCard",
                    "version": "1.4",
                    "body": [
                        block(json!([bold("❌ New image rejected: d_1")])),
                        block(json!([plain("<!channel> *not* healthy [x](https://evil.example) & more")])),
                        block(json!([bold("Host: "), plain("host 1")])),
                        block(json!([bold("Workload: "), plain("`a` & <b>")])),
                        block(json!([bold("Container: "), plain("d_1")])),
                        block(json!([bold("Image: "), plain("harness/delegate:26.03.88501")])),
                        block(json!([bold("Time: "), plain("pull 12s, proof 1m5s, drain 250ms")])),
                        block(json!([bold("Tasks cut short: "), plain("2")])),
                    ],
                },
            }],
        })
    );
}

#[test]
fn a_template_gets_each_word_as_the_content_of_a_text() {
    let template =
        r#"{"content": "{title}: {message} ({action}, {host}, {workload}, {container})", "{no}": []}"#;
    let mut odd = odd();
    odd.message = "a \"quote\\\"\n{host}".to_owned();
    let words = r#"❌ New image rejected: d_1: a "quote\" {host} (rejected, host 1, `a` & <b>, d_1)"#;
    let template = WebhookFormat::Template(template.to_owned());
    assert_eq!(json_of(&template, &odd), json!({ "content": words, "{no}": [] }));
}

#[test]
fn messages_are_limited_and_each_action_has_its_own_title() {
    let mut long = event("d1", 0);
    long.message = "x".repeat(100_000);
    for format in [WebhookFormat::Slack, WebhookFormat::Teams] {
        assert!(body(&format, &long).len() < 5000);
    }
    let title = |action: Action, resolved: bool| {
        let mut event = event("d1", 0);
        (event.action, event.resolved) = (action, resolved);
        json_of(&WebhookFormat::Slack, &event)["text"].to_string()
    };
    let titles = Action::VARIANTS.iter().map(|action| title(*action, false));
    let titles: HashSet<String> = titles.chain([title(Action::Skipped, true)]).collect();
    assert_eq!(titles.len(), Action::VARIANTS.len() + 1, "{titles:?}");
}

#[tokio::test]
async fn each_format_has_its_content_type() {
    for (format, expected) in [
        (WebhookFormat::CloudEvents, "application/cloudevents+json"),
        (WebhookFormat::Slack, "application/json"),
        (WebhookFormat::Template("{}".to_owned()), "application/json"),
    ] {
        let receiver = Receiver::start(|_, _| status(200)).await;
        let mut settings = settings(&receiver.url);
        settings.format = format.clone();
        let webhook = Webhook::new(settings, plain_client().unwrap(), QUICK);
        let event = event("d1", 0);
        webhook.send(&event);
        webhook.finish(Duration::from_secs(20)).await;
        let request = receiver.requests().remove(0);
        assert_eq!(request.header("content-type"), Some(expected));
        assert_eq!(request.body, body(&format, &event));
    }
}
