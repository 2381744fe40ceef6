//! The Swarm services that are delegates: what a run would do to each, and the risks.

use tokio::time::timeout;
use tracing::debug;

use super::{Checks, PATIENCE};
use crate::app;
use crate::config::Settings;
use crate::engine::{DockerEngine, Engine as _};
use crate::managed::Object;
use crate::swarm::{self, Defaults};

/// The services that are delegates; `None` if the engine is not a manager, or a proxy refuses the call.
pub(super) async fn services(engine: &DockerEngine, settings: &Settings) -> Option<Vec<Object>> {
    let documents = engine.services().await.ok().flatten()?;
    Some(swarm::objects(documents, &[], &app::scope(settings)))
}

/// Checks each of these services.
pub(super) async fn check(services: &[Object], settings: &Settings, checks: &mut Checks) {
    if services.is_empty() {
        return;
    }
    let names: Vec<&str> = services
        .iter()
        .map(|service| service.managed.name.as_str())
        .collect();
    checks.ok("services", names.join(", "));
    let defaults = Defaults {
        monitor: settings.healthy_time,
        stop_grace_period: settings.stop_timeout,
    };
    let planned = async {
        let mut upgrader = app::looking(settings).await.ok()?;
        upgrader.plan(|reason| debug!("{reason}")).await.ok()
    };
    // Without an answer from the Manager there is no plan. The line about the Manager gives the reason.
    let planned = timeout(PATIENCE, planned)
        .await
        .ok()
        .flatten()
        .unwrap_or_default();
    for Object { managed, document } in services {
        if let Some(row) = planned.iter().find(|row| row.container == managed.name) {
            checks.planned(row);
            continue;
        }
        for warning in swarm::warnings(&document["Spec"], defaults) {
            checks.warn(&managed.name, warning);
        }
    }
}
