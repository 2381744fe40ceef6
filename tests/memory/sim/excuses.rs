//! The excuses of a story: exactly what a person, a reboot or a crash took away, and so may be missing at the end.

use std::collections::{BTreeMap, BTreeSet};

use delegate_upgrader::container::Role;

use super::scenario::Scenario;
use kit::twin::{Glance, OperatorAction};

/// The excuses for one delegate.
#[derive(Clone, Debug, Default)]
pub struct Excuse {
    /// Someone removed or renamed it, or it vanished because of its owner's `--rm`.
    pub may_be_gone: bool,
    /// Someone stopped it, or its owner's policy does not restart it after what happened.
    pub may_be_stopped: bool,
    /// Someone removed the container whose label had its true restart policy.
    pub policy_is_lost: bool,
    /// Someone removed the container that it could have fallen back on.
    pub no_way_back: bool,
    /// Someone renamed a container that holds its ports.
    pub ports_are_taken: bool,
    /// Someone started its standby, which has no `--rm`, or ended the container that was recreated from that.
    pub copy_serves: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Excuses {
    by_delegate: BTreeMap<String, Excuse>,
    /// The names that people gave to containers.
    pub names: BTreeSet<String>,
    /// The ids of containers that people stopped, restarted or removed.
    pub handled: BTreeSet<String>,
}

impl Excuses {
    pub fn of(&self, delegate: &str) -> Excuse {
        self.by_delegate.get(delegate).cloned().unwrap_or_default()
    }

    /// Whether someone took away what a candidate could have fallen back on: it is started again and again.
    pub fn is_alone(&self) -> bool {
        self.by_delegate.values().any(|excuse| excuse.may_be_gone)
    }

    fn on(&mut self, delegate: &str) -> &mut Excuse {
        self.by_delegate.entry(delegate.to_owned()).or_default()
    }

    /// The engine or the host ended all containers: those whose policy does not restart them stay down.
    pub fn containers_ended(&mut self, scenario: &Scenario) {
        for delegate in &scenario.delegates {
            let excuse = self.on(&delegate.name);
            // The second time what was created once more goes too, and the copy serves itself.
            excuse.copy_serves |= delegate.auto_remove && excuse.may_be_gone;
            excuse.may_be_gone |= delegate.auto_remove;
            excuse.may_be_stopped |= matches!(delegate.policy, "no" | "on-failure");
        }
    }

    /// A process ended by itself.
    pub fn crashed(&mut self, name: &str, scenario: &Scenario) {
        let (base, role) = Role::parse(name);
        if let Some(delegate) = scenario.delegates.iter().find(|delegate| delegate.name == base)
            && matches!(role, Role::Serving | Role::Draining { .. })
        {
            let excuse = self.on(base);
            excuse.may_be_gone |= delegate.auto_remove;
            excuse.copy_serves |= delegate.auto_remove;
            excuse.may_be_stopped |= delegate.policy == "no";
        } else if role == Role::Candidate {
            // It may have been the delegate itself, created once more.
            let mut delegates = scenario.delegates.iter();
            let auto_remove = delegates.any(|other| other.name == base && other.auto_remove);
            self.on(base).copy_serves |= auto_remove;
        }
    }

    /// Records the excuses for what a person is about to do.
    pub fn before(&mut self, hand: &OperatorAction, glance: &[Glance], scenario: &Scenario) {
        let has = |base: &str, role: fn(Role) -> bool| {
            glance.iter().any(|container| {
                let (name, part) = Role::parse(&container.name);
                name == base && role(part)
            })
        };
        let serving = |base: &str| has(base, |role| role == Role::Serving);
        let draining = |base: &str| has(base, |role| matches!(role, Role::Draining { .. }));
        let id_of = |name: &str| {
            let container = glance.iter().find(|container| container.name == name);
            container.map(|container| container.id.as_str().to_owned())
        };
        // Its policy was taken away, because it is to be retired.
        let lost_its_policy = |base: &str| {
            let delegate = scenario.delegates.iter().find(|delegate| delegate.name == base);
            let serving = glance.iter().find(|container| container.name == base);
            serving.is_some_and(|serving| {
                // Or it will be in a moment, because it keeps crashing.
                let crashing = matches!(serving.state.as_str(), "restarting" | "exited");
                crashing || delegate.is_some_and(|delegate| serving.policy != delegate.policy)
            })
        };
        match hand {
            OperatorAction::Remove(name) | OperatorAction::Rename(name, _) => {
                let (base, role) = Role::parse(name);
                let base = base.to_owned();
                if let OperatorAction::Rename(_, to) = hand {
                    self.names.insert(to.clone());
                }
                self.handled.extend(id_of(name));
                let old = draining(&base) || lost_its_policy(&base);
                let in_service = serving(&base);
                let mut delegates = scenario.delegates.iter();
                let vanishes = delegates.any(|delegate| delegate.name == base && delegate.auto_remove);
                let excuse = self.on(&base);
                excuse.ports_are_taken |= matches!(hand, OperatorAction::Rename(..));
                match role {
                    Role::Serving => {
                        excuse.may_be_gone = true;
                        excuse.may_be_stopped = true;
                        excuse.copy_serves |= vanishes;
                        // Its label has the policy of the container that it replaces.
                        excuse.policy_is_lost |= old;
                    }
                    Role::Candidate | Role::Standby => {
                        excuse.no_way_back |= role == Role::Standby;
                        // It may have been the delegate itself, created once more.
                        excuse.copy_serves |= vanishes && role == Role::Candidate;
                        excuse.policy_is_lost |= old;
                        // Without its standby, an `--rm` delegate is lost when it ends before an upgrader starts.
                        excuse.may_be_gone |= !in_service && (!old || vanishes);
                    }
                    // Its label may have had the old container's policy.
                    Role::Failed { .. } | Role::Inconclusive { .. } | Role::Withdrawn { .. } => {
                        excuse.policy_is_lost |= old;
                    }
                    Role::Attempt | Role::Helper { .. } => {}
                    Role::Draining { .. } => {
                        // Under another name it keeps the ports, and only the copy may start one day.
                        excuse.copy_serves |= vanishes;
                        excuse.no_way_back = true;
                        excuse.may_be_gone |= !in_service;
                        excuse.may_be_stopped |= !in_service;
                    }
                }
            }
            OperatorAction::Stop(name) | OperatorAction::Kill(name) => {
                self.handled.extend(id_of(name));
                let (base, role) = Role::parse(name);
                // A candidate may be promoted at that moment, or an old one restored.
                let may_serve = match role {
                    Role::Serving | Role::Candidate => true,
                    Role::Draining { .. } => !serving(base),
                    _ => false,
                };
                if may_serve {
                    let auto_remove = scenario
                        .delegates
                        .iter()
                        .any(|delegate| delegate.name == base && delegate.auto_remove);
                    let excuse = self.on(base);
                    excuse.may_be_stopped = true;
                    excuse.may_be_gone |= auto_remove;
                    excuse.copy_serves |= auto_remove;
                }
            }
            OperatorAction::Start(name) | OperatorAction::Restart(name) => {
                self.handled.extend(id_of(name));
                let (base, role) = Role::parse(name);
                // A restart may end an `--rm` container for good: the engine may remove it first.
                let auto_remove = scenario
                    .delegates
                    .iter()
                    .any(|delegate| delegate.name == base && delegate.auto_remove);
                if auto_remove && role == Role::Serving {
                    self.on(base).may_be_gone = true;
                }
                self.on(base).copy_serves |= role == Role::Standby || auto_remove && role == Role::Serving;
            }
            OperatorAction::PruneContainers => {
                for container in glance {
                    let gone = matches!(container.state.as_str(), "created" | "exited");
                    if gone {
                        self.before(&OperatorAction::Remove(container.name.clone()), glance, scenario);
                    }
                }
            }
            _ => {}
        }
    }
}
