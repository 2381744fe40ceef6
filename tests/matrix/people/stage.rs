//! The stages of an upgrade at which a person acts: before each change, in the middle of the proof, and in the middle of
//! the drain. They are read from the calls of a clean upgrade.

use std::fmt;

use super::act::{Act, Target};

/// The owner of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// The old container, without a candidate.
    Alone,
    /// The old container, beside a candidate.
    Beside,
    /// No container.
    Free,
    /// The new container, and the old one is still there.
    Replaced,
    /// The new container alone.
    Over,
}

/// The moment relative to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Docker has not received the call: the upgrader decided without knowledge of the act.
    Before,
    /// Some time after the call, while the upgrader observes.
    After,
}

/// One stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stage {
    /// The call's name in an undisturbed upgrade: `07-stop-old`.
    pub(crate) call: String,
    pub(crate) moment: Moment,
    pub(crate) phase: Phase,
}

impl Stage {
    /// The call without its number: `stop-old`.
    pub(crate) fn kind(&self) -> &str {
        kind(&self.call)
    }

    /// Whether the name is about to be given up: an act on the container at this moment comes too late.
    pub(crate) fn is_commit(&self) -> bool {
        self.moment == Moment::Before
            && self.phase == Phase::Beside
            && self.kind().starts_with("rename-old-to-")
    }

    /// Whether the target of the act exists.
    pub(crate) fn permits(&self, act: Act) -> bool {
        match act.target() {
            Some(Target::Serving) => self.phase != Phase::Free,
            Some(Target::Candidate) => matches!(self.phase, Phase::Beside | Phase::Free),
            // The matrix itself would cause a stop request that arrives after a whole restart.
            Some(Target::Old)
                if matches!(act, Act::Restart(_))
                    && self.moment == Moment::Before
                    && self.kind() == "stop-old" =>
            {
                false
            }
            Some(Target::Old) => matches!(self.phase, Phase::Free | Phase::Replaced),
            None => true,
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.call.split('-').next().unwrap_or_default();
        match (self.moment, self.kind()) {
            (Moment::Before, kind) => write!(f, "{number}-before-{kind}"),
            (Moment::After, "start-candidate") => write!(f, "{number}-proof"),
            (Moment::After, _) => write!(f, "{number}-drain"),
        }
    }
}

fn kind(call: &str) -> &str {
    call.split_once('-').map_or(call, |(_, kind)| kind)
}

/// The stages of an upgrade with these calls, of which only the writes count.
pub(crate) fn stages(calls: &[(String, bool)]) -> Vec<Stage> {
    let mut phase = Phase::Alone;
    let mut stages = Vec::new();
    for (call, _) in calls.iter().filter(|(_, write)| *write) {
        let stage = |moment, phase| Stage {
            call: call.clone(),
            moment,
            phase,
        };
        stages.push(stage(Moment::Before, phase));
        match kind(call) {
            "create-candidate" => phase = Phase::Beside,
            "rename-old-to-retired" | "rename-old-to-draining" if phase == Phase::Beside => {
                phase = Phase::Free;
            }
            "rename-candidate-to-service" => phase = Phase::Replaced,
            "remove-old" => phase = Phase::Over,
            "start-candidate" | "stop-old" => stages.push(stage(Moment::After, phase)),
            _ => {}
        }
    }
    stages
}
