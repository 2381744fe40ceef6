//! The engine's containers, read into one [`Rollout`] per delegate.

mod adopt;
mod assemble;
mod dependencies;
mod labels;
mod own;
mod probes;
mod read;
mod requests;
mod turn;
mod watch;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::Instant;

use crate::config::HealthSettings;
use crate::container::{ContainerId, ImageId, Inspected};
use crate::engine::{Engine, EngineError};
use crate::health::HealthEndpoint;
use crate::host::capacity::{Disk, FreeDisk, FreeMemory};
use crate::rollout::{Member, Memory, Rollout};
use crate::schedule::zone::Zone;

use assemble::{Moment, ReadAt};
pub(crate) use labels::{limits as limits_by, opted_out as opted_out_by};
use probes::Probes;
use read::Identities;
pub use turn::Turn;
use watch::Watch;

/// Which containers are managed, and the settings they are observed with.
#[derive(Clone)]
pub struct Scope {
    /// The values of `DELEGATE_NAME` whose containers are managed.
    pub workload_names: Vec<String>,
    /// How health is checked, and how often.
    pub health: HealthSettings,
    /// `CONTAINER_STOP_TIMEOUT`.
    pub stop_timeout: Duration,
    /// This program's own container, if it runs in one: never touched, unless it replaces itself.
    pub own_id: Option<ContainerId>,
    /// `SELF_UPGRADE`: it does, and this is its `LISTEN_ADDR`, where an instance says whether it is ready.
    pub replaces_itself: Option<SocketAddr>,
    /// Memory for a second container.
    pub free_memory: FreeMemory,
    /// Room on the disk for another image.
    pub free_disk: FreeDisk,
    /// `TZ`, for the labels with a time.
    pub zone: Zone,
}

impl Scope {
    /// This program's own container, where it is to be replaced like a delegate.
    fn own_to_replace(&self) -> Option<&ContainerId> {
        self.own_id.as_ref().filter(|_| self.replaces_itself.is_some())
    }

    /// How the room for another image is measured.
    pub fn disk(&self) -> Disk {
        Disk {
            free: Arc::clone(&self.free_disk),
            own_id: self.own_id.clone(),
        }
    }
}

/// Reads the engine's containers, and remembers which of them are delegates.
#[derive(Debug)]
pub struct Observer<H> {
    probes: Probes<H>,
    identities: Identities,
    /// Whose turn it was at the last observation; `None` where that was never known.
    turn: Option<Turn>,
    /// Where changes are heard of before the next observation.
    watch: Option<Watch>,
}

impl<H: HealthEndpoint> Observer<H> {
    /// An observer that has seen no container yet, and asks `endpoint` for the health of those without a HEALTHCHECK.
    pub fn new(endpoint: H) -> Self {
        Self {
            probes: Probes::new(endpoint),
            identities: Identities::default(),
            turn: None,
            watch: None,
        }
    }

    /// Subscribes to the engine's events about delegates, for [`Self::changed`].
    pub fn watch<E: Engine>(&mut self, engine: &Arc<E>) {
        self.watch = Some(Watch::start(Arc::clone(engine)));
    }

    /// Whether this instance of the upgrader acts, by the last observation.
    pub fn turn(&self) -> &Turn {
        self.turn.as_ref().unwrap_or(&Turn::Acts)
    }

    /// Observes all delegates of the scope: one list, and one inspect for each of their containers and for each
    /// container that was not there before.
    ///
    /// # Errors
    /// The engine did not answer, or no delegate was found and a container could not be inspected.
    pub async fn observe<E: Engine>(
        &mut self,
        engine: &Arc<E>,
        scope: &Scope,
        memory: &mut Memory,
        now: DateTime<Utc>,
    ) -> Result<Vec<Rollout>, EngineError> {
        let Self {
            probes,
            identities,
            turn: known_turn,
            watch,
        } = self;
        if let Some(watch) = watch {
            watch.forget();
        }
        let begun = Moment {
            time: now,
            instant: Instant::now(),
        };
        let read::Reading {
            containers,
            mut families,
            uninspected,
            own: own_family,
            begun: reading_since,
            ..
        } = read::read(engine.as_ref(), scope, identities).await?;
        let reading = (reading_since, Instant::now());
        let read_at = ReadAt { begun, reading };
        if let Some(watch) = watch {
            let parts = families.values().flatten();
            watch.set_delegates(parts.map(|part| part.container.id()));
        }
        memory.keep(|id| containers.iter().any(|container| container.id == *id));
        probes.keep(|id| containers.iter().any(|container| container.id == *id));
        let known = |container: &Inspected| {
            let (history, life) = (memory.history_of(&container.id()), container.started_at());
            adopt::Known {
                was_drained: history.is_some_and(|history| history.was_drained(life)),
                ended_in_service: history.is_some_and(|history| history.has_ended_in_service(life)),
                was_retired: history.is_some_and(|history| history.was_retired(life)),
            }
        };
        adopt::adopt(&mut families, known);
        *known_turn = match scope.own_to_replace().filter(|_| !own_family.is_empty()) {
            None => Some(Turn::Acts),
            // Where the engine cannot show it, it is as it was; at first, nothing is done.
            Some(own) => turn::turn(&families, own)
                .or(known_turn.take())
                .or_else(|| Some(Turn::behind(own.short()))),
        };
        let mut errors = read::inspect_errors(uninspected, &mut families, identities)?;
        for parts in families.values() {
            assemble::ask(engine, probes, scope, memory, now, parts);
        }
        probes.wait().await;
        let mut rollouts = Vec::new();
        for (name, parts) in families {
            let error = errors.remove(&name);
            let name_conflict = assemble::name_conflict(&name, &parts, &containers);
            let taken_names = assemble::taken_names(&name, &parts, &containers);
            let mut rollout = assemble::assemble(probes, scope, memory, read_at, name, &parts);
            rollout.name_conflict = name_conflict;
            rollout.taken_names = taken_names;
            rollout.no_free_port = assemble::no_free_port(&parts, &containers);
            rollout.obstacle =
                dependencies::obstacle(&rollout, &identities.dependencies, &containers).or(rollout.obstacle);
            if let Some(error) = error {
                rollout.workload = error.workload.unwrap_or(rollout.workload);
                rollout.inspect_error = Some(error.problem);
            }
            rollouts.push(rollout);
        }
        relate(&mut rollouts);
        Ok(rollouts)
    }

    /// Completes when something changes what the last observation showed: the answer of a slow health endpoint, or an event of
    /// the engine about a delegate; never where neither is awaited.
    pub async fn changed(&mut self) {
        let watch = async {
            match &mut self.watch {
                Some(watch) => watch.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.probes.changed() => {}
            () = watch => {}
        }
    }

    /// Whether the answer of a health endpoint is awaited.
    pub fn is_waiting(&self) -> bool {
        self.probes.is_waiting()
    }

    /// Completes when no health endpoint is awaited.
    pub async fn settled(&mut self) {
        self.probes.settled().await;
    }
}

/// The images that a delegate keeps: those that it runs and ran before, and, as far as another delegate can know, those
/// of each container that may still come back.
fn retained<'a>(rollout: &'a Rollout, own: &Rollout) -> impl Iterator<Item = ImageId> + 'a {
    let others = rollout
        .draining
        .iter()
        .chain(&rollout.standby)
        .chain(&rollout.candidate);
    let is_other = rollout.name != own.name;
    let members = rollout.serving.iter().chain(others.filter(move |_| is_other));
    members
        .flat_map(|member| std::iter::once(&member.image_id).chain(&member.previous_image_id))
        .cloned()
}

/// Adds to each rollout what it has to know of the others.
fn relate(rollouts: &mut [Rollout]) {
    let serving = rollouts.iter().filter_map(|rollout| rollout.serving.clone());
    let serving: Vec<Member> = serving.collect();
    let ending = rollouts.iter().flat_map(|rollout| {
        let still_up = rollout.given_up().filter(|other| other.is_up());
        still_up.filter_map(|other| Some((rollout.name.clone(), other.replaces.clone()?)))
    });
    let ending: Vec<(String, ContainerId)> = ending.collect();
    let retained: Vec<Vec<ImageId>> = rollouts
        .iter()
        .map(|own| {
            rollouts
                .iter()
                .flat_map(|rollout| retained(rollout, own))
                .collect()
        })
        .collect();
    for (rollout, retained) in rollouts.iter_mut().zip(retained) {
        rollout.retained_images = retained;
        let stopping = rollout.given_up().find(|other| other.is_up());
        // One that has stopped still has the policy of the one that it was to replace on its label.
        let stopped = rollout.withdrawn.last();
        let copy = rollout
            .candidate
            .as_ref()
            .or(rollout.standby.as_ref())
            .or(stopping)
            .or(stopped);
        let replaced = copy.and_then(|copy| copy.replaces.as_ref());
        let renamed = replaced.and_then(|id| serving.iter().find(|serving| serving.id == *id));
        rollout.renamed_predecessor = renamed.filter(|_| rollout.serving.is_none()).cloned();
        if let Some(serving) = &rollout.serving {
            let elsewhere = ending
                .iter()
                .filter(|(name, replaces)| *name != rollout.name && *replaces == serving.id);
            rollout.ending_elsewhere = elsewhere.count();
        }
        recall_policies(rollout, &serving);
    }
}

/// A candidate that somebody keeps under another name still remembers the policy of the old one that comes back.
fn recall_policies(rollout: &mut Rollout, serving: &[Member]) {
    if rollout.serving.is_some() || rollout.candidate.is_some() {
        return;
    }
    let known: Vec<ContainerId> = rollout
        .given_up()
        .filter_map(|other| other.replaces.clone())
        .collect();
    let is_owed = |old: &&mut Member| old.restart_is_off() && !known.contains(&old.id);
    for old in rollout.draining.iter_mut().filter(is_owed) {
        let kept = serving
            .iter()
            .filter(|kept| kept.replaces.as_ref() == Some(&old.id));
        let label = kept
            .max_by_key(|kept| kept.created_at)
            .and_then(|kept| kept.predecessor_policy.clone());
        old.history.original_policy = old.history.original_policy.take().or(label);
    }
}
