//! Where outcomes are sent: the webhook, and the URL that is requested after each good run.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};
use strum::{Display, EnumString};

use super::parse;
use super::reader::Reader;
use super::variables::{Environment, Variable};
use crate::text::secret::Secret;

/// Where outcomes are sent.
#[derive(Clone, Debug, Default)]
pub struct Notifications {
    /// `WEBHOOK_URL` and the settings beside it.
    pub webhook: Option<WebhookSettings>,
    /// `DEADMAN_URL`: requested after each good scheduled run. Such a URL contains its own key.
    pub deadman: Option<Secret>,
}

/// Where events are sent, and how.
#[derive(Clone, Debug)]
pub struct WebhookSettings {
    /// `WEBHOOK_URL`. Such a URL may contain its own key.
    pub url: Secret,
    /// `WEBHOOK_FORMAT`.
    pub format: WebhookFormat,
    /// `WEBHOOK_SECRET`.
    pub key: Option<SigningKey>,
    /// `WEBHOOK_EVENTS`: the names of the actions to send; empty means all.
    pub events: Vec<String>,
}

/// The format of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Display, EnumString)]
#[strum(serialize_all = "lowercase", ascii_case_insensitive)]
pub enum WebhookFormat {
    /// CloudEvents 1.0, structured JSON.
    #[default]
    CloudEvents,
    /// A message for an incoming webhook of Slack.
    Slack,
    /// An Adaptive Card for a workflow of Microsoft Teams.
    Teams,
    /// A JSON object with names such as `{message}`, for any other receiver.
    #[strum(default)]
    Template(String),
}

/// The Standard Webhooks signing key.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey(Vec<u8>);

impl SigningKey {
    /// The shortest key that <https://www.standardwebhooks.com> allows, in bytes.
    const SHORTEST: usize = 24;

    /// Reads a key: `whsec_` followed by base64, or any text, whose bytes are the key. The error does not repeat the key.
    pub fn parse(text: &str) -> Result<Self, String> {
        let key = match text.strip_prefix("whsec_") {
            Some(encoded) => BASE64_STANDARD
                .decode(encoded)
                .map_err(|_| "its value (not shown) has no base64 after whsec_".to_owned())?,
            None => text.as_bytes().to_vec(),
        };
        match key.len() {
            length if length < Self::SHORTEST => {
                Err(format!("its value (not shown) is a key of {length} bytes"))
            }
            _ => Ok(Self(key)),
        }
    }

    /// The bytes of the key, for signing.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

pub(super) fn notifications(reader: &mut Reader, env: &Environment) -> Notifications {
    Notifications {
        webhook: webhook(reader, env),
        deadman: url(reader, &env.deadman_url),
    }
}

fn webhook(reader: &mut Reader, env: &Environment) -> Option<WebhookSettings> {
    let url = url(reader, &env.webhook_url);
    let format = reader.read(&env.webhook_format, format);
    let key = reader.secret(&env.webhook_secret, |text| SigningKey::parse(text.trim()));
    let events = reader.read_as(&env.webhook_events, actions, |events| events.join(","));
    if url.is_none() && !reader.problems.names(env.webhook_url.row) {
        let unused = [&env.webhook_format, &env.webhook_secret, &env.webhook_events];
        reader.unused(&unused, ", since WEBHOOK_URL is not set");
    }
    Some(WebhookSettings {
        url: url?,
        format: format?,
        key,
        events: events.unwrap_or_default(),
    })
}

/// A URL that is secret as a whole, given in its variable or in a file.
pub(super) fn url(reader: &mut Reader, variable: &Variable) -> Option<Secret> {
    // The parser's error may quote a scheme that is part of a key.
    let wrong = |_| "its value (not shown) is not such a URL".to_owned();
    let parse = |text: &str| parse::http_url(text.trim()).map_err(wrong);
    reader.secret(variable, parse).map(Secret::new)
}

/// One of the words, or the template of a JSON object.
fn format(text: &str) -> Result<WebhookFormat, String> {
    let format = text.parse().map_err(|_| String::new())?;
    if let WebhookFormat::Template(template) = &format {
        let fields = serde_json::from_str::<Map<String, Value>>(template);
        fields.map_err(|error| format!("not a JSON object: {error}"))?;
    }
    Ok(format)
}

/// A comma-separated list of actions.
fn actions(text: &str) -> Result<Vec<String>, String> {
    let names = parse::names(text)?;
    match names
        .iter()
        .find(|name| parse::ACTIONS.split(", ").all(|known| known != *name))
    {
        Some(unknown) => Err(format!("no event is called {unknown}")),
        None => Ok(names),
    }
}
