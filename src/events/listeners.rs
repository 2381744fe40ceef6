//! The receivers of outcomes.

use std::time::Duration;

use super::Event;
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
    /// Passes an event to the webhook.
    pub fn tell(&self, event: &Event) {
        if let Some(webhook) = &self.webhook {
            webhook.send(event);
        }
    }

    /// Reports that a scheduled run ended without failures.
    pub fn run_succeeded(&self) {
        if let Some(dead_man) = &self.dead_man {
            dead_man.ask();
        }
    }

    /// Waits until the events are delivered, but no longer than this.
    pub async fn finish(&self, limit: Duration) {
        if let Some(webhook) = &self.webhook {
            webhook.finish(limit).await;
        }
    }
}
