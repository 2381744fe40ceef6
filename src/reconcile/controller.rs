//! The loop, on a host and in a cluster: observe, ask, decide and act, until there is nothing left to do but wait.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::time::timeout;

use super::alert_link::AlertLink;
use super::manager_link::ManagerLink;
use super::questions::{Answer, Answered, AskRegistry, Question};
use super::subject::Subject;
use super::upgrade_run::UpgradeRun;
use crate::alerts::AskAlerts;
use crate::engine::EngineCalls;
use crate::events::ledger::Ledger;
use crate::image::TargetSettings;
use crate::manager::{ImageSource, ManagerStatus, UpgraderImage};
use crate::rollout::Intent;
use crate::rollout::reason::{Reason, WORTH_A_WORD};
use crate::status::report::Report;

/// How often a wait for an answer is reported.
const WAITING_INTERVAL: Duration = Duration::from_secs(5);

/// The memory of the loop. It may be lost at any moment: the next run asks again.
pub struct Core<M> {
    pub(crate) manager: ManagerLink<M>,
    pub(crate) alerts: AlertLink,
    pub(super) target: TargetSettings,
    pub(crate) run: UpgradeRun,
    /// The run that starts with the next observation.
    pub(super) starting: Option<Intent>,
    /// When the next scheduled run starts, if known: before the first one, nothing is upgraded.
    pub next_run: Option<DateTime<Utc>>,
    /// The outcomes and steps since the start.
    pub ledger: Ledger,
    /// The rounds of the loop in this call of it.
    pub(super) rounds: u32,
}

impl<M: ImageSource> Core<M> {
    pub(super) fn new(registry: AskRegistry, source: Option<M>, target: TargetSettings) -> Self {
        Self {
            manager: ManagerLink::new(registry, source),
            alerts: AlertLink::default(),
            target,
            run: UpgradeRun::default(),
            starting: None,
            next_run: None,
            ledger: Ledger::default(),
            rounds: 0,
        }
    }

    /// A run that asks about these delegates. Without a source of images, it only reports.
    pub(super) fn run_about<'a>(
        &self,
        intent: Intent,
        subjects: impl IntoIterator<Item = Subject<'a>>,
        now: DateTime<Utc>,
    ) -> UpgradeRun {
        if self.manager.has_source() {
            UpgradeRun::new(intent).about(subjects, &self.target, now)
        } else {
            UpgradeRun::default()
        }
    }

    /// Records and returns each answer once.
    pub(super) fn next_answer(&mut self, now: DateTime<Utc>) -> Option<Answered> {
        let answered = self.manager.next_answer(now)?;
        if let Answer::Alerts(firing) = &answered.answer {
            self.alerts.note(firing, answered.at);
        }
        Some(answered)
    }
}

/// Manages delegates, on a host or in a cluster. The methods that each implements in its own way come first, and then the loop.
pub trait Controller: Sized {
    /// Why nothing could be observed.
    type Error: fmt::Display;
    /// Where published images come from.
    type Source: ImageSource;
    /// The result of an observation.
    type Observed;

    /// The name of the API that must answer, for the log.
    const API: &'static str;

    /// Whether nothing answers at the address, so that a restart of this program may help.
    fn is_unreachable(_: &Self::Error) -> bool {
        false
    }

    /// The error, with advice for an operator.
    fn problem(error: &Self::Error) -> String {
        error.to_string()
    }

    /// The memory of the loop.
    fn core(&self) -> &Core<Self::Source>;

    /// The memory of the loop, to change it.
    fn core_mut(&mut self) -> &mut Core<Self::Source>;

    /// Observes all delegates, unless the last observation still holds.
    ///
    /// # Errors
    /// Nothing could be observed.
    fn observe(&mut self) -> impl Future<Output = Result<Self::Observed, Self::Error>>;

    /// When the observation started.
    fn time(observed: &Self::Observed) -> DateTime<Utc>;

    /// Notes what was observed. Returns the report if another instance of this upgrader acts.
    fn note_observation(&mut self, observed: &Self::Observed) -> impl Future<Output = Option<Report>>;

    /// Whether another instance acted instead of this one at the last observation.
    fn stands_by(&self) -> bool {
        false
    }

    /// The delegates that a run asks about.
    fn subjects<'a>(&'a self, observed: &'a Self::Observed) -> impl Iterator<Item = Subject<'a>>;

    /// A run over all delegates.
    fn new_run(&mut self, intent: Intent, seen: &Self::Observed) -> impl Future<Output = UpgradeRun>;

    /// The platforms that the images of an orchestrator's workloads must support, if known.
    fn platforms(&self) -> Option<&[String]>;

    /// Notes an answer before the run does.
    fn note_answer(&mut self, _: &Question, _: &Answer) {}

    /// Takes the first step that a delegate needs. If none needs one, the report says why.
    fn step(&mut self, observed: Self::Observed) -> impl Future<Output = Option<Report>>;

    /// Completes when [`Self::reconcile`] can continue, such as after an answer of the Manager or an event
    /// of the engine; never if nothing is awaited.
    fn answered(&mut self) -> impl Future<Output = ()>;

    /// Asks in the background whether a newer version of the upgrader is published.
    fn ask_about_upgrader(&mut self) {}

    /// The calls to the engine so far.
    fn engine_calls(&self) -> EngineCalls {
        EngineCalls::default()
    }

    /// Starts a run at the next observation: [`Self::reconcile`] asks for the published images, and acts on each answer.
    fn start_run(&mut self, intent: Intent) {
        self.core_mut().starting = Some(intent);
    }

    /// Takes all steps that can be taken now, each after its own observation. The report says when to call it again.
    ///
    /// # Errors
    /// Nothing could be observed.
    fn reconcile(&mut self) -> impl Future<Output = Result<Report, Self::Error>> {
        turn(self)
    }

    /// Checks in with the Manager in the background if its last answer is too old. Changes nothing on the host.
    fn check_in(&mut self) {
        if !self.stands_by() {
            self.ask_about_upgrader();
            self.core_mut().manager.check_in();
        }
    }

    /// How long until [`Self::check_in`] has something to do.
    fn next_check_in(&self) -> Duration {
        if self.stands_by() {
            Duration::MAX
        } else {
            self.core().manager.next_check_in()
        }
    }

    /// Records and reports its outcomes in this ledger.
    #[must_use]
    fn with_ledger(mut self, ledger: Ledger) -> Self {
        self.core_mut().ledger = ledger;
        self
    }

    /// Asks with this function which alerts of `HOLD_ON_ALERTS` fire.
    #[must_use]
    fn with_alerts(mut self, ask: Option<AskAlerts>) -> Self {
        self.core_mut().alerts.ask = ask;
        self
    }

    /// The Manager's last answers, in or between runs; `None` if there is no Manager.
    fn manager_status(&self) -> Option<ManagerStatus> {
        self.core().manager.status()
    }

    /// The upgrader's own image, and whether a newer one is published, if known.
    fn upgrader_image(&self) -> Option<&UpgraderImage> {
        self.core().manager.upgrader.as_ref()
    }
}

/// Observes, asks, decides and acts, until there is nothing left to do but wait, or every delegate's budget of steps is used up.
async fn turn<C: Controller>(controller: &mut C) -> Result<Report, C::Error> {
    controller.core_mut().rounds = 0;
    loop {
        controller.core_mut().rounds += 1;
        let observed = controller.observe().await?;
        if let Some(report) = controller.note_observation(&observed).await {
            return Ok(report);
        }
        ask_and_answer(controller, &observed).await;
        let now = C::time(&observed);
        if let Some(mut report) = controller.step(observed).await {
            if let Some(Reason::AwaitingAnswer { waited, .. }) = controller.core().run.awaited() {
                report.check_by(now + WORTH_A_WORD.checked_sub(waited).unwrap_or(WAITING_INTERVAL));
            }
            if controller.core().alerts.is_open() {
                report.check_by(now + WAITING_INTERVAL);
            }
            report.delegates.sort_by(|a, b| a.container.cmp(&b.container));
            return Ok(report);
        }
    }
}

/// Starts a due run, takes the answers that have arrived, and asks what has to be asked.
async fn ask_and_answer<C: Controller>(controller: &mut C, observed: &C::Observed) {
    let now = C::time(observed);
    if let Some(intent) = controller.core_mut().starting.take() {
        controller.core_mut().run = controller.new_run(intent, observed).await;
        let core = controller.core_mut();
        core.manager.ask_for(&mut core.run);
        // A fixed image needs no waiting.
        tokio::task::yield_now().await;
    }
    if controller.core_mut().run.retries.take(now) {
        let mut run = std::mem::take(&mut controller.core_mut().run);
        run.retry(controller.subjects(observed), &controller.core().target, now);
        controller.core_mut().run = run;
    }
    while let Some(answered) = controller.core_mut().next_answer(now) {
        controller.note_answer(&answered.question, &answered.answer);
        let mut run = std::mem::take(&mut controller.core_mut().run);
        run.note(&answered, &controller.core().target, controller.platforms(), now);
        controller.core_mut().run = run;
    }
    let core = controller.core_mut();
    core.manager.ask_for(&mut core.run);
}

/// Observes once all questions of the run are answered. Calls `waiting` with the reason if that takes long.
///
/// # Errors
/// Nothing could be observed.
pub(super) async fn observe_with_answers<C: Controller>(
    controller: &mut C,
    mut waiting: impl FnMut(&Reason),
) -> Result<C::Observed, C::Error> {
    let mut reported = None;
    loop {
        let observed = controller.observe().await?;
        ask_and_answer(controller, &observed).await;
        let Core {
            alerts, manager, run, ..
        } = controller.core_mut();
        alerts.ask(&mut manager.questions);
        if run.awaited().is_none() && !alerts.is_open() {
            return Ok(observed);
        }
        while timeout(WORTH_A_WORD, manager.questions.answered()).await.is_err() {
            let slow = run.awaited().filter(|reason| reason.is_news(&mut reported));
            slow.iter().for_each(&mut waiting);
        }
    }
}
