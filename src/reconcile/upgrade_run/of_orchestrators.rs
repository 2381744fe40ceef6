//! A run's part for the workloads of orchestrators: their images, failures and facts.

use super::UpgradeRun;
use crate::managed::{Attempt, Managed, NO_TASK, Progress, Record};
use crate::rollout::reason::Reason;
use crate::rollout::wanted::not_asked;
use crate::rollout::{Desired, FailureCause, Intent, RunFacts};

impl UpgradeRun {
    /// The image that this run wants for a workload of an orchestrator.
    pub(in crate::reconcile) fn desired_of(&self, managed: &Managed) -> Desired {
        if let Intent::Reconfigure(..) = self.intent {
            return self.reconfigured(managed);
        }
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

    /// The same in a run that changes settings, each once: the image stays.
    fn reconfigured(&self, managed: &Managed) -> Desired {
        let new = self.intent.new_settings(&managed.id);
        match (new, managed.image.reference()) {
            (Some(new), _) if self.started.contains_key(&managed.id) => {
                let settings = new.names();
                Desired::Keep(Reason::Reconfigured { settings })
            }
            (Some(_), Ok(reference)) => Desired::Image {
                reference: reference.clone(),
                id: None,
                intent: self.intent.clone(),
            },
            _ => Desired::Keep(not_asked()),
        }
    }

    /// Notes that this run gave a workload other settings, with this record.
    pub(in crate::reconcile) fn note_started(&mut self, managed: &Managed, record: Record) {
        self.started.insert(managed.id.clone(), record);
    }

    /// Follows a workload in a run that changes settings. `has_new` says whether its spec has the new ones; another
    /// process may also take them back.
    pub(in crate::reconcile) fn follow(&mut self, managed: &mut Managed, has_new: bool) {
        let Some(new) = self.intent.new_settings(&managed.id) else {
            return;
        };
        match self.started.get(&managed.id) {
            // If Swarm takes settings back by itself, it also restores the labels from before the attempt.
            Some(started) if managed.record.release < started.release => managed.record = started.clone(),
            None if has_new => drop(self.started.insert(managed.id.clone(), managed.record.clone())),
            _ => {}
        }
        let is_back = !has_new && !managed.is_in_progress() && managed.taken_back().is_none();
        if is_back && self.started.contains_key(&managed.id) && !self.skipped.contains_key(&managed.id) {
            let failed = managed.record.attempt.as_ref().and_then(|it| it.failed.clone());
            let problem = failed.unwrap_or_else(|| "someone else took the former settings back".to_owned());
            let reason = Reason::Rejected {
                image: format!("{} with the new settings {}", managed.image, new.names()),
                rejection: FailureCause::RolloutFailed {
                    problem: problem.clone(),
                }
                .into(),
            };
            self.skipped.insert(managed.id.clone(), reason);
            self.halt_others(managed, problem);
        }
    }

    /// Notes that an attempt to give an orchestrator's workload an image failed. If it got no task, only the next run tries it again.
    pub(in crate::reconcile) fn note_failed(&mut self, managed: &Managed, cause: &str) {
        let attempt = managed.record.attempt.as_ref();
        if matches!(self.intent, Intent::Reconfigure(..)) || attempt.is_some_and(Attempt::is_of_settings) {
            return;
        }
        self.halt_others(managed, cause.to_owned());
        if cause.contains(NO_TASK) {
            let problem = cause.to_owned();
            self.skipped
                .insert(managed.id.clone(), Reason::CreateRefused { problem });
        }
        self.ended.insert(managed.id.clone());
    }

    fn halt_others(&mut self, managed: &Managed, because: String) {
        let name = managed.name.clone();
        let replicas = (Some(managed.orchestrator), managed.workload.clone());
        self.halt(replicas, &managed.name, Reason::Halted { name, because });
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
        // Two upgraders may have noted an attempt each, at the same moment: then the first name comes first.
        let comes_first = |other: &Managed| {
            let both = managed.is_noted() && other.is_noted() && other.progress != Progress::Updating;
            both && managed.name < other.name
        };
        let mut replaced = replicas.iter().filter(|other| !comes_first(other));
        let replaced = replaced.find(|other| is_undecided(other));
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
