//! What the host may look like at the end, after one act of a person at one stage and one more scheduled run.

use super::act::{Act, ContainerAct, ImageAct, Target};
use super::stage::{Life, Moment, Situation, Stage};

/// Where the delegate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Under its name.
    Name,
    /// Under the name that the person gave it.
    Kept,
    /// There is none.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Up,
    Stopped,
    Paused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Image {
    Old,
    New,
}

/// Which settings it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settings {
    /// Those from before the upgrade.
    Before,
    /// Those that the person gave.
    Given,
    /// The act met a change that was already on its way, so either of both.
    Either,
}

/// One acceptable end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) place: Place,
    pub(crate) condition: Condition,
    pub(crate) image: Image,
    pub(crate) settings: Settings,
}

/// A container of the person's that may be there beside the delegate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spare {
    None,
    /// The renamed one, stopped. It must be there if `must`.
    Kept {
        must: bool,
    },
    /// The one that has the target's name now.
    Remade,
}

/// What is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) ends: Vec<End>,
    pub(crate) spare: Spare,
    /// A delegate works at every moment.
    pub(crate) no_gap: bool,
}

impl End {
    /// The end of a clean upgrade.
    pub(crate) const UPGRADED: Self = Self {
        place: Place::Name,
        condition: Condition::Up,
        image: Image::New,
        settings: Settings::Before,
    };
    pub(crate) const GONE: Self = Self {
        place: Place::Gone,
        ..Self::UPGRADED
    };
    /// The old container, as if nothing had been published.
    pub(crate) const OLD: Self = Self {
        image: Image::Old,
        ..Self::UPGRADED
    };

    fn with(self, settings: Settings) -> Self {
        Self { settings, ..self }
    }

    fn is(self, condition: Condition) -> Self {
        Self { condition, ..self }
    }

    fn kept(self) -> Self {
        Self {
            place: Place::Kept,
            ..self
        }
    }
}

/// `None` where the act makes no sense at this stage: the container is not there, or is that already.
pub(crate) fn expected(stage: &Stage, act: Act) -> Option<Expected> {
    let situation = &stage.situation;
    let (ends, spare) = match act {
        Act::Image(ImageAct::RemoveNew) if !situation.pulled => return None,
        Act::Image(_) => (vec![End::UPGRADED], Spare::None),
        Act::Container(act, target) => {
            let life = situation.life(target)?;
            if !applies(act, target, life, situation) {
                return None;
            }
            match target {
                Target::Serving if situation.replaced => of_new_one(stage, act),
                Target::Serving => of_old_one(stage, act),
                Target::Candidate => of_candidate(stage, act)?,
                Target::Draining => of_draining(stage, act),
                // It would have the port that the others need.
                Target::Standby if act == ContainerAct::Compose && situation.stop_first => return None,
                Target::Standby => of_standby(act),
            }
        }
    };
    let leaves_alone_what_works = match act {
        Act::Image(_) => true,
        Act::Container(_, target) => matches!(target, Target::Candidate | Target::Standby),
    };
    Some(Expected {
        ends,
        spare,
        no_gap: !situation.stop_first && leaves_alone_what_works,
    })
}

/// Whether the engine would do it.
fn applies(act: ContainerAct, target: Target, life: Life, situation: &Situation) -> bool {
    let is_up = matches!(life, Life::Up | Life::Stopping);
    match act {
        ContainerAct::Stop | ContainerAct::Kill | ContainerAct::Pause => is_up,
        ContainerAct::Start => !is_up,
        // What vanishes when it stops takes no policy.
        ContainerAct::UpdatePolicy => !situation.rm || target == Target::Standby,
        _ => true,
    }
}

/// The one in service, before it has given up its name.
fn of_old_one(stage: &Stage, act: ContainerAct) -> (Vec<End>, Spare) {
    let rm = stage.situation.rm;
    // The engine knows no "rename, if nothing has changed": what is done in this moment comes too late.
    let too_late = stage.holds("rename-old-to-draining");
    let mut ends = match act {
        ContainerAct::Rename => vec![End::UPGRADED.kept()],
        ContainerAct::Stop | ContainerAct::Kill if rm => vec![End::GONE],
        ContainerAct::Stop | ContainerAct::Kill => vec![End::OLD.is(Condition::Stopped)],
        ContainerAct::Pause => vec![End::OLD.is(Condition::Paused)],
        ContainerAct::Remove => vec![End::GONE],
        // The engine may remove one with `--rm` in the middle of its restart.
        ContainerAct::Restart if rm => vec![End::UPGRADED, End::GONE],
        ContainerAct::Restart | ContainerAct::Start => vec![End::UPGRADED],
        ContainerAct::Compose => vec![End::UPGRADED.with(Settings::Given)],
        _ if too_late => vec![End::UPGRADED.with(Settings::Either)],
        _ => vec![End::UPGRADED.with(Settings::Given)],
    };
    if too_late && (act == ContainerAct::Rename || act.takes_out_of_service()) {
        ends.push(End::UPGRADED);
    }
    (ends, Spare::None)
}

/// The one in service, once the new one is that.
fn of_new_one(stage: &Stage, act: ContainerAct) -> (Vec<End>, Spare) {
    let Situation {
        rm,
        draining,
        standby,
        ..
    } = stage.situation;
    let has_fallback = draining.is_some() || standby.is_some();
    // The fallback goes in this moment, whatever the person does.
    let is_in_drain = draining == Some(Life::Stopping) && act == ContainerAct::Stop;
    let is_last = stage.holds("remove-old") || stage.holds("remove-standby") || !has_fallback;
    let ends = match act {
        ContainerAct::Rename if rm => vec![End::UPGRADED.kept(), End::UPGRADED],
        ContainerAct::Rename => vec![End::UPGRADED.kept()],
        ContainerAct::Restart if rm => vec![End::UPGRADED, End::GONE],
        ContainerAct::Restart | ContainerAct::Start => vec![End::UPGRADED],
        ContainerAct::Remove => vec![End::GONE],
        ContainerAct::Stop | ContainerAct::Kill if rm => vec![End::GONE],
        ContainerAct::Stop | ContainerAct::Kill | ContainerAct::Pause => {
            let stands = End::UPGRADED.is(if act == ContainerAct::Pause {
                Condition::Paused
            } else {
                Condition::Stopped
            });
            match (has_fallback, is_last) {
                // The old one may have gone before this one has stopped.
                (true, is_last) if is_last || is_in_drain => vec![stands, End::UPGRADED],
                (true, _) => vec![End::UPGRADED],
                (false, _) => vec![stands],
            }
        }
        ContainerAct::Compose
        | ContainerAct::UpdateMemory
        | ContainerAct::UpdatePolicy
        | ContainerAct::NetworkConnect
        | ContainerAct::NetworkDisconnect => vec![End::UPGRADED.with(Settings::Given)],
    };
    (ends, Spare::None)
}

/// It is the upgrader's own: what somebody does to it costs this attempt at most.
fn of_candidate(stage: &Stage, act: ContainerAct) -> Option<(Vec<End>, Spare)> {
    let Situation {
        stop_first,
        candidate,
        draining,
        ..
    } = stage.situation;
    let is_retired = draining.is_some() || stage.situation.serving.is_none();
    Some(match act {
        // It is theirs: the rollout has not begun to do anything with it.
        ContainerAct::Rename if candidate == Some(Life::Created) => {
            (vec![End::UPGRADED], Spare::Kept { must: false })
        }
        // The old one gives up its name, or has, so this one is taken for the new one.
        ContainerAct::Rename if is_retired || stage.holds("rename-old-to-draining") => {
            (vec![End::UPGRADED, End::UPGRADED.kept()], Spare::None)
        }
        // It has the port that the old one needs to come back.
        ContainerAct::Compose if stop_first && is_retired => return None,
        // A name that the next candidate needs is somebody's own container now.
        ContainerAct::Compose => (vec![End::OLD], Spare::Remade),
        _ if act.is_setting() => {
            let is_compared_later = !stop_first && !is_retired && !stage.holds("rename-old-to-draining");
            let settings = if is_compared_later {
                Settings::Before
            } else {
                Settings::Either
            };
            (vec![End::UPGRADED.with(settings)], Spare::None)
        }
        _ => (vec![End::UPGRADED], Spare::None),
    })
}

/// The old container, after it has given up its name.
fn of_draining(stage: &Stage, act: ContainerAct) -> (Vec<End>, Spare) {
    let Situation {
        rm,
        stop_first,
        candidate,
        ..
    } = stage.situation;
    match act {
        ContainerAct::Rename => {
            // What is being removed in this moment is removed by its id. One with `--rm` vanishes.
            let must = !rm && !stage.holds("remove-old");
            (vec![End::UPGRADED], Spare::Kept { must })
        }
        ContainerAct::Compose => (vec![End::UPGRADED.with(Settings::Either)], Spare::Remade),
        _ if act.is_setting() => {
            // It may still come back, and is compared with its successor right before that starts.
            let is_compared_later = stop_first && candidate == Some(Life::Created);
            let comes_too_late = stage.holds("start-candidate")
                || (act == ContainerAct::UpdatePolicy && stage.holds("update-old"));
            let settings = if is_compared_later && !comes_too_late {
                Settings::Given
            } else {
                Settings::Either
            };
            (vec![End::UPGRADED.with(settings)], Spare::None)
        }
        _ => (vec![End::UPGRADED], Spare::None),
    }
}

/// A copy that nobody needs as long as all goes well.
fn of_standby(act: ContainerAct) -> (Vec<End>, Spare) {
    match act {
        ContainerAct::Rename => (vec![End::UPGRADED], Spare::Kept { must: false }),
        ContainerAct::Compose => (vec![End::UPGRADED, End::OLD], Spare::Remade),
        _ => (vec![End::UPGRADED], Spare::None),
    }
}

/// The engine was stopped or killed: it starts again what the restart policy says, and nothing else does.
pub(crate) fn after_outage(policy: &str, live_restore: bool) -> Expected {
    let mut ends = vec![End::UPGRADED];
    if policy != "always" && !live_restore {
        ends.push(End::UPGRADED.is(Condition::Stopped));
        ends.push(End::OLD.is(Condition::Stopped));
    }
    Expected {
        ends,
        spare: Spare::None,
        no_gap: false,
    }
}

/// Whether the old container finishes its tasks while the person acts, so that its drain has to outlast the act.
pub(crate) fn needs_long_drain(stage: &Stage, act: Act) -> bool {
    let is_in_drain = stage.moment == Moment::After && stage.kind() == "stop-old";
    let on_draining = matches!(act, Act::Container(_, Target::Draining));
    is_in_drain || (on_draining && stage.situation.draining != Some(Life::Ended))
}
