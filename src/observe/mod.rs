//! The engine's containers, read into one [`Rollout`] per delegate.

mod assemble;
mod dependencies;
mod identity;
mod kept_images;
mod labels;
mod own;
mod probes;
mod read;
mod release;
mod requests;
mod stop_timeout;
mod turn;
mod watch;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::Instant;

use crate::config::HealthSettings;
use crate::container::{
    ACCOUNT_ID_VARIABLE, ContainerId, ContainerSummary, DELEGATE_NAME_VARIABLE, EVERY_WORKLOAD, ImageId,
    label,
};
use crate::engine::{Engine, EngineError};
use crate::health::HealthEndpoint;
use crate::host::capacity::{Disk, FreeDisk, FreeMemory};
use crate::image::ImageReference;
use crate::rollout::reason::Reason;
use crate::rollout::{Member, Memory, Rollout, Seen};
use crate::schedule::zone::Zone;

pub(crate) use assemble::WAY_OUT;
use assemble::{Moment, ReadAt};
pub(crate) use labels::owner as owner_by;
use probes::Probes;
use read::Identities;
pub(crate) use release::released;
pub use turn::Turn;
use watch::Watch;

/// Which containers are managed, and the settings for observing them.
#[derive(Clone)]
pub struct Scope {
    /// The values of `DELEGATE_NAME` whose containers are managed; [`EVERY_WORKLOAD`] alone for all of them.
    pub workload_names: Vec<String>,
    /// `ACCOUNT_ID`: delegates of other accounts belong to other upgraders. `None` if no Manager is asked.
    pub account: Option<String>,
    /// How health is checked, and how often.
    pub health: HealthSettings,
    /// Images whose repositories hold delegates under any name: the one of `IMAGE_REPOSITORY` and the published one.
    pub known_images: Vec<ImageReference>,
    /// `CONTAINER_STOP_TIMEOUT`.
    pub stop_timeout: Duration,
    /// `MAX_STOP_TIMEOUT`.
    pub max_stop_timeout: Option<Duration>,
    /// `KEEP_IMAGES`.
    pub keep_images: usize,
    /// This program's own container, if any: never touched, unless it replaces itself.
    pub own_id: Option<ContainerId>,
    /// With `SELF_UPGRADE`, its `LISTEN_ADDR`, where an instance says whether it is ready.
    pub replaces_itself: Option<SocketAddr>,
    /// Memory for a second container.
    pub free_memory: FreeMemory,
    /// Disk space for another image.
    pub free_disk: FreeDisk,
    /// `TZ`, for the labels with a time.
    pub zone: Zone,
}

impl Scope {
    /// This program's own container, if it replaces itself like a delegate.
    fn own_to_replace(&self) -> Option<&ContainerId> {
        self.own_id.as_ref().filter(|_| self.replaces_itself.is_some())
    }

    /// The `DELEGATE_NAME` among these variables of a container or service, if it is managed. With `*`, they also need an `ACCOUNT_ID`
    /// and a name that could be a setting.
    pub fn workload<'a>(&self, variable: impl Fn(&'static str) -> Option<&'a str>) -> Option<&'a str> {
        let name = variable(DELEGATE_NAME_VARIABLE).filter(|name| !name.is_empty())?;
        let is_unfit =
            name.len() > 128 || name.contains(|c: char| c == ',' || c.is_whitespace() || c.is_control());
        let is_named = self.workload_names.iter().any(|ours| ours == name);
        let is_any = || self.has_every_workload() && !is_unfit && variable(ACCOUNT_ID_VARIABLE).is_some();
        (is_named || is_any()).then_some(name)
    }

    /// Whether every delegate is managed, whatever its name.
    pub fn has_every_workload(&self) -> bool {
        self.workload_names == [EVERY_WORKLOAD]
    }

    /// How the space for another image is measured.
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
    /// Whose turn it was at the last observation; `None` if that was never known.
    turn: Option<Turn>,
    /// Reports changes before the next observation.
    watch: Option<Watch>,
    /// The first observation since this program has run in a container here: an engine that restarts ends it.
    own_since: Option<Instant>,
    /// The containers with a managed `DELEGATE_NAME` that do not appear to be delegates.
    not_delegates: Vec<(Rollout, Reason)>,
}

impl<H: HealthEndpoint> Observer<H> {
    /// An observer that has seen no container yet. It asks `endpoint` for the health of containers without a HEALTHCHECK.
    pub fn new(endpoint: H) -> Self {
        Self {
            probes: Probes::new(endpoint),
            identities: Identities::default(),
            turn: None,
            watch: None,
            own_since: None,
            not_delegates: Vec::new(),
        }
    }

    /// Subscribes to the engine's events about delegates, for [`Self::changed`].
    pub fn watch<E: Engine>(&mut self, engine: &Arc<E>) {
        self.watch = Some(Watch::start(Arc::clone(engine)));
    }

    /// Whether this instance of the upgrader acts, according to the last observation.
    pub fn turn(&self) -> &Turn {
        self.turn.as_ref().unwrap_or(&Turn::Acts)
    }

    /// Observes all delegates of the scope: one list, and one inspect for each of their containers and for each new container.
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
            own_since,
            not_delegates,
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
        let is_own = |summary: &ContainerSummary| scope.own_id.as_ref() == Some(&summary.id);
        if containers.iter().any(is_own) {
            own_since.get_or_insert(begun.instant);
        }
        let heard_since = watch.as_ref().and_then(Watch::unbroken_since);
        let unbroken_since = own_since.iter().copied().chain(heard_since).min();
        let read_at = ReadAt {
            begun,
            seen: Seen {
                from: begun.time_at(Instant::now()),
                until: begun.time_at(reading_since),
            },
            unbroken_since: unbroken_since.map(|since| begun.time_at(since)),
        };
        if let Some(watch) = watch {
            let parts = families.values().flatten();
            watch.set_delegates(parts.map(|part| part.container.id()));
        }
        memory.keep(|id| containers.iter().any(|container| container.id == *id));
        probes.keep(|id| containers.iter().any(|container| container.id == *id));
        *known_turn = match scope.own_to_replace().filter(|_| !own_family.is_empty()) {
            None => Some(Turn::Acts),
            // If the engine cannot show it, the turn stays the same; at first, nothing is done.
            Some(own) => turn::turn(&families, own)
                .or(known_turn.take())
                .or_else(|| Some(Turn::behind(own.short()))),
        };
        let mut errors = read::inspect_errors(uninspected, &containers, &mut families, identities)?;
        for parts in families.values() {
            assemble::ask(engine, probes, scope, memory, now, parts);
        }
        probes.wait().await;
        let mut rollouts = Vec::new();
        not_delegates.clear();
        for (name, parts) in families {
            let error = errors.remove(&name).unwrap_or_default();
            let is_delegate = identities.are_delegates(scope, &parts);
            let mut rollout = assemble::assemble(probes, scope, memory, read_at, name, &parts, is_delegate);
            if error.problem.is_none() && !is_delegate && !identities.note_answer(&parts, &rollout) {
                identities.log_not_delegates(&rollout);
                let reason = identity::not_a_delegate(&parts);
                not_delegates.push((rollout, reason));
                continue;
            }
            rollout.taken_names = assemble::taken_names(&rollout.name, &parts, &containers);
            rollout.changes = assemble::changes(&rollout, &parts);
            rollout.no_free_port = assemble::no_free_port(&parts, &containers);
            rollout.obstacle = dependencies::obstacle(&rollout, identities, &containers).or(rollout.obstacle);
            rollout.workload = error.workload.unwrap_or(rollout.workload);
            rollout.inspect_error = error.problem;
            rollout.unread = error.beside;
            rollouts.push(rollout);
        }
        relate(&mut rollouts, &containers);
        Ok(rollouts)
    }

    /// Completes when something may change the last observation: the answer of a slow health endpoint, or an engine event about a
    /// delegate; never if neither is awaited.
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

    /// Whether the engine reports changes.
    pub fn is_told(&self) -> bool {
        self.watch.as_ref().is_some_and(Watch::is_listening)
    }

    /// Whether a record of a hold has been created or removed since the last call.
    pub fn takes_changed_records(&self) -> bool {
        self.watch.as_ref().is_some_and(Watch::takes_changed_records)
    }

    /// The distinct values of `DELEGATE_NAME` on this host that are not managed, and the marked names of Harness Delegate 3.x.
    pub fn other_workloads(&self) -> Vec<String> {
        let identities = self.identities.0.values();
        let names: BTreeSet<&String> = identities.filter_map(|it| it.other.as_ref()).collect();
        names.into_iter().cloned().collect()
    }

    /// The containers with a managed `DELEGATE_NAME` that the last observation did not recognize as delegates, and why.
    pub fn not_delegates(&self) -> &[(Rollout, Reason)] {
        &self.not_delegates
    }

    /// Whether the first answer of one of these, which may prove it to be a delegate, is still awaited.
    pub fn awaits_first_answer(&self) -> bool {
        let mut members = self
            .not_delegates
            .iter()
            .flat_map(|(rollout, _)| rollout.members());
        members.any(|member| member.is_up() && member.history.last_health.is_none())
    }

    /// Whether the answer of a health endpoint is awaited.
    pub fn is_waiting(&self) -> bool {
        self.probes.health.is_waiting()
    }

    /// Completes when no health endpoint's answer is awaited.
    pub async fn settled(&mut self) {
        self.probes.settled().await;
    }
}

/// Adds the facts about other delegates to each rollout.
fn relate(rollouts: &mut [Rollout], containers: &[ContainerSummary]) {
    let serving = rollouts.iter().filter_map(|rollout| rollout.serving.clone());
    let serving: Vec<Member> = serving.collect();
    let of_all = |own| {
        rollouts
            .iter()
            .flat_map(|rollout| kept_images::of(rollout, own))
            .collect()
    };
    let retained: Vec<Vec<ImageId>> = rollouts.iter().map(of_all).collect();
    for (rollout, retained) in rollouts.iter_mut().zip(retained) {
        rollout.retained_images = retained;
        let is_relative = |other: &&Member| {
            let is_old_one_of = |member: &Member| member.is_successor_of(other);
            // An old container that its owner renamed is a delegate itself: its former replacement is not its successor.
            let is_made_for_it = || {
                let summary = containers.iter().find(|summary| summary.id == other.id);
                summary.is_some_and(|summary| summary.labels.get(label::NAME) == Some(&rollout.name))
            };
            let is_new_one_of = |old: &Member| other.is_successor_of(old) && is_made_for_it();
            rollout.member(&other.id).is_none()
                && (rollout.candidate.as_ref().is_some_and(is_old_one_of)
                    || rollout.old.iter().any(is_new_one_of))
        };
        rollout.relatives = serving.iter().filter(is_relative).cloned().collect();
    }
}
