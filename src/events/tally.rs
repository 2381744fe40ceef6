//! Counts since the start, and the last events, for the status and the metrics.

use std::collections::BTreeMap;

use prometheus_client::metrics::histogram::Histogram;
use serde::Serialize;

use super::audit::remember;
use super::event::{Event, Seconds};

/// In seconds: from a start on a fast host to a drain that takes hours.
const BUCKETS: [f64; 10] = [
    1.0, 5.0, 15.0, 60.0, 180.0, 600.0, 1800.0, 3600.0, 7200.0, 14400.0,
];

/// Counts since the start, and the last events.
#[derive(Clone, Debug, Serialize)]
pub struct Tally {
    /// How often each kind of step was attempted.
    pub steps: BTreeMap<&'static str, u64>,
    /// How many events of each kind there were.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// The last events, at most 20, the earliest first, as far as the audit log and this process know them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// How long the parts of replacements took: a histogram for each of [`Seconds::parts`]. Clones share the counts.
    #[serde(skip)]
    pub durations: Vec<(&'static str, Histogram)>,
}

impl Default for Tally {
    fn default() -> Self {
        let parts = Seconds::default().parts();
        Self {
            steps: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            events: Vec::new(),
            durations: parts.map(|(part, _)| (part, Histogram::new(BUCKETS))).into(),
        }
    }
}

impl Tally {
    /// Counts an event, and remembers it as the last one.
    pub(super) fn note(&mut self, event: Event) {
        *self.outcomes.entry(event.action.as_str()).or_default() += 1;
        for ((_, histogram), (_, seconds)) in self.durations.iter().zip(event.seconds.parts()) {
            if let Some(seconds) = seconds {
                histogram.observe(seconds);
            }
        }
        remember(&mut self.events, event);
    }
}
