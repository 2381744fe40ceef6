//! Which containers with a managed `DELEGATE_NAME` are delegates: one `env_file` may give the name to every service of a
//! Compose file. Touching another container does harm and skipping a delegate does not, so a doubtful one is left alone.

use tracing::info;

use super::Scope;
use super::read::{Identities, Part};
use crate::container::{OWN_WORKLOAD, SWARM_SERVICE, compose, label};
use crate::health::Probe;
use crate::image::{ImageName, is_delegate_image};
use crate::rollout::Rollout;
use crate::rollout::reason::Reason;

impl Identities {
    /// Whether these containers are recognizably a delegate's: by the image, by the owner's label, because this program created
    /// one, or by an earlier answer.
    pub(super) fn are_delegates(&self, scope: &Scope, parts: &[Part]) -> bool {
        let is_shown = |part: &Part| {
            let container = &part.container;
            let image = ImageName::from(container.image_reference());
            part.workload == OWN_WORKLOAD
                || part.role.is_old()
                || container.label(SWARM_SERVICE).is_some()
                || container.label(label::ENABLE).is_some()
                || container.is_ours()
                || is_delegate_image(&image, &scope.known_images)
                || self
                    .0
                    .get(&container.id())
                    .is_some_and(|identity| identity.has_answered)
        };
        parts.is_empty() || !parts.iter().any(is_one_off) && parts.iter().any(is_shown)
    }

    /// Logs once that a container does not count as a delegate's, when it has had time to answer.
    pub(super) fn log_not_delegates(&mut self, rollout: &Rollout) {
        let Some(member) = rollout.representative() else {
            return;
        };
        let identity = self.of(&member.id);
        if member.history.last_health.is_some() && !std::mem::replace(&mut identity.is_told, true) {
            let (container, image) = (&member.name, &member.image);
            info!(container, %image, "has a managed DELEGATE_NAME, but is not known to be a delegate; leaving it alone");
        }
    }

    /// Whether one of these containers, which look like no delegate, answers like one; a positive answer is remembered. Only a
    /// container with its own network counts: in a shared network namespace, another container may have answered.
    pub(super) fn note_answer(&mut self, parts: &[Part], rollout: &Rollout) -> bool {
        let answers = |part: &&Part| {
            let member = rollout.member(&part.container.id());
            let has_own_network = !part.container.addresses().is_empty();
            has_own_network
                && member.is_some_and(|member| {
                    let health = &member.health;
                    member.work.is_some()
                        || health.probe == Probe::Exec && health.is_healthy()
                        || health.probe == Probe::Http && health.is_a_delegates()
                })
        };
        let answering = parts.iter().filter(|part| !is_one_off(part)).find(answers);
        if let Some(part) = answering {
            self.of(&part.container.id()).has_answered = true;
        }
        answering.is_some()
    }
}

pub(super) fn not_a_delegate(parts: &[Part]) -> Reason {
    let part = parts.first().filter(|part| !is_one_off(part));
    let image = part.map(|part| part.container.image_reference().to_owned());
    Reason::NotADelegate { image }
}

fn is_one_off(part: &Part) -> bool {
    let value = part.container.label(compose::ONE_OFF);
    value.is_some_and(|value| value.eq_ignore_ascii_case("true"))
}
