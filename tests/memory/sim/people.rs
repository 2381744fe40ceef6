//! The people of a story: a dozen acts on containers and images, with the docker command and with Compose.

use std::time::Duration;

use delegate_upgrader::container::{Role, compose};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::book::Given;
use super::random::Random;
use super::scenario::{HOUR, Scenario};
use super::world::World;
use kit::twin::{Glance, OperatorAction};

/// The longest time that Compose waits for a container to stop.
const COMPOSE_STOP: Duration = Duration::from_secs(11);

/// How often people act on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Density {
    /// An act or two in most replacements, now and then more.
    Some,
    /// Several in each, at every stage: they also undo one another's work.
    Crowd,
}

/// The acts of the people of a story, and their frequency.
#[derive(Clone, Debug)]
pub struct People {
    /// One act in this many calls that change something.
    pub often: u64,
    /// In addition, about one act in this time.
    pub every: Duration,
    /// A few acts: with all of them at once, no upgrade would get far.
    pub acts: Vec<Act>,
}

/// An act of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Stop,
    Start,
    Kill,
    Remove,
    Restart,
    Rename,
    Policy,
    Memory,
    Connect,
    Disconnect,
    Pause,
    Unpause,
    /// `docker container prune`.
    Prune,
    /// `docker rmi -f`.
    RemoveImage,
    /// `docker compose up` of an unchanged file: if it finds two containers, it removes one.
    ComposeUp,
    /// `docker compose up` of a changed file.
    ComposeRecreate,
    /// `docker compose down`.
    ComposeDown,
}

pub const ACTS: [Act; 17] = [
    Act::Stop,
    Act::Start,
    Act::Kill,
    Act::Remove,
    Act::Restart,
    Act::Rename,
    Act::Policy,
    Act::Memory,
    Act::Connect,
    Act::Disconnect,
    Act::Pause,
    Act::Unpause,
    Act::Prune,
    Act::RemoveImage,
    Act::ComposeUp,
    Act::ComposeRecreate,
    Act::ComposeDown,
];

impl People {
    pub fn new(random: &mut Random, density: Density) -> Self {
        let mut acts = Vec::new();
        for _ in 0..random.pick(&[1, 1, 2, 3, 5]) {
            let act = random.pick(&ACTS);
            acts.push(act);
            match act {
                // Most acts are undone one day.
                Act::Stop | Act::Kill if random.one_in(2) => acts.push(Act::Start),
                Act::Pause => acts.push(Act::Unpause),
                Act::Connect => acts.push(Act::Disconnect),
                _ => {}
            }
        }
        Self {
            often: random.pick(match density {
                Density::Some => &[12, 25, 50, 100],
                Density::Crowd => &[3, 6, 12, 25],
            }),
            every: match density {
                Density::Some => random.pick(&[HOUR, HOUR * 2, HOUR * 4, HOUR * 8]),
                Density::Crowd => random.pick(&[HOUR / 6, HOUR / 2, HOUR, HOUR * 3]),
            },
            acts,
        }
    }

    /// The time of the next act that is independent of calls.
    pub fn next(&self, random: &mut Random, now: Duration) -> Duration {
        now + random.seconds(1..self.every.as_secs() * 2)
    }
}

/// Gives a scenario people in place of some of its faults.
pub(super) fn move_in(scenario: &mut Scenario, density: Density) {
    let mut random = Random::new(scenario.seed ^ 0x7065_6f70_6c65);
    if random.one_in(2) {
        scenario.faults = super::scenario::Faults::default();
    }
    scenario.faults.person = 0;
    // A dependency that all delegates share is away for minutes or hours.
    if random.one_in(4) {
        scenario.faults.manager = random.pick(&[12, 25]);
        scenario.long_outages = true;
    }
    if random.one_in(6) {
        scenario.faults.engine = random.pick(&[12, 25, 50]);
    }
    if random.one_in(4) {
        scenario.calm_at += HOUR * u32::try_from(random.below(3..10)).unwrap();
    }
    // The settings of one delegate keep it from ever being healthy.
    if random.one_in(8) {
        let delegate = random.below(0..scenario.delegates.len() as u64);
        let delegate = &mut scenario.delegates[usize::try_from(delegate).unwrap()];
        delegate.is_broken = true;
        delegate.body["Healthcheck"] = json!({
            "Test": ["CMD", "/probe"], "Interval": 2_592_000_000_000_000_u64, "Retries": 3,
        });
    }
    scenario.people = Some(People::new(&mut random, density));
}

/// The containers of a delegate, each with its role.
pub fn family(world: &World, line: usize) -> Vec<(Role, Glance)> {
    let book = world.book();
    let of_it = |container: Glance| {
        let (base, role) = Role::parse(&container.name);
        (book.names.get(base) == Some(&line)).then_some((role, container))
    };
    world.twin.glance().into_iter().filter_map(of_it).collect()
}

/// Does one of these acts to some container of some delegate.
pub(super) async fn act(world: &World, random: &mut Random, acts: &[Act]) {
    let act = random.pick(acts);
    let line = usize::try_from(random.below(0..world.scenario.delegates.len() as u64)).unwrap();
    let mut targets = family(world, line);
    targets.retain(|(role, target)| match (act, target.state.as_str()) {
        (Act::ComposeRecreate, _) => *role == Role::Serving && !compose::is_temporary_name(&target.name),
        (Act::Start, state) => state != "running",
        (Act::Unpause, state) => state == "paused",
        (Act::Stop | Act::Kill | Act::Pause | Act::Restart, state) => {
            matches!(state, "running" | "restarting" | "paused")
        }
        _ => true,
    });
    if !targets.is_empty() {
        let (_, target) = random.pick(&targets);
        perform(world, random, act, line, &target).await;
    }
}

/// Does an act to this container, or beside it.
pub async fn perform(world: &World, random: &mut Random, act: Act, line: usize, target: &Glance) {
    let id = target.id.as_str().to_owned();
    let network = random.pick(&["backend", "extra"]).to_owned();
    let hand = match act {
        Act::Stop => OperatorAction::Stop(id),
        Act::Start => OperatorAction::Start(id),
        Act::Kill => OperatorAction::Kill(id),
        Act::Remove => OperatorAction::Remove(id),
        Act::Restart => OperatorAction::Restart(id),
        Act::Rename => {
            let name = &world.scenario.delegates[line].name;
            OperatorAction::Rename(id, format!("{name}-kept-{}", random.below(0..1000)))
        }
        Act::Policy => {
            let policy = random.pick(&["always", "unless-stopped", "on-failure", "no"]);
            OperatorAction::SetRestartPolicy(id, policy.to_owned())
        }
        Act::Memory => OperatorAction::SetMemory(id, random.below(1024..4096) << 20),
        Act::Connect => OperatorAction::Connect(id, network),
        // Without the network of its network mode, no engine could create it again.
        Act::Disconnect if network_mode(world, &id) == json!(network) => return,
        Act::Disconnect => OperatorAction::Disconnect(id, network),
        Act::Pause => OperatorAction::Pause(id),
        Act::Unpause => OperatorAction::Unpause(id),
        Act::Prune => OperatorAction::PruneContainers,
        Act::RemoveImage => {
            let document = world.twin.document(&id).unwrap();
            let names = [
                target.image.clone(),
                document["Image"].as_str().unwrap().to_owned(),
            ];
            OperatorAction::RemoveImage(random.pick(&names))
        }
        Act::ComposeUp => return compose_up(world, line, target).await,
        Act::ComposeRecreate => return compose_recreate(world, random, line, target).await,
        Act::ComposeDown => return compose_down(world, line).await,
    };
    by_hand(world, line, &target.name, hand);
}

fn network_mode(world: &World, id: &str) -> Value {
    world.twin.document(id).unwrap_or_default()["HostConfig"]["NetworkMode"].clone()
}

/// Carries out a command, and notes the settings and names that the owner gave. Returns whether the engine did it.
fn by_hand(world: &World, line: usize, name: &str, hand: OperatorAction) -> bool {
    let outcome = world.twin.by_hand(hand.clone());
    let (shown, word, now) = (format!("{hand:?}"), hand.word(), world.twin.elapsed());
    world.tell(format!("PERSON {word} {name}: {shown}: {outcome:?}"));
    if outcome.is_err() {
        return false;
    }
    world.count(&format!("person {word}"));
    match hand {
        OperatorAction::SetMemory(id, _)
        | OperatorAction::SetRestartPolicy(id, _)
        | OperatorAction::Connect(id, _)
        | OperatorAction::Disconnect(id, _) => note_settings(world, line, &id),
        OperatorAction::Create(name, _) => note_settings(world, line, &name),
        OperatorAction::Rename(_, to) => {
            world.book().names.insert(to, line);
        }
        OperatorAction::Pause(id) => world.book().pauses.push((now, id, true)),
        OperatorAction::Unpause(id) => world.book().pauses.push((now, id, false)),
        _ => {}
    }
    true
}

/// Notes the settings that an owner has just given. For the container in service, they hold from then on. For another
/// container of a replacement, they hold if it is in service one day.
fn note_settings(world: &World, line: usize, id: &str) {
    let document = world.twin.document(id).unwrap();
    let name = document["Name"]
        .as_str()
        .unwrap()
        .trim_start_matches('/')
        .to_owned();
    let touched = document["Id"].as_str().unwrap().to_owned();
    let now = world.twin.elapsed();
    let settings = &mut world.book().settings[line];
    if Role::parse(&name).1 == Role::Serving {
        for given in settings.iter_mut() {
            given.until.get_or_insert_with(|| (now, touched.clone()));
        }
    }
    settings.push(Given {
        document,
        until: None,
    });
}

/// Stops a container as Compose does, and removes it. Returns whether the engine did it.
async fn compose_removes(world: &World, line: usize, name: &str, id: &str) -> bool {
    if !by_hand(world, line, name, OperatorAction::Stop(id.to_owned())) {
        return false;
    }
    wait_for_end(world, id).await;
    by_hand(world, line, name, OperatorAction::Remove(id.to_owned()))
}

async fn wait_for_end(world: &World, id: &str) {
    let until = world.twin.elapsed() + COMPOSE_STOP;
    let runs = || {
        world
            .twin
            .document(id)
            .is_some_and(|document| document["State"]["Running"] == json!(true))
    };
    while world.twin.elapsed() < until && runs() {
        sleep(Duration::from_millis(100)).await;
    }
}

/// `docker compose up` of an unchanged file. Of two containers of a service that should have one, it removes either.
async fn compose_up(world: &World, line: usize, extra: &Glance) {
    let is_up = |(role, container): &&(Role, Glance)| {
        let is_given_up = matches!(role, Role::Failed { .. } | Role::Withdrawn { .. });
        !is_given_up && container.state.as_str() == "running"
    };
    if family(world, line).iter().filter(is_up).count() > 1 {
        compose_removes(world, line, &extra.name, extra.id.as_str()).await;
    }
}

/// `docker compose down` stops all containers that it finds, and then removes them.
async fn compose_down(world: &World, line: usize) {
    let found = family(world, line);
    for (_, container) in &found {
        let stop = OperatorAction::Stop(container.id.as_str().to_owned());
        by_hand(world, line, &container.name, stop);
    }
    for (_, container) in &found {
        wait_for_end(world, container.id.as_str()).await;
    }
    for (_, container) in &found {
        let remove = OperatorAction::Remove(container.id.as_str().to_owned());
        by_hand(world, line, &container.name, remove);
    }
}

/// `docker compose up` after its file was changed: it recreates the container under the same name.
async fn compose_recreate(world: &World, random: &mut Random, line: usize, old: &Glance) {
    let body = changed(&world.scenario.delegates[line].body, random);
    let (name, id) = (old.name.clone(), old.id.as_str().to_owned());
    let temporary = format!("{}_{name}", old.id.short());
    world.book().names.insert(temporary.clone(), line);
    let create = |name: &str| OperatorAction::Create(name.to_owned(), Box::new(body.clone()));
    let rename = |from: &str, to: &str| OperatorAction::Rename(from.to_owned(), to.to_owned());
    let (stop, remove) = (
        OperatorAction::Stop(id.clone()),
        OperatorAction::Remove(id.clone()),
    );
    let start = OperatorAction::Start(name.clone());
    // Compose v2 creates the new container first; v1 gives the old one the temporary name.
    let steps = if random.one_in(2) {
        vec![create(&temporary), stop, remove, rename(&temporary, &name), start]
    } else {
        vec![stop, rename(&id, &temporary), create(&name), start, remove]
    };
    world.count("person recreates");
    for step in steps {
        sleep(random.millis(0..600)).await;
        let is_stop = matches!(step, OperatorAction::Stop(_));
        if !by_hand(world, line, &name, step) {
            // The user tidies up.
            by_hand(world, line, &temporary, OperatorAction::Remove(temporary.clone()));
            return;
        }
        if is_stop {
            wait_for_end(world, &id).await;
        }
    }
}

/// The body of a Compose file that its owner has changed.
fn changed(body: &Value, random: &mut Random) -> Value {
    let mut body = body.clone();
    let mut env = body["Env"].as_array().cloned().unwrap_or_default();
    env.push(format!("CHANGE={}", random.below(0..1000)).into());
    body["Env"] = env.into();
    body["HostConfig"]["Memory"] = (random.below(1024..4096) << 20).into();
    body
}
