//! A host with upgraders in containers that replace themselves: one process for each container that runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delegate_upgrader::container::{ContainerId, Role, RunState};
use delegate_upgrader::reconcile::controller::Controller as _;
use delegate_upgrader::rollout::Intent;
use delegate_upgrader::status::report::Report;
use kit::twin::{Behaviour, Cause, Glance, Happened, Operation, Twin};
use serde_json::{Value, json};
use tokio::task::{JoinHandle, LocalSet};

use super::host::{Host, NEW, OWN_LISTENER, auto_remove, good, image};

pub(super) const FIRST: &str = "harness/upgrader:1.0.0";
pub(super) const SECOND: &str = "harness/upgrader:1.1.0";
pub(super) const NAME: &str = "upgrader";
/// The interval at which the world looks after its processes.
const TICK: Duration = Duration::from_millis(100);
/// The time of an exchange, whichever process crashes: until the run after the next one is over.
pub(super) const EXCHANGE: Duration = Duration::from_secs(500);
/// After this time, no process waits for a removal any longer.
pub(super) const REMOVAL: Duration = Duration::from_secs(660);

pub(super) fn ready() -> Behaviour {
    Behaviour {
        port: OWN_LISTENER.port(),
        ready_after: Duration::from_secs(1),
        ..Behaviour::drains(Duration::from_millis(100))
    }
}

/// A host with one upgrader in a container, and the images that it may run.
pub(super) struct World {
    pub(super) host: Arc<Host>,
    tasks: LocalSet,
    /// The process in each running container, with its client number and the start time of the container.
    processes: BTreeMap<ContainerId, Process>,
    /// The container of each client.
    pub(super) clients: BTreeMap<usize, ContainerId>,
    /// The last report of each client.
    reports: Arc<Mutex<BTreeMap<usize, Report>>>,
    /// The client that crashes now.
    pub(super) crash: Arc<Mutex<Option<usize>>>,
    /// Whether the last upgrader without a stop request has crashed, and nothing restarts it.
    pub(super) is_extinct: bool,
    /// Whether the upgrader's owner gave it `--rm`.
    pub(super) auto_remove: bool,
    /// Whether two upgraders cannot run at once.
    pub(super) single_instance: bool,
    /// Whether a container of the new image acts as an upgrader in this role. Otherwise it only stays up and answers.
    pub(super) acts: fn(Role) -> bool,
}

struct Process {
    client: usize,
    started_at: Value,
    task: JoinHandle<()>,
}

impl World {
    pub(super) fn new(second: Behaviour) -> Self {
        Self::with(second, |_| ())
    }

    pub(super) fn with(second: Behaviour, change: impl FnOnce(&mut Value)) -> Self {
        let mut host = Host::new();
        host.manager.published_upgrader = Some(image(SECOND));
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
        let auto_remove = host.is_fleeting(NAME);
        Self {
            host: Arc::new(host),
            tasks: LocalSet::new(),
            processes: BTreeMap::new(),
            clients: BTreeMap::new(),
            reports: Arc::default(),
            crash: Arc::default(),
            is_extinct: false,
            auto_remove,
            single_instance: body["HostConfig"]["NetworkMode"] == "host",
            acts: |_| true,
        }
    }

    /// Crashes the process of this client, and its container with it.
    fn crash(&mut self, client: usize) {
        let twin = &self.host.twin;
        let mut processes = self.processes.iter();
        let Some((id, process)) = processes.find(|(_, process)| process.client == client) else {
            return;
        };
        process.task.abort();
        let Some(crashed) = own(twin).find(|it| it.id == *id && it.state == RunState::Running) else {
            return;
        };
        twin.crash(id, 137);
        self.is_extinct |= self.auto_remove && !another_survives(twin, &crashed);
    }

    /// Starts a process in each upgrader's container that was started, and ends the processes of containers that ended.
    fn look_after(&mut self) {
        let victim = self.crash.lock().unwrap().take();
        if let Some(client) = victim {
            self.crash(client);
        }
        let twin = &self.host.twin;
        let running: BTreeMap<ContainerId, Value> = running(twin)
            .map(|id| {
                let document = twin.document(id.as_str()).unwrap();
                (id, document["State"]["StartedAt"].clone())
            })
            .collect();
        self.processes.retain(|id, process| {
            let lives = running.get(id) == Some(&process.started_at);
            if !lives {
                process.task.abort();
            }
            lives
        });
        let acts = |it: &Glance| it.image != SECOND || (self.acts)(Role::parse(&it.name).1);
        let acting: BTreeSet<_> = own(twin).filter(acts).map(|it| it.id).collect();
        for (id, started_at) in running {
            if acting.contains(&id) && !self.processes.contains_key(&id) {
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

    pub(super) async fn run_for(&mut self, time: Duration) {
        let end = self.host.twin.elapsed() + time;
        while self.host.twin.elapsed() < end {
            self.look_after();
            self.tasks.run_until(tokio::time::sleep(TICK)).await;
        }
    }

    /// The upgrader's containers: name, state and image.
    pub(super) fn states(&self) -> Vec<(String, String, String)> {
        let all = self.host.containers().into_iter();
        let own = all.filter(|(name, ..)| Role::parse(name).0 == NAME);
        own.map(|(name, state, image)| (name, state.as_str().to_owned(), image))
            .collect()
    }

    /// The report of the process in the container of that name.
    pub(super) fn report(&self, name: &str) -> Report {
        let id = self.host.find(name).id;
        self.reports.lock().unwrap()[&self.processes[&id].client].clone()
    }
}

/// The upgrader's containers.
fn own(twin: &Twin) -> impl Iterator<Item = Glance> {
    let all = twin.glance().into_iter();
    all.filter(|it| Role::parse(&it.name).0 == NAME)
}

/// The upgrader's running containers.
fn running(twin: &Twin) -> impl Iterator<Item = ContainerId> {
    let running = own(twin).filter(|it| it.state == RunState::Running);
    running.map(|it| it.id)
}

/// Whether, after this crash, another upgrader survives that was not asked to stop.
fn another_survives(twin: &Twin, crashed: &Glance) -> bool {
    // Like everybody else, a helper does not restart a container with `--rm` that crashes in service.
    let is_in_service = crashed.name == NAME;
    let helps = |it: &Glance| !is_in_service || !matches!(Role::parse(&it.name).1, Role::Helper { .. });
    let events = twin.events();
    let is_asked_to_stop = |it: &Glance| {
        let of_it = events.iter().filter(|event| event.id == it.id.as_str());
        of_it.fold(false, |asked, event| match event.what {
            Happened::Signalled => true,
            Happened::Started => false,
            _ => asked,
        })
    };
    let lives = |it: &Glance| matches!(it.state, RunState::Running | RunState::Restarting);
    own(twin).any(|it| lives(&it) && helps(&it) && !is_asked_to_stop(&it))
}

/// A daemon: the run at its start only reports, the next one comes ten seconds later, and then one every two minutes.
async fn live(
    host: Arc<Host>,
    own: ContainerId,
    client: usize,
    reports: Arc<Mutex<BTreeMap<usize, Report>>>,
) {
    let mut upgrader = host.instance(NEW, Some((own, client)));
    upgrader.start_run(Intent::Report);
    let mut next_run = host.twin.elapsed() + Duration::from_secs(10);
    loop {
        if host.twin.elapsed() >= next_run {
            next_run += Duration::from_secs(120);
            if !upgrader.stands_by() {
                upgrader.start_run(Intent::Upgrade);
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

/// By the names and states at each write, the upgrader with the name makes it. While no container of that name runs, the
/// candidate takes the name, and the helper or an old upgrader does the rest.
pub(super) fn assert_only_one_acted(world: &World) {
    let events = world.host.twin.events();
    for call in world.host.twin.writes() {
        let Some(own) = world.clients.get(&call.client) else {
            continue;
        };
        let mut known = BTreeMap::<&str, (&str, bool)>::new();
        for event in events.iter() {
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
        let rank = |name: &str| match Role::parse(name) {
            (NAME, Role::Serving) => Some((3, 0)),
            (NAME, Role::Helper { is_ready: true }) => Some((2, 0)),
            (NAME, Role::Retired) => Some((1, 0)),
            (NAME, Role::Draining { since }) => Some((0, -since)),
            _ => None,
        };
        let living = known.iter().filter(|(_, (_, lives))| *lives);
        let ranked = living.filter_map(|(id, (name, _))| Some((rank(name)?, *id)));
        let turn = ranked.max();
        let (own_name, _) = known.get(own.as_str()).copied().unwrap_or_default();
        let may_rename = match Role::parse(own_name).1 {
            // It renames itself to say that it is ready.
            Role::Helper { is_ready: false } => true,
            Role::Candidate => turn.is_none_or(|((rank, _), _)| rank < 3),
            _ => false,
        };
        assert!(
            turn.is_none_or(|(_, turn)| turn == own.as_str())
                || may_rename && call.operation == Operation::Rename,
            "{call:?} is of another one than the one whose turn it is: {known:?}"
        );
    }
}

/// Requirements for the end, whatever happened: one upgrader, which runs this image, and otherwise only rejected containers.
pub(super) fn assert_at_rest(world: &World, image: &str, story: &str) {
    let states = world.states();
    // An engine never finishes the removal of a container that was renamed at the moment when it ended.
    let is_over =
        |(name, state, _): &&(String, String, String)| name.contains(".failed-") || state == "removing";
    let others: Vec<_> = states.iter().filter(|it| !is_over(it)).cloned().collect();
    assert_eq!(
        others,
        [(NAME.to_owned(), "running".to_owned(), image.to_owned())],
        "{story}: {states:?}"
    );
    let policy = if world.auto_remove { "no" } else { "unless-stopped" };
    assert_eq!(world.host.restart_policy(NAME), policy, "{story}");
    assert_eq!(world.host.is_fleeting(NAME), world.auto_remove, "{story}");
    assert_only_one_acted(world);
}

/// Two upgraders would want the host's network at once.
pub(super) fn cannot_run_twice(body: &mut Value) {
    body["HostConfig"]["NetworkMode"] = json!("host");
}

/// Whether one of its containers, including the helper, ran at every moment.
pub(super) fn assert_one_always_ran(world: &World) {
    let mut running = BTreeSet::new();
    let mut begun = false;
    for event in world.host.twin.events().iter() {
        if Role::parse(&event.name).0 != NAME {
            continue;
        }
        match event.what {
            Happened::Started => running.insert(event.id.clone()),
            Happened::Exited { .. } | Happened::Removed => running.remove(&event.id),
            _ => false,
        };
        begun |= !running.is_empty();
        assert!(!begun || !running.is_empty(), "{event:?} left none");
    }
    assert!(begun);
}

pub(super) fn vanishes_and_cannot_run_twice(body: &mut Value) {
    auto_remove(body);
    cannot_run_twice(body);
}
