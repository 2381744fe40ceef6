//! The driver of services and Deployments with an orchestrator in memory, which shows how to add a third one.

use std::collections::{BTreeMap, VecDeque};
use std::future::ready;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use delegate_upgrader::alerts::{Alert, AskAlerts};
use delegate_upgrader::config::Timing;
use delegate_upgrader::container::{Inspected, Request};
use delegate_upgrader::document::NewSettings;
use delegate_upgrader::events::history::Release;
use delegate_upgrader::host::hold::Holds;
use delegate_upgrader::image::{ImageName, ImageReference};
use delegate_upgrader::managed::{
    Decision, Found, Managed, Object, Orchestrate, Orchestrator, Progress, Record, Refusal, SettingsChange,
    Step, TaskFailure, Tasks,
};
use delegate_upgrader::manager::{ImageSource, ManagerError};
use delegate_upgrader::reconcile::Settings;
use delegate_upgrader::reconcile::controller::Controller as _;
use delegate_upgrader::reconcile::operator::OperatorError;
use delegate_upgrader::reconcile::questions::Answer;
use delegate_upgrader::reconcile::workloads::Workloads;
use delegate_upgrader::rollout::Intent;
use delegate_upgrader::rollout::reason::Reason;
use delegate_upgrader::rollout::reason::ReasonKind::{
    self, AlertFiring, Halted, NoContainer, NotPermitted, Proving, Quarantined, Reconfigured, Rejected,
    RolledBack, Soaking, UpToDate, WaitingForReplica,
};
use delegate_upgrader::rollout::{OwnerSettings, Policy};
use delegate_upgrader::schedule::wave::Place;
use delegate_upgrader::status::report::Report;
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::settings::settings;

const OLD: &str = "harness/delegate:26.01.1";
const NEW: &str = "harness/delegate:26.02.2";
const NEWER: &str = "harness/delegate:26.03.3";

/// An orchestrator that replaces tasks at once.
#[derive(Clone)]
struct Memory {
    workloads: Arc<Mutex<Vec<Managed>>>,
    /// The steps that are refused, in this order, and how.
    refusals: Arc<Mutex<VecDeque<(&'static str, Refusal)>>>,
    steps: Arc<Mutex<Vec<String>>>,
    /// Whether a workload is missing.
    misses_one: bool,
    /// No task of this image ever runs.
    broken: Option<&'static str>,
    /// The variables of each workload: those before each change of settings, and those now.
    variables: Arc<Mutex<BTreeMap<String, Vec<Inspected>>>>,
    /// Whether tasks with other settings run; if not, whether the orchestrator takes them back by itself.
    refuses_settings: Option<bool>,
}

impl Memory {
    /// Workloads of one `DELEGATE_NAME`.
    fn with(names: &[&str]) -> Self {
        let workload = |name: &&str| Managed {
            orchestrator: Orchestrator::Swarm,
            id: format!("id-of-{name}"),
            name: (*name).to_owned(),
            workload: "delegate".to_owned(),
            image: ImageName::from(OLD),
            settings: SettingsChange::default(),
            revision: None,
            updated_at: None,
            progress: Progress::Settled { completed_at: None },
            tasks: Tasks {
                wanted: 1,
                running: 1,
                last_started_at: Some(at(Duration::ZERO)),
                last_failure: None,
            },
            record: Record::default(),
            left_alone: None,
            limits: OwnerSettings::default(),
            pace: Duration::ZERO,
        };
        let settings = vec![Inspected::with_variables(&json!(["TOKEN=old"]))];
        let variables = names.iter().map(|name| (name.to_string(), settings.clone()));
        Self {
            workloads: Arc::new(Mutex::new(names.iter().map(workload).collect())),
            refusals: Arc::default(),
            steps: Arc::default(),
            misses_one: true,
            broken: None,
            variables: Arc::new(Mutex::new(variables.collect())),
            refuses_settings: None,
        }
    }

    /// The same with none missing.
    fn complete(names: &[&str]) -> Self {
        Self {
            misses_one: false,
            ..Self::with(names)
        }
    }

    fn refuse(&self, step: &'static str, refusal: Refusal) {
        self.refusals.lock().unwrap().push_back((step, refusal));
    }

    fn images(&self) -> Vec<String> {
        let image_of = |managed: &Managed| managed.image.to_string();
        self.workloads.lock().unwrap().iter().map(image_of).collect()
    }

    fn settings_of(&self, name: &str) -> Inspected {
        self.variables.lock().unwrap()[name].last().unwrap().clone()
    }

    /// The steps since this was last asked.
    fn steps(&self) -> String {
        std::mem::take(&mut *self.steps.lock().unwrap()).join(", ")
    }
}

impl Orchestrate for Memory {
    type Error = String;

    const ORCHESTRATOR: Orchestrator = Orchestrator::Swarm;
    const API: &'static str = "the memory";
    const ONE_AT_A_TIME: bool = true;

    async fn observe(&mut self) -> Result<Option<Found>, String> {
        let object = |managed: &Managed| Object {
            managed: managed.clone(),
            document: Value::Null,
        };
        let gone = self.misses_one.then(|| ("gone".to_owned(), Reason::NoContainer));
        let objects = self.workloads.lock().unwrap().iter().map(object).collect();
        let absent = gone.into_iter().collect();
        Ok(Some(Found { objects, absent }))
    }

    fn holds(&self, _: &Object, image: &str, _: DateTime<Utc>) -> Option<Result<Holds, String>> {
        Some(Ok(Holds {
            pause: None,
            image: image.to_owned(),
            first_seen: None,
            place: Place::of("host", image),
            rejected: Vec::new(),
        }))
    }

    fn lock(&self, _: &Object, _: &Decision, _: DateTime<Utc>) -> Option<(Reason, Option<DateTime<Utc>>)> {
        None
    }

    fn settings(&self, object: &Object) -> Inspected {
        self.settings_of(&object.managed.name)
    }

    async fn former_settings(&self, object: &Object) -> Result<Inspected, Refusal> {
        let all = &self.variables.lock().unwrap()[&object.managed.name];
        let former = all.iter().rev().nth(1).cloned();
        former.ok_or_else(|| Refusal::Refused("gone".to_owned()))
    }

    fn warnings(&self, _: &Object) -> Vec<String> {
        vec!["a warning".to_owned()]
    }

    async fn apply(&mut self, object: &Object, step: &Step, now: DateTime<Utc>) -> Result<(), Refusal> {
        let name = &object.managed.name;
        let step_of = format!("{} {name}", step.kind());
        let mut refusals = self.refusals.lock().unwrap();
        let is_refused = refusals.front().is_some_and(|(step, _)| *step == step_of);
        self.steps.lock().unwrap().push(step_of);
        let refusal = is_refused.then(|| refusals.pop_front().unwrap().1);
        if let Some(refusal) = refusal.clone().filter(|it| *it != lost_answer()) {
            return Err(refusal);
        }
        let mut workloads = self.workloads.lock().unwrap();
        let managed = workloads.iter_mut().find(|it| it.name == *name).unwrap();
        let (record, image) = step.writes(&object.managed, now);
        let before = managed.clone();
        managed.record = record;
        if let Progress::RolledBack { .. } = managed.progress {
            managed.progress = Progress::Settled { completed_at: None };
        }
        if let Some(image) = image {
            let mut works = self.broken != Some(image.as_str());
            let mut all = self.variables.lock().unwrap();
            let variables = all.get_mut(name).unwrap();
            if let Some((new, mark)) = step.new_settings(&before) {
                variables.push(new.applied_to(variables.last().unwrap()));
                managed.settings = SettingsChange::read(Some(&mark));
                works = self.refuses_settings.is_none();
            } else if before.changed_settings().is_some() {
                variables.pop();
                managed.settings = SettingsChange::default();
            }
            managed.tasks.running = u64::from(works);
            managed.progress = if works {
                Progress::Settled { completed_at: None }
            } else {
                Progress::Updating
            };
            managed.tasks.last_started_at = Some(now);
            managed.image = ImageName::from(image.as_str());
            if !works && self.refuses_settings == Some(true) {
                variables.pop();
                managed.tasks.last_failure = Some(TaskFailure {
                    at: now,
                    image,
                    settings: managed.settings.release,
                    error: "non-zero exit (1)".to_owned(),
                    ran_for: None,
                });
                managed.tasks.running = 1;
                managed.progress = Progress::RolledBack {
                    message: "rollback completed".to_owned(),
                };
                (managed.record, managed.settings) = (before.record, before.settings);
            }
        }
        refusal.map_or(Ok(()), Err)
    }
}

fn at(since: Duration) -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap() + TimeDelta::from_std(since).unwrap()
}

/// A Manager that always publishes this image.
struct Fixed(ImageReference);

impl ImageSource for Fixed {
    async fn published(&self, _: &ImageReference, _: &str) -> Result<ImageReference, ManagerError> {
        Ok(self.0.clone())
    }
}

fn workloads(memory: &Memory) -> Workloads<Memory, Fixed> {
    publishing(memory, NEW)
}

fn publishing(memory: &Memory, image: &str) -> Workloads<Memory, Fixed> {
    timed(memory, image, Timing::default())
}

fn timed(memory: &Memory, image: &str, timing: Timing) -> Workloads<Memory, Fixed> {
    let Settings { policy, target, .. } = settings();
    let policy = Policy { timing, ..policy };
    let begin = Instant::now();
    let clock = Arc::new(move || at(begin.elapsed()));
    let source = Fixed(image.parse().unwrap());
    let no_registry = Arc::new(|_| ready(Answer::Upgrader(None)).boxed());
    Workloads::new(memory.clone(), no_registry, Some(source), policy, target, clock)
}

/// Takes steps until nothing is in progress.
async fn finish(workloads: &mut Workloads<Memory, Fixed>) -> Report {
    loop {
        let report = workloads.reconcile().await.unwrap();
        if report.next_check.is_none() {
            return report;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// The step was taken, and this process does not know.
fn lost_answer() -> Refusal {
    Refusal::Failed("the answer is lost".to_owned())
}

fn conflict() -> Refusal {
    Refusal::Conflict("another version".to_owned())
}

fn reasons(report: &Report) -> Vec<ReasonKind> {
    report.delegates.iter().map(|delegate| delegate.reason).collect()
}

#[tokio::test(start_paused = true)]
async fn workloads_with_the_same_name_are_upgraded_and_rolled_back_in_turn() {
    let memory = Memory::with(&["a", "b"]);
    let mut upgrader = workloads(&memory);
    let refused = upgrader.start_rollback(None, Request::default(), &[]).await;
    assert!(refused.is_err(), "one of three is not there");
    upgrader.start_run(Intent::Upgrade);
    let report = finish(&mut upgrader).await;
    assert_eq!(reasons(&report), [UpToDate, UpToDate, NoContainer]);
    assert_eq!(memory.images(), [NEW, NEW]);
    assert_eq!(memory.steps(), "begin a, apply a, begin b, apply b");
    let plan = upgrader.plan(|_| ()).await.unwrap();
    assert_eq!(
        plan[0].warnings,
        ["a warning", "its version reached end of life about 2026-10-31"]
    );
    assert_eq!(plan[2].reason, Some(NoContainer));
}

#[tokio::test(start_paused = true)]
async fn an_alert_and_the_service_before_hold_an_upgrade() {
    let memory = Memory::complete(&["a", "b"]);
    let firing = Arc::new(Mutex::new(vec![Alert {
        name: "ImageRejected".to_owned(),
        ..Alert::default()
    }]));
    let known = Arc::clone(&firing);
    let ask: AskAlerts = Arc::new(move || ready(Ok(known.lock().unwrap().clone())).boxed());
    let soak = Duration::from_secs(600);
    let timing = Timing {
        soak,
        ..Timing::default()
    };
    let mut upgrader = timed(&memory, NEW, timing).with_alerts(Some(ask));
    upgrader.start_run(Intent::Upgrade);
    assert_eq!(reasons(&finish(&mut upgrader).await), [AlertFiring, AlertFiring]);
    assert_eq!(memory.steps(), "");
    firing.lock().unwrap().clear();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(reasons(&finish(&mut upgrader).await), [UpToDate, Soaking]);
    memory.workloads.lock().unwrap()[0].tasks.running = 0;
    tokio::time::sleep(soak).await;
    assert_eq!(reasons(&finish(&mut upgrader).await)[1], Soaking);
    memory.workloads.lock().unwrap()[0].tasks.running = 1;
    assert_eq!(reasons(&finish(&mut upgrader).await), [UpToDate, UpToDate]);
}

#[tokio::test(start_paused = true)]
async fn rollback_ends_with_what_it_did_and_stays() {
    let memory = Memory::complete(&["a"]);
    let upgraded = async |image| {
        let mut upgrader = publishing(&memory, image);
        upgrader.start_run(Intent::Upgrade);
        finish(&mut upgrader).await.delegates.remove(0).reason
    };
    for image in [NEW, NEWER] {
        assert_eq!(upgraded(image).await, UpToDate);
    }
    for (to, came_from, went_to) in [(None, NEWER, NEW), (Some("0"), NEW, OLD)] {
        let mut upgrader = publishing(&memory, NEWER);
        let started = upgrader.start_rollback(to, Request::default(), &[]).await;
        started.unwrap();
        let message = finish(&mut upgrader).await.delegates.remove(0).message;
        let words = format!("rolled back from {came_from} to {went_to}; it stays there");
        assert!(message.starts_with(&words), "{message}");
        assert_eq!(
            upgraded(NEWER).await,
            RolledBack,
            "it is still the published image"
        );
    }
    assert_eq!(memory.images(), [OLD]);
}

fn token(value: &str) -> NewSettings {
    let mut new = NewSettings::default();
    new.env.insert("TOKEN".to_owned(), Some(value.to_owned()));
    new
}

async fn give_new_token(upgrader: &mut Workloads<Memory, Fixed>) {
    let changes = upgrader.reconfigure(&token("new"), Request::default()).await;
    assert!(!changes.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn other_settings_are_an_attempt_that_an_upgrade_keeps_and_a_rollback_takes_back() {
    let memory = Memory::complete(&["a"]);
    let value = || memory.settings_of("a").env("TOKEN").map(str::to_owned);
    let mut upgrader = publishing(&memory, OLD);
    give_new_token(&mut upgrader).await;
    assert_eq!(reasons(&finish(&mut upgrader).await), [Reconfigured]);
    assert_eq!(
        (memory.steps().as_str(), value().as_deref()),
        ("begin a", Some("new"))
    );
    let again = upgrader.reconfigure(&token("new"), Request::default()).await;
    assert_eq!(again.unwrap_err(), OperatorError::NothingToChange);

    // Another process takes the change back, and a second time the new settings come again.
    for expected in ["old", "new"] {
        let mut other = publishing(&memory, OLD);
        other.start_rollback(None, Request::default(), &[]).await.unwrap();
        assert_eq!(reasons(&finish(&mut other).await), [Reconfigured]);
        assert_eq!(value().as_deref(), Some(expected));
    }
    let mut upgrader = publishing(&memory, NEW);
    upgrader.start_run(Intent::Upgrade);
    assert_eq!(reasons(&finish(&mut upgrader).await), [UpToDate]);
    let now = memory.workloads.lock().unwrap()[0].clone();
    assert_eq!(
        (now.image.as_str(), now.settings.release, value().as_deref()),
        (NEW, 3, Some("new"))
    );
    // The way back from an upgrade is an image.
    let asked = upgrader.start_rollback(None, Request::default(), &[]);
    asked.await.unwrap();
    finish(&mut upgrader).await;
    assert_eq!(memory.images(), [OLD]);
    assert_eq!(value().as_deref(), Some("new"));
}

/// Swarm may take the settings back by itself, and restores the labels from before the attempt.
#[tokio::test(start_paused = true)]
async fn settings_that_fail_are_taken_back_and_blame_no_image() {
    for by_itself in [false, true] {
        let memory = Memory {
            refuses_settings: Some(by_itself),
            ..Memory::complete(&["a", "b"])
        };
        let mut upgrader = publishing(&memory, OLD);
        give_new_token(&mut upgrader).await;
        let report = finish(&mut upgrader).await;
        assert_eq!(reasons(&report), [Rejected, Halted], "{by_itself}");
        let message = &report.delegates[0].message;
        let words = "with the new settings env.TOKEN was rejected";
        assert!(message.contains(words), "{message}");
        assert_eq!(memory.settings_of("a").env("TOKEN"), Some("old"));
        let last = if by_itself { "quarantine a" } else { "roll_back a" };
        assert_eq!(memory.steps(), format!("begin a, {last}"));
        let record = memory.workloads.lock().unwrap()[0].record.clone();
        assert!(record.failed.is_none() && record.attempt.unwrap().failed.is_some());
        // The image is free, also for another process.
        let mut daemon = publishing(&memory, NEW);
        daemon.start_run(Intent::Upgrade);
        assert_eq!(reasons(&finish(&mut daemon).await), [UpToDate, UpToDate]);
        let history = daemon.history([]).await.unwrap().0.remove(0).releases;
        let is_it = |it: &Release| (it.release, it.outcome) == (1, "rejected");
        assert!(history.iter().any(is_it), "{history:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn settings_that_another_process_takes_back_halt_the_rest() {
    let memory = Memory {
        refuses_settings: Some(false),
        ..Memory::complete(&["a", "b"])
    };
    let mut upgrader = publishing(&memory, OLD);
    let mut daemon = publishing(&memory, OLD);
    give_new_token(&mut upgrader).await;
    upgrader.reconcile().await.unwrap();
    tokio::time::sleep(settings().policy.healthy_deadline).await;
    daemon.start_run(Intent::Upgrade);
    finish(&mut daemon).await;
    assert_eq!(memory.steps(), "begin a, roll_back a");
    assert_eq!(reasons(&finish(&mut upgrader).await), [Rejected, Halted]);
    assert_eq!(memory.steps(), "");
}

#[tokio::test(start_paused = true)]
async fn a_change_whose_answer_is_lost_is_made_once() {
    let memory = Memory::complete(&["a"]);
    memory.refuse("begin a", lost_answer());
    let mut upgrader = publishing(&memory, OLD);
    give_new_token(&mut upgrader).await;
    assert_eq!(reasons(&finish(&mut upgrader).await), [Reconfigured]);
    assert_eq!(memory.steps(), "begin a");
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_rolled_back_and_halts_the_rest() {
    let memory = Memory {
        broken: Some(NEW),
        ..Memory::with(&["a", "b"])
    };
    let mut upgrader = workloads(&memory);
    upgrader.start_run(Intent::Upgrade);
    let report = finish(&mut upgrader).await;
    assert_eq!(reasons(&report), [Quarantined, Halted, NoContainer]);
    assert_eq!(memory.images(), [OLD, OLD]);
    assert_eq!(memory.steps(), "begin a, apply a, roll_back a, quarantine a");
}

/// Someone else changes the service while the failure is being recorded.
#[tokio::test(start_paused = true)]
async fn nothing_begins_before_a_failure_is_recorded() {
    let memory = Memory {
        broken: Some(NEW),
        ..Memory::with(&["a", "b"])
    };
    memory.refuse("quarantine a", conflict());
    let mut upgrader = workloads(&memory);
    upgrader.start_run(Intent::Upgrade);
    let found = reasons(&finish(&mut upgrader).await);
    assert_eq!(found, [Quarantined, Halted, NoContainer]);
    let steps = "begin a, apply a, roll_back a, quarantine a, quarantine a";
    assert_eq!(memory.steps(), steps);
}

/// Two upgraders may note an attempt each, for another workload, at the same moment.
#[tokio::test(start_paused = true)]
async fn noted_attempts_continue_in_the_order_of_names() {
    let memory = Memory::with(&["b", "a"]);
    for managed in memory.workloads.lock().unwrap().iter_mut() {
        managed.record = managed.begin(NEW, &Intent::Upgrade, at(Duration::ZERO));
    }
    let mut upgrader = workloads(&memory);
    upgrader.start_run(Intent::Upgrade);
    finish(&mut upgrader).await;
    assert_eq!(memory.images(), [NEW, NEW]);
    assert_eq!(memory.steps(), "apply a, apply b");
}

/// The orchestrator may report nothing right after the update, and the end of it before the image is proven.
#[tokio::test(start_paused = true)]
async fn nothing_begins_before_the_image_is_proven() {
    let memory = Memory::with(&["a", "b"]);
    let mut upgrader = workloads(&memory);
    upgrader.start_run(Intent::Upgrade);
    let proven = Instant::now() + settings().policy.healthy_time;
    while Instant::now() < proven {
        let report = upgrader.reconcile().await.unwrap();
        assert_eq!(reasons(&report)[..2], [Proving, WaitingForReplica]);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(memory.steps(), "begin a, apply a");
    finish(&mut upgrader).await;
    assert_eq!(memory.images(), [NEW, NEW]);
}

#[tokio::test(start_paused = true)]
async fn tries_a_forbidden_step_twice_and_reconsiders_after_a_conflict() {
    let memory = Memory::with(&["a"]);
    let mut upgrader = workloads(&memory);
    for _ in 0..2 {
        memory.refuse("begin a", Refusal::NotPermitted("no update".to_owned()));
    }
    upgrader.start_run(Intent::Upgrade);
    let report = finish(&mut upgrader).await;
    assert_eq!(reasons(&report)[0], NotPermitted);
    assert!(report.delegates[0].failed && report.delegates[0].message.contains("no update"));
    assert_eq!(memory.steps(), "begin a, begin a");
    memory.refuse("begin a", conflict());
    upgrader.start_run(Intent::Upgrade);
    let report = finish(&mut upgrader).await;
    assert_eq!(reasons(&report)[0], UpToDate);
    assert_eq!(memory.steps(), "begin a, begin a, apply a");
}
