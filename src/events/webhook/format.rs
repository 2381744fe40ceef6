//! The bodies: an event as CloudEvents, Slack and Teams have it.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::wording::Words;
use crate::config::WebhookFormat;
use crate::events::Event;
use crate::text::{json as json_text, time};

/// The characters that a segment of a URI's path may hold unescaped.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The value of `Content-Type`.
pub(super) fn content_type(format: WebhookFormat) -> &'static str {
    match format {
        WebhookFormat::CloudEvents => "application/cloudevents+json",
        WebhookFormat::Slack | WebhookFormat::Teams => "application/json",
    }
}

/// The event as JSON text.
pub fn body(format: WebhookFormat, event: &Event) -> String {
    let body = match format {
        WebhookFormat::CloudEvents => cloud_event(event),
        WebhookFormat::Slack => slack(&Words::of(event)),
        WebhookFormat::Teams => teams(&Words::of(event)),
    };
    json_text::text(&body).unwrap_or_default()
}

/// <https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md>
fn cloud_event(event: &Event) -> Value {
    json!({
        "specversion": "1.0",
        "id": event.id,
        "source": format!("/delegate-upgrader/{}", utf8_percent_encode(&event.host, SEGMENT)),
        "type": format!("io.delegate-upgrader.{}", event.action),
        "subject": event.container,
        "time": time::text(event.time),
        "datacontenttype": "application/json",
        "data": event,
    })
}

/// A title, a message and facts. `text` is what a notification shows.
fn slack(words: &Words) -> Value {
    let Words {
        title,
        message,
        facts,
    } = words;
    let (title, message) = (for_slack(title), for_slack(message));
    let markdown = |text: String| json!({ "type": "mrkdwn", "text": text });
    let fields = facts.iter().map(|(name, value)| {
        // Within backticks nothing else has a meaning.
        markdown(format!("*{name}*\n`{}`", for_slack(&value.replace('`', "'"))))
    });
    json!({
        "text": format!("{title}: {message}"),
        "blocks": [
            { "type": "section", "text": markdown(format!("*{title}*\n{message}")) },
            { "type": "section", "fields": fields.collect::<Vec<_>>() },
        ],
    })
}

/// The three characters that make links, mentions and entities there.
fn for_slack(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// An Adaptive Card. The text of a `RichTextBlock` is taken literally, that of a `TextBlock` is Markdown.
fn teams(words: &Words) -> Value {
    let bold = |text: &str| json!({ "type": "TextRun", "text": text, "weight": "Bolder" });
    let plain = |text: &str| json!({ "type": "TextRun", "text": text });
    let block = |inlines: Vec<Value>| json!({ "type": "RichTextBlock", "inlines": inlines });
    let mut body = vec![
        block(vec![bold(&words.title)]),
        block(vec![plain(&words.message)]),
    ];
    let facts = words.facts.iter();
    body.extend(facts.map(|(name, value)| block(vec![bold(&format!("{name}: ")), plain(value)])));
    json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "contentUrl": null,
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.4",
                "body": body,
            },
        }],
    })
}
