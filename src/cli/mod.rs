//! The commands: what each needs, what it prints, what it exits with.

mod status;

use std::future::Future;
use std::io::Write;

use chrono::Utc;
use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::{info, warn};

use crate::app::{Upgrader, upgrader};
use crate::config::{Settings, Source};
use crate::daemon;
use crate::doctor::{Severity, run_checks};
use crate::reconcile::operator::OperatorError;
use crate::rollout::Intent;
use crate::schedule::trigger;
use crate::status::Status;
use crate::status::report::{DelegateReport, Planned, Report, none_found};
use crate::status::server;
use crate::telemetry;
use crate::text::time;

/// Keeps Harness Docker delegates healthy and current: a new container proves itself before the old one drains.
///
/// All settings come from the environment; `delegate-upgrader config` prints them. Without a command it runs as a
/// daemon.
#[derive(Debug, Parser)]
#[command(name = "delegate-upgrader", version, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Watch over the delegates and upgrade them on SCHEDULE, until told to stop (the default)
    Run,
    /// Make one pass now, drains awaited, and exit: 0 done, 1 a delegate could not be served
    Once,
    /// Tell what a pass would do to each delegate, and why not; nothing is changed
    Plan {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Upgrade one delegate now, in spite of what was rejected there before; 1 if it does not run what is published
    Retry {
        /// The delegate's container, by name or id
        container: String,
    },
    /// Take one delegate back to the image before, now, and leave it there until a newer image is published
    Rollback {
        /// The delegate's container, by name or id
        container: String,
    },
    /// Show what the running daemon sees
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Look at all that an upgrade needs, and say what is wrong and what to do; nothing is changed
    Doctor {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the effective settings, secrets left out
    Config,
    /// Exit with 0 if the running daemon is alive (for HEALTHCHECK)
    Healthcheck,
}

/// How a command ended, as a process tells it (sysexits where there is one).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done, or nothing to do.
    Ok,
    /// A delegate could not be served.
    NotServed,
    /// The command line is wrong.
    Usage,
    /// The engine, or the daemon that was asked, is out of reach.
    Unavailable,
    /// The configuration is wrong.
    Config,
}

impl Exit {
    /// The process's exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::NotServed => 1,
            Self::Usage => 2,
            Self::Unavailable => 69,
            Self::Config => 78,
        }
    }
}

/// Runs the program.
pub fn main() -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Ok };
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(dispatch(cli.command.unwrap_or(Command::Run))),
        Err(error) => fail(&format!("the runtime cannot start: {error}"), Exit::Unavailable),
    }
}

async fn dispatch(command: Command) -> Exit {
    match command {
        // These ask the daemon, and need no settings but its address.
        Command::Healthcheck => return status::healthcheck().await,
        Command::Status { json } => return status::status(json).await,
        Command::Run
        | Command::Once
        | Command::Plan { .. }
        | Command::Retry { .. }
        | Command::Rollback { .. }
        | Command::Doctor { .. }
        | Command::Config => {}
    }
    let settings = match Settings::from_process_env() {
        Ok(settings) => settings,
        Err(errors) => return fail(&errors.to_string(), Exit::Config),
    };
    match command {
        Command::Once => once(settings).await,
        Command::Retry { container } => intent(settings, Intent::Retry, &container).await,
        Command::Rollback { container } => intent(settings, Intent::Rollback, &container).await,
        Command::Plan { json } => plan(settings, json).await,
        Command::Doctor { json } => doctor(&settings, json).await,
        Command::Config => config(&settings),
        _ => run(settings).await,
    }
}

/// Standard error may be closed; the exit code says it all the same.
fn fail(problem: &str, exit: Exit) -> Exit {
    let _ = writeln!(std::io::stderr(), "{problem}");
    exit
}

fn print(text: &str) -> Exit {
    match writeln!(std::io::stdout(), "{text}") {
        Ok(()) => Exit::Ok,
        Err(_) => Exit::Unavailable,
    }
}

/// Completes when the process is told to end. As process 1 of a container it hears of that only by asking.
fn shutdown() -> Result<impl Future<Output = ()>, Exit> {
    let problem = |error| fail(&format!("signals cannot be received: {error}"), Exit::Unavailable);
    let mut terminate = signal(SignalKind::terminate()).map_err(problem)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(problem)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => info!("SIGTERM"),
            _ = interrupt.recv() => info!("SIGINT"),
        }
    })
}

async fn run(settings: Settings) -> Exit {
    telemetry::start(&settings.log);
    log_startup(&settings);
    let shutdown = match shutdown() {
        Ok(shutdown) => shutdown,
        Err(exit) => return exit,
    };
    let listener = match server::listen(settings.listen).await {
        Ok(listener) => listener,
        Err(error) => {
            let problem = format!("LISTEN_ADDR: {} cannot be listened at: {error}", settings.listen);
            return fail(&problem, Exit::Config);
        }
    };
    if let Ok(address) = listener.local_addr() {
        info!("status at http://{address}/");
    }
    let upgrader = match upgrader(&settings, !settings.disable_auto_upgrade).await {
        Ok(upgrader) => upgrader,
        Err(error) => return fail(&error.to_string(), Exit::Config),
    };
    let trigger = match trigger::start(settings.schedule.clone(), settings.schedule_jitter).await {
        Ok(trigger) => trigger,
        Err(error) => return fail(&format!("the schedule cannot start: {error}"), Exit::Config),
    };
    let state = Status::new(
        settings.disable_auto_upgrade,
        settings.schedule.as_str(),
        Utc::now(),
    );
    let (publisher, reader) = watch::channel(state);
    let server = tokio::spawn(async move {
        if let Err(error) = server::serve(listener, reader).await {
            warn!(%error, "the status server ended");
        }
    });
    let options = daemon::Options {
        schedule: settings.schedule.clone(),
        health_interval: settings.health.interval,
        run_on_start: settings.run_on_start,
        health_only: settings.disable_auto_upgrade,
    };
    daemon::run(upgrader, trigger, options, publisher, shutdown).await;
    server.abort();
    Exit::Ok
}

fn log_startup(settings: &Settings) {
    let source = match &settings.source {
        Source::Manager(manager) => manager.base_url.clone(),
        Source::Fixed(image) => format!("PUBLISHED_IMAGE {image}"),
        Source::None => "none".to_owned(),
    };
    info!(
        version = env!("CARGO_PKG_VERSION"),
        delegates = settings.workload_names.join(","),
        source,
        engine = %settings.engine,
        mode = if settings.disable_auto_upgrade { "health-only" } else { "upgrade" },
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
    for warning in &settings.warnings {
        warn!("{warning}");
    }
}

async fn doctor(settings: &Settings, json: bool) -> Exit {
    let checks = run_checks(settings).await;
    let fails = checks.iter().any(|check| check.severity == Severity::Fail);
    let text = if json {
        match serde_json::to_string_pretty(&checks) {
            Ok(text) => text,
            Err(error) => return fail(&error.to_string(), Exit::Unavailable),
        }
    } else {
        let lines: Vec<String> = checks.iter().map(ToString::to_string).collect();
        lines.join("\n")
    };
    match print(&text) {
        Exit::Ok if fails => Exit::NotServed,
        exit => exit,
    }
}

/// The log and the upgrader of a command that makes one pass.
async fn for_one_pass(settings: &Settings) -> Result<Upgrader, Exit> {
    telemetry::start(&settings.log);
    for warning in &settings.warnings {
        warn!("{warning}");
    }
    let made = upgrader(settings, !settings.disable_auto_upgrade).await;
    made.map_err(|error| fail(&error.to_string(), Exit::Config))
}

async fn once(settings: Settings) -> Exit {
    let mut upgrader = match for_one_pass(&settings).await {
        Ok(upgrader) => upgrader,
        Err(exit) => return exit,
    };
    let shutdown = match shutdown() {
        Ok(shutdown) => shutdown,
        Err(exit) => return exit,
    };
    tokio::select! {
        biased;
        () = shutdown => {
            warn!("stopped before the end; what is under way goes on at the next pass");
            Exit::NotServed
        }
        outcome = daemon::once(&mut upgrader) => match outcome {
            Ok(report) => verdict(&report),
            Err(error) => fail(&error.to_string(), Exit::Unavailable),
        },
    }
}

/// What an operator asks for one delegate. The daemon may go on beside it: a name is a mutex.
async fn intent(settings: Settings, intent: Intent, container: &str) -> Exit {
    let mut upgrader = match for_one_pass(&settings).await {
        Ok(upgrader) => upgrader,
        Err(exit) => return exit,
    };
    let shutdown = match shutdown() {
        Ok(shutdown) => shutdown,
        Err(exit) => return exit,
    };
    let work = async {
        let begun = match intent {
            Intent::Rollback => upgrader.rollback(container).await,
            Intent::Retry | Intent::Upgrade => upgrader.retry(container).await,
        };
        if let Err(refusal) = begun {
            let exit = match &refusal {
                OperatorError::Engine(_) => Exit::Unavailable,
                OperatorError::HealthOnly => Exit::Config,
                OperatorError::NoSuchDelegate { .. } => Exit::Usage,
                _ => Exit::NotServed,
            };
            return fail(&refusal.to_string(), exit);
        }
        match daemon::run_to_completion(&mut upgrader, false).await {
            Ok(report)
                if !report.delegates.is_empty()
                    && report.delegates.iter().all(DelegateReport::runs_the_target) =>
            {
                Exit::Ok
            }
            Ok(report) => {
                for delegate in &report.delegates {
                    warn!(
                        container = delegate.container,
                        workload = delegate.workload,
                        "not done: {}",
                        delegate.message
                    );
                }
                Exit::NotServed
            }
            Err(error) => fail(&error.to_string(), Exit::Unavailable),
        }
    };
    tokio::select! {
        biased;
        () = shutdown => {
            warn!("stopped before the end; what is under way goes on at the next pass");
            Exit::NotServed
        }
        exit = work => exit,
    }
}

fn verdict(report: &Report) -> Exit {
    let served = report
        .delegates
        .iter()
        .filter(|delegate| !delegate.failed)
        .count();
    info!("{served} of {} delegate(s) served", report.delegates.len());
    if report.has_failures() {
        Exit::NotServed
    } else {
        Exit::Ok
    }
}

async fn plan(settings: Settings, json: bool) -> Exit {
    let mut upgrader = match upgrader(&settings, false).await {
        Ok(upgrader) => upgrader,
        Err(error) => return fail(&error.to_string(), Exit::Config),
    };
    let plan = match upgrader.plan().await {
        Ok(plan) => plan,
        Err(error) => return fail(&error.to_string(), Exit::Unavailable),
    };
    let exit = if plan.iter().any(|planned| planned.failed) {
        Exit::NotServed
    } else {
        Exit::Ok
    };
    let text = if json {
        as_json(&plan)
    } else {
        plan_text(&plan, &settings.workload_names)
    };
    match print(&text) {
        Exit::Ok => exit,
        broken => broken,
    }
}

fn plan_text(plan: &[Planned], names: &[String]) -> String {
    if plan.is_empty() {
        return none_found(names);
    }
    let width = plan
        .iter()
        .map(|planned| planned.container.len())
        .max()
        .unwrap_or_default();
    let lines: Vec<String> = plan
        .iter()
        .map(|planned| {
            format!(
                "{:width$}  {:9}  {:8}  {}",
                planned.container, planned.health, planned.action, planned.message
            )
        })
        .collect();
    lines.join("\n")
}

fn as_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
}

fn config(settings: &Settings) -> Exit {
    let mut lines: Vec<String> = settings
        .redacted()
        .iter()
        .map(|(variable, value)| format!("{variable}={value}"))
        .collect();
    lines.extend(
        settings
            .warnings
            .iter()
            .map(|warning| format!("# warning: {warning}")),
    );
    print(&lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_documentation_shows_the_help_as_it_is() {
        let help = Cli::command().render_long_help().to_string();
        let (help, _) = help.split_once("\nOptions:").unwrap();
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/usage/commands.md");
        let page = std::fs::read_to_string(file).unwrap();
        let shown: Vec<&str> = page
            .lines()
            .skip_while(|line| !line.ends_with("delegate-upgrader --help"))
            .skip(1)
            .take_while(|line| line.is_empty() || line.starts_with("    "))
            .map(|line| line.strip_prefix("    ").unwrap_or(line))
            .collect();
        assert_eq!(shown.join("\n").trim_end(), help.trim_end());
    }
}
