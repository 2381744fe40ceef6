//! The signature of a webhook, as Standard Webhooks defines it (<https://www.standardwebhooks.com>).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::hmac;

use crate::config::SigningKey;

/// The value of `webhook-signature`: `v1,` and the base64 of the HMAC-SHA256 of id, time and body.
pub fn signature(key: &SigningKey, id: &str, timestamp: i64, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.bytes());
    let mut signed = hmac::Context::with_key(&key);
    signed.update(format!("{id}.{timestamp}.").as_bytes());
    signed.update(body);
    format!("v1,{}", BASE64_STANDARD.encode(signed.sign()))
}
