//! An operator's command that gives delegates other settings, by the proof of an upgrade.

mod of_orchestrators;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::Reconciler;
use super::controller::Controller as _;
use super::observation::Observed;
use super::operator::{Found, OperatorError, in_progress};
use super::upgrade_run::UpgradeRun;
use crate::container::{ImageId, Inspected, Request, compose};
use crate::document::{IDENTITY, NewSettings};
use crate::engine::Engine;
use crate::health::HealthEndpoint;
use crate::image::ImageName;
use crate::managed::Object;
use crate::manager::ImageSource;
use crate::rollout::{Intent, Member, Rollout};
use crate::status::planned::Planned;

/// The delegates that get other settings.
#[derive(Clone, Debug)]
pub enum Whom {
    /// The one with this name or id of a container or service.
    Container(String),
    /// All with this `DELEGATE_NAME`.
    Workload(String),
}

/// The change of one delegate's settings.
#[derive(Clone, Debug)]
pub struct Change {
    /// The name of the container, service or Deployment.
    pub container: String,
    /// The settings that change, without values that may be secrets.
    pub changes: String,
    /// The tool that would undo the change, and what to change there; `None` if the delegate does not show one.
    pub elsewhere: Option<String>,
}

/// The new settings of one delegate.
pub(super) struct Wanted {
    change: Change,
    /// Its key in the run.
    key: String,
    /// The id of its container or workload.
    id: String,
    image: ImageName,
    /// The id of the image on the host. Orchestrators know images only by name.
    image_id: Option<ImageId>,
    settings: NewSettings,
}

/// Returns a run that gives these their settings.
pub(super) fn run_of(
    all: Vec<Wanted>,
    request: Request,
    now: DateTime<Utc>,
) -> Result<(UpgradeRun, Vec<Change>), OperatorError> {
    if all.is_empty() {
        return Err(OperatorError::NothingToChange);
    }
    let settings = all.iter().map(|it| (it.id.clone(), it.settings.clone()));
    let mut run = UpgradeRun::new(Intent::Reconfigure(request, Arc::new(settings.collect())));
    for it in &all {
        let image = it.image.reference();
        let image = image.map_err(|problem| cannot(&it.change.container, &problem))?;
        run = run.taking_back(&it.key, image.clone(), it.image_id.clone(), now);
    }
    Ok((run, all.into_iter().map(|it| it.change).collect()))
}

/// Returns the request of a rollback, whose change is recorded as one of settings.
pub(super) fn of_rollback(request: Request) -> Request {
    let reason = request.reason.or_else(|| Some("rollback".to_owned()));
    Request { reason, ..request }
}

impl<E: Engine, M: ImageSource, H: HealthEndpoint> Reconciler<E, M, H> {
    /// Starts a run that gives delegates other settings. The first replica is the canary, and the others follow one at a time.
    /// Those that have these settings already stay as they are.
    ///
    /// # Errors
    /// No delegate has that name, the settings of one cannot be changed, or nothing may be changed. Then no delegate is changed.
    pub async fn reconfigure(
        &mut self,
        whom: &Whom,
        settings: &NewSettings,
        request: Request,
    ) -> Result<Vec<Change>, OperatorError> {
        let observed = self.observe_all().await?;
        let Observed { rollouts, now, .. } = &observed;
        self.may_change().await?;
        let (containers, services): (Vec<&Rollout>, Vec<&Object>) = match whom {
            Whom::Container(name) => match self.find(name, rollouts)? {
                Found::Container(rollout) => (vec![rollout], Vec::new()),
                Found::Service(service) => (Vec::new(), vec![service]),
            },
            Whom::Workload(workload) => {
                // Without a member, failed ones remain of a delegate that its owner has removed.
                let is_it = |it: &&Rollout| {
                    it.workload == *workload && !it.is_upgrader() && it.representative().is_some()
                };
                // The orchestrator recreates the tasks of a service.
                let is_own = |it: &&Rollout| it.owner.task_of.is_none();
                let services = self.services.found.objects.iter();
                let services = services.filter(|it| it.managed.workload == *workload);
                let containers = rollouts.iter().filter(is_it).filter(is_own);
                (containers.collect(), services.collect())
            }
        };
        if let (Whom::Workload(workload), true) = (whom, containers.is_empty() && services.is_empty()) {
            let workloads: BTreeSet<_> = self.subjects(&observed).filter_map(|it| it.workload).collect();
            return Err(self.no_such_delegate(workload, workloads));
        }
        let mut wanted = Vec::new();
        for rollout in containers {
            wanted.extend(self.change(rollout, settings).await?);
        }
        for service in services {
            wanted.extend(self.services.change_to(service, settings)?);
        }
        let (run, changes) = run_of(wanted, request, *now)?;
        self.start(run, rollouts);
        Ok(changes)
    }

    /// The run that takes the last change of a delegate's settings back, if that was its last attempt.
    pub(super) async fn run_back_to_former(
        &self,
        found: &Found<'_>,
        request: &Request,
        now: DateTime<Utc>,
    ) -> Result<Option<UpgradeRun>, OperatorError> {
        let wanted = match found {
            Found::Container(rollout)
                if let Some(names) = rollout.serving.as_ref().and_then(|it| it.reconfigured.as_ref()) =>
            {
                self.change_back(rollout, names).await?
            }
            Found::Service(it) if it.managed.changed_settings().is_some() => {
                self.services.change_back(it).await?
            }
            _ => return Ok(None),
        };
        let (run, _) = run_of(wanted.into_iter().collect(), of_rollback(request.clone()), now)?;
        Ok(Some(run))
    }

    /// The change back to the settings with these names that a delegate had before their last change.
    async fn change_back(&self, rollout: &Rollout, names: &str) -> Result<Option<Wanted>, OperatorError> {
        let serving = changeable(rollout)?;
        let Some(former) = rollout.former_of(serving) else {
            let name = &rollout.name;
            let problem = format!(
                "the former ones ({names}) are gone with {name}.former; --to IMAGE-TAG goes back to another image"
            );
            return Err(cannot(name, &problem));
        };
        let settings = NewSettings::of(names, &self.engine.inspect(&former.id).await?);
        self.change(rollout, &settings).await
    }

    /// The change of a delegate's settings; `None` if it has them.
    async fn change(
        &self,
        rollout: &Rollout,
        settings: &NewSettings,
    ) -> Result<Option<Wanted>, OperatorError> {
        let serving = changeable(rollout)?;
        let container = self.engine.inspect(&serving.id).await?;
        let missing = missing_in(&rollout.name, settings, &container)?;
        let wanted = (!missing.is_empty()).then(|| Wanted {
            change: Change {
                container: rollout.name.clone(),
                changes: missing.as_changes_of(&container),
                elsewhere: elsewhere(|name| container.label(name)),
            },
            key: rollout.name.clone(),
            id: serving.id.as_str().to_owned(),
            image: serving.image.clone(),
            image_id: Some(serving.image_id.clone()),
            settings: missing,
        });
        Ok(wanted)
    }

    /// Plans the run that was started, without doing anything.
    ///
    /// # Errors
    /// The engine could not be observed.
    pub async fn planned(&mut self) -> Result<Vec<Planned>, OperatorError> {
        let observed = self.observe_all().await?;
        let survey = self.learned(observed).await?;
        let services = self.services.plan(&self.core, survey.now);
        Ok(self.rows(survey).into_iter().chain(services).collect())
    }
}

/// The container in service, if its settings can be changed.
fn changeable(rollout: &Rollout) -> Result<&Member, OperatorError> {
    let name = &rollout.name;
    if rollout.is_upgrader() {
        return Err(cannot(name, &"it is the upgrader; recreate it yourself"));
    }
    if let Some(reason) = rollout.owner.left_alone() {
        return Err(cannot(name, &reason));
    }
    let serving = rollout.serving.as_ref().filter(|_| rollout.candidate.is_none());
    serving.ok_or_else(|| in_progress(name))
}

/// The settings for which a delegate has other values.
///
/// # Errors
/// It would be another delegate.
fn missing_in(name: &str, settings: &NewSettings, present: &Inspected) -> Result<NewSettings, OperatorError> {
    let missing = settings.missing_in(present);
    if let Some(it) = IDENTITY.iter().find(|it| missing.env.contains_key(**it)) {
        let problem = format!("with another {it} it would be another delegate; start that one yourself");
        return Err(cannot(name, &problem));
    }
    Ok(missing)
}

fn cannot(name: &str, problem: &dyn Display) -> OperatorError {
    OperatorError::Refused(format!("{name} keeps its settings: {problem}"))
}

/// The tool that made the container, and its file that still has the former settings.
fn elsewhere<'a>(label: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    if label(compose::PROJECT).is_some() {
        let file = label("com.docker.compose.project.config_files").unwrap_or("its Compose file");
        return Some(brought_back_by("container that Compose creates", file));
    }
    let unit = label("PODMAN_SYSTEMD_UNIT")?;
    Some(brought_back_by(&format!("container of {unit}"), "its file"))
}

fn brought_back_by(what: &str, file: &str) -> String {
    format!("the next {what} has the former settings, unless you change {file} as well")
}
