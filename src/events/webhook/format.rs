//! The bodies of requests: an event in the formats of CloudEvents, Slack and Teams, or in a template.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::wording::Words;
use crate::config::WebhookFormat;
use crate::events::Event;
use crate::text::{json as json_text, time};

/// The characters that are allowed unescaped in a segment of a URI's path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// The value of `Content-Type`.
pub(super) fn content_type(format: &WebhookFormat) -> &'static str {
    match format {
        WebhookFormat::CloudEvents => "application/cloudevents+json",
        _ => "application/json",
    }
}

/// The event as JSON text.
pub fn body(format: &WebhookFormat, event: &Event) -> String {
    let body = match format {
        WebhookFormat::Template(template) => return filled(template, event),
        WebhookFormat::CloudEvents => cloud_event(event),
        WebhookFormat::Slack => slack(&Words::of(event)),
        WebhookFormat::Teams => teams(&Words::of(event)),
    };
    json_text::text(&body)
}

/// <https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md>
fn cloud_event(event: &Event) -> Value {
    json!({
        "specversion": "1.0",
        "id": event.id,
        "source": format!("/delegate-upgrader/{}", utf8_percent_encode(&event.host, SEGMENT)),
        "type": format!("io.delegate-upgrader.{}", event.action),
        "subject": event.subject(),
        "time": time::text(event.time),
        "datacontenttype": "application/json",
        "data": event,
    })
}

/// The template with the event's words in place of their names. Each stands in a text of JSON, so it is escaped.
fn filled(template: &str, event: &Event) -> String {
    let words = Words::of(event);
    let values = [
        ("title}", words.title.as_str()),
        ("message}", &words.message),
        ("action}", event.action.as_str()),
        ("host}", &event.host),
        ("workload}", &event.workload),
        ("container}", &event.container),
    ];
    let mut parts = template.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let found = values
            .iter()
            .find_map(|(name, value)| Some((value, part.strip_prefix(name)?)));
        let Some((value, rest)) = found else {
            text.extend(["{", part]);
            continue;
        };
        let quoted = json_text::string(value);
        text.extend([quoted.get(1..quoted.len() - 1).unwrap_or_default(), rest]);
    }
    text
}

/// A title, a message and facts. Notifications show `text`.
fn slack(words: &Words) -> Value {
    let (title, message) = (for_slack(&words.title), for_slack(&words.message));
    let markdown = |text: String| json!({ "type": "mrkdwn", "text": text });
    let fields = words.facts.iter().map(|(name, value)| {
        // Between backticks, no other character is special.
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

/// Escapes the three characters with which Slack marks links, mentions and entities.
fn for_slack(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// An Adaptive Card. Text in a `RichTextBlock` is literal; in a `TextBlock` it would be Markdown.
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
