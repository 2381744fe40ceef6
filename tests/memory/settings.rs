//! The settings of an upgrader, unless a test changes them.

use std::sync::Arc;
use std::time::Duration;

use delegate_upgrader::config::{HealthSettings, ProbeKind, Timing, UpdateOrder};
use delegate_upgrader::image::TargetSettings;
use delegate_upgrader::observe::Scope;
use delegate_upgrader::reconcile::Settings;
use delegate_upgrader::rollout::Policy;
use delegate_upgrader::schedule::zone::Zone;

/// The `DELEGATE_NAME` that upgraders manage.
pub const GROUP: &str = "docker-delegate";
pub const STOP_TIMEOUT: Duration = Duration::from_secs(3600);

pub fn settings() -> Settings {
    Settings {
        scope: Scope {
            workload_names: vec![GROUP.to_owned()],
            account: None,
            health: HealthSettings {
                interval: Duration::from_secs(60),
                probe: ProbeKind::Auto,
                port: 3460,
                path: "/api/health".to_owned(),
                command: Vec::new(),
            },
            known_images: Vec::new(),
            stop_timeout: STOP_TIMEOUT,
            max_stop_timeout: None,
            keep_images: 1,
            own_id: None,
            replaces_itself: None,
            free_memory: Arc::new(|| None),
            free_disk: Arc::new(|_, _| None),
            zone: Zone::utc(),
        },
        policy: Policy {
            health_only: false,
            update_order: UpdateOrder::Auto,
            healthy_time: Duration::from_secs(10),
            healthy_deadline: Duration::from_secs(120),
            idle_wait: Duration::ZERO,
            restarts_unhealthy: false,
            timing: Timing::default(),
        },
        swarm: true,
        target: TargetSettings::default(),
    }
}
