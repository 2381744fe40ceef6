//! One point: a delegate, an upgrade, a person who acts at one stage of it, another scheduled run, and the host at the end.

use std::collections::HashMap;
use std::env;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::act::{Act, Done, Given, Site, Target};
use super::images::Images;
use super::judge::{self, Case};
use super::stage::{Moment, Stage};
use crate::Try;
use crate::call::Cast;
use crate::check::{healthy, text};
use crate::events;
use crate::point::{Bench, gaps_told, make_network, until_healthy};
use crate::proxy::{Proxy, Trap};
use crate::scenario::{START_SECONDS, Scenario};
use crate::story::Story;
use crate::tally::Tally;
use crate::upgrader::{self, Ended};
use kit::lab::image;

/// The time after the candidate is healthy at which a person acts in the middle of its proof, which takes three seconds.
const INTO_THE_PROOF: Duration = Duration::from_secs(1);
/// The time after the stop request at which they act in the middle of a drain.
const INTO_THE_DRAIN: Duration = Duration::from_millis(1500);
/// The maximum time of a run, whatever the person does.
const LONGEST: Duration = Duration::from_secs(120);
/// The length of a drain that must outlast the act, and of any other drain.
const DRAINS: (u64, u64) = (5, 1);
/// The run in which the person acts, and the next scheduled one.
const RUNS: usize = 2;

/// A point to try.
#[derive(Clone)]
pub(crate) struct Point {
    pub(crate) number: usize,
    pub(crate) scenario: Scenario,
    pub(crate) policy: &'static str,
    pub(crate) trap: Trap,
    pub(crate) stage: Stage,
    pub(crate) act: Act,
}

/// The result of a point.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) failures: Vec<String>,
    /// The stage was reached, and the container was there.
    pub(crate) reached: bool,
    /// The first run kept the old image.
    pub(crate) kept_old: bool,
    /// Docker's message, if it refused the act. Half of Compose's work may be done then, so the point says nothing.
    refused: Option<String>,
}

impl Point {
    pub(crate) fn name(&self) -> String {
        format!("people/{}/{}/{}", self.scenario, self.stage, self.act)
    }

    fn delegate(&self) -> String {
        format!("people-{}-{}", std::process::id(), self.number)
    }
}

impl Try for Point {
    type Outcome = Outcome;

    fn count(&self, outcome: &Outcome, took: Duration, tally: &mut Tally) {
        if let Some(problem) = &outcome.refused {
            println!("Docker refused the act: {}: {problem}", self.name());
        }
        let is_judged = outcome.reached && outcome.refused.is_none();
        if is_judged || !outcome.failures.is_empty() {
            let row = (format!("people {}", self.scenario), self.act.to_string());
            tally.enter(row, &self.name(), &outcome.failures, outcome.kept_old, took);
        }
    }

    async fn try_on(&self, bench: &Bench) -> Outcome {
        let Bench { engine, .. } = bench;
        let story = Arc::new(Story::new());
        story.tell(self.name());
        let name = self.delegate();
        let connects = self.act == Act::Connect;
        if connects {
            make_network(engine, &name, self.number).await;
        }
        let images = match self.act {
            Act::RmiOld | Act::RmiNew => Images::own(engine, self.number).await,
            _ => Images::shared(bench).await,
        };
        let mut body = self.scenario.body(&name, self.number, self.drain(), self.policy);
        body["Image"] = images.old.clone().into();
        let before = engine.run(&name, &body).await;
        until_healthy(&name, &before).await;
        let cast = Cast {
            name: name.clone(),
            old_image: (images.old.replace(&image(""), ""), images.old_id.clone()),
            parts: HashMap::from([(text(&before, "/Id"), "old".to_owned())]),
        };
        let socket = bench.sockets.join(format!("p{}.sock", self.number));
        let proxy = Proxy::start(socket, &engine.socket, &story, cast, Some(self.trap.clone()))
            .unwrap_or_else(|error| panic!("the proxy: {error}"));
        let site = Site {
            engine: engine.clone(),
            name: name.clone(),
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
        for row in rows {
            let path = format!("/containers/{}?force=1&v=1", row.id);
            engine.call("DELETE", &path, None).await;
        }
        if connects {
            engine.call("DELETE", &format!("/networks/{name}"), None).await;
        }
        site.images.remove(engine).await;
        bench.recorder.forget(&name);
        outcome
    }
}

impl Point {
    /// The seconds in which the old container finishes its tasks.
    fn drain(&self) -> u64 {
        let (long, short) = DRAINS;
        let is_long = self.stage.kind() == "stop-old" || self.act.target() == Some(Target::Old);
        if is_long { long } else { short }
    }

    async fn run(&self, bench: &Bench, site: &Site, proxy: &Proxy) -> Outcome {
        let mut outcome = Outcome::default();
        let mut acting = tokio::spawn(self.clone().acts(site.clone()));
        let mut given = Given::default();
        for run in 0..RUNS {
            let (calls, told) = (proxy.made().len(), site.story.text().len());
            let ended =
                upgrader::once(&site.name, &self.settings(&site.images.new), proxy, &site.story).await;
            site.story.tell(format_args!("the upgrader: {ended:?}"));
            if run == 0 {
                if !proxy.sprung() {
                    acting.abort();
                    return outcome;
                }
                match (&mut acting).await {
                    Ok(Done::Yes(done)) => given = done,
                    Ok(Done::Missing) => return outcome,
                    Ok(Done::Refused(problem)) => outcome.refused = Some(problem),
                    Err(error) => outcome.failures.push(format!("the act: {error}")),
                }
                outcome.reached = true;
                if outcome.refused.is_some() {
                    return outcome;
                }
            }
            outcome
                .failures
                .extend(judge::repetitions(&proxy.made()[calls..]));
            match ended {
                Ended::Killed | Ended::Hung => {
                    outcome.failures.push(format!("run {} did not end", run + 1));
                    break;
                }
                Ended::Exited(code) => {
                    let log = &site.story.text()[told..];
                    outcome.failures.extend(judge::exit(site, code, log).await);
                    outcome.kept_old |= run == 0 && code != Some(0);
                }
            }
        }
        let case = Case {
            site,
            scenario: self.scenario,
            stage: &self.stage,
            act: self.act,
            given: &given,
        };
        let failures = judge(bench, &case, proxy).await;
        outcome.failures.extend(failures);
        outcome
    }

    /// Waits for the stage, acts, and lets the upgrader continue.
    async fn acts(self, site: Site) -> Done {
        let mut held = site.proxy.held.subscribe();
        if held.wait_for(|held| *held).await.is_err() {
            return Done::Missing;
        }
        wait_for_moment(&site, &self.stage).await;
        let done = site.perform(self.act).await;
        site.proxy.released.send_replace(true);
        done
    }

    fn settings(&self, published: &str) -> upgrader::Settings {
        upgrader::Settings {
            published: published.to_owned(),
            healthy_time: if is_proof(&self.stage) { "3s" } else { "1s" },
            healthy_deadline: "30s",
            stop_timeout: "20s",
            longest: LONGEST,
        }
    }
}

async fn judge(bench: &Bench, case: &Case<'_>, proxy: &Proxy) -> Vec<String> {
    let mut failures = case.wrongs().await;
    let trespasses = proxy.trespasses().into_iter();
    failures.extend(trespasses.map(|call| format!("it touched what is not its own: {call}")));
    let end = events::now();
    // Reports that Docker has sent by now arrive here a moment later.
    sleep(Duration::from_millis(300)).await;
    let events = bench.recorder.of(&case.site.name);
    failures.extend(case.cut_short(&events));
    if case.has_no_gap() {
        let Images {
            old,
            new,
            old_id,
            new_id,
            ..
        } = &case.site.images;
        let images = [old, new, old_id, new_id];
        let needs = |image: &str| {
            let works = images.iter().any(|known| *known == image);
            works.then_some(Duration::from_secs(START_SECONDS))
        };
        failures.extend(gaps_told(&events, needs, end));
    }
    failures.extend(bench.bystander_touched().await);
    failures
}

fn is_proof(stage: &Stage) -> bool {
    stage.moment == Moment::After && stage.kind() == "start-candidate"
}

/// Waits for the moment of the stage. Before a call, there is nothing to wait for.
async fn wait_for_moment(site: &Site, stage: &Stage) {
    if stage.moment == Moment::Before {
        return;
    }
    if !is_proof(stage) {
        return sleep(INTO_THE_DRAIN).await;
    }
    let candidate = format!("{}.candidate", site.name);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(20) {
        let document: Option<Value> = site.engine.inspect(&candidate).await;
        if let Some(document) = document
            && healthy(&document).await.is_ok()
        {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    sleep(INTO_THE_PROOF).await;
}
