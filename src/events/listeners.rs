//! The receivers of outcomes.

use std::time::Duration;

use super::deadman::DeadMan;
use super::webhook::Webhook;

/// The receivers of outcomes. Delivery never blocks.
#[derive(Debug, Default)]
pub struct Listeners {
    /// `WEBHOOK_URL`.
    pub webhook: Option<Webhook>,
    /// `DEADMAN_URL`.
    pub dead_man: Option<DeadMan>,
}

impl Listeners {
    /// Waits until the events are delivered, but no longer than this.
    pub async fn finish(&self, limit: Duration) {
        if let Some(webhook) = &self.webhook {
            webhook.finish(limit).await;
        }
    }
}
