//! Where outcomes are sent.

use std::time::Duration;

use super::Event;
use super::deadman::DeadMan;
use super::webhook::Webhook;

/// Where outcomes are sent. Delivery never blocks.
#[derive(Debug, Default)]
pub struct Listeners {
    /// `WEBHOOK_URL`.
    pub webhook: Option<Webhook>,
    /// `DEADMAN_URL`.
    pub dead_man: Option<DeadMan>,
}

impl Listeners {
    /// Hands an event over.
    pub fn tell(&self, event: &Event) {
        if let Some(webhook) = &self.webhook {
            webhook.send(event);
        }
    }

    /// A scheduled run has ended without failures.
    pub fn run_succeeded(&self) {
        if let Some(dead_man) = &self.dead_man {
            dead_man.ask();
        }
    }

    /// Waits until the events are delivered, and no longer than this.
    pub async fn finish(&self, limit: Duration) {
        if let Some(webhook) = &self.webhook {
            webhook.finish(limit).await;
        }
    }
}
