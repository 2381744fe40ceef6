//! The people of a story: what they do to containers and images, with the docker command and with Compose.

use std::time::Duration;

use delegate_upgrader::container::Role;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::claims::Fate;
use super::random::Random;
use super::scenario::{HOUR, Scenario, Way};
use super::situation::Situation;
use super::world::World;
use kit::twin::{Glance, OperatorAction};

/// The longest that Compose waits for a container that it stops.
const COMPOSE_STOP: Duration = Duration::from_secs(11);

/// How much is done on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Density {
    /// An act or two in most replacements, now and then more.
    Some,
    /// Several in each, at its every stage: they also undo one another's work, and contradict themselves.
    Crowd,
}

/// What the people of a story do, and how often.
#[derive(Clone, Debug)]
pub struct People {
    /// At one in so many calls that change something.
    pub often: u64,
    /// And once in this time or so.
    pub every: Duration,
    /// A few kinds: with all of them at once no upgrade would get far.
    pub kinds: Vec<Kind>,
}

/// A kind of act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Remove,
    Rename,
    Stop,
    Start,
    Restart,
    Kill,
    Pause,
    Unpause,
    Memory,
    Policy,
    Connect,
    Disconnect,
    Recreate,
    RemoveImage,
    Tag,
}

const KINDS: [Kind; 15] = [
    Kind::Remove,
    Kind::Rename,
    Kind::Stop,
    Kind::Start,
    Kind::Restart,
    Kind::Kill,
    Kind::Pause,
    Kind::Unpause,
    Kind::Memory,
    Kind::Policy,
    Kind::Connect,
    Kind::Disconnect,
    Kind::Recreate,
    Kind::RemoveImage,
    Kind::Tag,
];

impl People {
    pub fn new(random: &mut Random, density: Density) -> Self {
        let mut kinds = Vec::new();
        for _ in 0..random.pick(&[1, 1, 2, 3, 5]) {
            let kind = random.pick(&KINDS);
            kinds.push(kind);
            match kind {
                // What is done is undone one day, mostly.
                Kind::Stop | Kind::Kill if random.one_in(2) => kinds.push(Kind::Start),
                Kind::Pause => kinds.push(Kind::Unpause),
                Kind::Connect => kinds.push(Kind::Disconnect),
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
            kinds,
        }
    }

    /// When the next act is due that no call leads to.
    pub fn next(&self, random: &mut Random, now: Duration) -> Duration {
        now + random.seconds(1..self.every.as_secs() * 2)
    }
}

/// Gives a scenario people, in place of some of its faults.
pub(super) fn move_in(scenario: &mut Scenario, density: Density) {
    let mut random = Random::new(scenario.seed ^ 0x7065_6f70_6c65);
    if random.one_in(2) {
        scenario.faults = super::scenario::Faults::default();
    }
    scenario.faults.person = 0;
    // A dependency that all delegates share is away for minutes or for hours.
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
    // One of them has settings that keep it from ever being healthy.
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

/// Someone does something.
pub(super) async fn act(world: &World, random: &mut Random) {
    let people = world.scenario.people.as_ref().expect("a story with people");
    let kind = random.pick(&people.kinds);
    match kind {
        Kind::RemoveImage | Kind::Tag => return on_an_image(world, random, kind),
        _ => {}
    }
    let glance = world.twin.glance();
    let situations: Vec<Situation> = (0..world.scenario.delegates.len())
        .map(|line| world.book().claims.situation(line, &glance))
        .filter(|situation| !situation.family.is_empty())
        .collect();
    if situations.is_empty() {
        return;
    }
    let situation = random.pick(&situations);
    let wanted = |container: &&(Role, Glance)| match kind {
        Kind::Recreate => container.0 == Role::Serving,
        Kind::Start => container.1.state.as_str() != "running",
        Kind::Unpause => container.1.state.as_str() == "paused",
        Kind::Stop | Kind::Kill | Kind::Pause | Kind::Restart => {
            matches!(container.1.state.as_str(), "running" | "restarting" | "paused")
        }
        _ => true,
    };
    let targets: Vec<&(Role, Glance)> = situation.family.iter().filter(wanted).collect();
    if targets.is_empty() {
        return;
    }
    let (role, target) = random.pick(&targets);
    if kind == Kind::Recreate {
        return recreate(world, random, &situation, target).await;
    }
    let id = target.id.as_str().to_owned();
    let network = random.pick(&["backend", "extra"]).to_owned();
    let hand = match kind {
        Kind::Remove => OperatorAction::Remove(id),
        Kind::Rename => {
            // Once: who gives several parts of one replacement other names takes it apart.
            if world.book().claims.is_renamed(situation.line) {
                return;
            }
            let delegate = &world.scenario.delegates[situation.line].name;
            OperatorAction::Rename(id, format!("{delegate}-kept-{}", random.below(0..1000)))
        }
        Kind::Stop => OperatorAction::Stop(id),
        Kind::Start => OperatorAction::Start(id),
        Kind::Restart => OperatorAction::Restart(id),
        Kind::Kill => OperatorAction::Kill(id),
        Kind::Pause => OperatorAction::Pause(id),
        Kind::Unpause => OperatorAction::Unpause(id),
        Kind::Memory => OperatorAction::SetMemory(id, random.below(1024..4096) << 20),
        Kind::Policy => {
            let policy = random.pick(&["always", "unless-stopped", "on-failure", "no"]);
            OperatorAction::SetRestartPolicy(id, policy.to_owned())
        }
        Kind::Connect => OperatorAction::Connect(id, network),
        Kind::Disconnect => {
            // Without the network of its mode it could not be made anew as it is.
            let document = world.twin.document(&id).unwrap_or_default();
            if document["HostConfig"]["NetworkMode"] == json!(network) {
                return;
            }
            OperatorAction::Disconnect(id, network)
        }
        Kind::Recreate | Kind::RemoveImage | Kind::Tag => unreachable!("done above"),
    };
    let before = Before {
        name: target.name.clone(),
        role: *role,
    };
    let is_done = do_by_hand(world, &hand, &before);
    // One with `--rm` ends, and the engine may remove it before it could be started again.
    let vanishes = world.scenario.delegates[situation.line].auto_remove && kind == Kind::Restart;
    let hand = if is_done || !vanishes {
        hand
    } else {
        OperatorAction::Kill(target.id.as_str().to_owned())
    };
    if is_done || vanishes {
        let mut book = world.book();
        let claims = &mut book.claims;
        claims.note(world, &situation, *role, target, &hand);
    }
}

struct Before {
    name: String,
    role: Role,
}

/// Whether the engine did it.
fn do_by_hand(world: &World, hand: &OperatorAction, before: &Before) -> bool {
    let glance = world.twin.glance();
    let named = by_name(hand, &before.name);
    let outcome = world.twin.by_hand(hand.clone());
    world.tell(format!("PERSON {} {named:?}: {outcome:?}", hand.word()));
    if outcome.is_ok() {
        world.book().excuses.before(&named, &glance, &world.scenario);
        let role = word(before.role);
        world.count(&format!("person {} {role}", hand.word()));
    }
    outcome.is_ok()
}

/// The same act with the container's name in place of its id.
fn by_name(hand: &OperatorAction, name: &str) -> OperatorAction {
    let name = name.to_owned();
    match hand.clone() {
        OperatorAction::Remove(_) => OperatorAction::Remove(name),
        OperatorAction::Rename(_, to) => OperatorAction::Rename(name, to),
        OperatorAction::Stop(_) => OperatorAction::Stop(name),
        OperatorAction::Start(_) => OperatorAction::Start(name),
        OperatorAction::Restart(_) => OperatorAction::Restart(name),
        OperatorAction::Kill(_) => OperatorAction::Kill(name),
        OperatorAction::Pause(_) => OperatorAction::Pause(name),
        OperatorAction::Unpause(_) => OperatorAction::Unpause(name),
        OperatorAction::SetMemory(_, bytes) => OperatorAction::SetMemory(name, bytes),
        OperatorAction::SetRestartPolicy(_, policy) => OperatorAction::SetRestartPolicy(name, policy),
        OperatorAction::Connect(_, network) => OperatorAction::Connect(name, network),
        OperatorAction::Disconnect(_, network) => OperatorAction::Disconnect(name, network),
        other => other,
    }
}

/// `docker rmi -f` or `docker tag` of an image that the story is about.
fn on_an_image(world: &World, random: &mut Random, kind: Kind) {
    let images = &world.scenario.images;
    let published = world.book().published;
    let one = random.pick(&[0, published, published.saturating_sub(1)]);
    let other = random.pick(&[0, published]);
    let names = [images[one].reference.clone(), world.images[one].id.clone()];
    let hand = match kind {
        Kind::RemoveImage => OperatorAction::RemoveImage(random.pick(&names)),
        _ => OperatorAction::Tag(world.images[one].id.clone(), images[other].reference.clone()),
    };
    let outcome = world.twin.by_hand(hand.clone());
    world.tell(format!("PERSON {hand:?}: {outcome:?}"));
    if outcome.is_ok() {
        world.count(&format!("person {}", hand.word()));
        let claims = &mut world.book().claims;
        claims.image_changed(world);
        if kind == Kind::Tag {
            claims.retagged.insert(images[other].reference.clone());
        }
    }
}

/// `docker compose up` after its file was changed: the same name made anew.
async fn recreate(world: &World, random: &mut Random, situation: &Situation, old: &Glance) {
    let delegate = &world.scenario.delegates[situation.line];
    let body = recreated(&delegate.body, random);
    let (name, id) = (old.name.clone(), old.id.as_str().to_owned());
    let temporary = format!("{}_{name}", old.id.short());
    // The second version creates first; the first one gives the old one the temporary name.
    let creates_first = random.one_in(2);
    let create = |name: &str| OperatorAction::Create(name.to_owned(), Box::new(body.clone()));
    let rename = |from: &str, to: &str| OperatorAction::Rename(from.to_owned(), to.to_owned());
    let (stop, remove) = (
        OperatorAction::Stop(id.clone()),
        OperatorAction::Remove(id.clone()),
    );
    let steps = if creates_first {
        vec![
            create(&temporary),
            stop,
            remove,
            rename(&temporary, &name),
            OperatorAction::Start(name.clone()),
        ]
    } else {
        vec![
            stop,
            rename(&id, &temporary),
            create(&name),
            OperatorAction::Start(name.clone()),
            remove,
        ]
    };
    world.count("person recreates");
    world.tell(format!(
        "PERSON recreates {name}{}",
        if creates_first { ", creating first" } else { "" }
    ));
    world.book().claims.is_recreated(world, situation, &temporary);
    let glance = world.twin.glance();
    let removal = OperatorAction::Remove(name.clone());
    world.book().excuses.before(&removal, &glance, &world.scenario);
    world.book().excuses.names.insert(temporary);
    let mut finds_it_up = false;
    for step in steps {
        sleep(random.millis(0..600)).await;
        // It was given up as it was stopped, and came back since its successor had failed.
        finds_it_up |= matches!(step, OperatorAction::Start(_)) && runs(world, &id);
        let outcome = world.twin.by_hand(step.clone());
        world.tell(format!("PERSON composes {}: {outcome:?}", step.word()));
        if outcome.is_err() {
            world.book().claims.failed_to_recreate(situation);
            return;
        }
        if let OperatorAction::Stop(_) = step {
            let until = world.twin.elapsed() + COMPOSE_STOP;
            while world.twin.elapsed() < until && runs(world, &id) {
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
    let claims = &mut world.book().claims;
    claims.was_recreated(world, situation, &name);
    // It may find its port taken, and without a policy nothing starts it a second time.
    if finds_it_up && delegate.way == Way::StopFirst && body["HostConfig"]["RestartPolicy"]["Name"] == "no" {
        claims.becomes(situation.line, Fate::Any, world.twin.elapsed());
    }
}

fn runs(world: &World, id: &str) -> bool {
    let document = world.twin.document(id);
    document.is_some_and(|document| document["State"]["Running"] == json!(true))
}

/// The body of a Compose file that somebody has changed.
fn recreated(body: &Value, random: &mut Random) -> Value {
    let mut body = body.clone();
    let number = random.below(0..1000);
    let mut env = body["Env"].as_array().cloned().unwrap_or_default();
    env.push(format!("CHANGE={number}").into());
    body["Env"] = env.into();
    body["HostConfig"]["Memory"] = (random.below(1024..4096) << 20).into();
    body
}

fn word(role: Role) -> &'static str {
    match role {
        Role::Serving => "the one in service",
        Role::Candidate => "the candidate",
        Role::Draining { .. } => "the draining one",
        Role::Standby => "the standby",
        _ => "what is left of an attempt",
    }
}
