//! The upgrader replaces its own container: one process for each of its containers that runs, and each may crash.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delegate_upgrader::container::{ContainerId, Role, RunState, label};
use delegate_upgrader::reconcile::upgrade_run::Mode;
use delegate_upgrader::status::report::Report;
use kit::twin::{Behaviour, Call, Cause, Fault, Happened, Operation};
use serde_json::{Value, json};
use tokio::task::{JoinHandle, LocalSet};

use super::host::{HOUR, Host, NEW, OLD, OWN_LISTENER, good};

const FIRST: &str = "harness/upgrader:1.0.0";
const SECOND: &str = "harness/upgrader:1.1.0";
const NAME: &str = "upgrader";
/// How often the world looks after its processes.
const TICK: Duration = Duration::from_millis(100);
/// As long as an exchange takes, whoever crashes: the run after the next one is over.
const EXCHANGE: Duration = Duration::from_secs(500);

fn ready() -> Behaviour {
    Behaviour {
        port: OWN_LISTENER.port(),
        ready_after: Duration::from_secs(1),
        ..Behaviour::drains(Duration::from_millis(100))
    }
}

/// A host with one upgrader in a container, and what it may run.
struct World {
    host: Arc<Host>,
    tasks: LocalSet,
    /// The process in each container that runs, with the client that it is, and when its container started.
    processes: BTreeMap<ContainerId, Process>,
    /// The container that each client is in.
    clients: BTreeMap<usize, ContainerId>,
    /// The last report of each client.
    reports: Arc<Mutex<BTreeMap<usize, Report>>>,
    /// The client that crashes now.
    crash: Arc<Mutex<Option<usize>>>,
}

struct Process {
    client: usize,
    started_at: Value,
    task: JoinHandle<()>,
}

impl World {
    fn new(second: Behaviour) -> Self {
        Self::with(second, |_| ())
    }

    fn with(second: Behaviour, change: impl FnOnce(&mut Value)) -> Self {
        let mut host = Host::new();
        host.published_upgrader = Some(SECOND);
        host.twin.add_image(FIRST, host.twin.image(ready()));
        host.publish(SECOND, second);
        host.publish(NEW, good());
        let mut body = json!({
            "Image": FIRST,
            "Env": ["SELF_UPGRADE=true"],
            "Labels": {},
            "HostConfig": { "RestartPolicy": { "Name": "unless-stopped", "MaximumRetryCount": 0 } },
        });
        change(&mut body);
        host.twin.run(NAME, &body);
        Self {
            host: Arc::new(host),
            tasks: LocalSet::new(),
            processes: BTreeMap::new(),
            clients: BTreeMap::new(),
            reports: Arc::default(),
            crash: Arc::default(),
        }
    }

    /// Starts a process in each container of an upgrader that was started, and ends those of containers that ended.
    fn look_after(&mut self) {
        let twin = &self.host.twin;
        if let Some(client) = self.crash.lock().unwrap().take() {
            let victim = self
                .processes
                .iter()
                .find(|(_, process)| process.client == client);
            if let Some((id, process)) = victim {
                process.task.abort();
                if twin
                    .glance()
                    .iter()
                    .any(|it| it.id == *id && it.state == RunState::Running)
                {
                    twin.crash(id, 137);
                }
            }
        }
        let own = twin
            .glance()
            .into_iter()
            .filter(|it| Role::parse(&it.name).0 == NAME);
        let running: BTreeMap<ContainerId, Value> = own
            .filter(|it| it.state == RunState::Running)
            .map(|it| {
                let document = twin.document(it.id.as_str()).unwrap();
                (it.id, document["State"]["StartedAt"].clone())
            })
            .collect();
        self.processes.retain(|id, process| {
            let lives = running.get(id) == Some(&process.started_at);
            if !lives {
                process.task.abort();
            }
            lives
        });
        for (id, started_at) in running {
            if !self.processes.contains_key(&id) {
                let client = self.clients.len() + 1;
                self.clients.insert(client, id.clone());
                let task = self.tasks.spawn_local(live(
                    Arc::clone(&self.host),
                    id.clone(),
                    client,
                    Arc::clone(&self.reports),
                ));
                let process = Process {
                    client,
                    started_at,
                    task,
                };
                self.processes.insert(id, process);
            }
        }
    }

    async fn run_for(&mut self, time: Duration) {
        let end = self.host.twin.elapsed() + time;
        while self.host.twin.elapsed() < end {
            self.look_after();
            self.tasks.run_until(tokio::time::sleep(TICK)).await;
        }
    }

    /// The container of that name with its image, and that it runs.
    fn states(&self) -> Vec<(String, String, String)> {
        let all = self.host.containers().into_iter();
        let own = all.filter(|(name, ..)| Role::parse(name).0 == NAME);
        own.map(|(name, state, image)| (name, state.as_str().to_owned(), image))
            .collect()
    }

    /// The report of the process in the container of that name.
    fn report(&self, name: &str) -> Report {
        let id = self.host.find(name).id;
        self.reports.lock().unwrap()[&self.processes[&id].client].clone()
    }
}

/// A daemon: a run at the start reports only, and one comes ten seconds later, and every two minutes.
async fn live(
    host: Arc<Host>,
    own: ContainerId,
    client: usize,
    reports: Arc<Mutex<BTreeMap<usize, Report>>>,
) {
    let mut upgrader = host.instance(NEW, Some((own, client)));
    upgrader.start_run(Mode::ReportOnly);
    let mut next_run = host.twin.elapsed() + Duration::from_secs(10);
    loop {
        if host.twin.elapsed() >= next_run {
            next_run += Duration::from_secs(120);
            if !upgrader.stands_by() {
                upgrader.start_run(Mode::Upgrade);
            }
        }
        let outcome = upgrader.reconcile().await;
        let wait = match outcome {
            Ok(report) => {
                let wake = report
                    .next_check
                    .map(|at| (at - host.twin.wall_clock()).to_std().unwrap_or_default());
                reports.lock().unwrap().insert(client, report);
                wake.unwrap_or(Duration::from_secs(60))
            }
            Err(_) => Duration::from_secs(5),
        };
        let wait = wait.min(next_run.saturating_sub(host.twin.elapsed()));
        tokio::select! {
            () = upgrader.answered() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// By the names and states of each write's moment: the one that made it had the name, or nobody else that lived had.
fn assert_only_one_acted(world: &World) {
    let events = world.host.twin.events();
    for call in world.host.twin.writes() {
        let Some(own) = world.clients.get(&call.client) else {
            continue;
        };
        let mut known = BTreeMap::<&str, (&str, bool)>::new();
        for event in &events {
            if event.at >= call.at || event.cause == Cause::Call(call.index) {
                break;
            }
            let (name, lives) = known.entry(&event.id).or_default();
            *name = &event.name;
            match event.what {
                Happened::Started => *lives = true,
                Happened::Exited { .. } | Happened::Removed => *lives = false,
                _ => {}
            }
        }
        // The one that has the name, else the one that gave it up last, else the helper, else the new one.
        let rank = |name: &str| match Role::parse(name) {
            (NAME, Role::Serving) => Some((3, 0)),
            (NAME, Role::Draining { since }) => Some((2, since)),
            (NAME, Role::Helper { .. }) => Some((1, 0)),
            (NAME, Role::Candidate) => Some((0, 0)),
            _ => None,
        };
        let living = known.iter().filter(|(_, (_, lives))| *lives);
        let ranked = living.filter_map(|(id, (name, _))| Some((rank(name)?, *id)));
        // A helper says that it is ready.
        let says_ready = call.operation == Operation::Rename
            && known
                .get(own.as_str())
                .is_some_and(|(name, _)| Role::parse(name).1 == Role::Helper { is_ready: false });
        if says_ready {
            continue;
        }
        let turn = ranked.max().map(|(_, id)| id);
        assert!(
            turn.is_none_or(|turn| turn == own.as_str()),
            "{call:?} is of another one than the one whose turn it is: {known:?}"
        );
    }
}

/// What has to hold in the end, whatever happened: one upgrader, which runs this image, and nothing beside it but what
/// was rejected.
fn assert_at_rest(world: &World, image: &str, story: &str) {
    let states = world.states();
    let others = states.iter().filter(|(name, ..)| !name.contains(".failed-"));
    let others: Vec<_> = others.cloned().collect();
    assert_eq!(
        others,
        [(NAME.to_owned(), "running".to_owned(), image.to_owned())],
        "{story}: {states:?}"
    );
    assert_eq!(world.host.restart_policy(NAME), "unless-stopped", "{story}");
    assert_only_one_acted(world);
}

#[tokio::test(start_paused = true)]
async fn the_new_one_proves_itself_beside_the_old_one_and_takes_over() {
    let mut world = World::new(ready());
    world.host.run("dd");
    let first = world.host.find(NAME).id;
    // The delegate comes first.
    world.run_for(Duration::from_secs(12)).await;
    assert_eq!(world.states().len(), 1, "{:?}", world.states());
    world.run_for(HOUR / 2).await;
    let states = world.states();
    assert_eq!(
        states,
        [(NAME.to_owned(), "running".to_owned(), SECOND.to_owned())]
    );
    assert_ne!(world.host.find(NAME).id, first);
    assert_eq!(
        world.host.find("dd").image,
        NEW,
        "a delegate is upgraded all the same"
    );
    assert_eq!(world.host.restart_policy(NAME), "unless-stopped");
    let report = world.report(NAME);
    assert_eq!(report.delegates.len(), 1, "{report:?}");
    let own = report.upgrader.expect("a row of its own");
    assert_eq!(own.reason.as_str(), "up_to_date", "{}", own.message);
    assert_at_rest(&world, SECOND, "");
}

/// What came meanwhile waits for the schedule.
#[tokio::test(start_paused = true)]
async fn the_new_one_begins_no_run_when_it_takes_over() {
    let mut world = World::new(ready());
    world.run_for(Duration::from_secs(15)).await;
    world.host.run("dd");
    world.run_for(Duration::from_secs(85)).await;
    assert_at_rest(&world, SECOND, "");
    assert_eq!(world.host.find("dd").image, OLD, "no run was due");
    world.run_for(Duration::from_secs(150)).await;
    assert_eq!(world.host.find("dd").image, NEW);
}

/// One that is not ready is given up; the old one stays, and tries it again later and later.
#[tokio::test(start_paused = true)]
async fn a_bad_one_is_rejected_and_the_old_one_stays() {
    for bad in [
        Behaviour::exits(Duration::from_secs(2), 1),
        Behaviour {
            port: OWN_LISTENER.port(),
            ..Behaviour::never_healthy()
        },
    ] {
        let mut world = World::new(bad);
        let first = world.host.find(NAME).id;
        world.run_for(HOUR / 2).await;
        assert_at_rest(&world, FIRST, "bad");
        assert_eq!(world.host.find(NAME).id, first);
        let own = world.report(NAME).upgrader.expect("a row of its own");
        assert_eq!(own.reason.as_str(), "quarantined", "{}", own.message);
    }
}

/// Two of it would want one port of the host, or its network.
fn cannot_run_twice(body: &mut Value) {
    body["HostConfig"]["NetworkMode"] = json!("host");
}

#[tokio::test(start_paused = true)]
async fn where_two_cannot_run_at_once_a_helper_makes_the_exchange() {
    let mut world = World::with(ready(), cannot_run_twice);
    let first = world.host.find(NAME).id;
    world.run_for(EXCHANGE).await;
    assert_at_rest(&world, SECOND, "host network");
    assert_ne!(world.host.find(NAME).id, first);
    let own = world.report(NAME).upgrader.expect("a row of its own");
    assert_eq!(own.reason.as_str(), "up_to_date", "{}", own.message);
    let names = world.host.twin.events().into_iter().map(|event| event.name);
    let names: Vec<String> = names.filter(|name| name.contains(".helper")).collect();
    assert!(
        names.iter().any(|name| name.ends_with(".helper-ready")),
        "{names:?}"
    );
}

/// A label of the owner.
#[tokio::test(start_paused = true)]
async fn an_owner_who_wants_two_side_by_side_hears_why_that_cannot_be() {
    let mut world = World::with(ready(), |body| {
        cannot_run_twice(body);
        body["Labels"][label::STRATEGY] = json!("start-first");
    });
    world.run_for(Duration::from_secs(600)).await;
    assert_at_rest(&world, FIRST, "host network");
    let own = world.report(NAME).upgrader.expect("a row of its own");
    assert_eq!(own.reason.as_str(), "cannot_start_first", "{}", own.message);
}

/// The helper has the new image, too, so most bad ones show before the old one has stopped.
#[tokio::test(start_paused = true)]
async fn a_bad_one_is_rejected_by_its_helper_s_end_before_the_old_one_stops() {
    let mut world = World::with(Behaviour::exits(Duration::from_secs(2), 1), cannot_run_twice);
    let first = world.host.find(NAME);
    let began = world.host.twin.document(first.id.as_str()).unwrap()["State"]["StartedAt"].clone();
    world.run_for(HOUR / 2).await;
    assert_at_rest(&world, FIRST, "it exits");
    let now = world.host.twin.document(NAME).unwrap();
    assert_eq!(
        (&now["Id"], &now["State"]["StartedAt"]),
        (&json!(first.id.as_str()), &began)
    );
    let own = world.report(NAME).upgrader.expect("a row of its own");
    assert_eq!(own.reason.as_str(), "quarantined", "{}", own.message);
}

/// One that only fails where it has the port: the helper brings the old one back.
#[tokio::test(start_paused = true)]
async fn a_bad_one_whose_helper_is_ready_ends_with_the_old_one_in_charge() {
    let never = Behaviour {
        port: OWN_LISTENER.port(),
        ..Behaviour::never_healthy()
    };
    let mut world = World::with(never, cannot_run_twice);
    let first = world.host.find(NAME).id;
    world.run_for(HOUR / 2).await;
    assert_at_rest(&world, FIRST, "never ready");
    assert_eq!(world.host.find(NAME).id, first);
    let own = world.report(NAME).upgrader.expect("a row of its own");
    assert_eq!(own.reason.as_str(), "quarantined", "{}", own.message);
}

/// A service has no container, but is of a version.
#[tokio::test(start_paused = true)]
async fn a_service_reports_a_newer_version() {
    let mut host = Host::new();
    for (published, is_newer) in [("team/upgrader:99.1.0", true), ("team/upgrader:0.0.1", false)] {
        host.published_upgrader = Some(published);
        let mut service = host.upgrader(NEW);
        service.check_in();
        tokio::time::sleep(Duration::from_secs(1)).await;
        service.check_in();
        let known = service.upgrader_image().expect("an answer");
        assert_eq!(
            (known.published.as_str(), known.newer_version_available),
            (published, is_newer)
        );
        assert_eq!(
            known.image,
            concat!("docker.io/team/upgrader:", env!("CARGO_PKG_VERSION"))
        );
    }
}

/// Crashes between two writes leave the host as one of them does, so these will do where a story is long.
fn is_write(call: &Call) -> bool {
    call.operation.is_write()
}

/// Every call of the exchange that counts, whoever makes it, is the last one of its process: before it, or after it.
async fn crash_at_each_call(
    second: impl Fn() -> Behaviour,
    change: fn(&mut Value),
    image: &str,
    is_counted: fn(&Call) -> bool,
) {
    let mut clean = World::with(second(), change);
    clean.run_for(EXCHANGE).await;
    assert_at_rest(&clean, image, "clean");
    let calls = clean.host.twin.calls();
    let created = calls.iter().position(|call| call.operation == Operation::Create);
    let last = calls.iter().rposition(|call| call.operation == Operation::Remove);
    let (created, last) = (created.expect("a candidate"), last.expect("the old one goes"));
    let mut points = 0;
    let during = calls.iter().enumerate().take(last + 2).skip(created - 1);
    for (index, call) in during.filter(|(_, call)| is_counted(call)) {
        for fault in [Fault::Hang, Fault::HangAfter] {
            let story = format!("{fault:?} at call {index}: {call:?}");
            let mut world = World::with(second(), change);
            let crash = Arc::clone(&world.crash);
            world.host.twin.set_faults(move |call| {
                if call.index != index {
                    return Fault::None;
                }
                *crash.lock().unwrap() = Some(call.client);
                fault.clone()
            });
            world.run_for(EXCHANGE).await;
            assert_at_rest(&world, image, &story);
            points += 1;
        }
    }
    println!("{points} crashes");
}

#[tokio::test(start_paused = true)]
async fn whoever_crashes_whenever_it_is_finished() {
    crash_at_each_call(ready, |_| (), SECOND, |_| true).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_crashes_whenever_a_helper_finishes_it() {
    crash_at_each_call(ready, cannot_run_twice, SECOND, is_write).await;
}

/// The new one is never ready, so the exchange is undone.
#[tokio::test(start_paused = true)]
async fn whoever_crashes_whenever_a_helper_undoes_it() {
    let never = || Behaviour {
        port: OWN_LISTENER.port(),
        ..Behaviour::never_healthy()
    };
    crash_at_each_call(never, cannot_run_twice, FIRST, is_write).await;
}
