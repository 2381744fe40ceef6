//! New settings for the workloads of orchestrators.

use super::{Change, Wanted, brought_back_by, cannot, missing_in};
use crate::document::NewSettings;
use crate::managed::{Managed, Object, Orchestrate, Orchestrator};
use crate::reconcile::driver::Driver;
use crate::reconcile::operator::{OperatorError, is_free};
use crate::text::redact::looks_secret;

impl<O: Orchestrate> Driver<O> {
    /// The change of a workload to an operator's settings; `None` if it has them.
    pub(in crate::reconcile) fn change_to(
        &self,
        object: &Object,
        settings: &NewSettings,
    ) -> Result<Option<Wanted>, OperatorError> {
        let name = &object.managed.name;
        if !settings.labels.is_empty() || settings.memory.is_some() {
            let problem = "`docker service update` changes labels and limits of a service";
            return Err(cannot(name, &problem));
        }
        let present = self.orchestrator.settings(object);
        let mut names = settings
            .env
            .iter()
            .filter(|(_, value)| value.is_some())
            .map(|(name, _)| name);
        if let Some(secret) = names.find(|name| looks_secret(name) && present.env(name).is_none()) {
            let problem = format!(
                "{secret} is not among its variables, and everyone who may read those could read a secret; change it at its source"
            );
            return Err(cannot(name, &problem));
        }
        if let Some(problem) = self.orchestrator.refuses(object, settings) {
            return Err(cannot(name, &problem));
        }
        self.change(object, settings)
    }

    /// The change of a workload's settings; `None` if it has them.
    fn change(&self, object: &Object, settings: &NewSettings) -> Result<Option<Wanted>, OperatorError> {
        let Object { managed, document } = object;
        let name = &managed.name;
        if let Some(reason) = &managed.left_alone {
            return Err(cannot(name, reason));
        }
        is_free(managed)?;
        let present = self.orchestrator.settings(object);
        let missing = missing_in(name, settings, &present)?;
        let stack = document.pointer("/Spec/Labels/com.docker.stack.namespace");
        let elsewhere = match (O::ORCHESTRATOR, stack) {
            (Orchestrator::Swarm, None) => None,
            (Orchestrator::Swarm, Some(_)) => Some(brought_back_by("`docker stack deploy`", "its file")),
            (Orchestrator::Kubernetes, _) => Some(brought_back_by(
                "`kubectl apply` or `helm upgrade`",
                "its manifest or values",
            )),
        };
        let wanted = (!missing.is_empty()).then(|| Wanted {
            change: Change {
                container: name.clone(),
                changes: missing.as_changes_of(&present),
                elsewhere,
            },
            key: managed.id.clone(),
            id: managed.id.clone(),
            image: managed.image.clone(),
            image_id: None,
            settings: missing,
        });
        Ok(wanted)
    }

    /// The change back to the settings that a workload had before their last change.
    pub(in crate::reconcile) async fn change_back(
        &self,
        object: &Object,
    ) -> Result<Option<Wanted>, OperatorError> {
        let Managed { name, settings, .. } = &object.managed;
        let former = self.orchestrator.former_settings(object).await;
        let former = former.map_err(|problem| cannot(name, &problem))?;
        self.change(object, &NewSettings::of(&settings.names, &former))
    }
}
