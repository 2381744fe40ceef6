//! The delegates that the tests without an engine look after.

use std::sync::Arc;
use std::time::Duration;

use delegate_upgrader::config::{HealthSettings, ProbeKind};
use delegate_upgrader::observe::Scope;
use delegate_upgrader::schedule::zone::Zone;

/// The delegates named `docker-delegate` of any account.
pub fn scope() -> Scope {
    Scope {
        workload_names: vec!["docker-delegate".to_owned()],
        account: None,
        health: HealthSettings {
            interval: Duration::from_secs(60),
            probe: ProbeKind::Auto,
            port: 3460,
            path: "/api/health",
            command: Vec::new(),
        },
        known_images: Vec::new(),
        stop_timeout: Duration::from_secs(3600),
        max_stop_timeout: None,
        keep_images: 1,
        own_id: None,
        replaces_itself: None,
        free_memory: Arc::new(|| None),
        free_disk: Arc::new(|_, _| None),
        zone: Zone::utc(),
    }
}
