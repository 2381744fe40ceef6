//! Every combination of what the containers of a rollout can be, as scenes.

use delegate_upgrader::container::RunState;
use delegate_upgrader::rollout::reason::Reason;
use delegate_upgrader::rollout::{Desired, Member};

use super::scene::{
    Change, DEADLINE, HEALTHY_TIME, STOP_TIMEOUT, Scene, V1, V2, V3, ago, image_id, new, old, standby,
};

fn servings() -> Vec<Option<Member>> {
    let mut all = vec![None];
    // A delegate as its owner created it, and one that has replaced the old one.
    for base in [old, || new().running(1000, 900)] {
        all.extend([
            Some(base()),
            Some(base().unhealthy(1000, DEADLINE + 1)),
            Some(base().unhealthy(1000, 5)),
            Some(base().state(RunState::Restarting).restarts(5)),
            Some(base().exited(3)),
            Some(base().state(RunState::Paused)),
            Some(base().state(RunState::Removing)),
            Some(base().auto_remove()),
            Some(base().auto_remove().unhealthy(1000, DEADLINE + 1)),
        ]);
    }
    // A delegate that was recreated from a standby.
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
                base().unhealthy(DEADLINE, DEADLINE),
                base().unhealthy(DEADLINE, DEADLINE).asked_to_stop(30),
                base().unhealthy(DEADLINE, DEADLINE).common_cause(30),
                base().unhealthy(2 * DEADLINE, DEADLINE).common_cause(30),
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
        (900, old().asked_to_stop(890)),
        (9000, old().asked_to_stop(STOP_TIMEOUT + 2)),
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
        (900, old().auto_remove().asked_to_stop(5)),
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
        vec![(1, new().id("f1").unhealthy(700, 700))],
        vec![(1, mark())],
        vec![(1, rejected("f1"))],
        vec![
            (1, rejected("f1").image(V3)),
            (2, rejected("f2").running(50, 0).asked_to_stop(5)),
        ],
    ]
}

/// A quarantine marker that was created after the candidate.
pub(super) fn mark() -> Member {
    new().id("mark").policy("no").change(|m| m.created_at = ago(2))
}

/// The standby of an `--rm` delegate and a withdrawn candidate, which most rollouts lack.
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
        (Some(standby()), Some(withdrawn().auto_remove().asked_to_stop(5))),
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

/// Visits every combination.
pub(super) fn each_scene(mut visit: impl FnMut(Scene)) {
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
                // The published image and older rejections make no difference to these two.
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
                            let vanish = [&serving, &candidate].into_iter().flatten();
                            if vanish.clone().any(|member| member.auto_remove) && !few {
                                visit(scene.clone().attempt(mark().id("attempt").replaces(&face)));
                            }
                            visit(scene);
                        }
                    }
                }
            }
        }
    }
}
