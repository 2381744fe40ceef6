//! `kubernetes`: the commands for the Deployments of a cluster.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use clap::{Args, Subcommand};
use futures_util::FutureExt as _;
use tracing::{info, warn};

use super::asker::Asker;
use super::checks::{checks, conclude};
use super::named_delegate::{done, failed};
use super::run::{Daemon, LAST_EVENTS, log_warnings, made, make_listeners};
use super::shutdown::{shutdown, until_shutdown};
use super::variables::{Variables, add};
use super::{Exit, fail, history, pause, plan, print};
use crate::app::{self, ConfiguredSource};
use crate::config::Settings;
use crate::container::Request;
use crate::daemon;
use crate::doctor::alerts;
use crate::document::NewSettings;
use crate::host::hold::Paused;
use crate::host::place::note_cluster;
use crate::kubernetes::cluster::{Cluster, is_in_cluster};
use crate::kubernetes::deployments::Deployments;
use crate::kubernetes::registry::Registries;
use crate::kubernetes::settings::ClusterSettings;
use crate::kubernetes::{doctor, file, own, warnings};
use crate::managed::Object;
use crate::reconcile::clock::Clock;
use crate::reconcile::controller::Controller as _;
use crate::reconcile::questions::Question;
use crate::reconcile::reconfigure::Change;
use crate::reconcile::workloads::Workloads;
use crate::rollout::Intent;
use crate::rollout::reason::ReasonKind;
use crate::status::report::Report;
use crate::telemetry;

/// How long one run may take. The next run is due after an hour, and continues the work.
const LONGEST_RUN: Duration = Duration::from_secs(55 * 60);

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run once, wait for running upgrades to finish, and exit (the default in a CronJob)
    Once,
    /// Run on SCHEDULE, until stopped: for a Deployment of the upgrader
    Run,
    /// Show what a run would do, and why not, without changing anything
    Plan {
        #[command(subcommand)]
        of: Option<PlanOf>,
    },
    /// Change variables of the Deployments as an upgrade changes their image: new pods prove themselves first
    Reconfigure(Reconfigure),
    /// Check the permissions and everything else that an upgrade needs, and say what to do
    Doctor,
    /// Roll back and stay there until a different image is published
    Rollback {
        /// The number of the release, as `history` shows it, or the tag of its image (default: the previous one)
        #[arg(long, value_name = "RELEASE")]
        to: Option<String>,
        #[command(flatten)]
        asker: Asker,
    },
    /// Show the releases of the Deployments: images, times and outcomes
    History,
    /// Upgrade now, ignoring the quarantine
    Retry {
        #[command(flatten)]
        asker: Asker,
    },
    /// Pause upgrades; running ones finish
    Pause {
        /// Resume automatically at this date or time (default: until `resume`)
        #[arg(long, value_name = "WHEN")]
        until: Option<String>,
        #[command(flatten)]
        asker: Asker,
    },
    /// Resume upgrades
    Resume {
        #[command(flatten)]
        asker: Asker,
    },
}

/// The plans of other commands than a scheduled run.
#[derive(Debug, Subcommand)]
pub(super) enum PlanOf {
    /// Show what `reconfigure` would change
    Reconfigure(Reconfigure),
}

/// New variables of the Deployments.
#[derive(Debug, Args)]
pub(super) struct Reconfigure {
    #[command(flatten)]
    variables: Variables,
    #[command(flatten)]
    asker: Asker,
}

/// Whether the process runs in a cluster with the documented configuration file. If so, this mode is the default.
pub(super) fn is_chosen() -> bool {
    is_in_cluster() && Path::new(file::PATH).exists()
}

pub(super) async fn dispatch(command: Command, config: Option<PathBuf>, json: bool) -> Result<Exit, Exit> {
    let is_named = config.is_some();
    note_cluster();
    let path = config.unwrap_or_else(|| file::PATH.into());
    let settings = ClusterSettings::read(&path, is_named, std::env::vars_os())
        .map_err(|problems| fail(problems.join("\n"), Exit::Config))?;
    let cluster = Cluster::connect()
        .await
        .map_err(|error| fail(error, Exit::Config))?;
    let namespace = settings.namespace.clone();
    let command_line = CommandLine {
        namespace: namespace.unwrap_or_else(|| cluster.namespace.clone()),
        settings,
        cluster,
    };
    match command {
        Command::Once => command_line.once().await,
        Command::Run => command_line.run().await,
        Command::Plan { of } => command_line.plan(of, json).await,
        Command::Doctor => command_line.doctor(json).await,
        Command::Rollback { .. } | Command::Retry { .. } | Command::Reconfigure(_) => {
            command_line.operate(command).await
        }
        Command::History => command_line.history(json).await,
        Command::Pause { until, asker } => {
            let until = until.unwrap_or_else(|| "true".to_owned());
            command_line.pause(Some(until), asker.into()).await
        }
        Command::Resume { asker } => command_line.pause(None, asker.into()).await,
    }
}

type Upgraded = Workloads<Deployments, ConfiguredSource>;

struct CommandLine {
    settings: ClusterSettings,
    cluster: Cluster,
    /// The configured namespace, or else that of the pod or the kubeconfig.
    namespace: String,
}

impl CommandLine {
    fn start_log(&self) {
        telemetry::start(&self.settings.common.log, false);
        log_warnings(&self.settings.warnings);
    }

    fn source(&self, reports_upgrader: bool) -> Result<Option<ConfiguredSource>, Exit> {
        let issuer = self.namespace.clone();
        made(app::source(&self.settings.common, reports_upgrader, None, issuer))
    }

    fn deployments(&self) -> Deployments {
        let (cluster, settings) = (self.cluster.clone(), self.settings.clone());
        Deployments::new(cluster, settings, self.namespace.clone())
    }

    fn running(&self, clock: Clock) -> Result<Upgraded, Exit> {
        self.workloads(self.source(self.upgrades())?, clock)
    }

    /// The controller of a command that only reads.
    fn looking(&self) -> Result<Upgraded, Exit> {
        let source = made(app::impatient_source(
            &self.settings.common,
            self.namespace.clone(),
        ))?;
        self.workloads(source, Arc::new(Utc::now))
    }

    fn workloads(&self, source: Option<ConfiguredSource>, clock: Clock) -> Result<Upgraded, Exit> {
        let common = &self.settings.common;
        let (policy, target) = (common.policy.clone(), common.target.clone());
        let (credentials, client) = app::registry_access(common);
        let registries = Arc::new(Registries { client, credentials });
        let ask = Arc::new(move |question: Question| {
            let registries = Arc::clone(&registries);
            async move { registries.answer(question).await }.boxed()
        });
        let workloads = Workloads::new(self.deployments(), ask, source, policy, target, clock);
        let alerts = made(app::alerts(&common.policy.timing, &common.egress))?;
        Ok(workloads.with_alerts(alerts))
    }

    /// Whether a run may write. Only then should the Manager show an active upgrader.
    fn upgrades(&self) -> bool {
        !self.settings.common.policy.health_only && !self.settings.dry_run
    }

    async fn once(self) -> Result<Exit, Exit> {
        self.start_log();
        let listeners = make_listeners(&self.settings.common)?;
        let ledger = made(app::ledger(&self.settings.common, &listeners))?;
        let workloads = self.running(Arc::new(Utc::now))?;
        let mut workloads = workloads.with_ledger(ledger);
        until_shutdown(Box::pin(async {
            let ended = tokio::time::timeout(LONGEST_RUN, daemon::once(&mut workloads)).await;
            self.follow_own().await;
            listeners.finish(LAST_EVENTS).await;
            match ended {
                Ok(Ok(report)) => Ok(summary(&report)),
                Ok(Err(error)) => Err(fail(error, Exit::Unavailable)),
                Err(_) => {
                    info!("this run has lasted 55 min; the next one continues");
                    Ok(Exit::Ok)
                }
            }
        }))
        .await
    }

    /// With `SELF_UPGRADE`, updates the CronJob to the image that is published for upgraders.
    async fn follow_own(&self) {
        if !self.settings.common.self_upgrade || !self.upgrades() || !is_in_cluster() {
            return;
        }
        if let Ok(Some(source)) = self.source(true) {
            let target = &self.settings.common.target;
            match own::follow(&self.cluster, &source, target).await {
                Ok(Some(image)) => info!(
                    image,
                    "updated this upgrader's CronJob; its next run uses the new image"
                ),
                Ok(None) => {}
                Err(problem) => warn!(problem, "SELF_UPGRADE: cannot follow the upgrader's own image"),
            }
        }
    }

    async fn run(self) -> Result<Exit, Exit> {
        self.start_log();
        let shutdown = shutdown()?;
        let common = self.settings.common.clone();
        let make = async |_: &Settings, clock| self.running(clock).map_err(|_| "see above".to_owned());
        let daemon = Daemon::new(common, None, make).await;
        let daemon = daemon.map_err(|problem| fail(problem, Exit::Config))?;
        Box::pin(daemon.run(Utc::now(), shutdown)).await;
        info!("shutting down; the next run resumes an unfinished upgrade");
        Ok(Exit::Ok)
    }

    async fn plan(self, of: Option<PlanOf>, json: bool) -> Result<Exit, Exit> {
        let mut workloads = self.looking()?;
        let planned = if let Some(PlanOf::Reconfigure(given)) = of {
            let changes = given.start(&mut workloads).await?;
            let mut planned = workloads.planned();
            add(&changes, &mut planned);
            planned
        } else {
            let planned = workloads.plan(plan::print_awaited).await;
            planned.map_err(|error| fail(error, Exit::Unavailable))?
        };
        Ok(plan::show(&planned, json, "no Deployment"))
    }

    async fn doctor(self, json: bool) -> Result<Exit, Exit> {
        let mut checks = checks(json);
        checks.configuration(&self.settings.warnings);
        doctor::check(&self.cluster, &self.settings, &self.namespace, &mut checks).await;
        let mut workloads = self.looking()?;
        match workloads.plan(|_| ()).await {
            Ok(planned) => {
                alerts::check(workloads.core().alerts.last(), &mut checks);
                for Object { managed, document } in &workloads.driver.found.objects {
                    if let Some(writer) = warnings::last_writer(document, &self.settings.container) {
                        checks.ok(&managed.name, format!("{writer} wrote its image last"));
                    }
                    let notice = managed.image.support_notice(Utc::now());
                    if let Some((_, rule)) = notice.zip(self.settings.common.source.rule_of_support()) {
                        checks.warn(&managed.name, rule);
                    }
                    if let Some(problem) = workloads.driver.undated_because(&managed.name) {
                        checks.warn(
                            &managed.name,
                            format!("cannot ask its registry when its image was released: {problem}"),
                        );
                    }
                }
                for row in &planned {
                    checks.planned(row);
                }
            }
            // The checks already include a line about the API server.
            Err(error) => tracing::debug!(%error, "cannot plan"),
        }
        Ok(conclude(checks, &self.settings.common, json).await)
    }

    async fn history(self, json: bool) -> Result<Exit, Exit> {
        let common = &self.settings.common;
        let mut workloads = self.looking()?;
        let histories = workloads.history(app::records(common)).await;
        let (histories, absent) = histories.map_err(|error| fail(error, Exit::Unavailable))?;
        let shown = history::show(&histories, json, "no Deployment", None);
        absent.map_or(Ok(shown), |reason| Err(fail(reason, Exit::NotServed)))
    }

    /// Retries, gives other settings, or rolls back to the given release or to the previous one.
    async fn operate(self, command: Command) -> Result<Exit, Exit> {
        self.start_log();
        let listeners = make_listeners(&self.settings.common)?;
        let ledger = made(app::ledger(&self.settings.common, &listeners))?.of_operator();
        let workloads = self.running(Arc::new(Utc::now))?;
        let mut workloads = workloads.with_ledger(ledger);
        until_shutdown(Box::pin(async {
            if let Command::Rollback { to, asker } = command {
                let records: Vec<_> = app::records(&self.settings.common).collect();
                let started = workloads
                    .start_rollback(to.as_deref(), asker.into(), &records)
                    .await;
                started.map_err(failed)?;
            } else if let Command::Reconfigure(given) = command {
                for it in given.start(&mut workloads).await? {
                    let (deployment, elsewhere) = (it.container, it.elsewhere.unwrap_or_default());
                    info!(deployment, "changing settings: {}; {elsewhere}", it.changes);
                }
            } else if let Command::Retry { asker } = command {
                workloads.start_run(Intent::Retry(asker.into()));
            }
            let report = daemon::run_until(&mut workloads, &|_| false).await;
            listeners.finish(LAST_EVENTS).await;
            report
                .map(|report| done(&report))
                .map_err(|error| fail(error, Exit::Unavailable))
        }))
        .await
    }

    async fn pause(self, paused: Option<String>, request: Request) -> Result<Exit, Exit> {
        if !self.upgrades() {
            let problem =
                "dryRun or DISABLE_AUTO_UPGRADE is true: this upgrader writes nothing, and starts no upgrade";
            return Err(fail(problem, Exit::Config));
        }
        let until = paused.as_deref().filter(|text| *text != "true");
        let until = pause::end(until, None, &self.settings.common)?;
        let absent = self.deployments().pause(paused.as_deref()).await;
        if let Some(reason) = absent.map_err(|error| fail(error, Exit::Unavailable))? {
            return Err(fail(reason, Exit::NotServed));
        }
        let since = Utc::now();
        let pause = Paused {
            since,
            until: paused.as_ref().map_or(Some(since), |_| until),
            delegate: None,
            request,
            record: format!("{} {since}", self.namespace),
        };
        pause::record(&self.settings.common, &[pause]).await;
        Ok(print(if paused.is_some() {
            "Upgrades are paused; running ones will finish."
        } else {
            "Upgrades have resumed."
        }))
    }
}

impl Reconfigure {
    async fn start(self, workloads: &mut Upgraded) -> Result<Vec<Change>, Exit> {
        let mut new = NewSettings::default();
        let read = self.variables.read(&mut new);
        read.map_err(|problem| fail(problem, Exit::Usage))?;
        if new.is_empty() {
            return Err(fail(
                "nothing to change: give --env, --secret or --unset",
                Exit::Usage,
            ));
        }
        let started = workloads.reconfigure(&new, self.asker.into()).await;
        started.map_err(failed)
    }
}

/// The exit of a run. Most failures exit with 0, or Kubernetes would retry with more pods, up to `backoffLimit`.
fn summary(report: &Report) -> Exit {
    info!("{}", report.summary());
    let is_unserved = report.delegates.iter().any(|delegate| {
        matches!(
            delegate.reason,
            ReasonKind::EngineError
                | ReasonKind::NotPermitted
                | ReasonKind::NoDeployment
                | ReasonKind::NoSuchContainer
        )
    });
    if is_unserved { Exit::NotServed } else { Exit::Ok }
}
