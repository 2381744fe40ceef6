//! Counts the requests to a Manager by their outcome, for metrics.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::error::ManagerError;

/// The counters of the requests made so far. Each attempt counts. Clones share the same counters.
#[derive(Clone, Debug, Default)]
pub struct ManagerRequests(Family<Vec<(&'static str, String)>, Counter>);

impl ManagerRequests {
    /// Counts a request under its outcome.
    pub fn note(&self, error: Option<&ManagerError>) {
        let result = error.map_or("ok", ManagerError::kind);
        self.0.get_or_create(&vec![("result", result.to_owned())]).inc();
    }

    /// Registers the counters with a registry of metrics.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "manager_requests",
            "Requests to the Manager since the start",
            self.0.clone(),
        );
    }
}
