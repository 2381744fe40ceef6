//! `run` and `once`: a daemon with scheduled runs, or one run now.

use std::future::{Future, pending};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use sd_notify::NotifyState;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind};
use tokio::sync::watch;
use tracing::{error, info, warn};

use super::shutdown::{receive, shutdown, until_shutdown};
use super::{Exit, environment, fail, no_engine, print_json};
use crate::app::{self, Upgrader};
use crate::config::{Needs, Settings, Source};
use crate::daemon;
use crate::engine::EngineHost;
use crate::events::Listeners;
use crate::events::ledger::Ledger;
use crate::host;
use crate::reconcile::clock::Clock;
use crate::reconcile::controller::Controller;
use crate::schedule::trigger::{self, Trigger};
use crate::status::hosts::Hosts;
use crate::status::liveness::Liveness;
use crate::status::report::Report;
use crate::status::server::Server;
use crate::status::{Mode, Status};
use crate::systemd;
use crate::telemetry;
use crate::text::time;

/// How long a command waits at the end for its events to be delivered.
pub(super) const LAST_EVENTS: Duration = Duration::from_secs(30);

/// Runs the daemon of a Docker host. A reload reads `env_file` again.
pub(super) async fn run(settings: Settings, env_file: Option<PathBuf>) -> Result<Exit, Exit> {
    telemetry::start(&settings.log, false);
    log_settings(&settings, "delegate-upgrader starts");
    let mut shutdown = pin!(shutdown()?);
    let mut hang_ups = receive(SignalKind::hangup())?;
    let started_at = Utc::now();
    let mut daemon = Box::pin(upgrader(settings, None))
        .await
        .map_err(|problem| fail(problem, Exit::Config))?;
    if let Some(warning) = host::place::open_page(daemon.settings.listen) {
        warn!("{warning}");
    }
    loop {
        let (settings, listener) = (daemon.settings.clone(), Arc::clone(&daemon.listener));
        let ended = Box::pin(async {
            tokio::select! {
                biased;
                () = &mut shutdown => {
                    systemd::notify(NotifyState::Stopping).await;
                    None
                }
                next = reloaded(&mut hang_ups, env_file.as_deref(), &settings, &listener) => Some(next),
            }
        });
        match Box::pin(daemon.run(started_at, ended)).await {
            Some(Some(next)) => daemon = next,
            Some(None) => {
                info!("shutting down; unfinished replacements resume at the next start");
                return Ok(Exit::Ok);
            }
            None => {
                let problem = "nothing has answered at the mounted Docker socket for 5m; ending, so that this container's \
                               restart policy mounts the present socket";
                return Err(fail(problem, Exit::Unavailable));
            }
        }
    }
}

/// A daemon that is set up but is not running yet.
pub(super) struct Daemon<C> {
    settings: Settings,
    listener: Arc<TcpListener>,
    controller: C,
    trigger: Trigger,
    liveness: Liveness,
    listeners: Arc<Listeners>,
}

/// Sets up the daemon of a Docker host.
async fn upgrader(
    settings: Settings,
    listener: Option<Arc<TcpListener>>,
) -> Result<Daemon<Upgrader>, String> {
    app::learn_place(&settings).await;
    let make = async |settings: &Settings, clock| {
        Ok(app::upgrader(settings, clock).await?.watching().with_retries())
    };
    Daemon::new(settings, listener, make).await
}

impl<C: Controller> Daemon<C> {
    /// Sets up a daemon, with this listener or a new one.
    ///
    /// # Errors
    /// The problem with the settings.
    pub(super) async fn new(
        settings: Settings,
        listener: Option<Arc<TcpListener>>,
        make: impl AsyncFnOnce(&Settings, Clock) -> Result<C, String>,
    ) -> Result<Self, String> {
        // Listen before anything else starts, so that the program ends at once if the port is in use.
        let listener = if let Some(listener) = listener {
            listener
        } else {
            let listener = TcpListener::bind(settings.listen)
                .await
                .map_err(|error| format!("LISTEN_ADDR: cannot listen on {}: {error}", settings.listen))?;
            if let Ok(address) = listener.local_addr() {
                info!("status at http://{address}/");
            }
            Arc::new(listener)
        };
        let liveness = Liveness::default();
        let clock = daemon::clock_of_the_loop(Arc::new(Utc::now), liveness.clone());
        let listeners = Arc::new(app::listeners(&settings)?);
        let ledger = app::ledger(&settings, &listeners)?;
        let controller = make(&settings, clock).await?.with_ledger(ledger);
        let trigger = trigger::start(settings.schedule.clone(), settings.schedule_jitter)
            .await
            .map_err(|error| format!("cannot start the schedule: {error}"))?;
        Ok(Self {
            settings,
            listener,
            controller,
            trigger,
            liveness,
            listeners,
        })
    }

    /// Runs the loop and the status server. Returns the same as [`daemon::run`].
    pub(super) async fn run<T>(self, started_at: DateTime<Utc>, ended: impl Future<Output = T>) -> Option<T> {
        let (settings, liveness) = (self.settings, self.liveness);
        let state = Status {
            config_hash: settings.hash(),
            timing: settings.putting_off(),
            zone: settings.schedule.zone().clone(),
            engine_calls: self.controller.engine_calls(),
            manager_requests: self.controller.core().manager.requests(),
            ..Status::new(mode(&settings), settings.schedule.as_str(), started_at)
        };
        let (publisher, reader) = watch::channel(state);
        let notifier = tokio::spawn(systemd::report(reader.clone(), liveness.clone()));
        let server = Server {
            status: reader,
            liveness: liveness.clone(),
            hosts: Hosts::new(settings.status_hosts.iter().cloned().chain([host::name()])),
        };
        let server = tokio::spawn(server.serve(self.listener));
        let options = daemon::Options {
            schedule: settings.schedule.clone(),
            health_interval: settings.health.interval,
            run_on_start: settings.run_on_start,
            health_only: settings.policy.health_only,
            listeners: self.listeners,
            has_mounted_socket: host::own_container().is_some()
                && matches!(settings.engine, EngineHost::Unix(_)),
        };
        let ended = daemon::run(self.controller, self.trigger, options, publisher, liveness, ended).await;
        notifier.abort();
        server.abort();
        ended
    }
}

/// Waits for a SIGHUP, reads the settings again, and sets up a daemon with them. Invalid settings change nothing.
async fn reloaded(
    hang_ups: &mut Signal,
    env_file: Option<&Path>,
    now: &Settings,
    listener: &Arc<TcpListener>,
) -> Daemon<Upgrader> {
    loop {
        if hang_ups.recv().await.is_none() {
            pending::<()>().await;
        }
        info!("SIGHUP: reading the settings again");
        systemd::notify(NotifyState::Reloading).await;
        let next = match environment::read(environment::variables(env_file), env_file, Needs::All) {
            Ok(settings) => {
                let same = settings.listen == now.listen;
                Box::pin(upgrader(settings, same.then(|| Arc::clone(listener)))).await
            }
            Err(errors) => Err(errors.to_string()),
        };
        match next {
            Ok(mut next) => {
                // A reload must not cause a run outside the schedule.
                next.settings.run_on_start = false;
                systemd::show_rejection("").await;
                log_settings(&next.settings, "the new settings are in force");
                if next.settings.log != now.log {
                    warn!("LOG_LEVEL and LOG_FORMAT take effect at the next start");
                }
                return next;
            }
            Err(problem) => {
                error!(
                    problem = problem.as_str(),
                    "reload failed: invalid settings; keeping the current ones"
                );
                systemd::show_rejection(&problem).await;
                systemd::notify(NotifyState::Ready).await;
            }
        }
    }
}

fn mode(settings: &Settings) -> Mode {
    if settings.policy.health_only {
        Mode::HealthOnly
    } else {
        Mode::Upgrade
    }
}

fn log_settings(settings: &Settings, what: &str) {
    let source = match &settings.source {
        Source::Manager(manager) => manager.base_url.clone(),
        Source::Fixed(image) => format!("PUBLISHED_IMAGE {image}"),
        Source::None => "none".to_owned(),
    };
    info!(
        version = env!("CARGO_PKG_VERSION"),
        workloads = settings.workload_names.join(","),
        source,
        engine = %settings.engine,
        mode = <&str>::from(mode(settings)),
        "{what}"
    );
    let runs = settings.schedule.next_runs(Utc::now(), 3);
    let runs: Vec<String> = runs.into_iter().map(time::text).collect();
    info!(
        schedule = settings.schedule.as_str(),
        zone = settings.schedule.zone().name(),
        next_runs = runs.join(", "),
        "{}",
        settings.schedule.describe()
    );
    log_warnings(&settings.warnings);
}

pub(super) fn log_warnings(warnings: &[String]) {
    for warning in warnings {
        warn!("{warning}");
    }
}

pub(super) async fn once(settings: &Settings, json: bool) -> Result<Exit, Exit> {
    let listeners = make_listeners(settings)?;
    app::learn_place(settings).await;
    let ledger = made(app::ledger(settings, &listeners))?;
    // The upgrader's own container ends after this run, so it needs no replacement.
    let mut settings = settings.clone();
    settings.self_upgrade = false;
    single_run(&settings, &listeners, ledger, json, async |upgrader| {
        let report = daemon::once(upgrader).await;
        let report = report.map_err(|error| no_engine(&error))?;
        Ok(summary(&report, json))
    })
    .await
}

/// Starts the log (on standard error with `json`), makes the upgrader for a command that runs once, and delivers the
/// outcomes of its work at the end.
pub(super) async fn single_run(
    settings: &Settings,
    listeners: &Listeners,
    ledger: Ledger,
    json: bool,
    work: impl AsyncFnOnce(&mut Upgrader) -> Result<Exit, Exit>,
) -> Result<Exit, Exit> {
    telemetry::start(&settings.log, json);
    log_warnings(&settings.warnings);
    let upgrader = app::upgrader(settings, Arc::new(Utc::now)).await;
    let mut upgrader = made(upgrader)?.with_ledger(ledger);
    until_shutdown(Box::pin(async {
        let exit = work(&mut upgrader).await;
        listeners.finish(LAST_EVENTS).await;
        exit
    }))
    .await
}

/// Prints the error if a part could not be made.
pub(super) fn made<T>(part: Result<T, String>) -> Result<T, Exit> {
    part.map_err(|error| fail(error, Exit::Config))
}

pub(super) fn make_listeners(settings: &Settings) -> Result<Arc<Listeners>, Exit> {
    made(app::listeners(settings)).map(Arc::new)
}

fn summary(report: &Report, json: bool) -> Exit {
    info!("{}", report.summary());
    if json && print_json(report) != Exit::Ok {
        Exit::Unavailable
    } else if report.has_failures() {
        Exit::NotServed
    } else {
        Exit::Ok
    }
}
