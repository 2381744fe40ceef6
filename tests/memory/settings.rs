//! The settings of an upgrader, unless a test changes them.

use std::time::Duration;

use delegate_upgrader::config::{Timing, UpdateOrder};
use delegate_upgrader::image::TargetSettings;
use delegate_upgrader::reconcile::Settings;
use delegate_upgrader::rollout::Policy;

/// The `DELEGATE_NAME` that upgraders manage.
pub const GROUP: &str = "docker-delegate";
pub const STOP_TIMEOUT: Duration = Duration::from_secs(3600);

pub fn settings() -> Settings {
    Settings {
        scope: kit::scope::scope(),
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
