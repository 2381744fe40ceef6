//! Looking at the host: which containers are delegates, what part each plays, how it is.

mod dependencies;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::future::join_all;
use tracing::{info, warn};

use crate::config::{HealthSettings, Strategy};
use crate::container::{ContainerId, DELEGATE_NAME_VARIABLE, ImageId, Role, label};
use crate::container::{ContainerSummary, Inspected, RunState};
use crate::document::{self, Dependency, Obstacle, SingleInstance};
use crate::engine::{Engine, EngineError};
use crate::health::{self, Health, HealthEndpoint, HealthStatus, Probe};
use crate::host::capacity::{Disk, FreeDisk, FreeMemory};
use crate::rollout::{Member, Memory, Rollout};
use crate::text::duration;

/// What to look for, and how.
#[derive(Clone)]
pub struct Scope {
    /// The values of `DELEGATE_NAME` to look after.
    pub workload_names: Vec<String>,
    /// How health is judged.
    pub health: HealthSettings,
    /// `CONTAINER_STOP_TIMEOUT`.
    pub stop_timeout: Duration,
    /// This program's own container, if it runs in one: never touched.
    pub own_id: Option<ContainerId>,
    /// Memory for a second container.
    pub free_memory: FreeMemory,
    /// Room on the disk for another image.
    pub free_disk: FreeDisk,
}

impl Scope {
    /// How to know of the room for another image.
    pub fn disk(&self) -> Disk {
        Disk {
            free: Arc::clone(&self.free_disk),
            own_id: self.own_id.clone(),
        }
    }
}

/// Remembers what a container is: its environment never changes, so one look at a stranger is enough.
#[derive(Debug, Default)]
pub struct Identities {
    known: HashMap<ContainerId, Option<String>>,
    /// What some have of others.
    dependencies: HashMap<ContainerId, Vec<Dependency>>,
    /// Those nothing is known of, since they could not be inspected: told once.
    uninspectable: HashSet<ContainerId>,
}

/// Looks at all delegates of the scope: one list, and one inspect for each of their containers and for each container
/// never seen before.
pub async fn observe<E: Engine, H: HealthEndpoint>(
    engine: &E,
    endpoint: &H,
    scope: &Scope,
    identities: &mut Identities,
    memory: &mut Memory,
    now: DateTime<Utc>,
) -> Result<Vec<Rollout>, EngineError> {
    let mut reading = read(engine, scope, identities, memory).await?;
    for _ in 1..READINGS {
        if !reading.is_torn {
            break;
        }
        reading = read(engine, scope, identities, memory).await?;
    }
    let Reading {
        containers,
        mut families,
        unread,
        ..
    } = reading;
    let mut problems = unread_families(unread, &mut families, identities)?;
    let mut rollouts = Vec::new();
    for (name, members) in families {
        let name_conflict = conflicting_name(&name, &members, &containers);
        let unread = problems.remove(&name);
        let mut rollout = assemble(endpoint, scope, memory, now, name, members, name_conflict).await;
        if let Some((delegate, problem)) = unread {
            rollout.delegate = delegate.unwrap_or(rollout.delegate);
            rollout.inspect_error = Some(problem);
        }
        rollout.obstacle =
            dependencies::obstacle(&rollout, &identities.dependencies, &containers).or(rollout.obstacle);
        rollouts.push(rollout);
    }
    let serving = rollouts.iter().filter_map(|rollout| rollout.serving.as_ref());
    let kept: Vec<ImageId> = serving
        .flat_map(|serving| std::iter::once(&serving.image_id).chain(&serving.previous_image_id))
        .cloned()
        .collect();
    let serving: Vec<ContainerId> = rollouts
        .iter()
        .filter_map(|rollout| Some(rollout.serving.as_ref()?.id.clone()))
        .collect();
    for rollout in &mut rollouts {
        rollout.retained_images.clone_from(&kept);
        let replaced = rollout
            .candidate
            .as_ref()
            .and_then(|candidate| candidate.replaces.as_ref());
        rollout.predecessor_was_renamed =
            rollout.serving.is_none() && replaced.is_some_and(|id| serving.contains(id));
    }
    Ok(rollouts)
}

/// A list and the inspects after it are not one moment: where others changed something meanwhile, they are made again,
/// so often in all.
const READINGS: usize = 3;

/// What was read of the containers of each delegate.
type Families = BTreeMap<String, Vec<(Role, Inspected, String)>>;

/// One list and its inspects.
struct Reading {
    containers: Vec<ContainerSummary>,
    families: Families,
    unread: Vec<(ContainerSummary, EngineError)>,
    /// A container has another name than in the list, or is gone.
    is_torn: bool,
}

async fn read<E: Engine>(
    engine: &E,
    scope: &Scope,
    identities: &mut Identities,
    memory: &mut Memory,
) -> Result<Reading, EngineError> {
    let containers = engine.containers().await?;
    let exists = |id: &ContainerId| containers.iter().any(|container| container.id == *id);
    identities.known.retain(|id, _| exists(id));
    identities.dependencies.retain(|id, _| exists(id));
    identities.uninspectable.retain(exists);
    memory.keep(exists);

    let mut families: Families = BTreeMap::new();
    let mut unread = Vec::new();
    let mut is_torn = false;
    for summary in &containers {
        match look_at(engine, scope, identities, &containers, summary).await {
            Ok(Seen::Stranger) => {}
            Ok(Seen::Gone) => is_torn = true,
            Ok(Seen::Part(inspected, delegate)) => {
                is_torn |= !summary.name.is_empty() && inspected.name() != summary.name;
                let (base, role) = part(&inspected);
                families
                    .entry(base)
                    .or_default()
                    .push((role, *inspected, delegate));
            }
            Err(error) if is_about_one_container(&error) => unread.push((summary.clone(), error)),
            Err(error) => return Err(error),
        }
    }
    Ok(Reading {
        containers,
        families,
        unread,
        is_torn,
    })
}

/// An engine that answers, and cannot tell of this one container.
fn is_about_one_container(error: &EngineError) -> bool {
    match error {
        EngineError::Refused { .. } | EngineError::Conflict(_) | EngineError::Malformed(_) => true,
        EngineError::NotFound(_)
        | EngineError::Unreachable(_)
        | EngineError::TimedOut(_)
        | EngineError::Unauthorized(_) => false,
    }
}

/// The delegates of which not everything could be read, and why. A stranger that could not be read says nothing about
/// any of them; but where no delegate is found, each may be one, and then that was no look.
fn unread_families(
    unread: Vec<(ContainerSummary, EngineError)>,
    families: &mut Families,
    identities: &mut Identities,
) -> Result<BTreeMap<String, (Option<String>, String)>, EngineError> {
    let mut problems = BTreeMap::new();
    let mut strangers = None;
    for (summary, error) in unread {
        let delegate = identities.known.get(&summary.id).cloned().flatten();
        // One that is being removed may have lost its name.
        let name = Some(summary.name.as_str()).filter(|name| !name.is_empty());
        let name = name.unwrap_or(summary.id.short());
        let (base, role) = Role::parse(name);
        let ours = summary.labels.get(label::NAME).is_some_and(|name| name == base);
        let family = if families.contains_key(base) || (ours && delegate.is_some()) {
            Some(base)
        } else {
            delegate.as_ref().map(|_| match role {
                Role::Draining { .. } => base,
                _ => name,
            })
        };
        if let Some(family) = family {
            families.entry(family.to_owned()).or_default();
            let problem = format!("{name}: {error}");
            problems.insert(family.to_owned(), (delegate, problem));
            continue;
        }
        if identities.uninspectable.insert(summary.id.clone()) {
            let id = &summary.id;
            warn!(container = name, %id, problem = %error, "a container cannot be inspected; it is left out");
        }
        strangers.get_or_insert(error);
    }
    match strangers {
        Some(error) if families.is_empty() => Err(error),
        _ => Ok(problems),
    }
}

/// What a container of the list turned out to be.
enum Seen {
    Stranger,
    /// Since the list.
    Gone,
    /// One of those looked after, with its `DELEGATE_NAME`.
    Part(Box<Inspected>, String),
}

async fn look_at<E: Engine>(
    engine: &E,
    scope: &Scope,
    identities: &mut Identities,
    containers: &[ContainerSummary],
    summary: &ContainerSummary,
) -> Result<Seen, EngineError> {
    let known = identities.known.get(&summary.id).cloned();
    if known == Some(None) || scope.own_id.as_ref() == Some(&summary.id) {
        return Ok(Seen::Stranger);
    }
    let inspected = match engine.inspect(&summary.id).await {
        Ok(inspected) => inspected,
        // One that was never seen to be a part of anything leaves no gap.
        Err(EngineError::NotFound(_)) if known.is_none() => return Ok(Seen::Stranger),
        Err(EngineError::NotFound(_)) => return Ok(Seen::Gone),
        Err(error) => return Err(error),
    };
    let delegate = known.flatten().or_else(|| {
        let name = inspected.env(DELEGATE_NAME_VARIABLE)?;
        scope
            .workload_names
            .iter()
            .find(|wanted| *wanted == name)
            .cloned()
    });
    identities.uninspectable.remove(&summary.id);
    let mut dependencies = document::dependencies(inspected.document());
    if delegate.is_none() {
        // Nobody looks at it again.
        for dependency in dependencies
            .iter_mut()
            .filter(|dependency| dependency.tracks_renames())
        {
            if let Some(target) = dependency.target(containers) {
                dependency.container = target.id.as_str().to_owned();
            }
        }
    }
    identities.dependencies.insert(summary.id.clone(), dependencies);
    if identities
        .known
        .insert(summary.id.clone(), delegate.clone())
        .is_none()
        && delegate.is_some()
    {
        tell_wrong_labels(&inspected);
    }
    Ok(match delegate {
        Some(delegate) => Seen::Part(Box::new(inspected), delegate),
        None => Seen::Stranger,
    })
}

/// The delegate's name and the part a container plays. Only what we created can be a candidate or a rejected one, and
/// only what was there before can have been retired, so an owner's container that is called so is a delegate of its own.
fn part(container: &Inspected) -> (String, Role) {
    let (base, role) = Role::parse(container.name());
    let ours = container.label(label::NAME) == Some(base);
    match role {
        Role::Candidate | Role::Failed { .. } | Role::Standby | Role::Withdrawn { .. } if !ours => {
            (container.name().to_owned(), Role::Serving)
        }
        // A day apart, no two clocks disagree.
        Role::Draining { since }
            if container
                .created_at()
                .is_some_and(|created| created.timestamp() - 86_400 > since) =>
        {
            (container.name().to_owned(), Role::Serving)
        }
        role => (base.to_owned(), role),
    }
}

fn conflicting_name(
    name: &str,
    members: &[(Role, Inspected, String)],
    containers: &[ContainerSummary],
) -> Option<String> {
    let vanishes = members
        .iter()
        .any(|(role, member, _)| *role == Role::Serving && member.auto_remove());
    let candidate = Role::Candidate.name(name);
    let standby = vanishes.then(|| Role::Standby.name(name));
    std::iter::once(candidate).chain(standby).find(|needed| {
        let holder = containers.iter().find(|container| container.name == *needed);
        holder.is_some_and(|holder| !members.iter().any(|(_, member, _)| member.id() == holder.id))
    })
}

async fn assemble<H: HealthEndpoint>(
    endpoint: &H,
    scope: &Scope,
    memory: &mut Memory,
    now: DateTime<Utc>,
    name: String,
    members: Vec<(Role, Inspected, String)>,
    name_conflict: Option<String>,
) -> Rollout {
    let quiet = members
        .iter()
        .all(|(role, ..)| matches!(role, Role::Serving | Role::Failed { .. }));
    let verdicts = join_all(members.iter().map(|(role, container, _)| {
        let recent = memory
            .history_of(&container.id())
            .and_then(|history| history.recent_health(now, scope.health.interval, container.started_at()));
        let recent = recent
            .filter(|_| quiet && container.state() == RunState::Running && container.health().is_none());
        check(*role, container, scope, endpoint, recent)
    }))
    .await;

    let delegate = members
        .first()
        .map(|(_, _, delegate)| delegate.clone())
        .unwrap_or_default();
    let mut rollout = Rollout {
        name,
        delegate,
        serving: None,
        candidate: None,
        draining: Vec::new(),
        withdrawn: Vec::new(),
        standby: None,
        failed: Vec::new(),
        opted_out: false,
        single_instance: None,
        strategy: None,
        name_conflict,
        vanished: Vec::new(),
        predecessor_was_renamed: false,
        retained_images: Vec::new(),
        obstacle: None,
        inspect_error: None,
    };
    for ((role, container, _), (verdict, fresh)) in members.iter().zip(verdicts) {
        let history = memory.history(&container.id());
        let before = history.last_health().map(|verdict| verdict.state);
        history.record(
            now,
            &verdict,
            container.started_at(),
            container.restart_count(),
            fresh,
        );
        if matches!(role, Role::Serving) {
            // An earlier story of its: it has its name, and the next stop is another one.
            history.restarted_since_stop = false;
            history.restarted_by_us = false;
            tell_change(container, before, &verdict);
        }
        let own = container.stop_timeout().unwrap_or_default();
        let timeout = stop_timeout(container).unwrap_or_else(|| scope.stop_timeout.max(own));
        let mut member = Member::read(container, *role, verdict, timeout, history.clone());
        member.previous_image_id = member
            .previous_image_id
            .filter(|image| !memory.was_discarded(image));
        match role {
            Role::Serving => rollout.serving = Some(member),
            Role::Candidate => rollout.candidate = Some(member),
            Role::Draining { .. } => rollout.draining.push(member),
            Role::Failed { .. } => rollout.failed.push(member),
            Role::Withdrawn { .. } => rollout.withdrawn.push(member),
            Role::Standby => rollout.standby = Some(member),
        }
    }
    for dated in [&mut rollout.draining, &mut rollout.withdrawn] {
        dated.sort_by_key(|member| (member.role, member.created_at));
    }
    rollout
        .failed
        .sort_by_key(|member| (member.created_at, member.role));
    // Without its standby nothing is left of the attempt that made it: when it vanishes one day, it does so by itself.
    if let Some(serving) = rollout.serving.as_ref().filter(|serving| serving.auto_remove) {
        let of_this_attempt =
            |standby: &Member| serving.is_successor_of(standby) || serving.replaces == standby.replaces;
        if !rollout.standby.as_ref().is_some_and(of_this_attempt) {
            memory.forget_candidate(&rollout.name, &serving.id);
        }
    }
    let auto_remove = members.iter().filter(|(_, member, _)| member.auto_remove());
    memory.note_auto_remove(
        &rollout.name,
        auto_remove.map(|(_, member, _)| member.id()).collect(),
    );
    let is_gone = |id: &ContainerId| !members.iter().any(|(_, member, _)| member.id() == *id);
    let created = memory.created(&rollout.name).iter();
    let vanished = created.filter(|(candidate, _)| is_gone(candidate));
    rollout.vanished = vanished.map(|(_, vanished)| vanished.clone()).collect();
    // The delegate itself before what was made from it; a mark of a rejected image tells nothing of it.
    if let Some((_, container, _)) = members.iter().min_by_key(|(role, ..)| *role) {
        rollout.opted_out = container.label(label::ENABLE).is_some_and(is_no);
        rollout.strategy = strategy(container);
        rollout.single_instance = document::single_instance_reasons(container.document())
            .into_iter()
            .next();
        rollout.obstacle =
            document::network_of_swarm(container.document()).map(|network| Obstacle::SwarmNetwork {
                network: network.to_owned(),
            });
    }
    rollout
}

pub(crate) fn is_no(text: &str) -> bool {
    ["false", "no", "off", "0"].contains(&text.trim().to_ascii_lowercase().as_str())
}

fn strategy(container: &Inspected) -> Option<Strategy> {
    container.label(label::STRATEGY)?.parse().ok()
}

fn stop_timeout(container: &Inspected) -> Option<Duration> {
    duration::parse(container.label(label::STOP_TIMEOUT)?).filter(|timeout| !timeout.is_zero())
}

/// Labels never change, so a wrong one is told once, when the delegate is first seen.
fn tell_wrong_labels(container: &Inspected) {
    let wrong = [
        (
            label::STRATEGY,
            strategy(container).is_none(),
            "auto, start-first or stop-first",
        ),
        (
            label::STOP_TIMEOUT,
            stop_timeout(container).is_none(),
            "seconds, or a duration such as 45m",
        ),
    ];
    for (label, is_wrong, accepted) in wrong {
        if let Some(value) = container.label(label).filter(|_| is_wrong) {
            warn!(
                container = container.name(),
                label, value, accepted, "label ignored"
            );
        }
    }
}

/// A verdict, and whether it is a new one. Containers on their way out are not asked.
async fn check(
    role: Role,
    container: &Inspected,
    scope: &Scope,
    endpoint: &impl HealthEndpoint,
    recent: Option<Health>,
) -> (Health, bool) {
    if let Some(verdict) = recent {
        return (verdict, false);
    }
    match role {
        Role::Draining { .. } | Role::Withdrawn { .. } | Role::Failed { .. } | Role::Standby
            if container.state() == RunState::Running =>
        {
            let verdict = Health {
                state: HealthStatus::Unhealthy,
                by: Probe::Running,
                cause: "on its way out".to_owned(),
            };
            (verdict, true)
        }
        _ => (health::check(container, &scope.health, endpoint).await, true),
    }
}

fn tell_change(container: &Inspected, before: Option<HealthStatus>, verdict: &Health) {
    if before == Some(verdict.state) {
        return;
    }
    let (name, id, by) = (container.name(), container.id(), verdict.by.as_str());
    if verdict.state == HealthStatus::Unhealthy {
        warn!(container = name, %id, by, cause = verdict.cause, "delegate is unhealthy");
    } else {
        info!(container = name, %id, by, cause = verdict.cause, "delegate is {}", verdict.state.as_str());
    }
}

/// Whether the host has no memory for a second container. Asked only when one is about to start: where the container
/// has no limit, its present use is sampled by the engine, which takes a second.
pub async fn too_little_memory<E: Engine>(
    engine: &E,
    scope: &Scope,
    member: &Member,
) -> Option<SingleInstance> {
    let available = (scope.free_memory)().filter(|_| member.state == RunState::Running)?;
    let needed = match member.memory_limit {
        Some(limit) => limit,
        None => engine.memory_usage(&member.id).await.ok()?,
    };
    (needed > available).then_some(SingleInstance::TooLittleMemory { needed, available })
}
