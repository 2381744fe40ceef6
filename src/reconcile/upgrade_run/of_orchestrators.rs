//! A run's part for the workloads of orchestrators: their images, failures and facts.

use super::UpgradeRun;
use crate::managed::{Managed, NO_TASK};
use crate::rollout::reason::Reason;
use crate::rollout::{Desired, Intent, RunFacts};

impl UpgradeRun {
    /// The image that this run wants for a workload of an orchestrator.
    pub(in crate::reconcile) fn desired_of(&self, managed: &Managed) -> Desired {
        let intent = if self.intent.is_requested() && self.ended.contains(&managed.id) {
            Intent::Upgrade
        } else {
            self.intent.clone()
        };
        match self.target(&managed.into()).0 {
            Ok(target) => Desired::Image {
                reference: target.reference.clone(),
                id: None,
                intent,
            },
            Err(Reason::UpToDate { image }) if let Intent::Rollback(_) = intent => {
                Desired::Keep(managed.went_back(image))
            }
            Err(reason) => Desired::Keep(reason),
        }
    }

    /// Notes that an attempt at an orchestrator's workload failed. If it got no task, only the next run tries it again.
    pub(in crate::reconcile) fn note_failed(&mut self, managed: &Managed, cause: &str) {
        let (name, because) = (managed.name.clone(), cause.to_owned());
        let replicas = (Some(managed.orchestrator), managed.workload.clone());
        self.halt(replicas, &managed.name, Reason::Halted { name, because });
        if cause.contains(NO_TASK) {
            let problem = cause.to_owned();
            self.skipped
                .insert(managed.id.clone(), Reason::CreateRefused { problem });
        }
        self.ended.insert(managed.id.clone());
    }

    /// This run's facts about upgrading an orchestrator's workload. `others` are upgraded one at a time with it.
    pub(in crate::reconcile) fn facts_of<'a>(
        &self,
        managed: &Managed,
        others: impl Iterator<Item = &'a Managed>,
        is_undecided: impl Fn(&Managed) -> bool,
    ) -> RunFacts {
        let is_replica = |other: &&Managed| other.workload == managed.workload && other.name != managed.name;
        let replicas: Vec<&Managed> = others.filter(is_replica).collect();
        let kind = Some(managed.orchestrator);
        let halted = self.halted.get(&(kind, managed.workload.clone()));
        let halted = halted.filter(|(failed, _)| replicas.iter().any(|other| other.name == *failed));
        let replaced = replicas.iter().find(|other| is_undecided(other));
        RunFacts {
            given_up: self.skipped.get(&managed.id).cloned(),
            halted: halted.map(|(_, because)| because.clone()),
            replica: replaced.map(|other| Reason::WaitingForReplica {
                name: other.name.clone(),
            }),
            ..RunFacts::default()
        }
    }
}
