//! A host with an engine in memory, delegates on it, and upgraders that manage them; hours elapse at once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use delegate_upgrader::container::{ContainerId, ImageId, Request, RunState, label};
use delegate_upgrader::host::capacity::HostMemory;
use delegate_upgrader::host::hold::pause;
use delegate_upgrader::image::ImageReference;
use delegate_upgrader::manager::{ImageSource, ManagerError};
use delegate_upgrader::reconcile::controller::Controller as _;
use delegate_upgrader::reconcile::{Reconciler, Settings};
use delegate_upgrader::rollout::Intent;
use delegate_upgrader::status::report::{DelegateReport, Report};
use serde_json::{Value, json};

use crate::endpoint::{Endpoint, SlowProbe};
pub use crate::settings::{GROUP, STOP_TIMEOUT};
use kit::twin::{
    Behaviour, Call, Event, Fault, Glance, Happened, Operation, OperatorAction, Twin, delegate_body,
};

pub const OLD: &str = "harness/delegate:26.02.1";
pub const NEW: &str = "harness/delegate:26.03.1";
pub const NEWER: &str = "harness/delegate:26.04.1";

/// The time from its start until a delegate created by an upgrader is healthy.
pub const READY: Duration = Duration::from_secs(5);
/// The time that an old delegate needs to finish its tasks.
pub const DRAIN: Duration = Duration::from_secs(60);
/// The address on which an upgrader in a container of the host listens.
pub const OWN_LISTENER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 9464);
pub const HOUR: Duration = Duration::from_secs(3600);

pub type Upgrader = Reconciler<Twin, Source, Endpoint>;

/// A Manager that publishes one image, if it can be reached.
#[derive(Clone)]
pub struct Source {
    published: ImageReference,
    /// The image that it publishes for these `DELEGATE_NAME`s only.
    pub published_to: BTreeMap<String, ImageReference>,
    pub published_upgrader: Option<ImageReference>,
    twin: Twin,
    pub asked: Asked,
    /// The `DELEGATE_NAME`s for which it refuses requests.
    pub refused: BTreeSet<String>,
    /// How long it takes for an answer.
    delay: Arc<Mutex<Duration>>,
}

/// The times of the requests to the Manager, with the `DELEGATE_NAME` and the image.
pub type Asked = Arc<Mutex<Vec<(Duration, String, String)>>>;

impl ImageSource for Source {
    async fn published(&self, current: &ImageReference, name: &str) -> Result<ImageReference, ManagerError> {
        let question = (self.twin.elapsed(), name.to_owned(), current.to_string());
        self.asked.lock().unwrap().push(question);
        let delay = *self.delay.lock().unwrap();
        tokio::time::sleep(delay).await;
        if self.refused.contains(name) {
            Err(ManagerError::InvalidRequest {
                code: "INVALID_REQUEST".to_owned(),
                message: format!("not for {name}"),
            })
        } else if self.twin.manager_reachable() {
            let own = self.published_to.get(name);
            Ok(own.unwrap_or(&self.published).clone())
        } else {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Err(ManagerError::Unreachable("connection refused".to_owned()))
        }
    }

    async fn published_upgrader(
        &self,
        _current: &ImageReference,
    ) -> Option<Result<ImageReference, ManagerError>> {
        self.published_upgrader.clone().map(Ok)
    }
}

pub struct Host {
    pub twin: Twin,
    /// The settings of its upgraders, without the limits of the host.
    pub settings: Settings,
    pub free_memory: Option<u64>,
    pub free_disk: Option<u64>,
    pub manager: Source,
    pub endpoint: Endpoint,
}

impl Host {
    /// The old image is on the host, and the new one, which is good, is in the registry.
    pub fn new() -> Self {
        Self::on(Twin::default())
    }

    /// The same on an engine of another kind.
    pub fn on(twin: Twin) -> Self {
        let mut settings = crate::settings::settings();
        settings.policy.idle_wait = HOUR;
        let host = Self {
            manager: Source {
                published: image(NEW),
                published_to: BTreeMap::new(),
                published_upgrader: None,
                twin: twin.clone(),
                asked: Asked::default(),
                refused: BTreeSet::new(),
                delay: Arc::default(),
            },
            endpoint: Endpoint::new(&twin),
            twin,
            settings,
            free_memory: None,
            free_disk: None,
        };
        host.twin
            .add_image(OLD, host.twin.image(Behaviour::drains(DRAIN)));
        host.publish(NEW, good());
        host
    }

    pub fn publish(&self, reference: &str, behaviour: Behaviour) -> ImageId {
        self.twin.publish(reference, self.twin.image(behaviour))
    }

    /// Manages the delegates of further `DELEGATE_NAME`s.
    pub fn manage(&mut self, names: &[impl ToString]) {
        let names = names.iter().map(ToString::to_string);
        self.settings.scope.workload_names.extend(names);
    }

    /// Runs a replica of the group as the documentation does.
    pub fn run(&self, name: &str) -> ContainerId {
        self.run_with(name, |_| ())
    }

    /// Runs a replica of the group with a change.
    pub fn run_with(&self, name: &str, change: impl FnOnce(&mut Value)) -> ContainerId {
        let mut body = delegate_body(GROUP, OLD);
        change(&mut body);
        self.twin.run(name, &body)
    }

    /// Runs the delegate `dd`, which is replaced stop-first or start-first.
    pub fn run_either(&self, stop_first: bool) -> ContainerId {
        let change: fn(&mut Value) = if stop_first { host_network } else { |_| () };
        self.run_with("dd", change)
    }

    /// A process with no knowledge yet.
    pub fn upgrader(&self, published: &str) -> Upgrader {
        self.instance(published, None)
    }

    /// The same in a container of this host, which it also replaces.
    pub fn instance(&self, published: &str, own: Option<(ContainerId, usize)>) -> Upgrader {
        let client = own.as_ref().map_or(0, |(_, client)| *client);
        let twin = self.twin.client(client);
        let (free_memory, free_disk) = (self.free_memory, self.free_disk);
        let mut settings = self.settings.clone();
        let scope = &mut settings.scope;
        scope.replaces_itself = own.as_ref().map(|_| OWN_LISTENER);
        scope.own_id = own.map(|(id, _)| id);
        let total = u64::MAX;
        scope.free_memory = Arc::new(move || free_memory.map(|available| HostMemory { total, available }));
        scope.free_disk = Arc::new(move |_, _| free_disk);
        let clock = self.twin.clone();
        Reconciler::new(
            twin,
            Some(Source {
                published: image(published),
                ..self.manager.clone()
            }),
            self.endpoint.clone(),
            settings,
            Arc::new(move || clock.wall_clock()),
        )
    }

    pub fn set_slow(&self, slow: SlowProbe) {
        *self.endpoint.slow.lock().unwrap() = slow;
    }

    pub fn set_delay(&self, delay: Duration) {
        *self.manager.delay.lock().unwrap() = delay;
    }

    /// Runs one scheduled run to its end, drains included. If the engine is out of reach, it is retried, as the daemon does.
    pub async fn scheduled_run(&self, upgrader: &mut Upgrader) -> Report {
        upgrader.start_run(Intent::Upgrade);
        self.finish(upgrader).await
    }

    /// A new process that starts its first run.
    pub fn starting(&self, published: &str) -> Upgrader {
        let mut upgrader = self.upgrader(published);
        upgrader.start_run(Intent::Upgrade);
        upgrader
    }

    /// A run by a new process that is not over after this time.
    pub async fn begin(&self, published: &str, so_far: Duration) -> Upgrader {
        let mut upgrader = self.starting(published);
        assert!(self.continue_for(&mut upgrader, so_far).await.is_none());
        upgrader
    }

    /// An operator's rollback of this delegate that has just been asked for.
    pub async fn rollback(&self, published: &str, delegate: &str) -> Upgrader {
        let mut upgrader = self.upgrader(published);
        let asked = upgrader.rollback(delegate, None, Request::default(), []);
        asked.await.unwrap();
        upgrader
    }

    /// Continues the current run to its end.
    pub async fn finish(&self, upgrader: &mut Upgrader) -> Report {
        self.continue_for(upgrader, Duration::from_secs(24 * 3600))
            .await
            .expect("it does not come to rest within a day")
    }

    /// Continues for this long at most; returns the last report if everything came to rest.
    pub async fn continue_for(&self, upgrader: &mut Upgrader, at_most: Duration) -> Option<Report> {
        let end = self.twin.elapsed() + at_most;
        while self.twin.elapsed() < end {
            let outcome = upgrader.reconcile().await;
            let is_reachable = outcome.is_ok();
            let pause = match outcome {
                Err(_) => Duration::from_secs(5),
                Ok(report) => match report.next_check {
                    None => return Some(report),
                    Some(wake) => (wake - self.twin.wall_clock()).to_std().unwrap_or_default(),
                },
            };
            let pause = pause.min(end.saturating_sub(self.twin.elapsed()));
            tokio::select! {
                () = upgrader.answered(), if is_reachable => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
        None
    }

    /// A new process does one run.
    pub async fn once(&self, published: &str) -> Report {
        self.scheduled_run(&mut self.upgrader(published)).await
    }

    /// The name, state and image of every container, by name.
    pub fn containers(&self) -> Vec<(String, RunState, String)> {
        let all = self.twin.glance().into_iter();
        let mut all: Vec<_> = all.map(|it| (it.name, it.state, it.image)).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// Pauses a delegate, or all of them, until an operator resumes it.
    pub async fn pause(&self, delegate: Option<&str>) {
        let (now, request) = (self.twin.wall_clock(), Request::default());
        let paused = pause(&self.twin, delegate, now, None, &request).await;
        paused.unwrap();
    }

    pub fn names(&self) -> Vec<String> {
        self.containers().into_iter().map(|(name, ..)| name).collect()
    }

    pub fn find(&self, name: &str) -> Glance {
        let found = self.twin.glance().into_iter().find(|it| it.name == name);
        found.unwrap_or_else(|| panic!("no {name} among {:?}", self.names()))
    }

    pub fn restart_policy(&self, name: &str) -> String {
        let document = self.twin.document(name).unwrap();
        let policy = document["HostConfig"]["RestartPolicy"]["Name"].as_str();
        policy.unwrap().to_owned()
    }

    /// Whether a container is removed once it has ended: by Docker, or by the upgrader that created it without `--rm`.
    pub fn is_fleeting(&self, name: &str) -> bool {
        let document = self.twin.document(name).unwrap();
        document["HostConfig"]["AutoRemove"] == json!(true)
            || document["Config"]["Labels"][label::AUTO_REMOVE] == json!("true")
    }

    /// From now on every call of this kind meets this fault.
    pub fn fault(&self, operation: Operation, fault: Fault) {
        self.fault_where(fault, move |call| call.operation == operation);
    }

    /// From now on every matching call meets this fault.
    pub fn fault_where(&self, fault: Fault, mut is_met: impl FnMut(&Call) -> bool + Send + 'static) {
        self.twin
            .set_faults(move |call| if is_met(call) { fault.clone() } else { Fault::None });
    }

    /// Acts on one container by hand, past the upgrader.
    pub fn by_hand(&self, act: fn(String) -> OperatorAction, name: &str) {
        self.twin.by_hand(act(name.to_owned())).unwrap();
    }

    /// The number of calls of this kind.
    pub fn count(&self, operation: Operation) -> usize {
        let calls = self.twin.calls();
        calls.iter().filter(|call| call.operation == operation).count()
    }

    /// A new process upgrades `dd`, and leaves nothing over.
    pub async fn upgrade(&self, published: &str) -> Report {
        let report = self.once(published).await;
        assert!(!report.has_failures(), "{report:?}");
        self.assert_settled(&["dd"], published, "");
        report
    }

    /// The reason that one run of a new process gives for `dd`.
    pub async fn reason(&self, published: &str) -> &'static str {
        row(&self.once(published).await, "dd").reason.as_str()
    }

    pub fn events_of(&self, id: &ContainerId) -> Vec<Event> {
        let events = self.twin.events();
        events
            .iter()
            .filter(|event| event.id == id.as_str())
            .cloned()
            .collect()
    }

    /// The time when the container was asked to stop, and the time and exit code of its end.
    pub fn end_of(&self, id: &ContainerId) -> Option<(Duration, Duration, i64)> {
        let events = self.events_of(id);
        let told = events.iter().find(|event| event.what == Happened::Signalled)?.at;
        events.iter().find_map(|event| match event.what {
            Happened::Exited { code } => Some((told, event.at, code)),
            _ => None,
        })
    }

    /// The time when this first happened to the container.
    pub fn first(&self, id: &ContainerId, what: &Happened) -> Duration {
        let events = self.events_of(id);
        let first = events.iter().find(|event| event.what == *what);
        first
            .unwrap_or_else(|| panic!("{what:?} of {id} not among {events:?}"))
            .at
    }

    /// The write calls that name the container or its id.
    pub fn writes_on(&self, name: &str) -> Vec<Call> {
        let has_id = |call: &Call| call.id.as_ref().is_some_and(|id| id.as_str() == name);
        let writes = self.twin.writes().into_iter();
        writes
            .filter(|call| call.subject == name || has_id(call))
            .collect()
    }

    /// The fewest delegates that worked at any one moment: started, ready (as at the beginning), and not asked to stop.
    pub fn fewest_working(&self) -> usize {
        let now = self.twin.elapsed();
        let mut open: BTreeMap<String, Duration> = BTreeMap::new();
        let mut lives: Vec<(Duration, Duration)> = Vec::new();
        for event in self.twin.events().iter() {
            match event.what {
                Happened::Started => {
                    let ready = if event.at.is_zero() { Duration::ZERO } else { READY };
                    open.insert(event.id.clone(), event.at + ready);
                }
                Happened::Signalled | Happened::Exited { .. } | Happened::Removed => {
                    if let Some(since) = open.remove(&event.id) {
                        lives.push((since, event.at));
                    }
                }
                _ => {}
            }
        }
        lives.extend(open.into_values().map(|since| (since, now + READY)));
        let moments = lives
            .iter()
            .flat_map(|(since, until)| [*since, *until])
            .chain([now]);
        let working = moments.filter(|moment| *moment <= now).map(|moment| {
            let lasts = |(since, until): &&(Duration, Duration)| *since <= moment && moment < *until;
            lives.iter().filter(lasts).count()
        });
        working.min().unwrap_or_default()
    }

    /// These delegates run this image under their own names with their own restart policies, without any other container.
    pub fn assert_settled(&self, names: &[&str], image: &str, context: &str) {
        let writes = || {
            let writes = self.twin.writes();
            let lines = writes.iter().map(|call| {
                let Call {
                    at,
                    operation,
                    subject,
                    detail,
                    outcome,
                    ..
                } = call;
                format!("{at:?} {operation:?} {subject} {detail} {outcome:?}")
            });
            format!("{context}\n{}", lines.collect::<Vec<_>>().join("\n"))
        };
        let running = |name: &&str| ((*name).to_owned(), RunState::Running, image.to_owned());
        let expected: Vec<_> = names.iter().map(running).collect();
        assert_eq!(self.containers(), expected, "{}", writes());
        for name in names {
            let policy = if self.is_fleeting(name) {
                "no"
            } else {
                "unless-stopped"
            };
            assert_eq!(self.restart_policy(name), policy, "{}", writes());
        }
    }

    /// The delegate runs this image and is removed once it has ended, without any other container.
    pub fn assert_fleeting_on(&self, name: &str, image: &str, context: &str) {
        self.assert_settled(&[name], image, context);
        assert!(self.is_fleeting(name), "{context}: --rm is lost");
    }

    /// The delegate runs this image, without any other container.
    pub fn assert_settled_on(&self, name: &str, image: &str, context: &str) {
        self.assert_settled(&[name], image, context);
    }
}

/// A delegate that becomes ready after a while and finishes its tasks when asked to stop.
pub fn good() -> Behaviour {
    Behaviour::drains(DRAIN).ready_in(READY)
}

/// Kinds of images that no delegate can run.
pub fn bad_images() -> [Behaviour; 4] {
    [
        Behaviour::never_healthy(),
        Behaviour::exits(Duration::from_secs(1), 3),
        Behaviour::flaps(Duration::from_secs(7), Duration::from_secs(4)),
        good().refused("exec: /delegate: no such file"),
    ]
}

pub fn image(reference: &str) -> ImageReference {
    reference.parse().unwrap()
}

pub fn row<'a>(report: &'a Report, name: &str) -> &'a DelegateReport {
    report
        .delegates
        .iter()
        .find(|delegate| delegate.container == name)
        .unwrap_or_else(|| panic!("no {name} in {report:?}"))
}

pub fn host_network(body: &mut Value) {
    body["HostConfig"]["NetworkMode"] = json!("host");
}

/// Nothing starts it again.
pub fn never_restarted(body: &mut Value) {
    body["HostConfig"]["RestartPolicy"] = json!({ "Name": "no", "MaximumRetryCount": 0 });
}

pub fn published_port(body: &mut Value) {
    body["HostConfig"]["PortBindings"] = json!({ "3460/tcp": [{ "HostIp": "", "HostPort": "3460" }] });
}

pub fn auto_remove(body: &mut Value) {
    body["HostConfig"]["AutoRemove"] = json!(true);
    never_restarted(body);
}
