//! One point: a delegate, an upgrade, a person who acts at one stage of it, one more scheduled run, and what is on the
//! host then.

use std::collections::HashMap;
use std::env;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::images::Images;
use super::judge;
use super::perform::{Done, Site};
use super::rules::act::{Act, ContainerAct};
use super::rules::expect::{End, Expected, Spare, needs_long_drain};
use super::rules::stage::{Moment, Stage};
use crate::call::Cast;
use crate::check::{configuration, healthy, text};
use crate::events;
use crate::outage::Outage;
use crate::point::{Bench, Gate, endpoint, gaps_told, make_network, until_healthy};
use crate::proxy::{Proxy, Shared, Trap};
use crate::scenario::{START_SECONDS, Scenario};
use crate::story::Story;
use crate::upgrader::{self, Ended};

/// How long after the candidate is healthy a person acts in the middle of its proof, which takes three seconds.
const INTO_THE_PROOF: Duration = Duration::from_secs(1);
/// How long after the request to stop they act in the middle of a drain.
const INTO_THE_DRAIN: Duration = Duration::from_millis(1500);
/// How long a run may take: nothing that somebody does is a reason to try for longer.
const LONGEST: Duration = Duration::from_secs(120);
/// How long a drain takes that is to outlast the act, and any other.
const DRAINS: (u64, u64) = (5, 1);
/// The run in which somebody acts, and the next scheduled one.
const RUNS: usize = 2;
/// One run may find the engine away.
const RUNS_OF_OUTAGE: usize = 3;

/// Who does something.
#[derive(Clone)]
pub(crate) enum Cause {
    Nobody,
    Person(Act),
    Engine(Outage),
}

/// A point to try.
#[derive(Clone)]
pub(crate) struct Point {
    pub(crate) number: usize,
    pub(crate) scenario: Scenario,
    pub(crate) stage: Option<Stage>,
    pub(crate) trap: Option<Trap>,
    pub(crate) cause: Cause,
    pub(crate) policy: &'static str,
    pub(crate) expected: Expected,
    pub(crate) gate: Option<Gate>,
}

/// How it went.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) failures: Vec<String>,
    /// The stage was reached, and what somebody acts on was there.
    pub(crate) reached: bool,
    /// The first run kept the old image, and said so.
    pub(crate) kept_old: bool,
    pub(crate) refused: Option<String>,
    /// The engine had forgotten what somebody did, since so much happened beside it.
    pub(crate) forgot: bool,
    pub(crate) seen: Vec<(String, bool)>,
}

impl Outcome {
    /// It failed, which may be since the engine could not tell what happened.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.forgot && !self.failures.is_empty()
    }
}

impl Point {
    pub(crate) fn clean(number: usize, scenario: Scenario) -> Self {
        Self {
            number,
            scenario,
            stage: None,
            trap: None,
            cause: Cause::Nobody,
            policy: "always",
            expected: Expected {
                ends: vec![End::UPGRADED],
                spare: Spare::None,
                no_gap: !scenario.shape.stop_first,
            },
            gate: None,
        }
    }

    /// What somebody does, in words.
    pub(crate) fn what(&self) -> String {
        match &self.cause {
            Cause::Nobody => "clean".to_owned(),
            Cause::Person(act) => act.to_string(),
            Cause::Engine(outage) => outage.to_string(),
        }
    }

    pub(crate) fn name(&self) -> String {
        let what = self.what();
        match &self.stage {
            None => format!("people/{}/{what}", self.scenario),
            Some(stage) => format!("people/{}/{stage}/{what}", self.scenario),
        }
    }

    pub(crate) fn delegate(&self) -> String {
        format!("people-{}-{}", std::process::id(), self.number)
    }

    fn act(&self) -> Option<Act> {
        match self.cause {
            Cause::Person(act) => Some(act),
            _ => None,
        }
    }

    /// Tries it.
    pub(crate) async fn try_on(&self, bench: &Bench) -> Outcome {
        let Bench { engine, .. } = bench;
        let story = Arc::new(Story::new());
        story.tell(self.name());
        let name = self.delegate();
        let network = self.act().and_then(Act::on_container).filter(|act| {
            matches!(
                act,
                ContainerAct::NetworkConnect | ContainerAct::NetworkDisconnect
            )
        });
        if network.is_some() {
            make_network(engine, &name, self.number).await;
        }
        let images = match self.act() {
            Some(Act::Image(_)) => Images::own(engine, self.number).await,
            _ => Images::shared(bench).await,
        };
        let (body, before) = self.make_delegate(bench, &images, network).await;
        let socket = bench.sockets.join(format!("p{}.sock", self.number));
        let cast = Cast {
            name: name.clone(),
            old_image: (images.old_tag(), images.old_id.clone()),
            parts: HashMap::from([(text(&before, "/Id"), "old".to_owned())]),
        };
        let proxy = Proxy::start(socket, &engine.socket, &story, cast, self.trap.clone())
            .unwrap_or_else(|error| panic!("the proxy: {error}"));
        let site = Site {
            engine: engine.clone(),
            name: name.clone(),
            number: self.number,
            body,
            before,
            images,
            proxy: Arc::clone(&proxy.shared),
            story: Arc::clone(&story),
        };
        let outcome = self.run(bench, &site, &proxy).await;
        let rows = judge::rows(&site).await;
        if !outcome.failures.is_empty() || env::var("MATRIX_KEEP").is_ok_and(|keep| keep == "all") {
            bench
                .keep_story(&self.name(), &name, &rows, &story, &outcome.failures)
                .await;
        }
        for row in judge::rows(&site).await {
            let path = format!("/containers/{}?force=1&v=1", row.id);
            engine.call("DELETE", &path, None).await;
        }
        if network.is_some() {
            engine.call("DELETE", &format!("/networks/{name}"), None).await;
        }
        site.images.remove(engine).await;
        bench.recorder.forget(&name);
        outcome
    }

    async fn run(&self, bench: &Bench, site: &Site, proxy: &Proxy) -> Outcome {
        let mut outcome = Outcome::default();
        let mut acting = tokio::spawn(self.clone().acts(site.clone()));
        let mut done = Done::Missing;
        let mut expected = self.expected.clone();
        let settings = self.settings(&site.images.new);
        let runs = match self.cause {
            Cause::Engine(_) => RUNS_OF_OUTAGE,
            _ => RUNS,
        };
        for run in 0..runs {
            let (calls, told) = (proxy.made().len(), site.story.text().len());
            let ended = upgrader::once(&site.name, &settings, proxy, &site.story).await;
            site.story.tell(format_args!("the upgrader: {ended:?}"));
            if run == 0 {
                outcome.seen = proxy.seen();
                if self.stage.is_some() && proxy.sprung() {
                    match (&mut acting).await {
                        Ok(end) => done = end,
                        // Nobody knows what was done: that is no stage that was not reached.
                        Err(error) => {
                            outcome.reached = true;
                            outcome.failures.push(format!("what somebody does: {error}"));
                            return outcome;
                        }
                    }
                }
                outcome.reached = self.stage.is_none() || !matches!(done, Done::Missing);
                if let Done::Refused(problem) = &done {
                    outcome.refused = Some(problem.clone());
                    expected.ends = vec![End::UPGRADED];
                }
                if !outcome.reached {
                    acting.abort();
                    return outcome;
                }
            }
            outcome
                .failures
                .extend(judge::repetitions(&proxy.made()[calls..], self.scenario.shape.rm));
            match ended {
                Ended::Killed | Ended::Hung => {
                    let problem = format!("run {} did not end", run + 1);
                    outcome.failures.push(problem);
                    break;
                }
                Ended::Exited(code) => {
                    let text = site.story.text();
                    let wrong = judge::exit(site, self.act(), code, &expected, &text[told..]).await;
                    outcome.failures.extend(wrong);
                    outcome.kept_old |= run == 0 && code != Some(0);
                }
            }
        }
        acting.abort();
        self.judge(bench, site, proxy, &expected, &done, &mut outcome)
            .await;
        outcome.forgot = proxy.forgot();
        outcome
    }

    async fn judge(
        &self,
        bench: &Bench,
        site: &Site,
        proxy: &Proxy,
        expected: &Expected,
        done: &Done,
        outcome: &mut Outcome,
    ) {
        let failures = &mut outcome.failures;
        failures.extend(judge::host(site, self.act(), expected, done).await);
        let trespasses = proxy.trespasses().into_iter();
        failures.extend(trespasses.map(|call| format!("it touched what is not its own: {call}")));
        if matches!(self.cause, Cause::Engine(_)) {
            return;
        }
        let end = events::now();
        // What the engine has told by now has arrived here a moment later.
        sleep(Duration::from_millis(300)).await;
        let events = bench.recorder.of(&site.name);
        failures.extend(judge::cut_short(&events, done));
        if expected.no_gap {
            let Images {
                old,
                new,
                old_id,
                new_id,
                ..
            } = &site.images;
            let images = [old, new, old_id, new_id];
            let needs = |image: &str| {
                let works = images.iter().any(|known| *known == image);
                works.then_some(Duration::from_secs(START_SECONDS))
            };
            failures.extend(gaps_told(&events, needs, end));
        }
        failures.extend(bench.bystander_touched().await);
    }

    /// Waits for the stage, acts, and lets the upgrader go on.
    async fn acts(self, site: Site) -> Done {
        let (Some(stage), Shared { held, .. }) = (&self.stage, &*site.proxy) else {
            return Done::Missing;
        };
        if held.subscribe().wait_for(|held| *held).await.is_err() {
            return Done::Missing;
        }
        let done = match (&self.cause, self.gate.clone()) {
            (Cause::Person(act), _) => {
                wait_for_moment(&site, stage).await;
                site.perform(*act).await
            }
            (_, Some(mut gate)) => {
                let _ = gate.arrived.send(site.name.clone());
                let _ = gate.open.wait_for(|open| *open).await;
                Done::Yes {
                    given: configuration(&site.before),
                    target: None,
                }
            }
            (_, None) => Done::Missing,
        };
        site.proxy.released.send_replace(true);
        done
    }

    fn settings(&self, published: &str) -> upgrader::Settings {
        let is_in_proof = self
            .stage
            .as_ref()
            .is_some_and(|stage| stage.moment == Moment::After && stage.kind() == "start-candidate");
        upgrader::Settings {
            published: published.to_owned(),
            healthy_time: if is_in_proof { "3s" } else { "1s" },
            healthy_deadline: match self.cause {
                // No machine is so slow, and no engine so long away.
                Cause::Engine(_) => "5m",
                _ => "30s",
            },
            stop_timeout: "20s",
            longest: match self.cause {
                Cause::Engine(_) => upgrader::LONGEST,
                _ => LONGEST,
            },
        }
    }

    /// The delegate's create body, and its document once it works.
    async fn make_delegate(
        &self,
        bench: &Bench,
        images: &Images,
        network: Option<ContainerAct>,
    ) -> (Value, Value) {
        let Bench { engine, .. } = bench;
        let name = self.delegate();
        let (long, short) = DRAINS;
        let drain = match (&self.stage, self.act()) {
            (Some(stage), Some(act)) if needs_long_drain(stage, act) => long,
            _ => short,
        };
        let mut body = self.scenario.body(&name, self.number, drain, self.policy);
        body["Image"] = images.old.clone().into();
        let document = engine.run(&name, &body).await;
        if network == Some(ContainerAct::NetworkDisconnect) {
            let path = format!("/networks/{name}/connect");
            engine.expect("POST", &path, Some(&endpoint(&name))).await;
        }
        until_healthy(&name, &document).await;
        let before = engine.inspect(&name).await;
        (body, before.expect("the delegate that was just made"))
    }
}

/// Before a call there is nothing to wait for.
async fn wait_for_moment(site: &Site, stage: &Stage) {
    match (stage.moment, stage.kind()) {
        (Moment::Before, _) => {}
        (Moment::After, "start-candidate") => {
            let candidate = format!("{}.candidate", site.name);
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_secs(20) {
                if let Some(document) = site.engine.inspect(&candidate).await
                    && healthy(&document).await.is_ok()
                {
                    break;
                }
                sleep(Duration::from_millis(100)).await;
            }
            sleep(INTO_THE_PROOF).await;
        }
        (Moment::After, _) => sleep(INTO_THE_DRAIN).await,
    }
}
