//! An operator's commands for one delegate: retry a rejected image, or roll back to the previous one.

use chrono::{DateTime, Utc};
use tracing::info;

use super::Reconciler;
use super::controller::Controller as _;
use super::observation::Observed;
use crate::container::{ImageId, Request};
use crate::engine::{Engine, EngineError};
use crate::events::Event;
use crate::events::history::{History, Present, Release};
use crate::health::HealthEndpoint;
use crate::host::place::command_for;
use crate::image::ImageReference;
use crate::managed::{Managed, Object};
use crate::manager::ImageSource;
use crate::reconcile::upgrade_run::UpgradeRun;
use crate::rollout::{Intent, RememberedImage, Rollout};
use crate::status::report::none_found;

/// Why a retry or a rollback is not started.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OperatorError {
    /// The engine could not be observed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The workloads of an orchestrator could not be observed.
    #[error("{0}")]
    NotObserved(String),
    /// `DISABLE_AUTO_UPGRADE`: nothing may be changed.
    #[error(
        "DISABLE_AUTO_UPGRADE=true, so nothing may be changed; run the command with DISABLE_AUTO_UPGRADE=false"
    )]
    HealthOnly,
    /// There is no such delegate, or no such release.
    #[error("{0}")]
    Unknown(String),
    /// The delegates do not allow it now, or not at all.
    #[error("{0}")]
    Refused(String),
    /// All have the settings already.
    #[error("nothing to do: these settings are in force already")]
    NothingToChange,
    /// It already runs the image of that release.
    #[error("{name} runs the image of release {release} already")]
    AlreadyThere {
        /// The delegate's container name.
        name: String,
        /// The release that was asked for.
        release: u64,
    },
}

/// A replacement is in progress: no container has its name, or a candidate exists.
pub(super) fn in_progress(name: &str) -> OperatorError {
    let text = format!("{name} is being replaced or restored right now; try again when that is done");
    OperatorError::Refused(text)
}

/// The image of a rollback, with its id if it is on the host.
type Earlier = (ImageReference, Option<ImageId>);

/// The delegate that an operator named.
pub(super) enum Found<'a> {
    /// A delegate that is a container.
    Container(&'a Rollout),
    /// A delegate that is a service.
    Service(&'a Object),
}

/// Whether an operator means this one: by its name, or by at least the first four characters of its id.
fn is_named(given: &str, name: &str, id: Option<&str>) -> bool {
    name == given.trim_start_matches('/') || given.len() >= 4 && id.is_some_and(|id| id.starts_with(given))
}

/// The image to roll back to: the previous one by the container's labels, or that of a release by the audit log or the labels.
/// The host must still have it.
async fn rollback_target<E: Engine>(
    engine: &E,
    found: &Found<'_>,
    release: Option<&str>,
    records: impl IntoIterator<Item = Event>,
) -> Result<Earlier, OperatorError> {
    let rollout = match found {
        Found::Container(rollout) => *rollout,
        Found::Service(service) => return Ok((image_before(&service.managed, release, records)?, None)),
    };
    let Some(serving) = rollout.serving.as_ref().filter(|_| rollout.candidate.is_none()) else {
        return Err(in_progress(&rollout.name));
    };
    let from = serving.rolled_back_from.as_ref();
    let from = from.map(|left| left.reference.to_string());
    let usable = |found: &Release| {
        Some(RememberedImage {
            reference: found.image.as_str().into(),
            id: ImageId::new(found.image_id.clone()?),
        })
    };
    let before = (from, serving.previous.clone());
    let named = (&*rollout.name, rollout.into());
    let RememberedImage { reference, id } = earlier(named, before, release, records, usable)?;
    let is_here = is_here(engine, id.as_str()).await?;
    match reference.reference() {
        Ok(reference) if is_here => Ok((reference.clone(), Some(id))),
        _ => Err(OperatorError::Refused(format!(
            "the image {reference} ({id}) is no longer on this host; pull it and try again"
        ))),
    }
}

/// Checks that no update of it is in progress.
pub(super) fn is_free(managed: &Managed) -> Result<(), OperatorError> {
    if managed.is_in_progress() {
        return Err(in_progress(&managed.name));
    }
    Ok(())
}

/// The image before the current one, or that of a release.
pub(super) fn image_before(
    managed: &Managed,
    release: Option<&str>,
    records: impl IntoIterator<Item = Event>,
) -> Result<ImageReference, OperatorError> {
    is_free(managed)?;
    let usable = |image: &str| image.parse().ok();
    let previous = managed.previous_image().and_then(usable);
    let before = (managed.record.rolled_back_from.clone(), previous);
    let named = (&*managed.name, managed.into());
    earlier(named, before, release, records, |found| usable(&found.image))
}

/// The release with this number or tag, unless it is already running; without one, the previous image, unless the present one is the
/// result of a rollback `from` another.
fn earlier<T>(
    (name, present): (&str, Present),
    (from, previous): (Option<String>, Option<T>),
    release: Option<&str>,
    records: impl IntoIterator<Item = Event>,
    usable: impl Fn(&Release) -> Option<T>,
) -> Result<T, OperatorError> {
    let Some(release) = release else {
        let text = match (from, previous) {
            // A rollback cannot itself be rolled back.
            (Some(from), _) => format!(
                "{name} was already rolled back from {from}; to upgrade it to {from} again, run `{}`",
                command_for("retry", name)
            ),
            (None, Some(previous)) => return Ok(previous),
            (None, None) => format!("nothing to roll back: delegate-upgrader has not upgraded {name}"),
        };
        return Err(OperatorError::Refused(text));
    };
    let records = records.into_iter().filter(|event| event.container == name);
    let history = History::of(name, Some(present), records.collect());
    let mut found: Vec<&Release> = history.served().rev().filter(|it| it.is_named(release)).collect();
    let image = |it: &Release| (it.image.clone(), it.image_id.clone());
    found.dedup_by_key(|it| image(it));
    let serving = history.served().find(|it| it.is_serving).map(image);
    let usable = match found[..] {
        [found] if serving == Some(image(found)) => {
            let (name, release) = (name.to_owned(), found.release);
            return Err(OperatorError::AlreadyThere { name, release });
        }
        [found] => usable(found),
        _ => None,
    };
    usable.ok_or_else(|| {
        let found = match found[..] {
            [] | [_] => "no release",
            _ => "more than one release",
        };
        let others = history.served().filter(|it| !it.is_serving);
        let others = others.map(|it| format!("{} ({})", it.release, it.image));
        let known = match others.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => "with an audit log (AUDIT_LOG), releases are remembered".to_owned(),
            known => format!("known: {known}"),
        };
        let text = format!("{name} has {found} {release} that is known here; {known}");
        OperatorError::Unknown(text)
    })
}

/// Whether the host has this image.
pub(super) async fn is_here<E: Engine>(engine: &E, image: &str) -> Result<bool, EngineError> {
    match engine.inspect_image(image).await {
        Err(EngineError::NotFound(_)) => Ok(false),
        found => found.map(|_| true),
    }
}

/// The run that takes these back, each to its image.
fn run_back(all: Vec<(Found<'_>, Earlier)>, request: Request, now: DateTime<Utc>) -> UpgradeRun {
    let mut run = UpgradeRun::new(Intent::Rollback(request));
    for (found, (to, id)) in all {
        let (key, name, workload, from) = match &found {
            Found::Container(rollout) => {
                let from = rollout.representative().map(|member| &member.image);
                (&rollout.name, &rollout.name, &rollout.workload, from)
            }
            Found::Service(Object { managed: it, .. }) => (&it.id, &it.name, &it.workload, Some(&it.image)),
        };
        let from = from.map(ToString::to_string);
        info!(container = name, workload, from, %to, "rolling back");
        run = run.taking_back(key, to, id, now);
    }
    run
}

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Reconciler<E, M, H> {
    /// Starts a run for one delegate that an operator named. It also tries images that were rejected before.
    ///
    /// # Errors
    /// There is no such delegate, it is being replaced, or nothing may be changed.
    pub async fn retry(&mut self, container: &str, request: Request) -> Result<(), OperatorError> {
        let observed = self.observe_all().await?;
        self.may_change().await?;
        let key = match self.find(container, &observed.rollouts)? {
            Found::Container(rollout) if rollout.serving.is_none() => {
                return Err(in_progress(&rollout.name));
            }
            Found::Container(rollout) => rollout.name.clone(),
            Found::Service(Object { managed, .. }) => {
                is_free(managed)?;
                managed.id.clone()
            }
        };
        let run = self.new_run(Intent::Retry(request), &observed).await;
        self.core.run = run.limited_to(&key);
        Ok(())
    }

    /// Starts a run that takes one delegate back to its previous image, or to a release; `records` are the audit log's.
    ///
    /// # Errors
    /// There is no such delegate, image or release, it is being replaced, or nothing may be changed.
    pub async fn rollback(
        &mut self,
        container: &str,
        release: Option<&str>,
        request: Request,
        records: impl IntoIterator<Item = Event>,
    ) -> Result<(), OperatorError> {
        let Observed { rollouts, now, .. } = self.observe_all().await?;
        self.may_change().await?;
        let found = self.find(container, &rollouts)?;
        let former = match release {
            None => self.run_back_to_former(&found, &request, now).await?,
            Some(_) => None,
        };
        let run = if let Some(run) = former {
            run
        } else {
            let earlier = rollback_target(self.engine.as_ref(), &found, release, records).await?;
            run_back(vec![(found, earlier)], request, now)
        };
        self.start(run, &rollouts);
        Ok(())
    }

    /// Starts a run that takes all delegates to a release. As in any run, the first replica is the canary, and the others follow one at
    /// a time. Those that run the release already, and those that are left alone, stay as they are.
    ///
    /// # Errors
    /// As for [`Self::rollback`]. Then no delegate is rolled back.
    pub async fn rollback_all(
        &mut self,
        release: &str,
        request: Request,
        records: &[Event],
    ) -> Result<(), OperatorError> {
        let Observed { rollouts, now, .. } = self.observe_all().await?;
        self.may_change().await?;
        let services = self.services.found.objects.iter().map(Found::Service);
        let containers = rollouts.iter().filter(|rollout| !rollout.is_upgrader());
        let containers = containers.map(Found::Container);
        let (mut all, mut others) = (Vec::new(), Vec::new());
        for found in containers.chain(services) {
            let (name, left_alone) = match &found {
                Found::Container(rollout) => (&rollout.name, rollout.owner.left_alone()),
                Found::Service(Object { managed, .. }) => (&managed.name, managed.left_alone.clone()),
            };
            if let Some(reason) = left_alone {
                others.push(format!("{name}: {reason}"));
                continue;
            }
            let records = records.iter().cloned();
            match rollback_target(self.engine.as_ref(), &found, Some(release), records).await {
                Err(error @ OperatorError::AlreadyThere { .. }) => others.push(error.to_string()),
                earlier => all.push((found, earlier?)),
            }
        }
        if all.is_empty() {
            let none = none_found(
                &self.settings.scope.workload_names,
                &self.observer.other_workloads(),
            );
            others.extend(others.is_empty().then_some(none));
            let text = format!("no delegate is rolled back: {}", others.join("; "));
            return Err(OperatorError::Refused(text));
        }
        let run = run_back(all, request, now);
        self.start(run, &rollouts);
        Ok(())
    }

    /// The name of the delegate's container or service; for a task of a service, also the name of that service.
    ///
    /// # Errors
    /// No delegate has this name or id.
    pub async fn delegate_name(&mut self, given: &str) -> Result<(String, Option<String>), OperatorError> {
        let Observed { rollouts, .. } = self.observe_all().await?;
        self.find_services().await?;
        Ok(match self.find(given, &rollouts)? {
            Found::Container(rollout) => (rollout.name.clone(), rollout.owner.task_of.clone()),
            Found::Service(service) => (service.managed.name.clone(), None),
        })
    }

    /// Starts a run that an operator asked for.
    pub(super) fn start(&mut self, run: UpgradeRun, rollouts: &[Rollout]) {
        self.forget_last_run();
        self.core.run = run.over(rollouts);
    }

    /// Observes the services as well.
    pub(super) async fn may_change(&mut self) -> Result<(), OperatorError> {
        if self.settings.policy.health_only {
            return Err(OperatorError::HealthOnly);
        }
        Ok(self.find_services().await?)
    }

    /// Finds a delegate among the observed containers and services.
    pub(super) fn find<'a>(
        &'a self,
        given: &str,
        rollouts: &'a [Rollout],
    ) -> Result<Found<'a>, OperatorError> {
        let is_it = |rollout: &&Rollout| {
            let serving = rollout.serving.as_ref();
            is_named(given, &rollout.name, serving.map(|serving| serving.id.as_str()))
        };
        if let Some(rollout) = rollouts.iter().find(is_it) {
            return Ok(Found::Container(rollout));
        }
        let is_it = |Object { managed, .. }: &&Object| is_named(given, &managed.name, Some(&managed.id));
        if let Some(service) = self.services.found.objects.iter().find(is_it) {
            return Ok(Found::Service(service));
        }
        let services = self.services.managed().map(|managed| managed.name.as_str());
        let containers = rollouts.iter().map(|rollout| rollout.name.as_str());
        Err(self.no_such_delegate(given, containers.chain(services)))
    }

    pub(super) fn no_such_delegate<'a>(
        &self,
        given: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> OperatorError {
        let known = match known.into_iter().collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => none_found(&self.settings.scope.workload_names, &[]),
            known => format!("managed: {known}"),
        };
        OperatorError::Unknown(format!("no managed delegate {given:?}; {known}"))
    }
}
