//! Every combination of what the containers of a rollout can be: what is never decided, and that it comes to rest.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta};
use delegate_upgrader::container::RunState;
use delegate_upgrader::container::{ContainerId, Role};
use delegate_upgrader::health::HealthStatus;
use delegate_upgrader::rollout::reason::Reason;
use delegate_upgrader::rollout::{Decided, Decision, Desired, Intent, Member, Row, Step, UpdateOrder, next};

use super::beyond;
use super::scene::{
    Change, DEADLINE, HEALTHY_TIME, STOP_TIMEOUT, Scene, V1, V2, V3, ago, image_id, new, now, old, standby,
};

/// Steps in a row without a wait, at most: a whole rollout has a dozen.
const STEPS: usize = 30;

fn servings() -> Vec<Option<Member>> {
    let mut all = vec![None];
    // A delegate as its owner made it, and one that has replaced the old one.
    for base in [old, || new().running(1000, 900)] {
        all.extend([
            Some(base()),
            Some(base().ill(1000, DEADLINE + 1)),
            Some(base().ill(1000, 5)),
            Some(base().state(RunState::Restarting).restarts(5)),
            Some(base().exited(3)),
            Some(base().state(RunState::Paused)),
            Some(base().state(RunState::Removing)),
            Some(base().auto_remove()),
            Some(base().auto_remove().ill(1000, DEADLINE + 1)),
        ]);
    }
    // What a standby has brought back.
    all.push(Some(old().id("restored").replaces("standby").auto_remove()));
    all
}

fn candidates(replaces: &str) -> Vec<Option<Member>> {
    let mut all = vec![None];
    for base in [
        || new().id("candidate"),
        || {
            new()
                .id("candidate")
                .change(|m| m.predecessor_policy = Some("no".to_owned()))
        },
        || new().id("candidate").auto_remove(),
    ] {
        all.extend(
            [
                base(),
                base().change(|m| m.history.start_refused = Some("no such file".to_owned())),
                base().running(90, HEALTHY_TIME),
                base().running(90, 3),
                base().ill(DEADLINE, DEADLINE),
                base().ill(DEADLINE, DEADLINE).told(30),
                base().ill(DEADLINE, DEADLINE).common_cause(30),
                base().ill(2 * DEADLINE, DEADLINE).common_cause(30),
                base().exited(30).common_cause(60),
                base().state(RunState::Restarting).restarts(5),
                base().exited(30),
                base().exited(3),
                base().state(RunState::Paused),
                base().state(RunState::Removing),
            ]
            .map(|member| Some(member.replaces(replaces))),
        );
    }
    all.push(Some(
        new()
            .id("candidate")
            .replaces("stranger")
            .running(90, HEALTHY_TIME),
    ));
    all.push(Some(
        new().id("candidate").replaces(replaces).image(V3).running(90, 3),
    ));
    let reinstated = || old().id("candidate").replaces("standby").auto_remove();
    all.extend([
        Some(reinstated().created()),
        Some(reinstated().running(3, 0)),
        Some(reinstated().state(RunState::Removing)),
    ]);
    all
}

fn drainings() -> Vec<Option<(i64, Member)>> {
    let all = vec![
        (2, old()),
        (900, old()),
        (2, old().policy("no")),
        (900, old().policy("no")),
        (900, old().told(890)),
        (9000, old().told(STOP_TIMEOUT + 2)),
        (900, old().policy("no").exited(20)),
        (900, old().exited(20)),
        (900, old().running(30, 20)),
        (900, old().policy("no").running(30, 20)),
        (
            900,
            old()
                .running(30, 20)
                .exited(3)
                .change(|m| m.started_at = Some(ago(30))),
        ),
        (2, old().auto_remove()),
        (900, old().auto_remove().told(5)),
        (900, old().auto_remove().state(RunState::Removing)),
        (900, old().state(RunState::Restarting)),
        (
            900,
            old().policy("no").exited(5).change(|m| {
                m.previous_image_id = Some(image_id(V3));
                m.release = 2;
            }),
        ),
        (900, old().id("orphan")),
        (900, old().id("orphan").policy("no").exited(5)),
    ];
    std::iter::once(None).chain(all.into_iter().map(Some)).collect()
}

fn faileds() -> Vec<Vec<(u32, Member)>> {
    let rejected = |id: &str| new().id(id).policy("no").exited(60);
    vec![
        vec![],
        vec![(1, new().id("f1").ill(700, 700))],
        vec![(1, mark())],
        vec![(1, rejected("f1"))],
        vec![
            (1, rejected("f1").image(V3)),
            (2, rejected("f2").running(50, 0).told(5)),
        ],
    ]
}

/// A never-started container of the rejected image, made after the candidate.
fn mark() -> Member {
    new().id("mark").policy("no").change(|m| m.created_at = ago(2))
}

/// The copy of an `--rm` delegate, and what is left of a candidate nobody wants: the two that most rollouts lack.
fn companions() -> Vec<(Option<Member>, Option<Member>)> {
    let withdrawn = || new().id("withdrawn").running(90, 0);
    vec![
        (None, None),
        (Some(standby()), None),
        (Some(standby().running(30, 20)), None),
        (Some(standby().exited(3)), None),
        (Some(standby().replaces("stranger")), None),
        (None, Some(withdrawn())),
        (None, Some(withdrawn().policy("no").exited(5))),
        (Some(standby()), Some(withdrawn().auto_remove().told(5))),
        (
            Some(standby()),
            Some(withdrawn().auto_remove().state(RunState::Removing)),
        ),
    ]
}

fn desires() -> [Desired; 4] {
    [
        Scene::new().desired,
        Scene::new().published(V2).desired,
        Scene::new().pulled(V2).desired,
        Desired::Keep(Reason::UpToDate { image: V1.to_owned() }),
    ]
}

fn pairs<A: Clone, B: Clone>(left: &[A], right: &[B]) -> Vec<(A, B)> {
    let each = |a: &A| right.iter().map(|b| (a.clone(), b.clone())).collect::<Vec<_>>();
    left.iter().flat_map(each).collect()
}

/// All of them.
fn each_scene(mut visit: impl FnMut(Scene)) {
    for serving in servings() {
        let face = serving
            .as_ref()
            .map_or("old", |serving| serving.id.as_str())
            .to_owned();
        for draining in drainings() {
            // The old one either serves or drains.
            if draining.as_ref().is_some_and(|(_, old)| old.id.as_str() == face) && serving.is_some() {
                continue;
            }
            for (candidate, (standby, withdrawn)) in pairs(&candidates(&face), &companions()) {
                // What is published, and older rejections, make no difference to the companions' part.
                let few = standby.is_some() || withdrawn.is_some();
                let their_own = |(_, old): &(i64, Member)| old.auto_remove || old.has_ended();
                if few && !draining.as_ref().is_none_or(their_own) {
                    continue;
                }
                for failed in faileds()
                    .into_iter()
                    .take(if few { 3 } else { 5 })
                    .step_by(if few { 2 } else { 1 })
                {
                    for desired in desires().into_iter().step_by(if few { 2 } else { 1 }) {
                        for conflict in [false, true] {
                            let mut scene = Scene::new();
                            scene.desired = desired.clone();
                            if let Some(serving) = &serving {
                                scene = scene.serving(serving.clone());
                            }
                            if let Some((since, old)) = &draining {
                                scene = scene.draining(*since, old.clone());
                            }
                            if let Some(candidate) = &candidate {
                                scene = scene.candidate(candidate.clone());
                            }
                            for (attempt, member) in &failed {
                                scene = scene.failed(*attempt, member.clone());
                            }
                            if let Some(standby) = &standby {
                                scene = scene.standby(standby.clone());
                            }
                            if let Some(withdrawn) = &withdrawn {
                                scene = scene.withdrawn(60, withdrawn.clone());
                            }
                            if conflict {
                                scene = scene.host_network();
                            }
                            visit(scene);
                        }
                    }
                }
            }
        }
    }
}

impl Scene {
    fn members(&self) -> impl Iterator<Item = &Member> {
        self.rollout.members()
    }

    fn member(&self, id: &ContainerId) -> &Member {
        self.members().find(|member| member.id == *id).unwrap()
    }

    fn successor_works(&self) -> bool {
        let works = |member: &Member| member.state == RunState::Running && member.health.is_healthy();
        self.rollout.serving.as_ref().is_some_and(works)
    }

    /// A candidate that waits for the old one to stop: stop-first was decided.
    fn stop_first_is_under_way(&self) -> bool {
        let rollout = &self.rollout;
        rollout.serving.is_none() && rollout.candidate.as_ref().is_some_and(Member::is_created)
    }

    fn may_retire(&self, id: &ContainerId) -> bool {
        if self.member(id).role != Role::Serving {
            // Only dated anew.
            return true;
        }
        // It was stopped to be retired, and only the one that is given up remembers its policy.
        let member = self.member(id);
        let remembers = |other: &Member| {
            let policy = other.predecessor_policy.as_deref();
            other.replaces.as_ref() == Some(id) && policy.is_some_and(|policy| policy != "no")
        };
        let mut given_up = self.rollout.candidate.iter().chain(&self.rollout.withdrawn);
        if member.has_ended() && member.restart_is_off() && given_up.any(remembers) {
            return true;
        }
        let Some(candidate) = &self.rollout.candidate else {
            return false;
        };
        if candidate.replaces.as_ref() != Some(id) {
            return false;
        }
        let proven = candidate.state == RunState::Running
            && candidate.health.is_healthy()
            && candidate
                .history
                .healthy_since
                .is_some_and(|since| since <= ago(HEALTHY_TIME));
        let stop_first = candidate.is_created()
            && self.rollout.update_order(&self.policy, &self.facts) == UpdateOrder::StopFirst;
        let crashed = stop_first && self.member(id).has_ended();
        let comes_back = !self.member(id).auto_remove || self.rollout.standby.is_some();
        (proven || stop_first || crashed) && comes_back
    }

    /// Policy off and the signal: who may be told to end.
    fn may_end(&self, id: &ContainerId) -> bool {
        let member = self.member(id);
        match member.role {
            Role::Failed { .. } | Role::Withdrawn { .. } => true,
            // Between two lives: it can be renamed only once it is stopped.
            Role::Serving => {
                (self.may_reject(id) || self.may_retire(id)) && member.state == RunState::Restarting
            }
            Role::Candidate => self.has_others(),
            Role::Draining { .. } => {
                let standby = self.rollout.standby.as_ref();
                let comes_back =
                    !member.auto_remove || standby.is_some_and(|standby| standby.is_successor_of(member));
                let may_have_been_told = comes_back && member.restart_is_off();
                member.history.stop_requested_at.is_some()
                    || self.successor_works()
                    || self.stop_first_is_under_way()
                    || may_have_been_told
            }
            // Somebody else started it.
            Role::Standby => self.rollout.serving.is_some(),
        }
    }

    /// Whether a candidate is not all there is.
    fn has_others(&self) -> bool {
        let rollout = &self.rollout;
        rollout.serving.is_some() || rollout.standby.is_some() || !rollout.draining.is_empty()
    }

    fn may_reject(&self, id: &ContainerId) -> bool {
        let member = self.member(id);
        let comes_back = |old: &&Member| {
            Some(&old.id) == member.replaces.as_ref() && !old.auto_remove && old.state != RunState::Removing
        };
        match member.role {
            Role::Serving => {
                let standby = self.rollout.standby.as_ref();
                self.rollout.draining.iter().any(|old| comes_back(&old))
                    || standby.is_some_and(|standby| standby.replaces == member.replaces)
            }
            Role::Candidate => self.has_others(),
            _ => false,
        }
    }

    fn may_remove(&self, id: &ContainerId) -> bool {
        let member = self.member(id);
        let ended = matches!(
            member.state,
            RunState::Created | RunState::Exited | RunState::Dead
        );
        let needed = match member.role {
            Role::Serving => true,
            Role::Standby => {
                let rollout = &self.rollout;
                let not_touched = rollout.serving.as_ref().is_some_and(|serving| {
                    let ours = serving.is_successor_of(member) || serving.replaces == member.replaces;
                    !ours || serving.replaces.is_none()
                });
                !not_touched && !self.successor_works()
            }
            Role::Candidate => !self.has_others(),
            Role::Draining { .. } => !self.successor_works(),
            Role::Withdrawn { .. } | Role::Failed { .. } => false,
        };
        ended && !needed
    }

    /// What is never to be decided, checked against the state it is decided in.
    fn forbids(&self, step: &Step) -> bool {
        let rollout = &self.rollout;
        let allowed = match step {
            Step::CreateQuarantineMarker { .. } => true,
            // A pull that tells whether another image could take the place of the only container there is.
            Step::Pull { .. } if rollout.sole_candidate().is_some() => true,
            Step::Pull { .. } | Step::Create { .. } => {
                let vanishes = rollout
                    .serving
                    .as_ref()
                    .is_some_and(|serving| serving.auto_remove);
                rollout.candidate.is_none()
                    && rollout.serving.as_ref().is_some_and(Member::is_up)
                    && (matches!(step, Step::Pull { .. }) || !vanishes || rollout.standby.is_some())
            }
            Step::CreateStandby { from } => {
                rollout.standby.is_none() && self.member(from).auto_remove && self.member(from).is_up()
            }
            Step::Recreate { from } => {
                let up = |member: &Member| member.is_up() && member.role != Role::Standby;
                let alone = rollout.serving.is_none() && rollout.candidate.is_none();
                let beside = rollout.members().any(up);
                let broken = self.member(from).history.failed_starts > 0;
                let is_old = self.member(from).role == Role::Standby || broken;
                alone && is_old && !(beside && rollout.single_instance.is_some())
            }
            Step::Start { id, .. } => {
                let member = self.member(id);
                let owner_s = member.role == Role::Serving;
                let replaced_by = |old: &Member| old.is_up() && member.replaces.as_ref() == Some(&old.id);
                let beside = rollout.serving.iter().chain(&rollout.draining).any(replaced_by);
                let two_at_once = rollout.single_instance.is_some() && beside;
                !member.is_up() && !owner_s && !two_at_once
            }
            Step::Retire { id, .. } => self.may_retire(id),
            Step::Withdraw { id, because, .. } => {
                let member = self.member(id);
                let serving = member.role == Role::Serving && self.may_reject(id);
                let candidate = member.role == Role::Candidate && self.has_others();
                (serving || candidate) && (member.is_up() || because.is_some())
            }
            Step::Promote { id, .. } => rollout.serving.is_none() && self.member(id).role == Role::Candidate,
            Step::Restore { id, .. } => {
                rollout.serving.is_none()
                    && rollout.candidate.is_none()
                    && matches!(self.member(id).role, Role::Draining { .. } | Role::Standby)
            }
            Step::Reject { id, .. } => self.may_reject(id),
            Step::SetRestartPolicy { id, policy, .. } => policy != "no" || self.may_end(id),
            Step::Stop { id, .. } => {
                let member = self.member(id);
                // Only its successor's label keeps the policy, so before it is retired it stays on.
                let about_to_retire = member.role == Role::Serving && self.may_retire(id);
                self.may_end(id) && (member.restart_is_off() || about_to_retire) && member.is_up()
            }
            Step::Remove { id, .. } => self.may_remove(id),
            Step::RemoveImage { id } => {
                self.successor_works() && rollout.serving.iter().all(|member| member.image_id != *id)
            }
        };
        !allowed
    }

    /// What an engine makes of a step.
    fn take(&mut self, step: &Step) {
        let moment = now();
        let rollout = &mut self.rollout;
        match step {
            Step::Pull { reference } => {
                self.desired = Desired::Image {
                    reference: reference.clone(),
                    id: Some(image_id(&reference.to_string())),
                    intent: Intent::Upgrade,
                };
            }
            Step::Create { from, reference, .. } => {
                let mut member = new()
                    .id("created")
                    .image(&reference.to_string())
                    .replaces(from.as_str());
                member.created_at = moment;
                member.role = Role::Candidate;
                member.name = Role::Candidate.name("d");
                rollout.candidate = Some(member);
            }
            Step::CreateStandby { from } => {
                let made = standby().replaces(from.as_str());
                *self = self.clone().standby(made);
            }
            Step::Recreate { from } => {
                let made = old()
                    .id("recreated")
                    .replaces(from.as_str())
                    .auto_remove()
                    .created();
                *self = self.clone().candidate(made);
            }
            Step::CreateQuarantineMarker {
                id,
                to,
                replaces,
                release,
                ..
            } => {
                let (_, Role::Failed { attempt }) = Role::parse(to) else {
                    panic!("{to}")
                };
                assert!(self.members().all(|member| member.name != *to), "{to} is taken");
                let made = mark().id(&format!("mark-{attempt}")).replaces(replaces.as_str());
                let made = made.change(|m| {
                    m.created_at = moment;
                    m.image_id = id.clone();
                    m.release = *release;
                });
                *self = self.clone().failed(attempt, made);
            }
            Step::Start { id, .. } => {
                let (seen, health) = (Some(moment), HealthStatus::Starting);
                change(self, id, |member| {
                    member.state = RunState::Running;
                    member.started_at = seen;
                    member.health.status = health;
                    member.history.seen_since = seen;
                    member.history.unhealthy_since = seen;
                    member.history.healthy_since = None;
                    member.history.stop_requested_at = None;
                });
            }
            Step::Retire { id, to }
            | Step::Withdraw { id, to, .. }
            | Step::Promote { id, to }
            | Step::Reject { id, to, .. }
            | Step::Restore { id, to } => self.rename(id, to),
            Step::SetRestartPolicy { id, policy, .. } => {
                change(self, id, |member| policy.clone_into(&mut member.restart_policy));
            }
            Step::Stop { id, .. } => change(self, id, |member| {
                member.history.stop_requested_at = Some(moment);
                if member.state == RunState::Restarting {
                    member.state = RunState::Exited;
                    member.finished_at = Some(moment);
                }
            }),
            Step::Remove { id, .. } => {
                self.pull_out(id);
            }
            Step::RemoveImage { id } => {
                for old in rollout.draining.iter_mut().chain(&mut rollout.standby) {
                    old.previous_image_id = old.previous_image_id.take().filter(|image| image != id);
                }
            }
        }
    }

    fn pull_out(&mut self, id: &ContainerId) -> Member {
        let rollout = &mut self.rollout;
        for slot in [&mut rollout.serving, &mut rollout.candidate, &mut rollout.standby] {
            if let Some(member) = slot.take_if(|member| member.id == *id) {
                return member;
            }
        }
        for members in [&mut rollout.draining, &mut rollout.withdrawn, &mut rollout.failed] {
            if let Some(index) = members.iter().position(|member| member.id == *id) {
                return members.remove(index);
            }
        }
        panic!("no {id}")
    }

    /// A name is a mutex.
    fn rename(&mut self, id: &ContainerId, to: &str) {
        assert!(self.members().all(|member| member.name != to), "{to} is taken");
        let mut member = self.pull_out(id);
        let (base, role) = Role::parse(to);
        assert_eq!(base, "d");
        member.role = role;
        to.clone_into(&mut member.name);
        let rollout = &mut self.rollout;
        match role {
            Role::Serving => assert!(rollout.serving.replace(member).is_none()),
            Role::Draining { .. } => rollout.draining.push(member),
            Role::Withdrawn { .. } => rollout.withdrawn.push(member),
            Role::Failed { .. } => rollout.failed.push(member),
            Role::Candidate | Role::Standby => panic!("{to}"),
        }
        rollout
            .draining
            .sort_by_key(|member| (member.role, member.created_at));
        rollout
            .failed
            .sort_by_key(|member| (member.created_at, member.role));
    }
}

fn change(scene: &mut Scene, id: &ContainerId, change: impl FnOnce(&mut Member)) {
    let rollout = &mut scene.rollout;
    let member = rollout
        .serving
        .iter_mut()
        .chain(&mut rollout.candidate)
        .chain(&mut rollout.standby)
        .chain(&mut rollout.draining)
        .chain(&mut rollout.withdrawn)
        .chain(&mut rollout.failed)
        .find(|member| member.id == *id)
        .unwrap();
    change(member);
}

#[test]
fn no_state_leads_to_a_forbidden_step_and_each_comes_to_rest() {
    let mut scenes = 0;
    let mut reached = BTreeSet::new();
    let limit = now() + TimeDelta::seconds(10);
    each_scene(|start| {
        scenes += 1;
        let mut scene = start.clone();
        let mut taken: Vec<String> = Vec::new();
        for count in 0.. {
            let Decided { rows, decision } = scene.decided();
            reached.extend(rows);
            taken.push(decision.to_string());
            let step = match decision {
                Decision::Act(step) => step,
                // What is waited for is looked at in time.
                Decision::Wait { until, reason } => {
                    assert!(
                        now() < until && until <= limit,
                        "{reason} until {until} in {scene:#?}"
                    );
                    break;
                }
                Decision::Rest(_) => break,
                Decision::Learn(fact) => panic!("{fact} is known in {scene:#?}"),
            };
            assert!(
                !scene.forbids(&step),
                "{taken:#?}\nin {scene:#?}\nfrom {start:#?}"
            );
            assert!(count < STEPS, "no end: {taken:#?}\nfrom {start:#?}");
            let before = scene.clone();
            scene.take(&step);
            assert!(scene != before, "{step} changes nothing in {scene:#?}");
        }
    });
    assert!(scenes > 100_000, "{scenes}");
    reached.extend(
        beyond::scenes()
            .into_iter()
            .flat_map(|scene| scene.decided().rows),
    );
    let missed: Vec<&Row> = Row::ALL.iter().filter(|row| !reached.contains(row)).collect();
    assert!(missed.is_empty(), "no scene reaches {missed:?}");
}

#[test]
fn odd_clocks_do_no_harm() {
    for moment in [
        DateTime::UNIX_EPOCH,
        DateTime::<chrono::Utc>::MAX_UTC - TimeDelta::days(400_000),
    ] {
        let mut scenes = 0;
        each_scene(|scene| {
            scenes += 1;
            if scenes % 7 != 0 {
                return;
            }
            let decided = next(
                &scene.rollout,
                &scene.desired,
                &scene.policy,
                &scene.facts,
                moment,
            );
            if let Decision::Act(Step::Remove { id, .. }) = &decided.decision {
                assert!(!scene.member(id).is_up());
            }
        });
    }
}
