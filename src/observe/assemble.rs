//! Assembles the containers of one delegate into a [`Rollout`].

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::Instant;
use tracing::{info, warn};

use super::probes::Probes;
use super::read::Part;
use super::stop_timeout::stop_timeout;
use super::{Scope, kept_images, labels};
use crate::container::{
    ACCOUNT_ID_VARIABLE, ContainerId, ContainerSummary, Inspected, OWN_WORKLOAD, Role, RunState, compose,
    label,
};
use crate::document::{self, Obstacle, SingleInstance};
use crate::engine::Engine;
use crate::health::{self, Health, HealthEndpoint, HealthStatus, Probe, Question};
use crate::rollout::{Check, History, Member, Memory, OwnerSettings, Rollout, Seen};
use crate::text::duration::span;

/// Advice for an operator if the only visible health of a container is that it runs.
pub(crate) const WAY_OUT: &str =
    "connect the upgrader to its network, or give its image a HEALTHCHECK or the program of HEALTH_COMMAND";

/// A moment on both clocks.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub(super) time: DateTime<Utc>,
    pub(super) instant: Instant,
}

impl Moment {
    /// The wall-clock time of another instant, before or after.
    pub(super) fn time_at(self, instant: Instant) -> DateTime<Utc> {
        let between = |later: Instant, earlier| span(later.saturating_duration_since(earlier));
        self.time + between(instant, self.instant) - between(self.instant, instant)
    }
}

#[derive(Clone, Copy)]
pub(super) struct ReadAt {
    /// The observation's time.
    pub(super) begun: Moment,
    /// The time of the last reading.
    pub(super) seen: Seen,
    /// A moment since which the engine is known not to have restarted.
    pub(super) unbroken_since: Option<DateTime<Utc>>,
}

/// Notes each container's health in `memory`, and reads the input of the decision. Nothing is logged about containers that may
/// not be a delegate's.
pub(super) fn assemble<H: HealthEndpoint>(
    probes: &mut Probes<H>,
    scope: &Scope,
    memory: &mut Memory,
    read_at: ReadAt,
    name: String,
    parts: &[Part],
    is_delegate: bool,
) -> Rollout {
    let mut rollout = Rollout {
        name,
        workload: parts
            .first()
            .map(|part| part.workload.clone())
            .unwrap_or_default(),
        ..Rollout::default()
    };
    let is_quiet = is_quiet(parts);
    for part in parts {
        let history = memory.history(&part.container.id());
        if let Some((work, _)) = probes.work.take(&part.container) {
            history.note_work(read_at.begun.time, work);
        }
        let checked = check(probes, scope, history, read_at, part, is_quiet);
        let mut member = member(scope, memory, part, checked, is_delegate);
        member.note_stop(&part.container, read_at.unbroken_since);
        match part.role {
            Role::Serving => rollout.serving = Some(member),
            Role::Candidate | Role::Next => {
                // There may be an older candidate: a leftover that could not be read before.
                let is_older = |other: &Member| other.created_at > member.created_at;
                let earlier = if rollout.candidate.as_ref().is_some_and(is_older) {
                    Some(member)
                } else {
                    rollout.candidate.replace(member)
                };
                rollout.withdrawn.extend(earlier.map(|candidate| {
                    let since = candidate.created_at.timestamp();
                    let role = Role::Withdrawn { since };
                    Member { role, ..candidate }
                }));
            }
            Role::Retired | Role::Draining { .. } => rollout.old.push(member),
            Role::Failed { .. } => rollout.failed.push(member),
            Role::Former => rollout.former.push(member),
            Role::Withdrawn { .. } | Role::Trial { .. } => rollout.withdrawn.push(member),
            Role::Helper { .. } => rollout.helper = Some(member),
        }
    }
    // The container that was never asked to stop comes last.
    let is_retired = |member: &Member| member.role == Role::Retired;
    rollout
        .old
        .sort_by_key(|member| (is_retired(member), member.role, member.created_at));
    rollout
        .withdrawn
        .sort_by_key(|member| (member.role, member.created_at));
    rollout
        .failed
        .sort_by_key(|member| (member.created_at, member.role));
    // The delegate itself takes precedence over containers made from it.
    if let Some(part) = parts.iter().min_by_key(|part| (part.is_outline, part.role)) {
        let is_old = |it: &&Part| {
            it.role.is_old() && part.container.label(label::REPLACES) == Some(it.container.id().as_str())
        };
        read_configuration(&mut rollout, &part.container, scope);
        // An opt-out of its successor, as by a label of the new image, must not end the replacement in its middle.
        if let Some(old) = parts.iter().find(is_old) {
            let (old, new) = (owner(&old.container, scope), &mut rollout.owner);
            (new.opted_out, new.other_account, new.task_of) = (old.opted_out, old.other_account, old.task_of);
        }
    }
    rollout
}

fn member(
    scope: &Scope,
    memory: &mut Memory,
    part: &Part,
    (health, check, seen): (Health, Check, Seen),
    is_delegate: bool,
) -> Member {
    let Part { role, container, .. } = part;
    let history = memory.history(&container.id());
    let before = history.last_health.as_ref().map(|health| health.status);
    let probe = container
        .last_probe_end()
        .filter(|_| health.probe == Probe::Engine);
    let check = match probe {
        Some(ended) if check == Check::Done && !history.checks.note_probe(ended) => Check::Repeated,
        _ => check,
    };
    history.record(seen, &health, check);
    let is_first = role.is_candidate() && before != Some(HealthStatus::Healthy);
    if is_first && health.is_weak() && part.workload != OWN_WORKLOAD {
        let (name, detail) = (container.name(), health.detail.as_str());
        warn!(
            container = name,
            detail, "the new container can only be seen to run; {WAY_OUT}"
        );
    }
    if matches!(role, Role::Serving) && check != Check::Awaited && is_delegate {
        log_health_change(part, before, &health);
    }
    if let Some(is_well) = history.checks.take_outcome() {
        let (container, container_id, detail) = (container.name(), container.id(), &health.detail);
        if is_well {
            info!(container, %container_id, detail, "healthy again after its restart");
        } else {
            warn!(container, %container_id, detail, "still unhealthy after its restart");
        }
    }
    let stop_timeout = stop_timeout(container, scope, part.workload == OWN_WORKLOAD);
    let mut member = Member::read(container, *role, health, stop_timeout, history.clone());
    let longest = scope.health.interval.max(Duration::from_secs(60));
    member.work = history.known_work(seen.until, longest);
    kept_images::note(&mut member, container, scope.keep_images, memory);
    member
}

fn owner(container: &Inspected, scope: &Scope) -> OwnerSettings {
    let (account, ours) = (container.env(ACCOUNT_ID_VARIABLE), scope.account.as_deref());
    labels::owner(|name| container.label(name), account, ours, &scope.zone)
}

fn read_configuration(rollout: &mut Rollout, container: &Inspected, scope: &Scope) {
    rollout.owner = owner(container, scope);
    rollout.owner.compose_grace = compose::grace(container);
    rollout.single_instance = document::single_instance_reasons(container).into_iter().next();
    let swarm_network = || {
        let network = document::swarm_network(container)?.to_owned();
        Some(Obstacle::SwarmNetwork { network })
    };
    rollout.obstacle = document::managed(container)
        .or_else(|| document::podman_secret(container))
        .or_else(swarm_network);
}

/// Describes the settings of a container that changed since the candidate was created to replace it.
pub(super) fn changes(rollout: &Rollout, parts: &[Part]) -> String {
    let document = |id: &ContainerId| {
        let part = parts.iter().find(|part| part.container.id() == *id);
        part.map(|part| &part.container)
    };
    let changed = rollout.candidate.as_ref().and_then(|candidate| {
        let old = rollout.member(candidate.replaces.as_ref()?)?;
        let is_changed = candidate.fingerprint.as_ref() != Some(&old.settings);
        Some((document(&old.id)?, document(&candidate.id)?)).filter(|_| is_changed)
    });
    changed.map_or_else(String::new, |(old, candidate)| document::changes(old, candidate))
}

/// The names that this delegate may need but other containers have.
pub(super) fn taken_names(name: &str, parts: &[Part], containers: &[ContainerSummary]) -> Vec<String> {
    let is_part = |summary: &ContainerSummary| parts.iter().any(|part| part.container.id() == summary.id);
    let of_role = |summary: &&ContainerSummary| {
        let (base, role) = Role::parse(&summary.name);
        base == name && role != Role::Serving && !is_part(summary)
    };
    let taken = containers.iter().filter(of_role);
    taken.map(|summary| summary.name.clone()).collect()
}

/// Why a candidate would find no free host port. An existing candidate has its port.
pub(super) fn no_free_port(parts: &[Part], containers: &[ContainerSummary]) -> Option<SingleInstance> {
    let [part] = parts else { return None };
    let taken = containers.iter().flat_map(|container| &container.host_ports);
    let taken: Vec<_> = taken.cloned().collect();
    document::no_free_port(&part.container, &taken).filter(|_| part.container.state() == RunState::Running)
}

/// Asks the parts for their health if only they know it, and for their work if they may have tasks. While nothing is in progress,
/// each is asked once per `HEALTH_INTERVAL`.
pub(super) fn ask<E: Engine, H: HealthEndpoint>(
    engine: &Arc<E>,
    probes: &mut Probes<H>,
    scope: &Scope,
    memory: &mut Memory,
    now: DateTime<Utc>,
    parts: &[Part],
) {
    let is_quiet = is_quiet(parts);
    for part in parts {
        let history = memory.history(&part.container.id());
        history.note_life(part.container.started_at(), part.container.restart_count());
        if let Ok(question) = question_of(part, probes, scope)
            && !(is_quiet && history.recent_health(now, scope.health.interval).is_some())
        {
            let is_candidate = part.role.is_candidate() && part.workload != OWN_WORKLOAD;
            let fallback = health::fallback(&part.container, &scope.health).filter(|_| is_candidate);
            probes.ask(engine, &part.container, question, fallback);
        }
        let has_tasks = part.workload != OWN_WORKLOAD && !part.role.is_candidate();
        if has_tasks && !(is_quiet && history.has_told_work(now, scope.health.interval)) {
            probes.ask_for_work(&part.container, &scope.health);
        }
    }
}

/// Whether nothing is in progress.
fn is_quiet(parts: &[Part]) -> bool {
    let is_quiet = |part: &Part| matches!(part.role, Role::Serving | Role::Failed { .. } | Role::Former);
    parts.iter().all(is_quiet)
}

/// The health of a container, with its origin and the time at which it was seen.
fn check<H: HealthEndpoint>(
    probes: &mut Probes<H>,
    scope: &Scope,
    history: &History,
    read_at: ReadAt,
    part: &Part,
    is_quiet: bool,
) -> (Health, Check, Seen) {
    let ReadAt { begun, seen, .. } = read_at;
    let question = match question_of(part, probes, scope) {
        Ok(question) => question,
        Err(health) => return (health, Check::Done, seen),
    };
    if let Some((health, answered)) = probes.health.take(&part.container) {
        return (health, Check::Done, begun.time_at(answered).into());
    }
    let may_repeat = is_quiet && !probes.health.is_open(&part.container);
    let recent = history.recent_health(begun.time, scope.health.interval);
    if let Some(health) = recent.filter(|_| may_repeat) {
        return (health.clone(), Check::Recent, seen);
    }
    let verdict = history.verdict();
    probes.note_shown(&part.container.id(), verdict.map(|verdict| verdict.status));
    let health = verdict.cloned().unwrap_or_else(|| question.unanswered());
    (health, Check::Awaited, seen)
}

/// The question to ask, or the health of a container that need not be asked, such as one that is about to stop.
fn question_of<H: HealthEndpoint>(
    part: &Part,
    probes: &Probes<H>,
    scope: &Scope,
) -> Result<Question, Health> {
    match part.role {
        Role::Draining { .. }
        | Role::Withdrawn { .. }
        | Role::Trial { .. }
        | Role::Failed { .. }
        | Role::Former
            if part.container.state() == RunState::Running =>
        {
            let detail = "not checked, since it is about to stop";
            Err(Health::unhealthy(Probe::Running, detail))
        }
        Role::Helper { is_ready } if part.container.state() == RunState::Running => {
            Err(health::of_helper(is_ready))
        }
        _ => match scope.replaces_itself.filter(|_| part.workload == OWN_WORKLOAD) {
            Some(listen) => match health::readiness(&part.container, listen, probes.host_address()) {
                Ok(_) if scope.own_id.as_ref() == Some(&part.container.id()) => Err(health::of_itself()),
                question => question,
            },
            None => health::question(&part.container, &scope.health, probes.host_address()),
        },
    }
}

fn log_health_change(part: &Part, before: Option<HealthStatus>, health: &Health) {
    if before == Some(health.status) {
        return;
    }
    let what = if part.workload == OWN_WORKLOAD {
        "upgrader"
    } else {
        "delegate"
    };
    let container = &part.container;
    let (name, container_id, probe) = (container.name(), container.id(), health.probe.as_str());
    let detail = health.detail.as_str();
    if health.status == HealthStatus::Unhealthy {
        warn!(container = name, %container_id, probe, detail, "{what} is unhealthy");
    } else {
        let state = health.status.as_str();
        info!(container = name, %container_id, probe, detail, "{what} is {state}");
    }
}
