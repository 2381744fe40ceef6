//! Every combination of the states of a rollout's containers.

use delegate_upgrader::container::{Role, RunState};
use delegate_upgrader::rollout::reason::Reason;
use delegate_upgrader::rollout::{Desired, Member};

use super::scene::{
    Change, DEADLINE, HEALTHY_TIME, STOP_TIMEOUT, Scene, V1, V2, V3, ago, copy, image_id, new, old,
};

/// Adds a container to a scene.
type Part = Box<dyn Fn(Scene) -> Scene>;

fn nothing() -> Part {
    Box::new(|scene| scene)
}

/// None, a copy, the delegate as its owner created it, and its successor.
fn servings() -> Vec<Option<Member>> {
    let mut all = vec![None, Some(copy()), Some(copy().running(5, 0).unhealthy(5, 5))];
    for base in [old, || new().running(1000, 900)] {
        all.extend(
            [
                base(),
                base().tasks(2),
                base().change(|m| m.outdated_images = vec![image_id(V3)]),
                base().unhealthy(1000, DEADLINE + 1),
                base().unhealthy(1000, 5),
                base().state(RunState::Restarting).restarts(5),
                base().exited(3),
                base().exited(30),
                base().stopped(30),
                base().state(RunState::Paused),
                base().state(RunState::Removing),
                base().vanishing(),
                base().emulating().exited(30),
            ]
            .map(Some),
        );
    }
    all
}

fn candidates() -> Vec<Option<Member>> {
    let base = || new().id("candidate");
    let compared =
        |comparison: Option<Result<(), String>>| base().change(|m| m.history.comparison = comparison);
    let mut all = vec![None];
    all.extend(
        [
            base(),
            compared(None),
            compared(Some(Err("/Env".to_owned()))),
            base().change(|m| m.history.trial = None),
            base().change(|m| m.history.trial = Some(Err("no runtime".to_owned()))),
            base().refused_for_good(),
            base().running(90, HEALTHY_TIME),
            base().running(90, 3),
            base().unhealthy(DEADLINE, DEADLINE),
            base().exited(30),
            base().exited(3),
            base().stopped(30),
            base().state(RunState::Restarting).restarts(5),
            base().running(9, 3).state(RunState::Restarting),
            base().running(90, 3).state(RunState::Paused),
            base().running(90, 3).state(RunState::Removing),
            base().running(90, HEALTHY_TIME).image(V3),
            base()
                .running(90, HEALTHY_TIME)
                .change(|m| m.fingerprint = Some("before".to_owned())),
            base().running(90, HEALTHY_TIME).replaces("stranger"),
        ]
        .map(Some),
    );
    all
}

fn olds() -> Vec<Part> {
    let vanishing = || old().vanishing();
    let retired = [
        old(),
        old().unhealthy(900, 900),
        old().exited(20),
        old().state(RunState::Restarting),
        old().state(RunState::Removing),
        vanishing(),
    ];
    let draining = [
        old(),
        old().asked_to_stop(10),
        old().asked_to_stop(STOP_TIMEOUT + 2),
        old().exited(3),
        old().exited(20),
        old().exited(20).refused(3),
        old().running(30, 20),
        old().state(RunState::Restarting),
        old().state(RunState::Removing),
        vanishing(),
        vanishing().asked_to_stop(10),
        old().id("stranger"),
        old().id("stranger").exited(20),
    ];
    let mut all = vec![nothing()];
    all.extend(retired.map(|member| -> Part { Box::new(move |scene| scene.retired(member.clone())) }));
    all.extend(
        draining.map(|member| -> Part { Box::new(move |scene| scene.draining(9000, member.clone())) }),
    );
    all.push(Box::new(|scene| {
        scene
            .retired(old())
            .draining(90, old().id("earlier").asked_to_stop(10))
    }));
    all.push(Box::new(|scene| scene.renamed(old())));
    all
}

fn given_up() -> Vec<Part> {
    let rejected = |id: &str| new().id(id).policy("no").exited(60);
    vec![
        nothing(),
        Box::new(|scene| scene.failed(1, new().id("f1").unhealthy(700, 700))),
        Box::new(move |scene| scene.failed(1, rejected("f1").change(|m| m.created_at = ago(2)))),
        Box::new(move |scene| {
            let second = rejected("f2").running(50, 0).asked_to_stop(5);
            scene.failed(1, rejected("f1").image(V3)).failed(2, second)
        }),
        Box::new(|scene| scene.withdrawn(60, new().id("w").running(90, 0))),
        Box::new(|scene| scene.withdrawn(60, new().id("w").policy("no").exited(1))),
        Box::new(|scene| scene.trial(60, new().id("t").policy("no").running(1, 0))),
        Box::new(|scene| {
            scene.withdrawn(
                60,
                new()
                    .id("w")
                    .policy("no")
                    .running(90, 0)
                    .state(RunState::Removing),
            )
        }),
    ]
}

fn desires() -> [Desired; 4] {
    [
        Scene::new().pulled(V2).desired,
        Scene::new().published(V2).desired,
        Scene::new().desired,
        Desired::Keep(Reason::UpToDate { image: V1.to_owned() }),
    ]
}

/// Visits every n-th combination. The published image hardly matters to containers that are given up.
pub(super) fn each_scene(n: usize, mut visit: impl FnMut(Scene)) -> usize {
    let (candidates, olds, given_up, desires) = (candidates(), olds(), given_up(), desires());
    let mut count = 0;
    for serving in servings() {
        let id = serving.as_ref().map_or("old", |serving| serving.id.as_str());
        for add_old in &olds {
            let behind = add_old(Scene::new());
            // A container has one name.
            let mut others = behind.rollout.members().chain(&behind.rollout.relatives);
            if serving.is_some() && others.any(|other| other.id.as_str() == id) {
                continue;
            }
            let has_retired = behind.rollout.old.iter().any(|old| old.role == Role::Retired);
            for candidate in &candidates {
                // A candidate is created once the retired container drains.
                if serving.is_some() && candidate.is_some() && has_retired {
                    continue;
                }
                for (number, add_given_up) in given_up.iter().enumerate() {
                    for desired in desires.iter().take(if number == 0 { 4 } else { 1 }) {
                        for is_single in [false, true] {
                            count += 1;
                            if count % n != 0 {
                                continue;
                            }
                            let mut scene = add_given_up(behind.clone());
                            scene.desired = desired.clone();
                            if let Some(serving) = &serving {
                                scene = scene.serving(serving.clone());
                            }
                            if let Some(candidate) = candidate {
                                let is_its_own = candidate.replaces == new().replaces;
                                let replaces = if is_its_own { id } else { "stranger" };
                                scene = scene.candidate(candidate.clone().replaces(replaces));
                            }
                            visit(if is_single { scene.host_network() } else { scene });
                        }
                    }
                }
            }
        }
    }
    count
}
