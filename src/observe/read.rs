//! Lists the engine's containers and inspects them to find the ones that belong to delegates.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::{StreamExt as _, stream};
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};

use super::Scope;
use super::own;
use crate::container::{
    ContainerId, ContainerSummary, DELEGATE_NAME_VARIABLE, HARNESS_NAME_VARIABLE, Inspected, OWN_WORKLOAD,
    Role, THIRD_GENERATION, label,
};
use crate::document::{self, Dependency};
use crate::engine::{Engine, EngineError};
use crate::image::{ImageName, is_delegate_image};

/// The most readings: if a container changed between a list and its inspects, both are repeated.
const MAX_READINGS: usize = 3;

/// How long a container without a process cannot be inspected before it counts as a leftover.
const UNREAD_DOWN: Duration = Duration::from_secs(30);
/// The same for a candidate that is up: as long as its proof may take.
const UNREAD_UP: Duration = Duration::from_secs(300);

const MAX_OPEN: usize = 8;
/// The time limit of an inspect that hung within the last minute, so that it does not delay the others.
const HUNG_LIMIT: Duration = Duration::from_secs(1);
/// How long the short limit (`HUNG_LIMIT`) applies to a container after one of its inspects has hung.
const HUNG_FOR: Duration = Duration::from_secs(60);

/// The identity of each container.
#[derive(Debug, Default)]
pub(super) struct Identities(pub(super) HashMap<ContainerId, Identity>);

/// The facts about a container that change rarely or never.
#[derive(Debug, Default)]
pub(super) struct Identity {
    /// Its `DELEGATE_NAME`, if it is a delegate.
    workload: Option<String>,
    /// Whether that was read. An environment never changes, so a container that is not a delegate is inspected once.
    is_known: bool,
    /// Its unmanaged `DELEGATE_NAME`, or the marked `HARNESS_NAME` of Harness Delegate 3.x.
    pub(super) other: Option<String>,
    /// Its dependencies on others.
    pub(super) dependencies: Vec<Dependency>,
    /// Whether it was logged as not being a delegate.
    pub(super) is_told: bool,
    /// Whether it has once answered like a delegate.
    pub(super) has_answered: bool,
    /// Whether it has `--rm`. Nobody can change that; only during a restart the engine shows it without.
    is_auto_removed: bool,
    /// Since when it cannot be inspected.
    uninspectable: Option<Instant>,
    /// If its labels may come from its image: whether they do.
    has_labels_of_image: Option<bool>,
    /// When an inspect of it hung.
    hung: Option<Instant>,
}

impl Identities {
    pub(super) fn of(&mut self, id: &ContainerId) -> &mut Identity {
        self.0.entry(id.clone()).or_default()
    }
}

impl Identity {
    /// Remembers whether the container has `--rm`, and restores that in its document.
    fn keep_auto_remove(&mut self, container: &mut Inspected) {
        self.is_auto_removed |= container.auto_remove();
        if self.is_auto_removed {
            container.set_auto_remove();
        }
    }

    fn is_hung(&self) -> bool {
        self.hung.is_some_and(|at| at.elapsed() < HUNG_FOR)
    }

    /// Notes whether the inspect of the container hung. After a minute it gets its full time limit again.
    fn note_hung(&mut self, hangs: bool) {
        if !hangs {
            self.hung = None;
        } else if !self.is_hung() {
            self.hung = Some(Instant::now());
        }
    }
}

/// One container of a delegate.
pub(super) struct Part {
    pub(super) role: Role,
    pub(super) container: Inspected,
    /// Its `DELEGATE_NAME`.
    pub(super) workload: String,
    /// Whether it could not be inspected, and shows only the list's data.
    pub(super) is_outline: bool,
}

/// The containers of each delegate, by the delegate's name.
pub(super) type Families = BTreeMap<String, Vec<Part>>;

/// One list and its inspects.
pub(super) struct Reading {
    /// All containers of the engine.
    pub(super) containers: Vec<ContainerSummary>,
    /// The containers of delegates, and of the upgrader if it replaces itself.
    pub(super) families: Families,
    /// The upgrader's own containers, if it replaces itself.
    pub(super) own: HashSet<ContainerId>,
    /// Containers that could not be inspected, although the engine answers otherwise.
    pub(super) uninspected: Vec<(ContainerSummary, EngineError)>,
    /// When it started.
    pub(super) begun: Instant,
    /// A container was renamed or removed since the list, or an inspect timed out.
    is_torn: bool,
}

/// Why some container of a delegate could not be inspected.
#[derive(Default)]
pub(super) struct InspectError {
    /// Its `DELEGATE_NAME`, if known from an earlier inspect.
    pub(super) workload: Option<String>,
    /// The container and the engine's error; `None` if only leftovers cannot be inspected.
    pub(super) problem: Option<String>,
    /// The same for each leftover.
    pub(super) beside: Vec<String>,
}

/// Reads until list and inspects agree.
pub(super) async fn read<E: Engine>(
    engine: &E,
    scope: &Scope,
    identities: &mut Identities,
) -> Result<Reading, EngineError> {
    let mut reading = read_once(engine, scope, identities).await?;
    for _ in 1..MAX_READINGS {
        if !reading.is_torn {
            break;
        }
        debug!("containers changed while they were read; reading them again");
        reading = read_once(engine, scope, identities).await?;
    }
    Ok(reading)
}

async fn read_once<E: Engine>(
    engine: &E,
    scope: &Scope,
    identities: &mut Identities,
) -> Result<Reading, EngineError> {
    let begun = Instant::now();
    let containers = engine.containers().await?;
    let exists = |id: &ContainerId| containers.iter().any(|container| container.id == *id);
    identities.0.retain(|id, _| exists(id));
    let own = scope.own_to_replace();
    let own = own.map_or_else(HashSet::new, |own| own::family(own, &containers));
    let mut reading = Reading {
        containers: Vec::new(),
        families: Families::new(),
        own,
        uninspected: Vec::new(),
        begun,
        is_torn: false,
    };
    let is_asked = |summary: &&ContainerSummary| {
        let identity = identities.0.get(&summary.id);
        let is_stranger = identity.is_some_and(|identity| identity.is_known && identity.workload.is_none());
        let is_delegate = !is_stranger && scope.own_id.as_ref() != Some(&summary.id);
        // Swarm keeps the containers of earlier tasks.
        let is_over = summary.is_task() && !summary.state.is_up();
        (reading.own.contains(&summary.id) || is_delegate) && !is_over
    };
    let inspects = containers.iter().filter(is_asked).map(|summary| {
        let is_hung = identities.0.get(&summary.id).is_some_and(Identity::is_hung);
        async move { (summary, is_hung, inspect(engine, &summary.id, is_hung).await) }
    });
    let inspects: Vec<_> = inspects.collect();
    let mut inspects = stream::iter(inspects).buffered(MAX_OPEN);
    let (mut answers, mut time_outs) = (0, 0);
    while let Some((summary, was_hung, inspected)) = inspects.next().await {
        let hangs = matches!(inspected, Err(EngineError::TimedOut(_)));
        // While this one was awaited, the other readings became outdated.
        reading.is_torn |= hangs && !was_hung;
        identities.of(&summary.id).note_hung(hangs);
        time_outs += usize::from(hangs);
        answers += usize::from(!hangs);
        let is_own = reading.own.contains(&summary.id);
        let identity = identities.of(&summary.id);
        let checked = match inspected {
            Ok(container) => check_labels(engine, scope, identity, is_own, container).await,
            Err(error) => Err(error),
        };
        match checked.map(|container| identify(scope, identity, &containers, is_own, container)) {
            Ok(None) => {}
            // It was removed since the list. If it was never known to belong to a delegate, none misses it.
            Err(EngineError::NotFound(_)) => reading.is_torn |= is_own || identity.is_known,
            Ok(Some((container, workload))) => {
                reading.is_torn |= !summary.name.is_empty() && container.name() != summary.name;
                let is_ours = |base: &str| container.is_made_for(base);
                let (base, role) = base_and_role(container.name(), is_ours, container.created_at());
                reading.families.entry(base.to_owned()).or_default().push(Part {
                    role,
                    container,
                    workload,
                    is_outline: false,
                });
            }
            // All open inspects hang, and none has been answered: the engine itself hangs.
            Err(error) if answers == 0 && time_outs >= MAX_OPEN => return Err(error),
            Err(error) if is_about_one_container(&error) => {
                reading.uninspected.push((summary.clone(), error));
            }
            Err(error) => return Err(error),
        }
    }
    drop(inspects);
    release_strangers(&mut reading.families);
    reading.containers = containers;
    Ok(reading)
}

/// Whether the engine works and only cannot show this one container.
fn is_about_one_container(error: &EngineError) -> bool {
    match error {
        // The preceding list was answered: engines are known to hang on a single container.
        EngineError::TimedOut(_)
        | EngineError::Refused { .. }
        | EngineError::Conflict(_)
        | EngineError::Malformed(_) => true,
        EngineError::NotFound(_)
        | EngineError::Unreachable(_)
        | EngineError::Unauthorized(_)
        | EngineError::Unsupported(_) => false,
    }
}

/// Inspects a container, with a short time limit if the last inspect hung.
async fn inspect<E: Engine>(engine: &E, id: &ContainerId, is_hung: bool) -> Result<Inspected, EngineError> {
    let inspect = engine.inspect(id);
    if !is_hung {
        return inspect.await;
    }
    let in_time = timeout(HUNG_LIMIT, inspect).await;
    in_time.unwrap_or(Err(EngineError::TimedOut(HUNG_LIMIT)))
}

/// Our labels on a managed container count only if they did not come with its image, which is asked once. If the engine does not
/// permit the question, only health is checked.
async fn check_labels<E: Engine>(
    engine: &E,
    scope: &Scope,
    identity: &mut Identity,
    is_own: bool,
    mut container: Inspected,
) -> Result<Inspected, EngineError> {
    let is_managed = is_own || scope.workload(|name| container.env(name)).is_some();
    if let Some(are_of_image) = identity.has_labels_of_image {
        container.has_labels_of_image = are_of_image;
    } else if is_managed && container.has_doubtful_labels() {
        match engine.check_labels(&mut container).await {
            Err(EngineError::Unauthorized(_) | EngineError::Refused { status: 403, .. }) => {
                return Ok(container);
            }
            checked => checked?,
        }
        identity.has_labels_of_image = Some(container.has_labels_of_image);
    }
    Ok(container)
}

/// A container of a managed delegate, with its `DELEGATE_NAME`; `None` for any other container.
fn identify(
    scope: &Scope,
    identity: &mut Identity,
    containers: &[ContainerSummary],
    is_own: bool,
    mut container: Inspected,
) -> Option<(Inspected, String)> {
    identity.keep_auto_remove(&mut container);
    let is_new = !identity.is_known;
    let own = is_own.then(|| OWN_WORKLOAD.to_owned());
    let managed = || scope.workload(|name| container.env(name)).map(str::to_owned);
    let workload = own.or_else(|| identity.workload.clone()).or_else(managed);
    identity.uninspectable = None;
    let mut dependencies = document::dependencies(&container);
    if workload.is_none() {
        let image = ImageName::from(container.image_reference());
        let third = container
            .env(HARNESS_NAME_VARIABLE)
            .filter(|_| is_delegate_image(&image, &[]));
        let third = third.map(|name| format!("{name}{THIRD_GENERATION}"));
        identity.other = container.env(DELEGATE_NAME_VARIABLE).map(str::to_owned).or(third);
        // It is not inspected again, so its references by name are pinned to the containers that have these names now.
        for dependency in dependencies.iter_mut().filter(|it| it.tracks_renames()) {
            if let Some(target) = dependency.target(containers) {
                dependency.container = target.id.as_str().to_owned();
            }
        }
    }
    identity.dependencies = dependencies;
    identity.workload.clone_from(&workload);
    identity.is_known = true;
    let workload = workload?;
    if is_new {
        super::labels::log_invalid(&container);
    }
    Some((container, workload))
}

/// The delegate's name and the container's role. Only a container that this program created can be a candidate or a rejected
/// candidate, and only one that existed before can be retired. An owner's container with such a name is its own delegate.
fn base_and_role(
    name: &str,
    is_ours: impl FnOnce(&str) -> bool,
    created: Option<DateTime<Utc>>,
) -> (&str, Role) {
    let (base, role) = Role::parse(name);
    let is_known = match role {
        Role::Serving | Role::Retired => true,
        // No two clocks differ by a day.
        Role::Draining { since } => created.is_none_or(|created| created.timestamp() - 86_400 <= since),
        _ => is_ours(base),
    };
    if is_known {
        (base, role)
    } else {
        (name, Role::Serving)
    }
}

/// A container with the name of a retired one is retired only if another container of the delegate was created to replace it;
/// otherwise its owner chose the name. If it is alone, its candidate was lost, and it gets its name back.
fn release_strangers(families: &mut Families) {
    let mut strangers = Vec::new();
    for parts in families.values_mut() {
        let replaced: Vec<ContainerId> = parts
            .iter()
            .filter_map(|part| part.container.label(label::REPLACES))
            .map(ContainerId::new)
            .collect();
        let is_named = |part: &Part| part.role == Role::Serving || part.role.is_candidate();
        let has_lost_candidate = !parts.iter().any(is_named);
        let is_stranger = |part: &mut Part| {
            part.role == Role::Retired && !replaced.contains(&part.container.id()) && !has_lost_candidate
        };
        strangers.extend(parts.extract_if(.., is_stranger));
    }
    families.retain(|_, parts| !parts.is_empty());
    for part in strangers {
        let name = part.container.name().to_owned();
        let role = Role::Serving;
        families.entry(name).or_default().push(Part { role, ..part });
    }
}

/// Whether a container that could not be inspected for this long is a leftover: it was given up, or nothing shows that it serves
/// or will serve. If nothing of the delegate is up (not `is_served`), that takes half a minute.
fn is_left_over(role: Role, summary: &ContainerSummary, is_served: bool, unread_for: Duration) -> bool {
    let is_up = summary.state.is_up();
    let has_lasted = unread_for > if is_up { UNREAD_UP } else { UNREAD_DOWN };
    match role {
        Role::Failed { .. } | Role::Former | Role::Withdrawn { .. } | Role::Trial { .. } => true,
        // A container that is starting may take long.
        Role::Candidate | Role::Next => has_lasted,
        Role::Retired | Role::Draining { .. } => has_lasted && !is_up,
        Role::Serving | Role::Helper { .. } => has_lasted && !is_up && !is_served,
    }
}

/// Finds the delegates with a container that could not be inspected, and adds the ones missing in `families`.
///
/// A leftover is used as listed, so that it delays nothing. A container that may not be a delegate is logged and skipped. If no
/// delegate is found, any such container may be one, so nothing was observed.
///
/// # Errors
/// No delegate was found, and a container could not be inspected.
pub(super) fn inspect_errors(
    uninspected: Vec<(ContainerSummary, EngineError)>,
    containers: &[ContainerSummary],
    families: &mut Families,
    identities: &mut Identities,
) -> Result<BTreeMap<String, InspectError>, EngineError> {
    let mut errors = BTreeMap::new();
    let mut skipped = None;
    for (summary, error) in uninspected {
        let identity = identities.of(&summary.id);
        let workload = identity.workload.clone();
        // A container may lose its name while it is being removed.
        let name = Some(summary.name.as_str()).filter(|name| !name.is_empty());
        let name = name.unwrap_or(summary.id.short());
        let is_ours = |base: &str| summary.labels.get(label::NAME).is_some_and(|name| name == base);
        let ours = is_ours(Role::parse(name).0);
        let (base, role) = base_and_role(name, is_ours, None);
        let family = if families.contains_key(base) || (ours && workload.is_some()) {
            Some(base)
        } else {
            workload.as_ref().map(|_| match role {
                Role::Retired | Role::Draining { .. } => base,
                _ => name,
            })
        };
        let now = Instant::now();
        let since = *identity.uninspectable.get_or_insert(now);
        if since == now {
            let id = &summary.id;
            let problem = error.to_string();
            warn!(container = name, container_id = %id, problem, "cannot inspect container; skipping it");
        }
        let Some(family) = family else {
            skipped.get_or_insert(error);
            continue;
        };
        let parts = families.entry(family.to_owned()).or_default();
        let of_family =
            |other: &&ContainerSummary| other.state.is_up() && Role::parse(&other.name).0 == family;
        let is_served = containers.iter().any(|other| of_family(&other));
        let known: &mut InspectError = errors.entry(family.to_owned()).or_default();
        let problem = format!("{name}: {error}");
        let role = if family == name { Role::Serving } else { role };
        match Inspected::outline(&summary) {
            Some(mut container) if is_left_over(role, &summary, is_served, since.elapsed()) => {
                container.has_labels_of_image = identity.has_labels_of_image.unwrap_or_default();
                let first = parts.first().map(|part| part.workload.clone());
                let workload = workload.or(first).unwrap_or_default();
                let role = match role {
                    // It counts as given up.
                    Role::Candidate => Role::Withdrawn {
                        since: summary.created,
                    },
                    role => role,
                };
                parts.push(Part {
                    role,
                    container,
                    workload,
                    is_outline: true,
                });
                known.beside.push(problem);
            }
            _ => {
                known.workload = workload.or(known.workload.take());
                known.problem = Some(problem);
            }
        }
    }
    match skipped {
        Some(error) if families.is_empty() => Err(error),
        _ => Ok(errors),
    }
}
