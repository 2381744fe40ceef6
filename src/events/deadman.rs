//! A dead man's switch: a URL requested after each good scheduled run. Its service raises an alarm if the requests stop.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::Client;
use serde::Serialize;
use tokio::task::JoinSet;
use tracing::{info, warn};

use crate::net::receiver::Receiver;
use crate::sync::lock;
use crate::text::secret::Secret;
use crate::text::time;

/// How long a request may take, including its answer.
const LIMIT: Duration = Duration::from_secs(10);

/// The results of all requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeadManCounts {
    /// Requests answered with a status of 2xx.
    pub succeeded: u64,
    /// Requests without an answer, or with another status.
    pub failed: u64,
    /// Why the last request failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Since when each request has failed, if the last one did.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "time::optional")]
    pub failing_since: Option<DateTime<Utc>>,
}

/// Requests the URL in the background.
#[derive(Debug)]
pub struct DeadMan {
    receiver: Arc<Receiver>,
    counts: Arc<Mutex<DeadManCounts>>,
    /// The request that is in flight, if any. It is dropped with this struct.
    request: Mutex<JoinSet<()>>,
}

impl DeadMan {
    /// Makes a switch that requests this URL, `DEADMAN_URL`, with this client.
    pub fn new(url: Secret, client: Client) -> Self {
        Self {
            receiver: Arc::new(Receiver::new(client, url, None)),
            counts: Arc::default(),
            request: Mutex::default(),
        }
    }

    /// Sends a request unless one is in flight. Never waits and never fails.
    pub fn ask(&self) {
        let mut request = lock(&self.request);
        while request.try_join_next().is_some() {}
        if request.is_empty() {
            request.spawn(ask(Arc::clone(&self.receiver), Arc::clone(&self.counts)));
        }
    }

    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    /// The reason why it was not accepted.
    pub async fn test(&self) -> Result<(), String> {
        get(&self.receiver).await
    }

    /// The results of all requests since the start.
    pub fn counts(&self) -> DeadManCounts {
        lock(&self.counts).clone()
    }
}

async fn get(receiver: &Receiver) -> Result<(), String> {
    receiver
        .send(LIMIT, |client, url| client.get(url))
        .await
        .accepted()
}

/// Sends a request, counts its result, and logs the first failure and the first success after it.
async fn ask(receiver: Arc<Receiver>, counts: Arc<Mutex<DeadManCounts>>) {
    let answer = get(&receiver).await;
    let mut counts = lock(&counts);
    match answer {
        Ok(()) => {
            counts.succeeded += 1;
            counts.failing_since = None;
            if counts.last_error.take().is_some() {
                info!("DEADMAN_URL answers again");
            }
        }
        Err(problem) => {
            counts.failed += 1;
            if counts.last_error.is_none() {
                warn!(
                    problem,
                    "the request to DEADMAN_URL failed; the next good run sends another one"
                );
            }
            counts.last_error = Some(problem);
            counts.failing_since.get_or_insert_with(Utc::now);
        }
    }
}
