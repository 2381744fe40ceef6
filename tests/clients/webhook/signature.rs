//! The signature, checked against the published scheme and a verifier that shares no code with the signer.

use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chrono::Utc;
use delegate_upgrader::config::SigningKey;
use delegate_upgrader::events::webhook::{Webhook, signature};
use delegate_upgrader::health::http::plain_client;
use ring::digest::{SHA256, digest};

use super::{QUICK, Receiver, event, settings, status};

/// HMAC-SHA256 as RFC 2104 defines it, for keys of at most 64 bytes.
fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let pad = |byte: u8| {
        let mut block = [byte; 64];
        for (place, byte) in block.iter_mut().zip(key) {
            *place ^= byte;
        }
        block.to_vec()
    };
    let inner = digest(&SHA256, &[pad(0x36), text.to_vec()].concat());
    digest(&SHA256, &[&pad(0x5c), inner.as_ref()].concat())
        .as_ref()
        .to_vec()
}

#[test]
#[rustfmt::skip]
fn signatures_match_other_implementations() {
    // The example of Standard Webhooks, and a text as key; Python's hmac computed both.
    for (key, id, timestamp, body, expected) in [
        (
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            r#"{"test": 2432232314}"#,
            "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        ),
        ("a text of 24 bytes or so", "id", 1, "body", "R/SWBHiiGRJatBq35FWDDMs71nsxqupQ5vBHj6Xs/t0="),
    ] {
        let key = SigningKey::parse(key).unwrap();
        assert_eq!(
            signature(&key, id, timestamp, body.as_bytes()),
            format!("v1,{expected}")
        );
    }
}

#[tokio::test]
async fn signs_each_attempt_with_its_time() {
    let receiver = Receiver::start(|number, _| status(if number == 0 { 500 } else { 200 })).await;
    let key: Vec<u8> = (1..=32).collect();
    let mut settings = settings(&receiver.url);
    let text = format!("whsec_{}", BASE64_STANDARD.encode(&key));
    settings.key = Some(SigningKey::parse(&text).unwrap());
    let webhook = Webhook::new(settings, plain_client().unwrap(), QUICK);
    webhook.send(&event("d1", 0));
    webhook.finish(Duration::from_secs(20)).await;
    let requests = receiver.requests();
    assert_eq!(requests.len(), 2);
    for request in requests {
        let id = request.header("webhook-id").unwrap();
        assert_eq!(id, event("d1", 0).id.as_str());
        let timestamp = request.header("webhook-timestamp").unwrap();
        let age = Utc::now().timestamp() - timestamp.parse::<i64>().unwrap();
        assert!((0..20).contains(&age), "{age}");
        let signed = format!("{id}.{timestamp}.{}", request.body);
        let expected = BASE64_STANDARD.encode(hmac(&key, signed.as_bytes()));
        assert_eq!(
            request.header("webhook-signature"),
            Some(format!("v1,{expected}").as_str())
        );
    }
}

#[tokio::test]
async fn omits_signature_without_a_secret() {
    let receiver = Receiver::start(|_, _| status(200)).await;
    let webhook = super::webhook(&receiver.url);
    webhook.send(&event("d1", 0));
    webhook.finish(Duration::from_secs(20)).await;
    let request = receiver.requests().remove(0);
    assert_eq!(request.header("webhook-signature"), None);
    assert!(request.header("webhook-id").is_some() && request.header("webhook-timestamp").is_some());
}

const PAGE: &str = include_str!("../../../docs/usage/notifications.md");

#[test]
fn the_documented_python_accepts_only_valid_signatures() {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("python3 is not installed: skipped");
        return;
    }
    let (_, rest) = PAGE.split_once("<!-- verify -->").unwrap();
    let (code, _) = rest.split_once("<!-- /verify -->").unwrap();
    let code: Vec<&str> = code
        .lines()
        .map(|line| line.strip_prefix("    ").unwrap_or(line))
        .collect();
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let key = SigningKey::parse(secret).unwrap();
    let now = Utc::now().timestamp();
    for (timestamp, sent, is_taken) in [
        (now, "body", true),
        (now, "bodx", false),
        (now - 400, "body", false),
    ] {
        let signature = signature(&key, "id", timestamp, b"body");
        let call = format!(
            "verify({secret:?}, {{'webhook-id': 'id', 'webhook-timestamp': '{timestamp}', 'webhook-signature': \
             {signature:?}}}, {sent:?}.encode())"
        );
        let verified = Command::new("python3")
            .args(["-c", &format!("{}\n{call}", code.join("\n"))])
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&verified.stderr);
        assert_eq!(verified.status.success(), is_taken, "{call}: {errors}");
        assert!(is_taken || errors.contains("ValueError: "), "{errors}");
    }
}
