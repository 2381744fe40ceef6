//! `retry` and `rollback`: an operator's commands for one delegate. A daemon may run at the same time: the two do not
//! conflict, because container names are unique.

use std::sync::Arc;

use tracing::{info, warn};

use super::run::{made, make_listeners, single_run};
use super::status::{daemon_state, is_named};
use super::{Exit, fail, no_engine, print_json};
use crate::app::{self, Upgrader};
use crate::config::Settings;
use crate::container::Request;
use crate::daemon;
use crate::events::Listeners;
use crate::host::place::{command, is_cluster};
use crate::reconcile::controller::Controller as _;
use crate::reconcile::operator::OperatorError;
use crate::status::report::Report;

pub(super) async fn retry(
    settings: &Settings,
    container: &str,
    request: Request,
    no_wait: bool,
    json: bool,
) -> Result<Exit, Exit> {
    if no_wait && !daemon_continues(settings, container).await {
        let problem = format!(
            "no daemon at {} (LISTEN_ADDR) upgrades {container}, so nothing would continue; run it without --no-wait",
            settings.listen
        );
        return Err(fail(problem, Exit::Unavailable));
    }
    serve(settings, no_wait, json, async |upgrader| {
        upgrader.retry(container, request).await
    })
    .await
}

/// Whether a running daemon manages this delegate and upgrades.
async fn daemon_continues(settings: &Settings, container: &str) -> bool {
    let Some(state) = daemon_state(settings.listen).await else {
        return false;
    };
    let mut delegates = state["report"]["delegates"].as_array().into_iter().flatten();
    state["mode"] == "upgrade" && delegates.any(|delegate| is_named(delegate, container))
}

pub(super) async fn rollback(
    settings: &Settings,
    container: Option<&str>,
    release: Option<&str>,
    request: Request,
    json: bool,
) -> Result<Exit, Exit> {
    let records = release.map(|_| app::records(settings)).into_iter().flatten();
    let start = async |upgrader: &mut Upgrader| match (container, release) {
        (None, Some(release)) => {
            let records: Vec<_> = records.collect();
            upgrader.rollback_all(release, request, &records).await
        }
        (container, _) => {
            upgrader
                .rollback(container.unwrap_or_default(), release, request, records)
                .await
        }
    };
    serve(settings, false, json, start).await
}

/// Completes the replacements that `start` starts. With `no_wait`, leaves the rest to the daemon once the new container runs.
pub(super) async fn serve(
    settings: &Settings,
    no_wait: bool,
    json: bool,
    start: impl AsyncFnOnce(&mut Upgrader) -> Result<(), OperatorError>,
) -> Result<Exit, Exit> {
    let listeners = listeners(settings).await?;
    app::learn_place(settings).await;
    let ledger = made(app::ledger(settings, &listeners))?.of_operator();
    single_run(settings, &listeners, ledger, json, async |upgrader| {
        start(upgrader).await.map_err(failed)?;
        finish(upgrader, no_wait, json).await
    })
    .await
}

/// The receivers of this command's outcomes: none if a daemon runs, since it reports the same outcomes.
async fn listeners(settings: &Settings) -> Result<Arc<Listeners>, Exit> {
    if daemon_state(settings.listen).await.is_some() {
        Ok(Arc::default())
    } else {
        make_listeners(settings)
    }
}

async fn finish(upgrader: &mut Upgrader, no_wait: bool, json: bool) -> Result<Exit, Exit> {
    let is_left = |upgrader: &Upgrader| no_wait && upgrader.core().ledger.tally.steps.contains_key("start");
    let report = daemon::run_until(upgrader, &is_left).await;
    let report = report.map_err(|error| no_engine(&error))?;
    if json && print_json(&report) != Exit::Ok {
        return Err(Exit::Unavailable);
    }
    if is_left(upgrader) {
        info!(
            "the new container has started; the daemon continues: see `{}`",
            command("status")
        );
        return Ok(Exit::Ok);
    }
    Ok(done(&report))
}

/// Prints why nothing was started.
pub(super) fn failed(error: OperatorError) -> Exit {
    let exit = match &error {
        OperatorError::Engine(error) => return no_engine(error),
        OperatorError::NotObserved(_) => Exit::Unavailable,
        OperatorError::HealthOnly => Exit::Config,
        OperatorError::Unknown(_) => Exit::Usage,
        OperatorError::NothingToChange => Exit::Ok,
        OperatorError::Refused(_) | OperatorError::AlreadyThere { .. } => Exit::NotServed,
    };
    fail(error, exit)
}

pub(super) fn done(report: &Report) -> Exit {
    let mut exit = match report.delegates.as_slice() {
        [] => Exit::NotServed,
        _ => Exit::Ok,
    };
    for delegate in report
        .delegates
        .iter()
        .filter(|delegate| !delegate.reason.runs_the_target())
    {
        let (name, workload) = (&delegate.container, &delegate.workload);
        let deployment = is_cluster().then_some(name);
        let container = deployment.is_none().then_some(name);
        warn!(
            container,
            deployment, workload, "{name} was not replaced: {}", delegate.message
        );
        exit = Exit::NotServed;
    }
    exit
}
