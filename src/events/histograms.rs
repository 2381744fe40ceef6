//! How long the parts of replacements took, for the metrics.

use prometheus_client::metrics::histogram::Histogram;

use super::event::Seconds;

/// From a start on a fast host to a drain of hours, in seconds.
const BUCKETS: [f64; 10] = [
    1.0, 5.0, 15.0, 60.0, 180.0, 600.0, 1800.0, 3600.0, 7200.0, 14400.0,
];

/// A histogram for each part. Clones share what was counted.
#[derive(Clone, Debug)]
pub struct Durations {
    /// Pulls.
    pub pull: Histogram,
    /// Proofs.
    pub proof: Histogram,
    /// Drains.
    pub drain: Histogram,
    /// The time without a container that takes tasks.
    pub downtime: Histogram,
}

impl Default for Durations {
    fn default() -> Self {
        Self {
            pull: Histogram::new(BUCKETS),
            proof: Histogram::new(BUCKETS),
            drain: Histogram::new(BUCKETS),
            downtime: Histogram::new(BUCKETS),
        }
    }
}

impl Durations {
    /// Counts the parts of one outcome.
    pub(super) fn note(&self, seconds: &Seconds) {
        let parts = [
            (&self.pull, seconds.pull),
            (&self.proof, seconds.proof),
            (&self.drain, seconds.drain),
            (&self.downtime, seconds.downtime),
        ];
        for (histogram, seconds) in parts {
            if let Some(seconds) = seconds {
                histogram.observe(seconds);
            }
        }
    }
}
