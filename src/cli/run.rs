//! `run` and `once`: scheduled runs as a daemon, or one run now.

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tracing::{info, warn};

use super::shutdown::{shutdown, until_shutdown};
use super::{Exit, fail};
use crate::app::{self, SetupError, Upgrader};
use crate::config::{Settings, Source};
use crate::daemon;
use crate::events::Listeners;
use crate::events::ledger::Ledger;
use crate::host;
use crate::reconcile::clock::Clock;
use crate::schedule::trigger;
use crate::status::hosts::Hosts;
use crate::status::liveness::Liveness;
use crate::status::report::Report;
use crate::status::server::Server;
use crate::status::{Mode, Status};
use crate::telemetry;
use crate::text::time;

/// How long the end of a command waits for events to be delivered.
pub(super) const LAST_EVENTS: Duration = Duration::from_secs(30);

pub(super) async fn run(settings: Settings) -> Result<Exit, Exit> {
    telemetry::start(&settings.log);
    log_startup(&settings);
    let shutdown = shutdown()?;
    // Before anything else starts, so that a port that is in use is an error at start.
    let listener = TcpListener::bind(settings.listen).await.map_err(|error| {
        let problem = format!("LISTEN_ADDR: cannot listen on {}: {error}", settings.listen);
        fail(problem, Exit::Config)
    })?;
    if let Ok(address) = listener.local_addr() {
        info!("status at http://{address}/");
    }
    let liveness = Liveness::default();
    let clock = daemon::clock_of_the_loop(Arc::new(Utc::now), liveness.clone());
    let listeners = make_listeners(&settings)?;
    let ledger = made(app::ledger(&settings, &listeners))?;
    let upgrader = make_upgrader(&settings, clock, ledger).await?;
    let trigger = trigger::start(settings.schedule.clone(), settings.schedule_jitter)
        .await
        .map_err(|error| fail(format!("cannot start the schedule: {error}"), Exit::Config))?;
    let state = Status {
        config_hash: settings.hash(),
        engine_calls: upgrader.engine_calls(),
        manager_requests: upgrader.manager_requests(),
        ..Status::new(mode(&settings), settings.schedule.as_str(), Utc::now())
    };
    let (publisher, reader) = watch::channel(state);
    let server = Server {
        status: reader,
        liveness: liveness.clone(),
        hosts: Hosts::new(settings.status_hosts.iter().cloned().chain([host::name()])),
    };
    let server = tokio::spawn(server.serve(listener));
    let options = daemon::Options {
        schedule: settings.schedule.clone(),
        health_interval: settings.health.interval,
        run_on_start: settings.run_on_start,
        health_only: settings.disable_auto_upgrade,
        listeners,
    };
    daemon::run(upgrader, trigger, options, publisher, liveness, shutdown).await;
    server.abort();
    Ok(Exit::Ok)
}

fn mode(settings: &Settings) -> Mode {
    if settings.disable_auto_upgrade {
        Mode::HealthOnly
    } else {
        Mode::Upgrade
    }
}

fn log_startup(settings: &Settings) {
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
        mode = mode(settings).as_str(),
        "delegate-upgrader starts"
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
    log_warnings(settings);
}

fn log_warnings(settings: &Settings) {
    for warning in &settings.warnings {
        warn!("{warning}");
    }
}

pub(super) async fn once(settings: &Settings) -> Result<Exit, Exit> {
    let listeners = make_listeners(settings)?;
    let ledger = made(app::ledger(settings, &listeners))?;
    let mut upgrader = single_run(settings, ledger).await?;
    until_shutdown(Box::pin(async {
        let report = daemon::once(&mut upgrader).await;
        listeners.finish(LAST_EVENTS).await;
        report
            .map(|report| summary(&report))
            .map_err(|error| fail(error, Exit::Unavailable))
    }))
    .await
}

/// Starts the log and makes the upgrader of a command that runs once.
///
/// # Errors
/// The exit, once the error is printed.
pub(super) async fn single_run(settings: &Settings, ledger: Ledger) -> Result<Upgrader, Exit> {
    telemetry::start(&settings.log);
    log_warnings(settings);
    make_upgrader(settings, Arc::new(Utc::now), ledger).await
}

async fn make_upgrader(settings: &Settings, clock: Clock, ledger: Ledger) -> Result<Upgrader, Exit> {
    let upgrader = made(app::upgrader(settings, !settings.disable_auto_upgrade, clock).await)?;
    Ok(upgrader.with_ledger(ledger))
}

/// A part of the upgrader, or the exit once the error is printed.
pub(super) fn made<T>(part: Result<T, SetupError>) -> Result<T, Exit> {
    part.map_err(|error| fail(error, Exit::Config))
}

/// Who hears of outcomes elsewhere.
///
/// # Errors
/// The exit, once the error is printed.
pub(super) fn make_listeners(settings: &Settings) -> Result<Arc<Listeners>, Exit> {
    made(app::listeners(settings)).map(Arc::new)
}

fn summary(report: &Report) -> Exit {
    info!("{}", report.summary());
    if report.has_failures() {
        Exit::NotServed
    } else {
        Exit::Ok
    }
}
