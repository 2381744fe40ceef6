//! The stages of an upgrade at which a person can act: before each change, and in the middle of the proof and of the
//! drain. They are read from the calls of a clean upgrade.

use std::fmt;

use super::act::Target;

/// How a container is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Created,
    Up,
    /// Up, and asked to stop.
    Stopping,
    Ended,
}

/// What is on the host at a stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Situation {
    pub(crate) rm: bool,
    pub(crate) stop_first: bool,
    pub(crate) serving: Option<Life>,
    pub(crate) candidate: Option<Life>,
    pub(crate) draining: Option<Life>,
    pub(crate) standby: Option<Life>,
    /// The new image is on the host.
    pub(crate) pulled: bool,
    /// The new container has the name.
    pub(crate) replaced: bool,
}

/// When, as seen from a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The engine has not heard of it: the upgrader decided without knowing of the act.
    Before,
    /// Some time after it, while the upgrader observes.
    After,
}

/// One stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stage {
    /// The call as the clean upgrade has it: `07-stop-old`.
    pub(crate) call: String,
    pub(crate) moment: Moment,
    pub(crate) situation: Situation,
}

impl Situation {
    fn new(rm: bool, stop_first: bool) -> Self {
        Self {
            rm,
            stop_first,
            serving: Some(Life::Up),
            ..Self::default()
        }
    }

    pub(crate) fn life(&self, target: Target) -> Option<Life> {
        match target {
            Target::Serving => self.serving,
            Target::Candidate => self.candidate,
            Target::Draining => self.draining,
            Target::Standby => self.standby,
        }
    }

    /// The call was made, and succeeded.
    fn after(&mut self, call: &str) {
        match call {
            "pull" => self.pulled = true,
            "create-standby" => self.standby = Some(Life::Created),
            "create-candidate" => self.candidate = Some(Life::Created),
            "start-candidate" => self.candidate = Some(Life::Up),
            "rename-old-to-draining" => self.draining = self.serving.take(),
            "rename-candidate-to-service" => {
                self.serving = self.candidate.take();
                self.replaced = true;
            }
            "stop-old" => self.draining = Some(Life::Stopping),
            "remove-old" => self.draining = None,
            "remove-standby" => self.standby = None,
            _ => {}
        }
    }

    /// The old container has finished its tasks. One with `--rm` is gone then.
    fn drained(&mut self) {
        if self.draining == Some(Life::Stopping) {
            self.draining = (!self.rm).then_some(Life::Ended);
        }
    }
}

impl Stage {
    /// The call without its number: `stop-old`.
    pub(crate) fn kind(&self) -> &str {
        kind(&self.call)
    }

    /// Whether this call is held while the person acts.
    pub(crate) fn holds(&self, call: &str) -> bool {
        self.moment == Moment::Before && self.kind() == call
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.call.split('-').next().unwrap_or_default();
        match (self.moment, self.kind()) {
            (Moment::Before, kind) => write!(f, "{number}-before-{kind}"),
            (Moment::After, "start-candidate") => write!(f, "{number}-proof"),
            (Moment::After, "stop-old") => write!(f, "{number}-drain"),
            (Moment::After, kind) => write!(f, "{number}-after-{kind}"),
        }
    }
}

fn kind(call: &str) -> &str {
    call.split_once('-').map_or(call, |(_, kind)| kind)
}

/// The stages of an upgrade with these calls, of which only the writes count.
pub(crate) fn stages(rm: bool, stop_first: bool, calls: &[(String, bool)]) -> Vec<Stage> {
    let mut situation = Situation::new(rm, stop_first);
    let mut stages = Vec::new();
    for (call, _) in calls.iter().filter(|(_, write)| *write) {
        situation.drained();
        stages.push(Stage {
            call: call.clone(),
            moment: Moment::Before,
            situation: situation.clone(),
        });
        situation.after(kind(call));
        if matches!(kind(call), "start-candidate" | "stop-old") {
            stages.push(Stage {
                call: call.clone(),
                moment: Moment::After,
                situation: situation.clone(),
            });
        }
    }
    stages
}
