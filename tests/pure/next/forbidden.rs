//! Decisions that must never be made, whatever the state.

use delegate_upgrader::container::{ContainerId, Role, RunState};
use delegate_upgrader::rollout::{ChosenOrder, Member, Row, Step};

use super::scene::{HEALTHY_TIME, Scene};

impl Scene {
    pub(super) fn member(&self, id: &ContainerId) -> &Member {
        let mut members = self.rollout.members();
        members
            .find(|member| member.id == *id)
            .unwrap_or_else(|| panic!("{id} is not of the rollout"))
    }

    fn serving_works(&self) -> bool {
        self.rollout.serving.as_ref().is_some_and(Member::works)
    }

    /// Whether the candidate's name says that the container in service is asked to stop under its own name.
    fn is_announced(&self) -> bool {
        let candidate = self.rollout.candidate.as_ref();
        candidate.is_some_and(|candidate| candidate.role == Role::Next)
    }

    fn is_stop_first(&self) -> bool {
        self.rollout.update_order(&self.policy, &self.facts) == ChosenOrder::StopFirst
    }

    /// Whether the candidate may take the place of this one: proven beside it, or ready to start after it.
    fn may_give_up_its_name(&self, serving: &Member, stop_first: bool) -> bool {
        let Some(candidate) = &self.rollout.candidate else {
            return false;
        };
        let healthy_for = candidate
            .history
            .healthy_since
            .map(|since| (self.now - since).num_seconds());
        let is_proven = candidate.works() && healthy_for >= Some(HEALTHY_TIME);
        let history = &candidate.history;
        let is_tried = history.trial == Some(Ok(())) || serving.is_between_lives();
        let is_ready = candidate.is_created() && history.comparison == Some(Ok(())) && is_tried;
        let is_its_successor = candidate.is_successor_of(serving);
        let is_unchanged = candidate.fingerprint.as_ref() == Some(&serving.settings);
        is_its_successor
            && is_unchanged
            && if stop_first {
                is_ready && self.is_stop_first()
            } else {
                is_proven
            }
    }

    fn may_stop(&self, row: Row, member: &Member) -> bool {
        let rollout = &self.rollout;
        match member.role {
            Role::Failed { .. }
            | Role::Former
            | Role::Withdrawn { .. }
            | Role::Trial { .. }
            | Role::Helper { .. } => true,
            // Its name says that it was never asked to stop; between two lives Docker cannot rename it.
            Role::Retired => member.is_between_lives() && (row == Row::CopyStart || self.serving_works()),
            Role::Draining { .. } => match row {
                Row::DrainingStop => {
                    let successors = rollout
                        .relatives
                        .iter()
                        .any(|other| other.is_successor_of(member) && other.works());
                    self.serving_works() || successors || member.history.stop_requested_at.is_some()
                }
                Row::FreeStop => rollout.serving.is_none() && rollout.candidate.is_some(),
                Row::RestoreStop => rollout.serving.is_none() && rollout.candidate.is_none(),
                Row::CopyStart => rollout
                    .serving
                    .as_ref()
                    .is_some_and(|copy| copy.is_copy && copy.is_created()),
                _ => false,
            },
            // Docker cannot rename it between two lives.
            Role::Candidate | Role::Next => member.is_between_lives(),
            Role::Serving => {
                member.is_between_lives() && (row == Row::SuccessorReject || self.is_announced())
            }
        }
    }

    /// Whether another container runs beside which this one cannot run.
    fn would_collide(&self, member: &Member) -> bool {
        let is_other = |other: &&Member| other.id != member.id;
        // A container that ran beside its predecessor can run beside this one.
        let is_earlier =
            |other: &Member| other.role.is_old() && (member.role.is_old() || !member.is_successor_of(other));
        let mut others = self.rollout.members().filter(is_other);
        self.rollout.single_instance.is_some() && others.any(|other| other.is_up() && !is_earlier(other))
    }

    /// The rule that this step breaks, if it breaks one.
    #[rustfmt::skip]
    pub(super) fn forbids(&self, row: Row, step: &Step) -> Option<&'static str> {
        let rollout = &self.rollout;
        let serving = rollout.serving.as_ref();
        let of = |id: &ContainerId| self.member(id);
        let target = match step {
            Step::Create { from, .. } | Step::Keep { from, .. } | Step::Recreate { from, .. } | Step::CreateHelper { from, .. } => Some(of(from)),
            Step::NoteFirstSeen { .. } | Step::Pull { .. } | Step::RemoveImage { .. } => None,
            Step::Prepare { id, .. } | Step::TryStart { id, .. } | Step::Start { id, .. } | Step::Retire { id, .. } | Step::Drain { id, .. }
            | Step::Withdraw { id, .. } | Step::Announce { id, .. } | Step::Promote { id, .. } | Step::Reject { id, .. } | Step::Restore { id, .. }
            | Step::SetRestartPolicy { id, .. } | Step::Stop { id, .. } | Step::Restart { id, .. }
            | Step::Remove { id, .. } => Some(of(id)),
        };
        let is_stuck = |member: &Member| {
            let since = member.life.finished_at.or(member.history.seen_since);
            since.is_some_and(|since| (self.now - since).num_seconds() > 600)
        };
        if target.is_some_and(|target| target.state == RunState::Removing && !is_stuck(target) && !matches!(step, Step::Recreate { .. })) {
            return Some("Docker is removing it");
        }
        let Some(target) = target else {
            let is_needed = matches!(step, Step::RemoveImage { id } if serving.is_none_or(|s| s.image_id == *id) || !self.serving_works());
            return is_needed.then_some("the image is needed");
        };
        let is = |role: Role| target.role == role;
        // Beside a candidate that is given up and could not serve again.
        let leaves = target.vanishes && target.is_up();
        let nothing_else = serving.is_none() && (rollout.candidate.is_none() || leaves);
        let (is_allowed, rule) = match step {
            Step::Create { .. } => (
                row == Row::Create && is(Role::Serving) && target.is_in_use() && rollout.candidate.is_none(),
                "a candidate is made of the one in service, and is the only one",
            ),
            Step::Prepare { .. } => (is(Role::Candidate) && target.is_created(), "only a candidate is connected, before its start"),
            Step::TryStart { .. } => (is(Role::Candidate) && target.is_created() && serving.is_some_and(Member::is_up), "only a candidate is tried, beside the one in service"),
            Step::Recreate { .. } => (
                serving.is_none() && (target.role.is_candidate() && rollout.old.iter().all(|old| old.state == RunState::Removing) || nothing_else && target.role.is_old()),
                "a copy is made where nothing else could serve",
            ),
            Step::Start { .. } => (
                !target.is_up()
                    && !self.would_collide(target)
                    && match target.role {
                        Role::Serving => target.is_created() && target.is_copy || row == Row::RestartInProgress,
                        role if role.is_old() => nothing_else || row == Row::FreeReject && serving.is_none(),
                        Role::Candidate | Role::Next => target.is_created(),
                        role => matches!(role, Role::Helper { .. }),
                    },
                "what its owner stopped is not started, and two do not run where only one can",
            ),
            Step::Retire { .. } => (
                is(Role::Serving) && (self.may_give_up_its_name(target, false) || rollout.is_upgrader()),
                "the one in service gives up its name to a proven candidate only",
            ),
            Step::Keep { .. } => (
                is(Role::Serving) && rollout.candidate.as_ref().is_some_and(Member::is_created),
                "settings are kept of the one in service, before they change",
            ),
            Step::Drain { .. } => (
                is(Role::Serving) && (self.may_give_up_its_name(target, true) || self.is_announced() && target.has_ended())
                    || is(Role::Retired) && (self.serving_works() || row == Row::CopyStart)
                    || target.role != Role::Retired && target.life.started_at > target.stopping_since() && self.may_stop(row, target),
                "a container is asked to stop where another one works, or is ready and cannot run beside it",
            ),
            Step::Announce { .. } => (
                serving.is_some_and(|serving| {
                    serving.is_between_lives() && [false, true].iter().any(|order| self.may_give_up_its_name(serving, *order))
                }),
                "only one that cannot be renamed is asked to stop under its own name",
            ),
            Step::Withdraw { .. } => (target.role.is_candidate(), "only a candidate is withdrawn"),
            Step::Promote { .. } => (target.role.is_candidate() && serving.is_none(), "a candidate takes a name that is free"),
            Step::Reject { .. } => (
                target.role.is_candidate() && (serving.is_some() || !rollout.old.is_empty())
                    || is(Role::Serving) && rollout.old.iter().any(|old| target.is_successor_of(old)),
                "one is rejected where another one can serve",
            ),
            Step::Restore { .. } => (target.role.is_old() && nothing_else, "an old one comes back where nothing else is there"),
            Step::SetRestartPolicy { policy, .. } => (
                policy == "no" && matches!(target.role, Role::Failed { .. } | Role::Withdrawn { .. } | Role::Former),
                "a container that is or was in service keeps its policy",
            ),
            Step::Stop { .. } => (target.is_up() && self.may_stop(row, target), "it may not be asked to stop"),
            Step::Restart { .. } => (
                is(Role::Serving) && target.state == RunState::Running && !target.works() && !rollout.is_in_progress(),
                "only an unhealthy one is restarted, and not in the middle of a replacement",
            ),
            Step::Remove { .. } => (
                !target.is_up()
                    && match target.role {
                        Role::Former => self.serving_works() || nothing_else && rollout.old.is_empty(),
                        Role::Draining { .. } => self.serving_works() || rollout.relatives.iter().any(Member::works),
                        Role::Serving => row == Row::AutoRemove && target.emulates_auto_remove,
                        role => role != Role::Retired && !role.is_candidate(),
                    },
                "nothing is removed that runs or may have to come back",
            ),
            Step::CreateHelper { .. } => (rollout.is_upgrader() && rollout.helper.is_none(), "only an upgrader has a helper, and one"),
            Step::NoteFirstSeen { .. } | Step::Pull { .. } | Step::RemoveImage { .. } => (true, ""),
        };
        (!is_allowed).then_some(rule)
    }
}
