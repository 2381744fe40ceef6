//! The engine: whether it can be reached, the calls that it permits, its delegates, and its free space for images.

use std::sync::Arc;

use chrono::Utc;
use tokio::time::timeout;

use super::{Checks, PATIENCE, Severity, alerts, containers, oldest};
use crate::app::{self, ConfiguredSource, Upgrader};
use crate::config::{ProbeKind, Settings, Source};
use crate::engine::{
    API_CALLS, ApiCall, DockerEngine, Engine as _, EngineError, HEALTH_ACTION_RESTART, HEALTH_PROBE_EXEC,
    MUTABLE_TAGS, Purpose, SWARM,
};
use crate::health::HealthStatus;
use crate::host;
use crate::host::capacity::{Disk, Room};
use crate::host::hold::{Paused, read_records};
use crate::host::place;
use crate::image::is_mutable_tag;
use crate::observe::WAY_OUT;
use crate::reconcile::Observed;
use crate::rollout::Rollout;
use crate::status::report::none_found;
use crate::text::duration::span;
use crate::text::size;

/// The findings about an engine that answers.
pub(super) struct Host {
    pub(super) engine: DockerEngine,
    /// The delegates as a scheduled run sees them, if they could be observed.
    pub(super) upgrader: Option<(Upgrader, Observed)>,
    /// The calls that are refused, usually by a socket proxy.
    refused: Vec<&'static ApiCall>,
}

impl Host {
    /// Whether the engine permits calls of this API path.
    pub(super) fn permits(&self, path: &str) -> bool {
        !self.refused.iter().any(|call| call.path == path)
    }
}

/// Checks the engine; `None` if it does not answer.
pub(super) async fn check(
    source: Option<ConfiguredSource>,
    settings: &Settings,
    checks: &mut Checks,
) -> Option<Host> {
    let engine = match app::engine(settings) {
        Ok(engine) => engine,
        Err(error) => {
            checks.fail("engine", error);
            return None;
        }
    };
    let host = &settings.engine;
    let info = timeout(PATIENCE, engine.info());
    let info = match info.await.unwrap_or(Err(EngineError::TimedOut(PATIENCE))) {
        Ok(info) => info,
        Err(error) => {
            checks.fail("engine", host::engine_problem(&error));
            return None;
        }
    };
    app::learn_place(settings).await;
    if let Some(warning) = place::open_page(settings.listen) {
        checks.warn("configuration", warning);
    }
    let text = format!(
        "{}, API {}, {}/{}, at {host}",
        info.version, info.api, info.os, info.architecture
    );
    let warning = if info.is_podman {
        oldest::PODMAN.warning(&info.version)
    } else {
        oldest::DOCKER.warning(&info.api.to_string())
    };
    checks.judged("engine", text, warning);
    let scope = app::scope(settings);
    let mut observed = delegates(source, settings).await;
    let services = match &mut observed {
        Ok((upgrader, survey)) => upgrader.plan_services(survey.now).await,
        Err(_) => Some(Vec::new()),
    };
    let needs = Needs {
        swarm: settings.swarm && services.is_some(),
        upgrades: !settings.policy.health_only,
        compares_tags: !matches!(settings.source, Source::None)
            && observed
                .as_ref()
                .is_ok_and(|(_, survey)| has_mutable_tag(&survey.rollouts)),
        settings: [
            settings
                .policy
                .restarts_unhealthy
                .then_some(HEALTH_ACTION_RESTART),
            (settings.health.probe == ProbeKind::Exec).then_some(HEALTH_PROBE_EXEC),
        ],
    };
    let refused = permissions(&engine, needs, checks).await;
    let (upgrader, survey) = match observed {
        Ok(observed) => observed,
        Err(error) => {
            let advice = "check that a socket proxy permits the calls above";
            checks.fail(
                "delegates",
                format!("cannot list the containers: {error}; {advice}"),
            );
            return Some(Host {
                engine,
                upgrader: None,
                refused,
            });
        }
    };
    let services = services.unwrap_or_default();
    if !services.is_empty() {
        let names: Vec<&str> = services.iter().map(|row| row.container.as_str()).collect();
        checks.ok("services", names.join(", "));
    }
    for row in &services {
        checks.planned(row);
    }
    let rollouts = survey.rollouts.as_slice();
    if rollouts.is_empty() && services.is_empty() {
        checks.fail(
            "delegates",
            none_found(&settings.workload_names, &upgrader.observer.other_workloads()),
        );
    } else if !rollouts.is_empty() {
        let names: Vec<&str> = rollouts.iter().map(|rollout| rollout.name.as_str()).collect();
        checks.ok("delegates", names.join(", "));
    }
    for (rollout, reason) in upgrader.observer.not_delegates() {
        checks.warn("delegates", format!("{}: {reason}", rollout.name));
    }
    health(rollouts, settings, checks);
    left_over(rollouts, checks);
    if needs.upgrades && !rollouts.is_empty() {
        disk(&engine, &scope.disk(), rollouts, checks).await;
        containers::check(&engine, &scope, &settings.source, rollouts, checks).await;
    }
    if needs.upgrades {
        pauses(&engine, checks).await;
    }
    alerts::check(upgrader.core.alerts.last(), checks);
    Some(Host {
        engine,
        upgrader: Some((upgrader, survey)),
        refused,
    })
}

/// Warns about leftover containers: upgrades do not wait for them, and if they stay, someone must remove them.
fn left_over(rollouts: &[Rollout], checks: &mut Checks) {
    for rollout in rollouts {
        for problem in &rollout.unread {
            let text = format!(
                "cannot inspect {problem}; it is left over, so nothing waits for it; remove it, or restart Docker"
            );
            checks.warn(&rollout.name, text);
        }
        let ended = rollout.old.iter().chain(&rollout.withdrawn);
        let ended = ended.filter(|member| rollout.is_left_over(&member.id) && member.is_removable());
        let failed = rollout.failed.iter();
        let superseded = failed.filter(|rejected| rollout.is_superseded(rejected));
        for member in ended.chain(superseded) {
            let name = &member.name;
            let text = format!("{name} is left over; if it stays, `docker rm {name}` says why");
            checks.warn(&rollout.name, text);
        }
    }
}

/// Reports delegates that fail their health check, whose health endpoint cannot be reached from here, or whose version
/// is out of support or soon will be.
fn health(rollouts: &[Rollout], settings: &Settings, checks: &mut Checks) {
    for rollout in rollouts {
        let Some(serving) = &rollout.serving else { continue };
        let (name, detail) = (&serving.name, &serving.health.detail);
        if let Some(notice) = serving.image.support_notice(Utc::now()) {
            let rule = settings.source.rule_of_support();
            let rule = rule.map(|rule| format!("; {rule}")).unwrap_or_default();
            checks.warn(
                "support",
                format!("{name} runs {}: {notice}{rule}", serving.image),
            );
        }
        if serving.health.status == HealthStatus::Unhealthy {
            let text = format!("{name} is unhealthy: {detail}; {}", serving.next_step());
            // A new delegate may still be starting, and a stopped or opted-out one is up to its owner.
            let is_new = serving
                .life
                .started_at
                .is_some_and(|at| Utc::now() - at <= span(settings.policy.healthy_deadline));
            let is_ours = serving.is_in_use() && rollout.owner.left_alone().is_none();
            let severity = if is_ours && !is_new {
                Severity::Fail
            } else {
                Severity::Warn
            };
            checks.add(severity, "health", text);
        } else if !settings.policy.health_only && serving.health.is_weak() {
            let text = format!(
                "{name} can only be seen to run ({detail}); a new image is tried with HEALTH_COMMAND in the container, and \
                 if that is not possible, proven by running alone: {WAY_OUT}"
            );
            checks.warn("health", text);
        }
    }
}

/// Warns about pauses. If they cannot be read, the check of permissions reports that.
async fn pauses(engine: &DockerEngine, checks: &mut Checks) {
    let Ok(records) = read_records(engine).await else {
        return;
    };
    for pause in Paused::lasting(&records.pauses, Utc::now()) {
        checks.warn("pause", pause.to_string());
    }
}

/// The delegates as a scheduled run sees them, with all that it would know about them.
async fn delegates(
    source: Option<ConfiguredSource>,
    settings: &Settings,
) -> Result<(Upgrader, Observed), EngineError> {
    let mut upgrader = app::upgrader_with(settings, source, Arc::new(Utc::now))
        .await
        .map_err(EngineError::Unreachable)?;
    let survey = upgrader.survey(|_| ()).await?;
    Ok((upgrader, survey))
}

/// The needs of this host, which determine the engine calls to probe.
#[derive(Clone, Copy)]
struct Needs {
    /// Whether the engine is a manager of a Swarm whose services may be changed.
    swarm: bool,
    upgrades: bool,
    compares_tags: bool,
    /// The settings that need additional calls.
    settings: [Option<&'static str>; 2],
}

fn has_mutable_tag(rollouts: &[Rollout]) -> bool {
    let mut images = rollouts
        .iter()
        .filter(|rollout| rollout.owner.left_alone().is_none())
        .filter_map(|rollout| rollout.replaceable()?.image.reference().ok());
    images.any(is_mutable_tag)
}

/// Probes each call that is needed, and returns the refused ones.
async fn permissions(engine: &DockerEngine, needs: Needs, checks: &mut Checks) -> Vec<&'static ApiCall> {
    let subject = "permissions";
    let (mut permitted, mut refused) = (0, Vec::new());
    for call in API_CALLS.iter().filter(|call| is_needed(call, needs)) {
        match engine.probe(call).await {
            Ok(None) => permitted += 1,
            Ok(Some(why)) => {
                refused.push(call);
                let text = format!("{} {} is refused ({why})", call.method, call.path);
                match optional_for(call, needs) {
                    None => checks.fail(subject, format!("{text}: permit it in the socket proxy")),
                    Some(what) => checks.warn(subject, format!("{text}; it is for {what}")),
                }
            }
            Err(error) => {
                checks.fail(subject, format!("{} {}: {error}", call.method, call.path));
                return refused;
            }
        }
    }
    if refused.is_empty() {
        checks.ok(subject, format!("all {permitted} API calls are permitted"));
    }
    refused
}

fn is_needed(call: &ApiCall, needs: Needs) -> bool {
    let compares_tags = call.compares_tags && needs.compares_tags;
    match call.purpose {
        Purpose::HealthChecks => true,
        Purpose::Setting(setting) => needs.settings.contains(&Some(setting)),
        Purpose::Optional(SWARM) => needs.swarm && (needs.upgrades || call.method == "GET"),
        Purpose::Upgrades | Purpose::Optional(_) => needs.upgrades || compares_tags,
    }
}

/// The feature for which this call is needed, if upgrades (or health checks) work without it; otherwise `None`.
fn optional_for(call: &ApiCall, needs: Needs) -> Option<&'static str> {
    match call.purpose {
        // Without these calls, a delegate on a mutable tag is never upgraded.
        Purpose::Optional(_) if call.compares_tags && needs.compares_tags && needs.upgrades => None,
        Purpose::Optional(what) => Some(what),
        Purpose::Upgrades if !needs.upgrades => Some(MUTABLE_TAGS),
        Purpose::HealthChecks | Purpose::Upgrades | Purpose::Setting(_) => None,
    }
}

/// Checks that the largest image fits into the free space, as is done before a pull.
async fn disk(engine: &DockerEngine, disk: &Disk, rollouts: &[Rollout], checks: &mut Checks) {
    let mut least: Option<Room> = None;
    for delegate in rollouts.iter().filter_map(Rollout::replaceable) {
        if let Ok(image) = engine.inspect_image(delegate.image_id.as_str()).await
            && let Some(room) = disk.room(engine, &delegate.id, &image).await
            && least.is_none_or(|least| room.needed > least.needed)
        {
            least = Some(room);
        }
    }
    match least {
        None => checks.ok("disk", "free disk space is unknown (it cannot be seen from here)"),
        Some(Room { needed, available }) if available < needed => checks.fail(
            "disk",
            format!(
                "{} free for images, and the next one may need {}: make room (`docker system df`)",
                size::text(available),
                size::needed(needed)
            ),
        ),
        Some(room) => checks.ok("disk", format!("{} free for images", size::text(room.available))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEALTH_CHECKS: [(&str, Option<&str>); 3] = [
        ("/version", None),
        ("/containers/json", None),
        ("/containers/{id}/json", None),
    ];

    fn calls(upgrades: bool, compares_tags: bool) -> Vec<(&'static str, Option<&'static str>)> {
        let needs = Needs {
            swarm: false,
            upgrades,
            compares_tags,
            settings: [None; 2],
        };
        API_CALLS
            .iter()
            .filter(|call| is_needed(call, needs))
            .map(|call| (call.path, optional_for(call, needs)))
            .collect()
    }

    #[test]
    fn health_checks_of_mutable_tags_do_without_the_comparison_calls() {
        assert_eq!(calls(false, false), HEALTH_CHECKS);
        let further = [
            ("/images/{name}/json", Some(MUTABLE_TAGS)),
            ("/distribution/{name}/json", Some(MUTABLE_TAGS)),
        ];
        assert_eq!(calls(false, true), [HEALTH_CHECKS.as_slice(), &further].concat());
    }

    #[test]
    fn only_upgrades_of_mutable_tags_need_the_registry() {
        for (compares_tags, optional_for) in [(false, Some(MUTABLE_TAGS)), (true, None)] {
            let registry = ("/distribution/{name}/json", optional_for);
            assert!(calls(true, compares_tags).contains(&registry), "{compares_tags}");
        }
    }
}
