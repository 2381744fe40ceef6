//! One point: a delegate, an upgrade with one fault, the upgrader's next start, and the host at the end.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs};

use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

use crate::audit;
use crate::call::Cast;
use crate::check::{Expected, any_works, healthy, image_in_service, text, wrongs};
use crate::events::{self, Recorder};
use crate::proxy::{Fault, Proxy, Trap};
use crate::scenario::{START_SECONDS, Scenario};
use crate::story::Story;
use crate::upgrader::{self, Ended};
use kit::lab::engine::Engine;
use kit::lab::{V1, image};

/// The maximum time of the engine's own work after the upgrader's end.
const COMES_TO_REST: Duration = Duration::from_secs(60);
/// The maximum number of runs that end by themselves for an upgrade after one fault.
const MOST_RUNS: usize = 3;

/// The parts that all points share.
pub(crate) struct Bench {
    pub(crate) engine: Engine,
    pub(crate) recorder: Recorder,
    pub(crate) old_image_id: String,
    /// A delegate of another name that must stay untouched.
    pub(crate) bystander: Value,
    pub(crate) sockets: PathBuf,
    /// The directory for the stories of failed points.
    pub(crate) stories: PathBuf,
}

impl Bench {
    /// The problem with the delegate of another name, if any.
    async fn bystander_touched(&self) -> Option<String> {
        let was = &self.bystander;
        let life = |document: &Value| {
            let pointers = ["/Id", "/State/StartedAt", "/State/Status", "/Name"];
            pointers.map(|pointer| text(document, pointer))
        };
        let is = self.engine.inspect(&text(was, "/Id")).await;
        (is.as_ref().map(life) != Some(life(was)))
            .then(|| "the delegate of another name was touched".to_owned())
    }
}

/// The gate that holds a call until the engine has been killed.
#[derive(Clone)]
pub(crate) struct Gate {
    /// Reports that the call of the trap is held.
    pub(crate) arrived: mpsc::UnboundedSender<String>,
    /// Tells that the engine is gone, so that the held calls are cut.
    pub(crate) open: watch::Receiver<bool>,
}

/// A point to try.
#[derive(Clone)]
pub(crate) struct Point {
    pub(crate) number: usize,
    pub(crate) scenario: Scenario,
    pub(crate) trap: Option<Trap>,
    /// The circumstance that is also part of its name.
    pub(crate) circumstance: String,
    pub(crate) gate: Option<Gate>,
}

/// The result of a point.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) failures: Vec<String>,
    /// The fault's call was made.
    pub(crate) reached: bool,
    /// The delegate is on its old image, and the upgrader said so.
    pub(crate) kept_old: bool,
    /// An exit code was wrong.
    pub(crate) lied: bool,
    /// The upgrader declined a clean upgrade.
    pub(crate) left_alone: bool,
    /// The distinct calls, and whether each is a write.
    pub(crate) seen: Vec<(String, bool)>,
}

impl Point {
    pub(crate) fn name(&self) -> String {
        let Self {
            scenario,
            trap,
            circumstance,
            ..
        } = self;
        match trap {
            None => format!("{scenario}/clean"),
            Some(Trap { point, fault, .. }) if circumstance.is_empty() => {
                format!("{scenario}/{point}/{fault}")
            }
            Some(Trap { point, fault, .. }) => format!("{scenario}/{point}/{circumstance}/{fault}"),
        }
    }

    /// The name of its delegate.
    pub(crate) fn delegate(&self) -> String {
        format!("matrix-{}-{}", std::process::id(), self.number)
    }

    /// Whether it mostly waits, as with a lasting fault, so that any number can be tried at once.
    pub(crate) fn waits(&self) -> bool {
        let trap = self.trap.as_ref();
        trap.is_some_and(|trap| trap.fault == Fault::ErrorStays)
    }

    pub(crate) async fn try_on(&self, bench: &Bench) -> Outcome {
        let story = Arc::new(Story::new());
        story.tell(self.name());
        let outcome = self.run(bench, &story).await;
        if !outcome.failures.is_empty() || env::var("MATRIX_KEEP").is_ok_and(|keep| keep == "all") {
            bench.keep_story(self, &story, &outcome.failures).await;
        }
        bench.engine.clear(&self.delegate()).await;
        if self.scenario.has_two_networks() {
            let path = format!("/networks/{}", self.delegate());
            bench.engine.call("DELETE", &path, None).await;
        }
        bench.recorder.forget(&self.delegate());
        outcome
    }

    async fn run(&self, bench: &Bench, story: &Arc<Story>) -> Outcome {
        let Bench { engine, .. } = bench;
        let name = self.delegate();
        let asked = self.body();
        let before = self.make_delegate(engine, &asked).await;
        let id = text(&before, "/Id");
        let cast = Cast {
            name: name.clone(),
            old_image: (V1.to_owned(), bench.old_image_id.clone()),
            parts: HashMap::from([(id.clone(), "old".to_owned())]),
        };
        let socket = bench.sockets.join(format!("{}.sock", self.number));
        let proxy = Proxy::start(socket, &engine.socket, story, cast, self.trap.clone())
            .unwrap_or_else(|error| panic!("the proxy: {error}"));
        let gate = self
            .gate
            .clone()
            .map(|gate| tokio::spawn(pass_gate(gate, name.clone(), &proxy)));

        let mut outcome = Outcome::default();
        let mut runs = 0;
        loop {
            let ended = upgrader::once(&name, self.scenario, &proxy, story).await;
            story.tell(format_args!("the upgrader: {ended:?}"));
            match ended {
                Ended::Killed => continue,
                Ended::Hung => {
                    outcome.failures.push("the upgrader hung".to_owned());
                    break;
                }
                // A leftover that cannot be removed does not fail a run; the next run removes it.
                Ended::Exited(code) if proxy.mend() => {
                    story.tell("the fault has stayed until here");
                    if code == Some(0) {
                        self.judge_exit(engine, code, story, &mut outcome).await;
                    }
                    if !soon_works(engine, &name).await {
                        let problem = "no delegate works while the fault stays";
                        outcome.failures.push(problem.to_owned());
                    }
                    continue;
                }
                Ended::Exited(code) => self.judge_exit(engine, code, story, &mut outcome).await,
            }
            runs += 1;
            outcome.left_alone = self.trap.is_none() && proxy.seen().iter().all(|(_, write)| !write);
            let left = engine.list(&name).await;
            let rejected = left.iter().any(|row| row.name.contains(".failed-"));
            // Any other code says that the engine did not answer, which is a matter for the next start.
            let bad = ended == Ended::Exited(Some(1)) && !self.scenario.is_good();
            let settled = ended == Ended::Exited(Some(0)) || bad || rejected || outcome.left_alone;
            // The loss of the delegate has been reported; a later run finds nothing to do.
            if settled || left.is_empty() || runs == MOST_RUNS {
                break;
            }
        }
        if let Some(gate) = gate {
            gate.abort();
        }
        outcome.reached = self.trap.is_none() || proxy.sprung();
        outcome.seen = proxy.seen();
        outcome.failures.extend(
            proxy
                .trespasses()
                .into_iter()
                .map(|call| format!("it touched what is not its own: {call}")),
        );
        self.judge(bench, (&asked, &before), &mut outcome).await;
        let in_service = image_in_service(engine, &name).await;
        let left = engine.list(&name).await;
        let is_rejected = left.iter().any(|row| row.name.contains(".failed-"));
        let path = upgrader::audit_log(&proxy);
        let wrongs = audit::wrongs(
            &path,
            in_service.as_deref(),
            &self.scenario.published(),
            is_rejected,
        );
        outcome.failures.extend(wrongs);
        let _ = fs::remove_file(path);
        outcome
    }

    /// Judges whether an exit code told the truth.
    async fn judge_exit(&self, engine: &Engine, code: Option<i32>, story: &Story, outcome: &mut Outcome) {
        let in_service = image_in_service(engine, &self.delegate()).await;
        let serves = self.scenario.is_good() && in_service == Some(self.scenario.published());
        story.tell(format_args!("in service: {}", in_service.unwrap_or_default()));
        let lie = match (code, serves) {
            (Some(0), false) => "exit code 0, and the new image does not serve",
            (Some(1), true) => "exit code 1, and the new image serves",
            _ => return,
        };
        outcome.lied = true;
        outcome.failures.push(lie.to_owned());
    }

    async fn judge(&self, bench: &Bench, delegate: (&Value, &Value), outcome: &mut Outcome) {
        let name = self.delegate();
        let (old, new) = (image(V1), self.scenario.published());
        // An engine that refuses a start or a create rejects the new container, and an engine that ends during the proof
        // also ends the candidate: the candidate is rejected, and tried again after an hour.
        let is_refusal = self.trap.as_ref().is_some_and(|trap| trap.fault.is_refusal());
        let may_be_rejected = is_refusal || !self.circumstance.is_empty();
        let images = match (self.scenario.is_good() && !outcome.left_alone, may_be_rejected) {
            (true, false) => vec![new.clone()],
            (true, true) => vec![new.clone(), old.clone()],
            (false, _) => vec![old.clone()],
        };
        let expected = Expected {
            images: &images,
            failed_allowed: !self.scenario.is_good() || may_be_rejected,
        };
        let begin = Instant::now();
        let wrong = loop {
            let wrong = wrongs(&bench.engine, &name, delegate, &expected).await;
            if wrong.is_empty() || begin.elapsed() > COMES_TO_REST {
                break wrong;
            }
            sleep(Duration::from_millis(300)).await;
        };
        outcome.failures.extend(wrong);
        let in_service = image_in_service(&bench.engine, &name).await;
        outcome.kept_old = self.scenario.is_good() && in_service == Some(old.clone());
        if self.gate.is_some() {
            return;
        }
        let end = events::now();
        // Reports that the engine has sent by now arrive here a moment later.
        sleep(Duration::from_millis(300)).await;
        let events = bench.recorder.of(&name);
        for event in events.iter().filter(|event| event.is_kill()) {
            let problem = format!("{} was killed with its tasks", event.name);
            outcome.failures.push(problem);
        }
        if !self.scenario.shape.stop_first {
            let needs = |image: &str| {
                let works = image == old || (image == new && self.scenario.is_good());
                works.then_some(Duration::from_secs(START_SECONDS))
            };
            for (from, until) in events::gaps(&events, needs, end) {
                let seconds = until.saturating_sub(from).as_secs_f64();
                let gap = format!("no delegate worked for {seconds:.3} s");
                outcome.failures.push(gap);
            }
        }
        outcome.failures.extend(bench.bystander_touched().await);
    }

    /// The create body of its delegate.
    fn body(&self) -> Value {
        let drain = match (&self.gate, self.number % 4) {
            // The delegate is still finishing its tasks when the engine goes.
            (Some(_), _) => 8,
            // Longer than the time for which the stop request is held.
            (None, 0) => 3,
            (None, _) => 1,
        };
        // A killed engine does not restart `unless-stopped` containers (seen on 20.10).
        let policies = ["always", "unless-stopped"];
        let policy = if self.circumstance == "engine-killed" {
            "always"
        } else {
            policies[self.number % policies.len()]
        };
        self.scenario.body(&self.delegate(), self.number, drain, policy)
    }

    async fn make_delegate(&self, engine: &Engine, body: &Value) -> Value {
        let name = self.delegate();
        let document = engine.run(&name, body).await;
        if self.scenario.has_two_networks() {
            connect_second_network(engine, &name, self.number).await;
        }
        let begin = Instant::now();
        while let Err(problem) = healthy(&document).await {
            assert!(begin.elapsed() < COMES_TO_REST, "{name}: {problem}");
            sleep(Duration::from_millis(100)).await;
        }
        engine
            .inspect(&name)
            .await
            .expect("the delegate that was just made")
    }
}

/// Connects a delegate to a network of its name: 20.10 deadlocks when many containers join and leave one at once.
async fn connect_second_network(engine: &Engine, name: &str, number: usize) {
    let number = u32::try_from(number % 0x1_0000).unwrap_or_default();
    let subnet = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 100, 0, 0)) + number * 16);
    let body = json!({
        "Name": name,
        "IPAM": { "Config": [{ "Subnet": format!("{subnet}/28") }] },
    });
    engine.expect("POST", "/networks/create", Some(&body)).await;
    let endpoint = json!({ "Container": name, "EndpointConfig": { "Aliases": ["the-delegate"] } });
    let path = format!("/networks/{name}/connect");
    engine.expect("POST", &path, Some(&endpoint)).await;
}

impl Bench {
    /// Keeps the story of a failed point, with everything that is still known.
    async fn keep_story(&self, point: &Point, story: &Story, failures: &[String]) {
        let delegate = point.delegate();
        for row in self.engine.list(&delegate).await {
            story.tell(format_args!("= {} {} {}", row.name, row.state, row.id));
            if let Some(document) = self.engine.inspect(&row.id).await {
                story.tell(format_args!(
                    "  image {} policy {} state {}",
                    text(&document, "/Config/Image"),
                    document["HostConfig"]["RestartPolicy"],
                    document["State"]
                ));
                story.tell(format_args!("  labels {}", document["Config"]["Labels"]));
            }
        }
        for event in self.recorder.of(&delegate) {
            let seconds = event.at.as_secs_f64();
            story.tell(format_args!(
                "event {seconds:.3} {} {} {} {} {}",
                event.action,
                event.signal,
                event.name,
                event.image,
                event.id.get(..12).unwrap_or_default()
            ));
        }
        for failure in failures {
            story.tell(format_args!("FAILED: {failure}"));
        }
        let path = self
            .stories
            .join(format!("{}.txt", point.name().replace('/', "_")));
        if let Err(error) = fs::write(&path, story.text()) {
            eprintln!("matrix: {}: {error}", path.display());
        }
    }
}

async fn soon_works(engine: &Engine, name: &str) -> bool {
    // A container that was just restored needs time to become healthy.
    let begin = Instant::now();
    while !any_works(engine, name).await {
        if begin.elapsed() > COMES_TO_REST {
            return false;
        }
        sleep(Duration::from_millis(300)).await;
    }
    true
}

/// Reports the held call, and releases it when the gate opens.
fn pass_gate(mut gate: Gate, name: String, proxy: &Proxy) -> impl Future<Output = ()> + use<> {
    let shared = Arc::clone(&proxy.shared);
    async move {
        let mut held = shared.held.subscribe();
        if held.wait_for(|held| *held).await.is_ok() {
            let _ = gate.arrived.send(name);
        }
        let _ = gate.open.wait_for(|open| *open).await;
        shared.released.send_replace(true);
        std::future::pending::<()>().await;
    }
}
