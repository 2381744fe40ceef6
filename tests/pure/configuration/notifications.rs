//! The webhook and the dead man's switch.

use std::fs;

use delegate_upgrader::config::SigningKey;
use delegate_upgrader::events::Action;
use strum::VariantArray as _;

use super::{assert_no_secret, errors, settings};

/// The URL contains a key, like Slack's webhook URLs.
const URL: &str = "https://hooks.example/services/T0/hunter2-hunter2";

#[test]
fn sends_nothing_without_a_url() {
    let notifications = settings(&[]).notifications;
    assert!(notifications.webhook.is_none() && notifications.deadman.is_none());
}

#[test]
fn urls_are_secrets() {
    let settings = settings(&[
        ("WEBHOOK_URL", URL),
        ("WEBHOOK_FORMAT", r#" {"text": "{message}"} "#),
        ("WEBHOOK_SECRET", "not-a-token-but-secret, and long"),
        ("WEBHOOK_EVENTS", "upgraded, rejected,upgraded"),
        ("DEADMAN_URL", "http://me:hunter2-hunter2@ping.example"),
        // The URL was also pasted into the wrong variable.
        ("NO_PROXY", URL),
    ]);
    let webhook = settings.notifications.webhook.as_ref().unwrap();
    assert_eq!(webhook.url.expose(), URL);
    assert_eq!(webhook.format.to_string(), r#"{"text": "{message}"}"#);
    assert_eq!(
        webhook.key.as_ref().unwrap().bytes(),
        b"not-a-token-but-secret, and long"
    );
    assert_eq!(webhook.events, ["upgraded", "rejected"]);
    let deadman = settings.notifications.deadman.as_ref().unwrap();
    assert_eq!(deadman.expose(), "http://me:hunter2-hunter2@ping.example/");
    assert_eq!(settings.warnings.len(), 1);
    assert!(
        settings.warnings[0].starts_with("NO_PROXY: \"***\" matches nothing"),
        "{:?}",
        settings.warnings
    );
    assert_no_secret("the settings", &format!("{settings:?} {settings:#?}"));
    let redacted = settings.redacted();
    assert_no_secret("config", &format!("{redacted:?}"));
    for line in [
        ("WEBHOOK_URL", "(set)"),
        ("WEBHOOK_FORMAT", r#"{"text": "{message}"}"#),
        ("WEBHOOK_SECRET", "(set)"),
        ("WEBHOOK_EVENTS", "upgraded,rejected"),
        ("DEADMAN_URL", "(set)"),
        ("NO_PROXY", "***"),
    ] {
        assert!(redacted.contains(&(line.0, line.1.to_owned())), "{redacted:?}");
    }
}

#[test]
fn warns_about_webhook_settings_without_a_webhook() {
    let given = [
        ("WEBHOOK_FORMAT", "teams"),
        ("WEBHOOK_SECRET", "not-a-token-but-secret, and long"),
        ("WEBHOOK_EVENTS", "skipped"),
    ];
    let expected = given.map(|(name, _)| format!("{name}: not used, since WEBHOOK_URL is not set"));
    assert_eq!(settings(&given).warnings, expected);
}

#[test]
fn every_action_of_an_event_can_be_chosen_and_nothing_else() {
    let outcomes = Action::VARIANTS.iter().filter(|action| **action != Action::Test);
    let all: Vec<&str> = outcomes.map(|action| action.as_str()).collect();
    let settings = settings(&[("WEBHOOK_URL", URL), ("WEBHOOK_EVENTS", &all.join(","))]);
    assert_eq!(settings.notifications.webhook.unwrap().events, all);
    let text = errors(&[("WEBHOOK_URL", URL), ("WEBHOOK_EVENTS", "x")]).to_string();
    let (_, accepted) = text.split_once("; expected ").unwrap();
    assert_eq!(accepted, all.join(", "));
}

#[test]
fn reads_secret_from_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("secret");
    fs::write(&path, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\r\n").unwrap();
    let read = settings(&[
        ("WEBHOOK_URL", URL),
        ("WEBHOOK_SECRET_FILE", path.to_str().unwrap()),
    ]);
    let key = read.notifications.webhook.unwrap().key.unwrap();
    assert_eq!(key.bytes().len(), 24);
    assert_eq!(format!("{key:?}"), "SigningKey(…)");
    assert_eq!(
        SigningKey::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        Ok(key)
    );
}
