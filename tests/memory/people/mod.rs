//! A person acts on a delegate while it is replaced: each act, at each stage, in each order. The invariants of the simulation
//! hold; and one delegate serves in the end, unless its owner stopped or removed it.

use std::sync::Arc;
use std::time::Duration;

use delegate_upgrader::config::Strategy;
use delegate_upgrader::container::Role;
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::rollout::faults::stride;
use crate::sim::director::come_to_rest;
use crate::sim::people::{Act, family, perform};
use crate::sim::random::Random;
use crate::sim::run::print;
use crate::sim::scenario::{Delegate, Faults, GROUP, HOUR, Kind, Made, Scenario, Upgrader, Way};
use crate::sim::upgraders::supervise;
use crate::sim::violations;
use crate::sim::world::World;
use kit::twin::{Behaviour, Call, Fault, Glance, Operation, delegate_body};

const NAME: &str = "aa";
const DRAIN: Duration = Duration::from_secs(60);

/// How the delegate of a story is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    StartFirst,
    StopFirst,
    /// Start-first, with `--rm`.
    AutoRemove,
}

/// How far its replacement has come when the person acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The candidate was created.
    Created,
    /// The candidate proves itself.
    Proving,
    /// The old container has given up the name, and the candidate has not taken it.
    BetweenRenames,
    /// The old container finishes its tasks.
    Draining,
    /// The engine was killed meanwhile, has revived the old container, and we have asked it to stop again.
    Revived,
    /// The candidate was rejected.
    Rejected,
}

const STAGES: [Stage; 6] = [
    Stage::Created,
    Stage::Proving,
    Stage::BetweenRenames,
    Stage::Draining,
    Stage::Revived,
    Stage::Rejected,
];

/// Acts on one container.
const ON_ONE: [Act; 13] = [
    Act::Stop,
    Act::Kill,
    Act::Remove,
    Act::Restart,
    Act::Rename,
    Act::Policy,
    Act::Memory,
    Act::Connect,
    Act::Disconnect,
    Act::Pause,
    Act::RemoveImage,
    Act::ComposeUp,
    Act::ComposeRecreate,
];
/// Acts on all containers.
const ON_ALL: [Act; 2] = [Act::Prune, Act::ComposeDown];

fn scenario(order: Order, stage: Stage) -> Scenario {
    let made = |month: u32, kind: Kind, behaviour: Behaviour| Made {
        reference: format!("harness/delegate:26.0{month}.1"),
        kind,
        behaviour,
        pull_time: Duration::from_secs(1),
    };
    let old = made(1, Kind::Good, Behaviour::drains(DRAIN));
    let new = match stage {
        Stage::Rejected => made(2, Kind::NeverHealthy, Behaviour::never_healthy()),
        _ => made(2, Kind::Good, Behaviour::drains(DRAIN)),
    };
    let mut body = delegate_body(GROUP, &old.reference);
    body["HostConfig"]["NetworkMode"] = json!("backend");
    let auto_remove = order == Order::AutoRemove;
    let policy = match stage {
        _ if auto_remove => "no",
        Stage::Revived => "always",
        _ => "unless-stopped",
    };
    body["HostConfig"]["AutoRemove"] = json!(auto_remove);
    body["HostConfig"]["RestartPolicy"]["Name"] = json!(policy);
    let way = if order == Order::StopFirst {
        Way::StopFirst
    } else {
        Way::StartFirst
    };
    Scenario {
        seed: 0,
        // Longer than the ten seconds of a `docker stop`, during which a container still answers.
        healthy_time: Duration::from_secs(20),
        healthy_deadline: Duration::from_secs(90),
        stop_timeout: Duration::from_secs(600),
        strategy: if order == Order::StopFirst {
            Strategy::StopFirst
        } else {
            Strategy::Auto
        },
        restarts_unhealthy: false,
        delegates: vec![Delegate {
            name: NAME.to_owned(),
            policy,
            auto_remove,
            way,
            body,
            is_broken: false,
        }],
        images: vec![old, new],
        publications: Vec::new(),
        upgraders: vec![Upgrader {
            minute: Duration::from_secs(10),
            once: false,
            run_on_start: true,
        }],
        faults: Faults::default(),
        people: None,
        long_outages: false,
        calm_at: HOUR,
        random: Random::new(0),
    }
}

/// A person needs some time: the first call after that which begins a stage takes long.
fn slow() -> impl FnMut(&Call) -> Fault {
    let mut is_next = false;
    move |call: &Call| {
        let begins = match call.operation {
            Operation::Create => call.subject.ends_with(".candidate"),
            Operation::Rename => call.detail.ends_with(".retired"),
            _ => false,
        };
        if std::mem::replace(&mut is_next, begins) {
            Fault::Slow(Duration::from_secs(4))
        } else {
            Fault::None
        }
    }
}

fn is_at(stage: Stage, order: Order, family: &[(Role, Glance)]) -> bool {
    let state = |is: fn(Role) -> bool| {
        let mut of_role = family.iter().filter(|(role, _)| is(*role));
        of_role.next().map(|(_, container)| container.state.as_str())
    };
    let candidate = state(|role| role == Role::Candidate);
    let draining = state(|role| matches!(role, Role::Draining { .. }));
    match stage {
        Stage::Created => candidate == Some("created"),
        Stage::Proving => candidate == Some("running"),
        Stage::BetweenRenames => candidate.is_some() && state(|role| role == Role::Retired).is_some(),
        Stage::Draining | Stage::Revived if order == Order::StopFirst => draining == Some("running"),
        Stage::Draining | Stage::Revived => {
            draining == Some("running") && state(|role| role == Role::Serving).is_some()
        }
        Stage::Rejected => state(|role| matches!(role, Role::Failed { .. })).is_some(),
    }
}

/// Which of the two containers a person acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Old,
    New,
}

/// The world at the end of a story, and what was acted on; `None` where the act does not apply.
async fn story(order: Order, stage: Stage, act: Act, which: Which) -> Option<(Arc<World>, Acted)> {
    let world = Arc::new(World::new(scenario(order, stage), wanted_cell().is_some()));
    world.publish(1);
    world.twin.set_faults(slow());
    let story = async {
        let at_stage = async {
            while !is_at(stage, order, &family(&world, 0)) {
                sleep(Duration::from_millis(100)).await;
            }
        };
        timeout(HOUR, at_stage).await.expect("it comes to that stage");
        if stage == Stage::Revived {
            world.twin.kill_engine(Duration::from_secs(5));
            sleep(Duration::from_secs(12)).await;
        }
        sleep(Duration::from_millis(500)).await;
        let family = family(&world, 0);
        let is_old = |container: &Glance| container.id == world.ids[NAME];
        let mut targets = family
            .iter()
            .filter(|(_, container)| is_old(container) == (which == Which::Old));
        let (role, target) = targets.next()?;
        // Compose recreates what has its name; it finds two containers where both are up.
        let applies = match act {
            Act::ComposeRecreate => *role == Role::Serving,
            Act::ComposeUp => !matches!(role, Role::Failed { .. }) && stage != Stage::Rejected,
            _ => true,
        };
        if !applies {
            return None;
        }
        perform(&world, &mut Random::new(1), act, 0, target).await;
        if act == Act::Pause {
            sleep(Duration::from_secs(40)).await;
            perform(&world, &mut Random::new(1), Act::Unpause, 0, target).await;
        }
        come_to_rest(&world).await;
        let could_serve =
            |(role, _): &&(Role, Glance)| !matches!(role, Role::Failed { .. } | Role::Withdrawn { .. });
        let is_alone = family.iter().filter(could_serve).count() == 1;
        Some(Acted {
            role: *role,
            is_alone,
        })
    };
    let acted = tokio::select! {
        biased;
        acted = story => acted,
        () = world.endless.notified() => panic!("{order:?} {stage:?} {act:?} {which:?} does not come to rest"),
        () = supervise(Arc::clone(&world), 0) => unreachable!("it starts again and again"),
    };
    acted.map(|acted| (world, acted))
}

/// What the person acted on.
struct Acted {
    role: Role,
    /// Nothing else could serve.
    is_alone: bool,
}

/// Whether its owner stopped or removed the delegate itself.
fn is_taken_down(order: Order, act: Act, Acted { role, is_alone }: &Acted) -> bool {
    let is_given_up = matches!(role, Role::Failed { .. } | Role::Withdrawn { .. });
    match act {
        Act::ComposeDown => true,
        Act::Stop | Act::Kill => *role == Role::Serving,
        Act::Remove => !is_given_up && *is_alone,
        // With `--rm` it vanishes.
        Act::Restart => !is_given_up && *is_alone && order == Order::AutoRemove,
        _ => false,
    }
}

/// `CELL='StopFirst Proving Stop New'` prints that story only.
fn wanted_cell() -> Option<String> {
    std::env::var("CELL").ok()
}

async fn check(order: Order) {
    let mut broken = Vec::new();
    let on_one = ON_ONE
        .iter()
        .flat_map(|act| [(*act, Which::Old), (*act, Which::New)]);
    let acts: Vec<(Act, Which)> = on_one.chain(ON_ALL.map(|act| (act, Which::Old))).collect();
    let stride = if wanted_cell().is_some() { 1 } else { stride(2) };
    for (number, stage) in STAGES.into_iter().enumerate() {
        // Stop-first has one rename, and no engine revives what has `--rm`.
        let never = [
            (Stage::BetweenRenames, Order::StopFirst),
            (Stage::Revived, Order::AutoRemove),
        ];
        if never.contains(&(stage, order)) {
            continue;
        }
        for (act, which) in acts.iter().skip(number % stride).step_by(stride) {
            let cell = format!("{order:?} {stage:?} {act:?} {which:?}");
            if wanted_cell().is_some_and(|wanted| wanted != cell) {
                continue;
            }
            let Some((world, acted)) = story(order, stage, *act, *which).await else {
                continue;
            };
            world.twin.clear_faults();
            let mut problems = violations(&world);
            let family = family(&world, 0);
            let works = |(role, container): &(Role, Glance)| {
                *role == Role::Serving && world.twin.health(&container.id) == Some(true)
            };
            if !family.iter().any(works) && !is_taken_down(order, *act, &acted) {
                problems.push("none works in the end".to_owned());
            }
            if wanted_cell().is_some() {
                print(&world);
            }
            broken.extend(problems.into_iter().map(|problem| format!("{cell}: {problem}")));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn keeps_promise_whatever_people_do_start_first() {
    check(Order::StartFirst).await;
}

#[tokio::test(start_paused = true)]
async fn keeps_promise_whatever_people_do_stop_first() {
    check(Order::StopFirst).await;
}

#[tokio::test(start_paused = true)]
async fn keeps_promise_whatever_people_do_with_auto_remove() {
    check(Order::AutoRemove).await;
}
