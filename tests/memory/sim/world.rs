//! Plays a scenario: upgraders at work, and a director who lets things go wrong.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use chrono::TimeDelta;
use delegate_upgrader::config::{HealthSettings, ProbeKind};
use delegate_upgrader::container::{ContainerId, Role};
use delegate_upgrader::engine::EngineError;
use delegate_upgrader::health::{HealthEndpoint, HttpOutcome};
use delegate_upgrader::image::{ImageReference, TargetSettings};
use delegate_upgrader::manager::{ImageSource, ManagerError};
use delegate_upgrader::observe::Scope;
use delegate_upgrader::reconcile::upgrade_run::Mode;
use delegate_upgrader::reconcile::{Reconciler, Settings};
use delegate_upgrader::rollout::Policy;
use delegate_upgrader::status::report::Report;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;

use super::excuses::Excuses;
use super::random::Random;
use super::scenario::{GROUP, HOUR, Kind, MOVING, Scenario, Upgrader};
use kit::twin::{Behaviour, Call, Fault, Image, OperatorAction, Twin};

/// How often an idle daemon looks.
const IDLE: Duration = Duration::from_secs(600);
/// More decisions than the longest story takes.
const ENDLESS: u64 = 80_000;
/// More calls than the longest story needs.
const ENDLESS_CALLS: usize = 400_000;
/// A container that is none of the upgrader's business.
pub const STRANGER: &str = "web";

/// What happened, for the judge and for the reader.
#[derive(Default)]
pub struct Book {
    /// The story in words.
    pub lines: Vec<(Duration, String)>,
    /// How often what was done: faults, acts, steps, reasons.
    pub counts: BTreeMap<String, u64>,
    /// Decisions taken by reconcilers.
    pub steps: u64,
    pub excuses: Excuses,
    /// The reports that told that nothing is left to do.
    pub finals: Vec<Final>,
    /// It did not come to rest.
    pub endless: bool,
    /// When the Manager was out of reach for the delegates.
    pub outages: Vec<(Duration, Duration)>,
    /// What is published at present.
    pub published: usize,
    /// From when on all is well.
    pub calm_since: Option<Duration>,
    /// Scheduled passes begun since then, by upgrader.
    pub passes: Vec<u32>,
    /// Whether each upgrader's last report says that it is done, and that nothing failed.
    pub last: Vec<Option<(bool, bool)>>,
}

impl Book {
    fn note_steps(&mut self, before: &Steps, now: &Steps) {
        for (kind, count) in now {
            let new = count - before.get(kind).copied().unwrap_or_default();
            self.steps += new;
            *self.counts.entry(format!("step: {kind}")).or_default() += new;
        }
    }
}

type Steps = BTreeMap<&'static str, u64>;

/// A report without anything under way.
pub struct Final {
    pub at: Duration,
    pub upgrader: usize,
    /// The image that was published when the pass asked, if it could be told; `None` before a scheduled pass asked.
    pub wished: Option<usize>,
    pub report: Report,
    /// What is published by now.
    pub published: usize,
    /// What each delegate's container ran then: its image's id, and whether it answered as healthy.
    pub seen: BTreeMap<String, (String, bool)>,
}

pub struct World {
    pub twin: Twin,
    pub scenario: Scenario,
    /// The images as made, by index.
    pub images: Vec<Image>,
    /// What the original containers' documents were.
    pub originals: BTreeMap<String, Value>,
    pub ids: BTreeMap<String, ContainerId>,
    pub stranger: ContainerId,
    book: Mutex<Book>,
    kills: Vec<Notify>,
    endless: Notify,
    manager_down: Mutex<bool>,
    pub aloud: bool,
}

/// What the fault hook asks the director to do.
#[derive(Clone, Copy, Debug)]
enum Act {
    Kill(usize),
    Engine,
    Power,
    Person,
    Manager,
    Clock,
    Crash,
}

impl World {
    pub fn new(scenario: Scenario, aloud: bool) -> Self {
        let twin = Twin::default();
        twin.add_network("backend");
        let images: Vec<Image> = scenario
            .images
            .iter()
            .map(|made| {
                let mut image = twin.image(made.behaviour.clone());
                image.pull_time = made.pull_time;
                image.config["Env"] = json!(["PATH=/bin", format!("IMAGE={}", image.id)]);
                if made.kind == Kind::WrongPlatform {
                    "arm64".clone_into(&mut image.architecture);
                }
                image
            })
            .collect();
        twin.add_image(&scenario.images[0].reference, images[0].clone());
        twin.publish(&scenario.images[0].reference, images[0].clone());
        let mut ids = BTreeMap::new();
        let mut originals = BTreeMap::new();
        for delegate in &scenario.delegates {
            let id = twin.run(&delegate.name, &delegate.body);
            originals.insert(delegate.name.clone(), twin.document(id.as_str()).unwrap());
            ids.insert(delegate.name.clone(), id);
        }
        twin.add_image("web:1", twin.image(Behaviour::default()));
        let stranger = twin.run(
            STRANGER,
            &json!({
                "Image": "web:1",
                "Labels": {},
                "Env": [],
                "HostConfig": { "RestartPolicy": { "Name": "always", "MaximumRetryCount": 0 } },
            }),
        );
        let upgraders = scenario.upgraders.len();
        Self {
            twin,
            images,
            originals,
            ids,
            stranger,
            book: Mutex::new(Book {
                passes: vec![0; upgraders],
                last: vec![None; upgraders],
                ..Book::default()
            }),
            kills: (0..upgraders).map(|_| Notify::new()).collect(),
            endless: Notify::new(),
            manager_down: Mutex::new(false),
            scenario,
            aloud,
        }
    }

    pub fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap()
    }

    pub fn tell(&self, what: impl Into<String>) {
        if self.aloud {
            let at = self.twin.elapsed();
            self.book().lines.push((at, what.into()));
        }
    }

    fn count(&self, what: &str) {
        *self.book().counts.entry(what.to_owned()).or_default() += 1;
    }

    /// Whether two images are one to an upgrader: where its tag does not move, a reference stands for one image.
    pub fn same(&self, one: usize, other: usize) -> bool {
        let reference = |index: usize| self.scenario.images[index].reference.as_str();
        one == other || (reference(one) == reference(other) && reference(one) != MOVING)
    }

    /// An image by its id.
    pub fn image_of(&self, id: &str) -> Option<usize> {
        self.images.iter().position(|image| image.id == id)
    }

    fn publish(&self, index: usize) {
        let made = &self.scenario.images[index];
        self.twin.publish(&made.reference, self.images[index].clone());
        let broken = (made.kind == Kind::CannotBePulled).then_some("manifest unknown");
        self.twin.break_pull(&made.reference, broken);
        self.book().published = index;
        self.tell(format!("published: {} ({:?})", made.reference, made.kind));
    }

    fn settings(&self) -> Settings {
        Settings {
            scope: Scope {
                workload_names: vec![GROUP.to_owned()],
                health: HealthSettings {
                    interval: Duration::from_secs(60),
                    probe: ProbeKind::Auto,
                    port: 3460,
                    path: "/api/health".to_owned(),
                },
                stop_timeout: self.scenario.stop_timeout,
                own_id: None,
                free_memory: Arc::new(|| None),
                free_disk: Arc::new(|_, _| None),
            },
            policy: Policy {
                health_only: false,
                strategy: self.scenario.strategy,
                healthy_time: self.scenario.healthy_time,
                healthy_deadline: self.scenario.healthy_deadline,
            },
            target: TargetSettings::default(),
        }
    }
}

/// What probes find at the twin's addresses.
pub struct Endpoint(Twin);

impl HealthEndpoint for Endpoint {
    async fn get(&self, address: SocketAddr, _path: &str) -> HttpOutcome {
        match self.0.probe(address.ip(), address.port()) {
            Some(true) => HttpOutcome::Answered(200),
            Some(false) => HttpOutcome::Answered(503),
            None => HttpOutcome::Refused,
        }
    }

    fn host_address(&self) -> Option<IpAddr> {
        Some(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }
}

/// The Manager, as far as an upgrader sees it.
pub struct Manager(Arc<World>);

impl ImageSource for Manager {
    async fn published(&self, _: &ImageReference, _: &str) -> Result<ImageReference, ManagerError> {
        sleep(Duration::from_millis(50)).await;
        if *self.0.manager_down.lock().unwrap() {
            return Err(ManagerError::Unreachable("connection refused".to_owned()));
        }
        let published = self.0.book().published;
        Ok(self.0.scenario.images[published].reference.parse().unwrap())
    }
}

/// Plays it to its end.
pub async fn play(scenario: Scenario, aloud: bool) -> Arc<World> {
    let world = Arc::new(World::new(scenario, aloud));
    let (acts, todo) = mpsc::channel(2);
    watch_calls(&world, acts);
    let upgraders =
        join_all((0..world.scenario.upgraders.len()).map(|slot| supervise(Arc::clone(&world), slot)));
    tokio::select! {
        biased;
        () = direct(&world, todo) => {}
        () = world.endless.notified() => world.book().endless = true,
        _ = upgraders => {}
    }
    world
}

/// Decides at each call what goes wrong with it, and what happens to the host in that moment.
fn watch_calls(world: &Arc<World>, acts: mpsc::Sender<Act>) {
    let mut random = world.scenario.random.clone().fork();
    let faults = world.scenario.faults.clone();
    let book = Arc::downgrade(world);
    world.twin.set_faults(move |call: &Call| {
        let Some(world) = book.upgrade() else {
            return Fault::None;
        };
        let mut book = world.book();
        *book.counts.entry("calls".to_owned()).or_default() += 1;
        if call.index > ENDLESS_CALLS {
            world.endless.notify_one();
        }
        let jitter = Fault::Slow(random.millis(0..4));
        if call.client == 0 || book.calm_since.is_some() {
            return if world.scenario.upgraders.len() > 1 {
                jitter
            } else {
                Fault::None
            };
        }
        // There are some twenty looks for each change.
        let rarity = if call.is_write() { 1 } else { 20 };
        for (rate, act) in [
            (faults.kill, Act::Kill(call.client - 1)),
            (faults.engine, Act::Engine),
            (faults.power, Act::Power),
            (faults.person, Act::Person),
            (faults.manager, Act::Manager),
            (faults.clock, Act::Clock),
            (faults.crash, Act::Crash),
        ] {
            if random.one_in(rate * rarity) {
                // One thing at a time; what comes too thick is left out.
                let _ = acts.try_send(act);
            }
        }
        for (rate, fault) in [
            (faults.error_before, Fault::ErrBefore),
            (faults.error_after, Fault::ErrAfter),
            (faults.lost_request, Fault::Hang),
            (faults.lost_answer, Fault::HangAfter),
            (faults.twice, Fault::Twice),
            (faults.slow, Fault::Slow(random.millis(10..20_000))),
        ] {
            if random.one_in(rate * rarity) {
                let word = match fault {
                    Fault::ErrBefore => "error before",
                    Fault::ErrAfter => "error after",
                    Fault::Hang => "lost request",
                    Fault::HangAfter => "lost answer",
                    Fault::Twice => "twice",
                    _ => "slow",
                };
                *book.counts.entry(format!("fault: {word}")).or_default() += 1;
                if world.aloud {
                    book.lines
                        .push((call.at, format!("FAULT {word} at call {}", call.index)));
                }
                return fault;
            }
        }
        if world.scenario.upgraders.len() > 1 {
            jitter
        } else {
            Fault::None
        }
    });
}

/// Lets happen what is to happen, then waits until all has come to rest.
async fn direct(world: &Arc<World>, mut todo: mpsc::Receiver<Act>) {
    let scenario = &world.scenario;
    let mut random = scenario.random.clone();
    random.next();
    let mut publications = scenario.publications.iter().copied().peekable();
    let mut manager_back: Option<Duration> = None;
    loop {
        let now = world.twin.elapsed();
        while let Some((_, image)) = publications.next_if(|(at, _)| *at <= now) {
            world.publish(image);
        }
        if manager_back.is_some_and(|at| at <= now) {
            manager_back = None;
            restore_manager(world);
        }
        if now >= scenario.calm_at {
            break;
        }
        let due = publications.peek().map(|(at, _)| *at);
        let until = [due, manager_back, Some(scenario.calm_at)]
            .into_iter()
            .flatten()
            .min();
        tokio::select! {
            biased;
            () = sleep(until.unwrap_or_default().saturating_sub(now)) => {}
            Some(act) = todo.recv() => {
                // Before the call has its effect, in between, or some time after.
                let delay = match random.below(0..4) {
                    0 => Duration::ZERO,
                    1 => random.millis(0..4),
                    2 => random.millis(0..5_000),
                    _ => random.seconds(0..100),
                };
                sleep(delay).await;
                perform(world, act, &mut random, &mut manager_back).await;
            }
        }
    }
    restore_manager(world);
    world.tell("--- calm ---");
    let calm = world.twin.elapsed();
    world.book().calm_since = Some(calm);
    // The longest quarantine is a day, and a pass is an hour.
    for hour in 0..75 {
        sleep(HOUR).await;
        let book = world.book();
        let published = scenario.images[book.published].kind;
        let passed = book.passes.iter().all(|passes| *passes >= 3);
        let settled = book
            .last
            .iter()
            .all(|last| matches!(last, Some((true, failed)) if !failed || !published.serves() && hour > 5));
        if passed && settled {
            break;
        }
    }
    // What is just being tried again is not looked at in the middle, and what has just come back needs its time.
    let mut restful = 0;
    for _ in 0..400 {
        let at_rest = |last: &Option<(bool, bool)>| matches!(last, Some((true, _)));
        restful = if world.book().last.iter().all(at_rest) {
            restful + 1
        } else {
            0
        };
        if restful > scenario.healthy_deadline.as_secs() / 30 {
            break;
        }
        sleep(Duration::from_secs(30)).await;
    }
}

fn restore_manager(world: &World) {
    *world.manager_down.lock().unwrap() = false;
    world.twin.set_manager_reachable(true);
    let now = world.twin.elapsed();
    if let Some(outage) = world.book().outages.last_mut() {
        outage.1 = outage.1.min(now);
    }
    world.tell("the Manager is back");
}

async fn perform(world: &Arc<World>, act: Act, random: &mut Random, manager_back: &mut Option<Duration>) {
    match act {
        Act::Kill(slot) => {
            world.count("upgrader killed");
            world.tell(format!("KILL upgrader {slot}"));
            world.kills[slot].notify_one();
        }
        Act::Engine => {
            let downtime = random.seconds(1..60);
            let kind = random.below(0..3);
            let word =
                ["engine restart", "engine restart, live", "engine killed"][usize::try_from(kind).unwrap()];
            world.count(word);
            world.tell(format!("{} for {downtime:?}", word.to_uppercase()));
            match kind {
                0 => world.twin.restart_engine(downtime),
                1 => world.twin.restart_engine_live(downtime),
                _ => world.twin.kill_engine(downtime),
            }
            if kind != 1 {
                world.book().excuses.containers_ended(&world.scenario);
            }
            sleep(downtime).await;
        }
        Act::Power => {
            let downtime = random.seconds(10..3600);
            world.count("host reboot");
            world.tell(format!("REBOOT, {downtime:?}"));
            world.twin.crash_host(downtime);
            world.book().excuses.containers_ended(&world.scenario);
            for kill in &world.kills {
                kill.notify_one();
            }
            sleep(downtime).await;
        }
        Act::Person => person(world, random),
        Act::Manager => {
            let (upgrader, delegates) =
                random.pick(&[(true, true), (true, true), (true, false), (false, true)]);
            let time = random.pick(&[20, 300, 1500, 5000].map(Duration::from_secs));
            let until = world.twin.elapsed() + time;
            world.count("Manager outage");
            world.tell(format!(
                "MANAGER OUTAGE for {time:?}, upgrader {upgrader}, delegates {delegates}"
            ));
            *world.manager_down.lock().unwrap() = upgrader;
            if delegates {
                world.twin.set_manager_reachable(false);
                let now = world.twin.elapsed();
                world.book().outages.push((now, until));
            }
            *manager_back = Some(until);
        }
        Act::Clock => {
            let by = random.pick(&[3600, 7200, 20_000, 60, -5, -60, -3600]);
            world.count(if by > 0 { "clock forward" } else { "clock backward" });
            world.tell(format!("CLOCK by {by} s"));
            world.twin.jump_clock(TimeDelta::seconds(by));
        }
        Act::Crash => {
            let glance = world.twin.glance();
            let running: Vec<_> = glance
                .iter()
                .filter(|container| container.state.as_str() == "running" && container.id != world.stranger)
                .collect();
            if running.is_empty() {
                return;
            }
            let victim = random.pick(&running);
            world.count("crash");
            world.tell(format!("CRASH of {}", victim.name));
            world.book().excuses.crashed(&victim.name, &world.scenario);
            world.twin.crash(&victim.id, 1);
        }
    }
}

/// Somebody does something to a container of a delegate.
fn person(world: &World, random: &mut Random) {
    let glance = world.twin.glance();
    let mut targets: Vec<_> = glance
        .iter()
        .filter(|container| container.id != world.stranger)
        .collect();
    // Mostly what a rollout leaves lying about: that is what people tidy up.
    if random.below(0..10) < 7 {
        targets.retain(|container| Role::parse(&container.name).1 != Role::Serving);
    }
    if targets.is_empty() {
        return;
    }
    let target = random.pick(&targets);
    let name = target.name.clone();
    let hand = match random.below(0..8) {
        0 | 1 => OperatorAction::Remove(name),
        2 => OperatorAction::Rename(
            name.clone(),
            format!("{}-kept-{}", name.replace('.', "-"), random.below(0..1000)),
        ),
        3 | 4 => OperatorAction::Stop(name),
        5 => OperatorAction::Restart(name),
        6 => OperatorAction::PruneContainers,
        _ => OperatorAction::PruneImages,
    };
    let word = match hand {
        OperatorAction::Remove(_) => "removes",
        OperatorAction::Rename(..) => "renames",
        OperatorAction::Stop(_) => "stops",
        OperatorAction::Restart(_) => "restarts",
        OperatorAction::PruneContainers => "prunes containers",
        OperatorAction::PruneImages => "prunes images",
    };
    world.book().excuses.before(&hand, &glance, &world.scenario);
    let outcome = world.twin.by_hand(hand.clone());
    world.tell(format!("PERSON {hand:?}: {outcome:?}"));
    world.count(&format!("person {word}"));
}

/// Keeps an upgrader going, however often it is killed.
async fn supervise(world: Arc<World>, slot: usize) {
    let mut random = world.scenario.random.clone();
    for _ in 0..=slot {
        random = random.fork();
    }
    loop {
        tokio::select! {
            biased;
            () = world.kills[slot].notified() => {}
            () = upgrade(&world, slot) => {}
        }
        let away = random.pick(&[0, 0, 1, 30, 5000].map(Duration::from_secs));
        sleep(away).await;
        world.tell(format!("upgrader {slot} starts"));
    }
}

/// One process: a daemon for ever, or one pass.
async fn upgrade(world: &Arc<World>, slot: usize) {
    let Upgrader {
        minute,
        once,
        run_on_start,
    } = world.scenario.upgraders[slot].clone();
    let clock = world.twin.clone();
    let mut reconciler = Reconciler::new(
        world.twin.client(slot + 1),
        Some(Manager(Arc::clone(world))),
        Endpoint(world.twin.clone()),
        world.settings(),
        Arc::new(move || clock.wall_clock()),
    );
    let next_pass = |world: &World| {
        let now = world.twin.elapsed();
        let mut at = minute;
        while at <= now {
            at += HOUR;
        }
        at
    };
    let mut pass = next_pass(world);
    let mut begin = Some(if run_on_start {
        Mode::Upgrade
    } else {
        Mode::ReportOnly
    });
    if once {
        sleep(pass.saturating_sub(world.twin.elapsed())).await;
        begin = Some(Mode::Upgrade);
    }
    let mut asked_again = false;
    let mut wished = None;
    let mut taken = BTreeMap::new();
    loop {
        if begin == Some(Mode::Upgrade) && world.book().calm_since.is_some() {
            world.book().passes[slot] += 1;
        }
        let outcome: Result<Report, EngineError> = async {
            if let Some(mode) = begin {
                world.tell(format!("upgrader {slot}: a pass begins ({mode:?})"));
                let published = world.book().published;
                reconciler.start_run(mode).await?;
                wished = (mode == Mode::Upgrade && !*world.manager_down.lock().unwrap()).then_some(published);
                begin = None;
            }
            reconciler.reconcile().await
        }
        .await;
        let steps = reconciler.steps_taken().clone();
        world.book().note_steps(&taken, &steps);
        taken = steps;
        if world.book().steps > ENDLESS {
            world.endless.notify_one();
        }
        let wait = match outcome {
            Ok(report) => {
                note(world, slot, &report, wished);
                let wake = report
                    .next_check
                    .map(|wake| (wake - world.twin.wall_clock()).to_std().unwrap_or_default());
                if once && wake.is_none() {
                    if !report.has_unasked() || asked_again {
                        return;
                    }
                    asked_again = true;
                    begin = Some(Mode::Upgrade);
                    Duration::ZERO
                } else {
                    wake.unwrap_or(IDLE)
                }
            }
            Err(error) => {
                world.tell(format!("upgrader {slot}: {error}"));
                Duration::from_secs(5)
            }
        };
        let wait = wait.min(IDLE);
        let now = world.twin.elapsed();
        if !once && pass <= now + wait {
            sleep(pass.saturating_sub(now)).await;
            pass = next_pass(world);
            begin = Some(Mode::Upgrade);
        } else {
            sleep(wait).await;
        }
    }
}

/// Enters a report in the book.
fn note(world: &World, slot: usize, report: &Report, wished: Option<usize>) {
    let done = report.next_check.is_none();
    {
        let mut book = world.book();
        book.steps += report.delegates.len() as u64;
        book.last[slot] = Some((done, report.has_failures()));
        for row in &report.delegates {
            *book.counts.entry(format!("reason: {}", row.reason)).or_default() += 1;
        }
    }
    if world.aloud {
        let rows: Vec<String> = report
            .delegates
            .iter()
            .map(|row| {
                format!(
                    "{}: {} [{}]{}",
                    row.container,
                    row.message,
                    row.health.as_str(),
                    if row.failed { " FAILED" } else { "" }
                )
            })
            .collect();
        let wake = report.next_check.map(|wake| wake - world.twin.wall_clock());
        let again = wake.map_or_else(String::new, |wake| format!("; again in {} s", wake.num_seconds()));
        world.tell(format!("upgrader {slot} reports: {}{again}", rows.join(" | ")));
    }
    if !done {
        return;
    }
    let seen = world
        .twin
        .glance()
        .into_iter()
        .filter_map(|container| {
            let document = world.twin.document(container.id.as_str())?;
            let image = document["Image"].as_str()?.to_owned();
            let healthy = world.twin.health(&container.id) == Some(true);
            Some((container.name, (image, healthy)))
        })
        .collect();
    let at = world.twin.elapsed();
    let mut book = world.book();
    let published = book.published;
    book.finals.push(Final {
        at,
        published,
        upgrader: slot,
        wished,
        report: report.clone(),
        seen,
    });
}
