//! The Swarm services that are delegates: what a run would do to each, and the risks.

use super::Checks;
use crate::app;
use crate::config::Settings;
use crate::engine::{DockerEngine, Engine as _};
use crate::managed::Object;
use crate::status::planned::Planned;
use crate::swarm;

/// The services that are delegates; `None` if the engine is not a manager, or a proxy refuses the call.
pub(super) async fn services(engine: &DockerEngine, settings: &Settings) -> Option<Vec<Object>> {
    let documents = engine.services().await.ok().flatten()?;
    Some(swarm::objects(documents, &[], &app::scope(settings)))
}

/// Checks each of these services, which have these rows in a plan.
pub(super) fn check(services: &[Object], planned: &[Planned], checks: &mut Checks) {
    if services.is_empty() {
        return;
    }
    let names: Vec<&str> = services
        .iter()
        .map(|service| service.managed.name.as_str())
        .collect();
    checks.ok("services", names.join(", "));
    for row in planned {
        checks.planned(row);
    }
}
