//! The commands: the command line, the output of each command, and its exit code.

mod asker;
mod checks;
mod config;
mod environment;
mod exit;
mod explain;
mod from_delegate;
mod habits;
mod history;
#[cfg(feature = "kubernetes")]
mod kubernetes;
mod named_delegate;
mod notify;
mod pause;
mod plan;
mod reconfigure;
mod run;
mod shutdown;
mod status;
mod trial;
mod variables;

use std::fmt::Display;
use std::future::ready;
use std::io::Write;
use std::path::PathBuf;

use clap::error::ContextKind;
use clap::{Parser, Subcommand};
use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;

use self::asker::Asker;
pub use self::exit::Exit;
use crate::config::Needs;
use crate::engine::EngineError;
use crate::host::engine_problem;
use crate::telemetry;
use crate::text::foreign::lines;
use crate::text::json::indented;

/// Keeps Harness Docker delegates healthy and current: a new container proves itself before the old one drains.
///
/// All settings come from the environment; `delegate-upgrader config` prints them. Without a command it runs as a
/// daemon.
#[derive(Debug, Parser)]
#[command(name = "delegate-upgrader", version, after_help = MORE, max_term_width = 80)]
pub struct Cli {
    /// Also read the settings from this file; they win over the environment. For reconfigure on a host: the delegate's variables
    #[arg(long, value_name = "FILE", global = true)]
    env_file: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

const MORE: &str = "\
Examples:
  delegate-upgrader doctor                 check this host before the first run
  delegate-upgrader plan                   see what a run would do
  delegate-upgrader retry delegate-1       upgrade one delegate now
  delegate-upgrader explain quarantined    learn what a reason means

Exit status:
  0 done, or nothing to do         69 the engine or the daemon is unreachable
  1 a delegate was not served      78 the settings are wrong
  2 the command line is wrong

Environment:
  UPGRADER_WORKLOAD_NAME, ACCOUNT_ID, MANAGER_HOST_AND_PORT, UPGRADER_TOKEN
  are required; `delegate-upgrader config` prints all settings. Where the
  package is installed, commands read its settings file,
  /etc/delegate-upgrader/delegate-upgrader.env.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Check the delegates and upgrade them on SCHEDULE, until stopped (the default)
    Run,
    /// Run once, wait for drains to finish, and exit
    Once,
    /// Show what a run would do to each delegate, and why not, without changing anything
    #[command(after_help = "Examples:\n  delegate-upgrader plan\n  delegate-upgrader plan delegate-1 --json")]
    Plan {
        /// One delegate's container, by name or id
        #[arg(value_parser = container)]
        container: Option<String>,
        #[cfg(feature = "docker")]
        #[command(subcommand)]
        of: Option<PlanOf>,
    },
    /// Change a delegate's settings as an upgrade changes its image: the new container proves itself first
    #[cfg(feature = "docker")]
    #[command(after_help = RECONFIGURE)]
    Reconfigure(reconfigure::Reconfigure),
    /// Upgrade one delegate now, ignoring its quarantine
    #[command(
        visible_alias = "upgrade",
        after_help = "Examples:\n  delegate-upgrader retry delegate-1\n  delegate-upgrader retry delegate-1 --no-wait"
    )]
    Retry {
        /// The delegate's container, by name or id
        #[arg(value_parser = container)]
        container: String,
        /// Exit once the new container has started; the daemon continues
        #[arg(long)]
        no_wait: bool,
        #[command(flatten)]
        asker: Asker,
    },
    /// Roll a delegate back to its previous image until another one is published, or to its settings before reconfigure
    #[command(
        after_help = "Examples:\n  delegate-upgrader rollback delegate-1\n  delegate-upgrader rollback delegate-1 --to 3\n  delegate-upgrader rollback --all --to 26.02.88501"
    )]
    Rollback {
        /// The delegate's container, by name or id
        #[arg(value_parser = container, required_unless_present = "all")]
        container: Option<String>,
        /// Roll all delegates back, replicas one at a time; a failure halts the other replicas
        #[arg(long, requires = "to", conflicts_with = "container")]
        all: bool,
        /// The number of the release, as `history` shows it, or the tag of its image (default: the previous one)
        #[arg(long, value_name = "RELEASE")]
        to: Option<String>,
        #[command(flatten)]
        asker: Asker,
    },
    /// Pause upgrades; running ones finish and health checks continue
    #[command(
        after_help = "Examples:\n  delegate-upgrader pause --for 8h\n  delegate-upgrader pause delegate-1 --until 2026-12-01T08:00"
    )]
    Pause {
        /// One delegate's container, by name or id (default: the whole host)
        #[arg(value_parser = container)]
        container: Option<String>,
        /// Resume automatically then, such as 2026-12-01T08:00 (default: until `resume`)
        #[arg(long, value_name = "WHEN")]
        until: Option<String>,
        /// Resume automatically after this time, such as 8h
        #[arg(long = "for", value_name = "DURATION", conflicts_with = "until")]
        duration: Option<String>,
        #[command(flatten)]
        asker: Asker,
    },
    /// Resume upgrades
    #[command(after_help = "Examples:\n  delegate-upgrader resume\n  delegate-upgrader resume delegate-1")]
    Resume {
        /// The container of the delegate that was paused (default: the whole host)
        #[arg(value_parser = container)]
        container: Option<String>,
        #[command(flatten)]
        asker: Asker,
    },
    /// Show the releases of the delegates: images, times and outcomes
    History {
        /// One delegate's container, by name or id
        #[arg(value_parser = container)]
        container: Option<String>,
    },
    /// Show what the running daemon sees
    #[command(
        after_help = "Examples:\n  delegate-upgrader status --watch\n  delegate-upgrader status delegate-1\n  delegate-upgrader status --check && echo all is well"
    )]
    Status {
        /// Everything about one delegate's container, by name or id
        #[arg(value_parser = container, conflicts_with = "watch")]
        container: Option<String>,
        /// Show it again every two seconds, until stopped
        #[arg(long)]
        watch: bool,
        /// Exit with 1 unless all delegates are healthy, none failed, and all is delivered
        #[arg(long, conflicts_with = "watch")]
        check: bool,
    },
    /// Explain a word, such as `quarantined`, and say what to do
    Explain {
        /// A reason, cause or event that log, `plan`, `status` or a webhook shows; without it, all words
        word: Option<String>,
    },
    /// Print the version, and the commit of a release
    Version,
    /// Check everything an upgrade needs, and say what to do, without changing anything
    #[command(
        after_help = "Examples:\n  delegate-upgrader doctor\n  delegate-upgrader doctor --from delegate-1 --write /etc/delegate-upgrader/delegate-upgrader.env"
    )]
    Doctor {
        /// Print the settings that this delegate's own environment has
        #[arg(long, value_name = "CONTAINER", value_parser = container)]
        from: Option<String>,
        /// Write them to this file, with the token; its other lines stay
        #[arg(long, value_name = "FILE", requires = "from")]
        write: Option<PathBuf>,
    },
    /// Print the effective settings, without secrets
    Config,
    /// Send a test event to WEBHOOK_URL and DEADMAN_URL, and print the answers
    Notify {
        /// Required, so that nothing is sent by mistake
        #[arg(long, required = true)]
        test: bool,
    },
    /// Exit with 0 if the running daemon is alive (for HEALTHCHECK)
    Healthcheck,
    /// The same for the Deployments of a Kubernetes cluster
    #[cfg(feature = "kubernetes")]
    Kubernetes {
        /// The configuration file, instead of /etc/config/config.yaml
        #[arg(long, value_name = "FILE", global = true)]
        config: Option<std::path::PathBuf>,
        #[command(subcommand)]
        command: kubernetes::Command,
    },
    /// Say which program has the commands for clusters
    #[cfg(not(feature = "kubernetes"))]
    #[command(hide = true)]
    Kubernetes {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
        rest: Vec<String>,
    },
}

/// The plans of other commands than a scheduled run.
#[derive(Debug, Subcommand)]
enum PlanOf {
    /// Show what `reconfigure` would change
    #[command(after_help = RECONFIGURE)]
    Reconfigure(reconfigure::Reconfigure),
}

const RECONFIGURE: &str = "\
Examples:
  delegate-upgrader reconfigure delegate-1 --env JAVA_OPTS=-Xmx2g --memory 3g
  delegate-upgrader plan reconfigure delegate-1 --env-file new.env
  delegate-upgrader reconfigure --workload docker-delegate --secret DELEGATE_TOKEN=/run/secrets/token";

/// Checks the name or id of a container. An empty one, as from an unset shell variable, would mean the whole host.
fn container(text: &str) -> Result<String, &'static str> {
    let name = text.strip_prefix('/').unwrap_or(text);
    let is_named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if name.is_empty() || !name.chars().all(is_named) {
        return Err("expected the name or the id of a container");
    }
    Ok(name.to_owned())
}

/// Runs the program.
pub fn main() -> Exit {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(mut error) => {
            if let Some(meant) = habits::habit(&error) {
                return fail(format!("unknown here; use `{meant}`"), Exit::Usage);
            }
            // No word of these commands begins with a dash.
            error.remove(ContextKind::Suggested);
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Ok };
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let exit = match runtime {
        Ok(runtime) => {
            let ended = runtime.block_on(dispatch(cli));
            // A thread may still be resolving a host name. Do not wait for it.
            runtime.shutdown_background();
            ended.unwrap_or_else(|exit| exit)
        }
        Err(error) => fail(format!("cannot start the runtime: {error}"), Exit::Unavailable),
    };
    telemetry::finish();
    exit
}

/// Reads the command line. Not inlined, so that the parser's stack space is not kept while the daemon runs.
#[inline(never)]
fn parse() -> Result<Cli, clap::Error> {
    Cli::try_parse()
}

/// The default command: `run`, or `kubernetes once` in a pod of the documented manifest or of the chart.
fn default_command() -> Command {
    #[cfg(feature = "kubernetes")]
    if kubernetes::is_chosen() || cfg!(not(feature = "docker")) {
        return Command::Kubernetes {
            config: None,
            command: kubernetes::Command::Once,
        };
    }
    Command::Run
}

/// Runs a command. `Err` is the exit of a command that cannot continue and has printed its error. The daemon's future
/// is boxed separately, so that it does not take the space of the other commands' futures.
fn dispatch(mut cli: Cli) -> LocalBoxFuture<'static, Result<Exit, Exit>> {
    let command = cli.command.take().unwrap_or_else(default_command);
    match command {
        #[cfg(feature = "docker")]
        Command::Run if cli.json => {
            let problem = "run prints its log, which is JSON with LOG_FORMAT=json";
            ready(Err(fail(problem, Exit::Usage))).boxed_local()
        }
        #[cfg(feature = "docker")]
        Command::Run => async move {
            let settings = environment::settings(cli.env_file.as_deref(), Needs::All, None)?;
            run::run(settings, cli.env_file).await
        }
        .boxed_local(),
        command => run_once(command, cli).boxed_local(),
    }
}

async fn run_once(command: Command, Cli { env_file, json, .. }: Cli) -> Result<Exit, Exit> {
    let variables = || environment::variables(env_file.as_deref());
    // Commands that query a running daemon need only its address, not all settings.
    match command {
        Command::Healthcheck => Ok(status::healthcheck(variables()).await),
        Command::Status { watch: true, .. } if json => Err(fail("--watch prints no JSON", Exit::Usage)),
        Command::Status { watch: true, .. } => status::watch(variables()).await,
        Command::Status { container, check, .. } => {
            status::status(variables(), container.as_deref(), json, check).await
        }
        Command::Explain { word } => Ok(explain::explain(word.as_deref(), json)),
        Command::Version => Ok(config::version(json)),
        Command::Kubernetes { .. } if env_file.is_some() => {
            let problem = "--env-file is for Docker hosts; in a cluster, settings are variables of the pod or --config FILE";
            Err(fail(problem, Exit::Usage))
        }
        #[cfg(feature = "kubernetes")]
        Command::Kubernetes { config, command } => {
            Box::pin(kubernetes::dispatch(command, config, json)).await
        }
        #[cfg(not(feature = "kubernetes"))]
        Command::Kubernetes { .. } => {
            let problem = "this program is for Docker hosts; the image delegate-upgrader-kubernetes has the commands for clusters";
            Err(fail(problem, Exit::Usage))
        }
        command => on_host(command, env_file, json).await,
    }
}

/// The commands for a Docker host, except the daemon.
#[cfg(feature = "docker")]
async fn on_host(command: Command, env_file: Option<PathBuf>, json: bool) -> Result<Exit, Exit> {
    let read = |needs, from| environment::settings(env_file.as_deref(), needs, from);
    let (all, of_host) = (|| read(Needs::All, None), || read(Needs::HostOnly, None));
    // Here the file has the delegate's variables.
    let own = || environment::settings(None, Needs::HostOnly, None);
    match command {
        Command::Reconfigure(given) => reconfigure::reconfigure(&own()?, given, env_file, json).await,
        Command::Plan {
            of: Some(PlanOf::Reconfigure(given)),
            ..
        } => reconfigure::plan(&own()?, given, env_file, json).await,
        Command::Once => run::once(&all()?, json).await,
        Command::Retry {
            container,
            no_wait,
            asker,
        } => named_delegate::retry(&all()?, &container, asker.into(), no_wait, json).await,
        Command::Rollback {
            container, to, asker, ..
        } => {
            let (settings, container) = (of_host()?, container.as_deref());
            named_delegate::rollback(&settings, container, to.as_deref(), asker.into(), json).await
        }
        Command::Pause {
            container,
            until,
            duration,
            asker,
        } => {
            let settings = of_host()?;
            let until = pause::end(until.as_deref(), duration.as_deref(), &settings)?;
            pause::pause(&settings, container.as_deref(), until, &asker.into(), json).await
        }
        Command::Resume { container, asker } => {
            pause::resume(&of_host()?, container.as_deref(), &asker.into(), json).await
        }
        Command::History { container } => history::history(&of_host()?, container.as_deref(), json).await,
        Command::Plan { container, .. } => plan::plan(&all()?, container.as_deref(), json).await,
        Command::Notify { .. } => notify::test(&of_host()?, json).await,
        Command::Doctor {
            from: Some(from),
            write,
        } => {
            let settings = read(Needs::HostOnly, Some(&from))?;
            from_delegate::from_delegate(&settings, &from, write.as_deref(), json).await
        }
        Command::Doctor { .. } => Ok(checks::doctor(&all()?, json).await),
        _ => Ok(config::config(&all()?, json).await),
    }
}

/// The program for clusters leaves out the commands for a Docker host, so that its image is smaller.
#[cfg(not(feature = "docker"))]
async fn on_host(_: Command, _: Option<PathBuf>, _: bool) -> Result<Exit, Exit> {
    let problem = "this program is for clusters: see `delegate-upgrader kubernetes --help`; the image delegate-upgrader is the \
                   one for Docker hosts";
    Err(fail(problem, Exit::Usage))
}

/// Prints an error. If that fails, the exit code still reports the error.
fn fail(problem: impl Display, exit: Exit) -> Exit {
    let _ = writeln!(std::io::stderr(), "{}", lines(&problem.to_string()));
    exit
}

/// Prints why the engine does not answer, and what to do.
fn no_engine(error: &EngineError) -> Exit {
    fail(engine_problem(error), Exit::Unavailable)
}

fn print(text: &str) -> Exit {
    match writeln!(std::io::stdout(), "{}", lines(text)) {
        Ok(()) => Exit::Ok,
        Err(_) => Exit::Unavailable,
    }
}

fn print_json(value: &impl serde::Serialize) -> Exit {
    print(&indented(value))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn documentation_shows_the_current_help() {
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
