//! Counts, times and logs the calls to an engine. There is one series for each kind of call and outcome.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;
use tracing::debug;

use super::EngineError;
use super::permissions::operation;

type Labels = Vec<(&'static str, String)>;

/// The upper bounds of the buckets, in seconds: answers from memory, work of the engine, answers of a registry, most pulls.
const BUCKETS: [f64; 4] = [0.1, 1.0, 10.0, 60.0];

/// The counters of the calls made so far. Clones share the same counters.
#[derive(Clone, Debug)]
pub struct EngineCalls {
    requests: Family<Labels, Counter>,
    durations: Family<Labels, Histogram, fn() -> Histogram>,
}

impl Default for EngineCalls {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
        }
    }
}

impl EngineCalls {
    /// Counts a call under its outcome. The call is given as its method and path.
    pub fn note(&self, call: &str, error: Option<&EngineError>, took: Duration) {
        let labels = vec![("operation", operation(call).to_owned())];
        self.durations.get_or_create(&labels).observe(took.as_secs_f64());
        let result = error.map_or("ok", EngineError::kind);
        let labels = [labels, vec![("result", result.to_owned())]].concat();
        self.requests.get_or_create(&labels).inc();
    }

    /// Awaits the outcome of a call, then counts it. At `LOG_LEVEL=debug`, also logs its method, path, duration and any
    /// error, but neither body nor headers, since they contain environments and credentials.
    pub(super) async fn follow<T>(
        &self,
        call: String,
        outcome: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<T, EngineError> {
        let started = Instant::now();
        let outcome = outcome.await;
        let took = started.elapsed();
        let ms = took.as_millis();
        match &outcome {
            Ok(_) => debug!(call, ms, "engine"),
            Err(error) => debug!(call, ms, %error, "engine"),
        }
        self.note(&call, outcome.as_ref().err(), took);
        outcome
    }

    /// Registers the counters with a registry of metrics.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "engine_requests",
            "Calls to the engine since the start",
            self.requests.clone(),
        );
        registry.register_with_unit(
            "engine_request_duration",
            "How long the engine took for a call",
            Unit::Seconds,
            self.durations.clone(),
        );
    }
}
