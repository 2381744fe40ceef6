//! Delivers queued events, one at a time per delegate, and retries each for an hour.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::Client;
use reqwest::header::CONTENT_TYPE;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{error, info, warn};

use super::format;
use super::queue::{Message, Queue};
use super::signature::signature;
use crate::config::{SigningKey, WebhookFormat, WebhookSettings};
use crate::net::jittered;
use crate::net::receiver::{Answer, Receiver};
use crate::sync::lock;
use crate::text::{duration, time};

/// How many requests may be in flight at once.
const MAX_REQUESTS: usize = 4;

/// The limits on waiting for the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long one attempt may take, including its answer.
    pub attempt: Duration,
    /// The pause after the first attempt. It doubles with each further attempt.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
    /// The longest `Retry-After` that is respected, so that a mistake in it does not stop delivery.
    pub longest_retry_after: Duration,
    /// How long after its first attempt an event is given up.
    pub give_up_after: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            attempt: Duration::from_secs(10),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(300),
            longest_retry_after: Duration::from_secs(900),
            give_up_after: Duration::from_secs(3600),
        }
    }
}

/// The results of all events since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WebhookCounts {
    /// Events that the receiver has accepted.
    pub delivered: u64,
    /// Attempts that failed.
    pub failed_attempts: u64,
    /// Events that the receiver rejected or did not accept in time.
    pub given_up: u64,
    /// Events dropped because there was no room, or because the receiver no longer wants any.
    pub dropped: u64,
    /// Events that are waiting or being sent.
    pub queued: u64,
    /// Why the last attempt failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Since when each attempt has failed, if the last one did.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "time::optional")]
    pub failing_since: Option<DateTime<Utc>>,
}

/// State that the tasks of all delegates share.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) receiver: Receiver,
    pub(super) format: WebhookFormat,
    pub(super) key: Option<SigningKey>,
    pub(super) timing: Timing,
    pub(super) permits: Semaphore,
    pub(super) state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) queue: Queue,
    pub(super) counts: WebhookCounts,
    /// Whether the log already says that events are dropped.
    pub(super) is_full: bool,
    /// Whether the receiver answered 410 Gone.
    pub(super) is_gone: bool,
    /// The end of the pause for which the receiver asked.
    not_before: Option<Instant>,
}

impl Delivery {
    pub(super) fn new(settings: WebhookSettings, client: Client, timing: Timing) -> Self {
        Self {
            receiver: Receiver::new(client, settings.url, None),
            format: settings.format,
            key: settings.key,
            timing,
            permits: Semaphore::new(MAX_REQUESTS),
            state: Mutex::default(),
        }
    }

    /// Delivers the events of a delegate until none is left.
    pub(super) async fn serve(self: Arc<Self>, container: String) {
        loop {
            let Some(message) = lock(&self.state).queue.next(&container) else {
                return;
            };
            let is_delivered = self.deliver(&container, &message).await;
            let mut state = lock(&self.state);
            state.queue.sent(&message);
            if is_delivered {
                state.counts.delivered += 1;
            } else {
                state.counts.given_up += 1;
            }
            if state.queue.len() == 0 {
                state.is_full = false;
            }
        }
    }

    /// Sends an event until it is accepted or given up. Returns whether it was accepted.
    async fn deliver(&self, container: &str, message: &Message) -> bool {
        let give_up_at = Instant::now() + self.timing.give_up_after;
        let mut pause = self.timing.first_pause;
        loop {
            let answer = {
                // The semaphore is never closed. A delivery that waits for the receiver also holds up the others.
                let _permit = self.permits.acquire().await;
                let not_before = lock(&self.state).not_before;
                if let Some(not_before) = not_before {
                    sleep_until(not_before).await;
                }
                if lock(&self.state).is_gone {
                    return false;
                }
                self.attempt(message).await
            };
            let wait = match self.note(container, message, answer) {
                ControlFlow::Break(delivered) => return delivered,
                ControlFlow::Continue(after) => jittered(pause).max(after),
            };
            if Instant::now() + wait > give_up_at {
                warn!(
                    container,
                    event = message.id.as_str(),
                    action = message.action.as_str(),
                    "webhook: gave up an event that the receiver did not accept within {}",
                    duration::text(self.timing.give_up_after)
                );
                return false;
            }
            sleep(wait).await;
            pause = pause.saturating_mul(2).min(self.timing.longest_pause);
        }
    }

    /// Counts an answer, and logs it if it is news. Returns whether the event was delivered, or how long to wait at least before
    /// the next attempt.
    fn note(&self, container: &str, message: &Message, answer: Answer) -> ControlFlow<bool, Duration> {
        let mut state = lock(&self.state);
        let (problem, next) = match answer {
            Answer::Accepted => {
                state.counts.failing_since = None;
                if state.counts.last_error.take().is_some() {
                    info!("webhook: the receiver accepts events again");
                }
                return ControlFlow::Break(true);
            }
            Answer::Failed { why, retry_after } => {
                let after = retry_after
                    .unwrap_or_default()
                    .min(self.timing.longest_retry_after);
                if !after.is_zero() {
                    state.not_before = Some(Instant::now() + after);
                }
                if state.counts.last_error.is_none() {
                    let patience = duration::text(self.timing.give_up_after);
                    warn!(
                        container,
                        problem = why,
                        "webhook: delivery failed; retrying for up to {patience}"
                    );
                }
                (why, ControlFlow::Continue(after))
            }
            Answer::Rejected(why) => {
                if state.counts.last_error.as_ref() != Some(&why) {
                    warn!(
                        container,
                        event = message.id.as_str(),
                        action = message.action.as_str(),
                        problem = why,
                        "webhook: the receiver rejected an event, which is not sent again; check WEBHOOK_URL and WEBHOOK_FORMAT"
                    );
                }
                (why, ControlFlow::Break(false))
            }
            Answer::Gone(why) => {
                if !state.is_gone {
                    error!(
                        problem = why,
                        "webhook: the receiver answered 410 Gone; sending stops until the next start; change or \
                         unset WEBHOOK_URL"
                    );
                }
                state.is_gone = true;
                state.counts.given_up += state.queue.clear();
                (why, ControlFlow::Break(false))
            }
        };
        state.counts.failed_attempts += 1;
        state.counts.last_error = Some(problem);
        state.counts.failing_since.get_or_insert_with(Utc::now);
        next
    }

    pub(super) async fn attempt(&self, message: &Message) -> Answer {
        let id = message.id.as_str();
        let timestamp = Utc::now().timestamp();
        let signature = self
            .key
            .as_ref()
            .map(|key| signature(key, id, timestamp, &message.body));
        let make = |client: &Client, url: &str| {
            let mut request = client
                .post(url)
                .header(CONTENT_TYPE, format::content_type(&self.format))
                .header("webhook-id", id)
                .header("webhook-timestamp", timestamp);
            if let Some(signature) = signature {
                request = request.header("webhook-signature", signature);
            }
            request.body(message.body.clone())
        };
        self.receiver.send(self.timing.attempt, make).await
    }
}
