//! How the delegates of an engine in memory answer for their health.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delegate_upgrader::health::{HealthEndpoint, HttpOutcome, Work};
use kit::twin::Twin;

/// The delay and the answer of the endpoint at an address; `None` for its own answer at once.
pub type SlowProbe = fn(SocketAddr) -> Option<(Duration, HttpOutcome)>;

/// The number of tasks that the delegate at an address reports; `None` if it reports none.
pub type Tasks = fn(&Twin, SocketAddr) -> Option<u64>;

/// The health endpoints at the twin's addresses.
#[derive(Clone)]
pub struct Endpoint {
    twin: Twin,
    pub slow: Arc<Mutex<SlowProbe>>,
    pub tasks: Tasks,
}

impl Endpoint {
    /// Endpoints that answer at once, and report no tasks.
    pub fn new(twin: &Twin) -> Self {
        Self {
            twin: twin.clone(),
            slow: Arc::new(Mutex::new(|_| None)),
            tasks: |_, _| None,
        }
    }
}

impl HealthEndpoint for Endpoint {
    async fn get(&self, address: SocketAddr, _path: &str) -> HttpOutcome {
        let slow = *self.slow.lock().unwrap();
        if let Some((after, outcome)) = slow(address) {
            tokio::time::sleep(after).await;
            return outcome;
        }
        match self.twin.probe(address.ip(), address.port()) {
            Some(true) => HttpOutcome::Answered(200),
            Some(false) => HttpOutcome::Answered(503),
            None => HttpOutcome::Refused,
        }
    }

    async fn work(&self, address: SocketAddr) -> Option<Work> {
        self.twin.probe(address.ip(), address.port())?;
        let tasks = (self.tasks)(&self.twin, address)?;
        let is_connected = Some(self.twin.manager_reachable());
        Some(Work { tasks, is_connected })
    }

    fn host_address(&self) -> Option<IpAddr> {
        Some(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }
}
