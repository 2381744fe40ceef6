//! An operator's command that gives delegates other settings, by the proof of an upgrade.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Reconciler;
use super::observation::Observed;
use super::operator::{Found, OperatorError};
use super::upgrade_run::UpgradeRun;
use crate::container::{Request, compose};
use crate::document::NewSettings;
use crate::engine::Engine;
use crate::health::HealthEndpoint;
use crate::manager::ImageSource;
use crate::rollout::{AutoRemove, Intent, Member, Rollout};
use crate::status::planned::Planned;

/// The delegates that get other settings.
#[derive(Clone, Debug)]
pub enum Whom {
    /// The one with this container name or id.
    Container(String),
    /// All with this `DELEGATE_NAME`.
    Workload(String),
}

/// The change of one delegate's settings.
#[derive(Clone, Debug)]
pub struct Change {
    /// The container's name.
    pub container: String,
    /// The settings that change, without values that may be secrets.
    pub changes: String,
    /// The tool that would undo the change, and what to change there; `None` if the container does not show one.
    pub elsewhere: Option<String>,
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
        let Observed { rollouts, .. } = self.observe_all().await?;
        self.may_change().await?;
        let all = match whom {
            Whom::Container(name) => match self.find(name, &rollouts)? {
                Found::Container(rollout) => vec![rollout],
                Found::Service(service) => {
                    let name = service.name;
                    let problem = format!(
                        "its orchestrator changes them by its own rules, as with `docker service update --env-add NAME=VALUE {name}`"
                    );
                    return Err(OperatorError::CannotReconfigure { name, problem });
                }
            },
            Whom::Workload(workload) => {
                let is_it = |it: &&Rollout| it.workload == *workload && !it.is_upgrader();
                let all: Vec<_> = rollouts.iter().filter(is_it).collect();
                if all.is_empty() {
                    return Err(self.no_such_delegate(workload.clone(), &rollouts));
                }
                all
            }
        };
        let (mut changes, mut wanted) = (Vec::new(), Vec::new());
        for rollout in all {
            let serving = changeable(rollout)?;
            let container = self.engine.inspect(&serving.id).await?;
            let missing = settings.missing_in(&container);
            if missing.is_empty() {
                continue;
            }
            changes.push(Change {
                container: rollout.name.clone(),
                changes: missing.as_changes_of(&container),
                elsewhere: elsewhere(|name| container.label(name)),
            });
            wanted.push((rollout, missing));
        }
        if wanted.is_empty() {
            return Err(OperatorError::NothingToChange);
        }
        self.start_reconfiguration(wanted, &rollouts, request)?;
        Ok(changes)
    }

    /// Starts a run that gives a delegate the settings that it had before the last change.
    pub(super) async fn take_settings_back(
        &mut self,
        rollout: &Rollout,
        names: &str,
        rollouts: &[Rollout],
        request: Request,
    ) -> Result<(), OperatorError> {
        let serving = changeable(rollout)?;
        let Some(former) = rollout.former_of(serving) else {
            let problem = format!("the former ones ({names}) are gone with {}.former", rollout.name);
            return Err(cannot(rollout, problem));
        };
        let settings = NewSettings::of(names, &self.engine.inspect(&former.id).await?);
        let reason = request.reason.or_else(|| Some("rollback".to_owned()));
        let request = Request { reason, ..request };
        self.start_reconfiguration(vec![(rollout, settings)], rollouts, request)
    }

    fn start_reconfiguration(
        &mut self,
        all: Vec<(&Rollout, NewSettings)>,
        rollouts: &[Rollout],
        request: Request,
    ) -> Result<(), OperatorError> {
        let now = self.now();
        let (mut settings, mut images) = (BTreeMap::new(), Vec::new());
        for (rollout, new) in all {
            let serving = changeable(rollout)?;
            let image = serving.image.reference().cloned();
            let image = image.map_err(|problem| cannot(rollout, problem.to_string()))?;
            images.push((&rollout.name, image, serving.image_id.clone()));
            settings.insert(serving.id.clone(), new);
        }
        self.forget_last_run();
        let run = UpgradeRun::new(Intent::Reconfigure(request, Arc::new(settings)));
        let run = images.into_iter().fold(run, |run, (name, image, id)| {
            run.taking_back(name, image, Some(id), now)
        });
        self.core.run = run.over(rollouts);
        Ok(())
    }

    /// Plans the run that was started, without doing anything.
    ///
    /// # Errors
    /// The engine could not be observed.
    pub async fn planned(&mut self) -> Result<Vec<Planned>, OperatorError> {
        let observed = self.observe_all().await?;
        let mut survey = self.learned(observed).await?;
        let run = &self.core.run;
        survey.rollouts.retain(|rollout| run.is_about(&rollout.name));
        Ok(self.rows(survey))
    }
}

/// The container in service, if its settings can be changed.
fn changeable(rollout: &Rollout) -> Result<&Member, OperatorError> {
    if rollout.is_upgrader() {
        return Err(cannot(
            rollout,
            "it is the upgrader; recreate it yourself".to_owned(),
        ));
    }
    if let Some(reason) = rollout.owner.left_alone() {
        return Err(cannot(rollout, reason.to_string()));
    }
    let serving = rollout.serving.as_ref().filter(|_| rollout.candidate.is_none());
    let serving = serving.ok_or_else(|| OperatorError::InProgress(rollout.name.clone()))?;
    if serving.auto_remove != AutoRemove::No {
        let problem =
            "it was started with --rm, so its former settings would vanish with it; recreate it yourself";
        return Err(cannot(rollout, problem.to_owned()));
    }
    Ok(serving)
}

fn cannot(rollout: &Rollout, problem: String) -> OperatorError {
    let name = rollout.name.clone();
    OperatorError::CannotReconfigure { name, problem }
}

/// The tool that made the container, and its file that still has the former settings.
fn elsewhere<'a>(label: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    if label(compose::PROJECT).is_some() {
        let file = label("com.docker.compose.project.config_files").unwrap_or("its Compose file");
        return Some(format!(
            "the next container that Compose creates has the former settings, unless you change {file} as well"
        ));
    }
    let unit = label("PODMAN_SYSTEMD_UNIT")?;
    Some(format!(
        "the next container of {unit} has the former settings, unless you change its file as well"
    ))
}
