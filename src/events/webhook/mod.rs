//! Sends events to a remote receiver in the background. Nothing ever waits for the receiver, and the number and size of
//! the waiting events are limited.
//!
//! | file | for |
//! |---|---|
//! | `delivery.rs` | attempts and pauses, with their counts and log lines |
//! | `queue.rs` | the waiting events, by delegate |
//! | `format.rs` | the bodies for CloudEvents, Slack, Teams and any other receiver |
//! | `wording.rs` | an event in words, for messages to people |
//! | `signature.rs` | the signature |

mod delivery;
mod format;
mod queue;
mod signature;
mod wording;

use std::mem;
use std::str::FromStr as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::Client;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::warn;

use super::{Action, Event};
use crate::config::WebhookSettings;
use crate::sync::lock;
use delivery::Delivery;
use queue::Message;

pub use delivery::{Timing, WebhookCounts};
pub use format::body;
pub use signature::signature;

/// Sends events. Dropping it cancels the requests in flight.
#[derive(Debug)]
pub struct Webhook {
    delivery: Arc<Delivery>,
    /// The actions to send; empty means all.
    actions: Vec<Action>,
    /// One task for each delegate that has events to send.
    tasks: Mutex<JoinSet<()>>,
}

impl Webhook {
    /// Sends with this client, which must not follow redirects.
    pub fn new(settings: WebhookSettings, client: Client, timing: Timing) -> Self {
        let actions = settings.events.iter();
        Self {
            // The settings contain no other names.
            actions: actions.filter_map(|name| Action::from_str(name).ok()).collect(),
            delivery: Arc::new(Delivery::new(settings, client, timing)),
            tasks: Mutex::default(),
        }
    }

    /// Queues an event if its action is among the chosen ones. Never waits and never fails: if there is no room, it
    /// drops the oldest waiting event of the delegate with the most waiting bytes.
    pub fn send(&self, event: &Event) {
        if !self.actions.is_empty() && !self.actions.contains(&event.action) {
            return;
        }
        let message = self.message(event);
        let mut state = lock(&self.delivery.state);
        if state.is_gone {
            state.counts.dropped += 1;
            return;
        }
        let (is_new, dropped) = state.queue.push(&event.container, message);
        state.counts.dropped += dropped;
        if dropped > 0 && !state.is_full {
            state.is_full = true;
            warn!(
                "webhook: {} or 1 MiB of events wait already; dropping the oldest until the receiver accepts them",
                queue::MAX_EVENTS
            );
        }
        drop(state);
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        if is_new {
            tasks.spawn(Arc::clone(&self.delivery).serve(event.container.clone()));
        }
    }

    fn message(&self, event: &Event) -> Message {
        Message {
            id: event.id.clone(),
            action: event.action,
            body: body(&self.delivery.format, event).into_bytes(),
        }
    }

    /// Sends an event once, regardless of the chosen actions, and waits for the answer.
    ///
    /// # Errors
    /// The reason why it was not accepted.
    pub async fn test(&self, event: &Event) -> Result<(), String> {
        self.delivery.attempt(&self.message(event)).await.accepted()
    }

    /// The results of all events so far.
    pub fn counts(&self) -> WebhookCounts {
        let state = lock(&self.delivery.state);
        WebhookCounts {
            queued: u64::try_from(state.queue.len()).unwrap_or(u64::MAX),
            ..state.counts.clone()
        }
    }

    /// Waits at the end until there is nothing left to send, but no longer than this.
    pub async fn finish(&self, limit: Duration) {
        let mut tasks = mem::take(&mut *lock(&self.tasks));
        let sent = async { while tasks.join_next().await.is_some() {} };
        if timeout(limit, sent).await.is_err() {
            let events = self.counts().queued;
            warn!(events, "webhook: not all events were delivered before the end");
        }
    }
}
