//! How long the parts of replacements took, for the metrics.

use prometheus_client::metrics::histogram::Histogram;

use super::event::Seconds;

/// In seconds: from a start on a fast host to a drain that takes hours.
const BUCKETS: [f64; 10] = [
    1.0, 5.0, 15.0, 60.0, 180.0, 600.0, 1800.0, 3600.0, 7200.0, 14400.0,
];

/// A histogram for each of [`Seconds::parts`], with its name. Clones share the counts.
pub type Durations = Vec<(&'static str, Histogram)>;

/// Histograms without observations.
pub(super) fn empty() -> Durations {
    let parts = Seconds::default().parts();
    parts.map(|(part, _)| (part, Histogram::new(BUCKETS))).into()
}

/// Adds the durations of one outcome to the histograms.
pub(super) fn note(durations: &[(&'static str, Histogram)], seconds: &Seconds) {
    for ((_, histogram), (_, seconds)) in durations.iter().zip(seconds.parts()) {
        if let Some(seconds) = seconds {
            histogram.observe(seconds);
        }
    }
}
