//! Health of a delegate: what was seen → a verdict, and who gave it.

pub mod http;

use std::fmt;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::config::{HealthSettings, ProbeKind};
use crate::container::{HealthcheckStatus, Inspected, RunState};
use crate::engine::is_abandoned_start;

/// A delegate's health, who said so, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Healthy or not.
    pub state: HealthStatus,
    /// Which probe gave the verdict.
    pub by: Probe,
    /// What was seen, in a few words.
    pub cause: String,
}

/// A verdict's first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HealthStatus {
    /// It works.
    Healthy,
    /// It has not said yet.
    Starting,
    /// It does not work.
    Unhealthy,
}

impl HealthStatus {
    /// The word for logs and metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Starting => "starting",
            Self::Unhealthy => "unhealthy",
        }
    }
}

/// Which probe gave a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Probe {
    /// The engine runs the container's HEALTHCHECK.
    Engine,
    /// `GET /api/health` on the delegate's own port.
    Http,
    /// No probe reaches it: the engine says that it runs.
    Running,
}

impl Probe {
    /// The word for logs and metric labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Http => "http",
            Self::Running => "running",
        }
    }
}

impl Health {
    fn new(state: HealthStatus, by: Probe, cause: impl Into<String>) -> Self {
        Self {
            state,
            by,
            cause: cause.into(),
        }
    }

    /// Whether it works.
    pub fn is_healthy(&self) -> bool {
        self.state == HealthStatus::Healthy
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.state.as_str(), self.cause)
    }
}

/// How a `GET` of the health endpoint went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpOutcome {
    /// It answered with this status.
    Answered(u16),
    /// The host is there, and nothing listens on the port.
    Refused,
    /// Connected, and no proper answer came.
    Broken(String),
    /// No way there from here: another network, a firewall.
    NoRoute(String),
}

/// The way to a delegate's health endpoint.
pub trait HealthEndpoint: Send + Sync + 'static {
    /// Asks once.
    fn get(&self, address: SocketAddr, path: &str) -> impl Future<Output = HttpOutcome> + Send;

    /// Where a delegate on the host's network is reached from here, if anywhere.
    fn host_address(&self) -> Option<IpAddr>;
}

/// Judges a container by its document and, where that is what counts, by its health endpoint.
pub async fn check(
    container: &Inspected,
    settings: &HealthSettings,
    endpoint: &impl HealthEndpoint,
) -> Health {
    match container.state() {
        RunState::Running => {}
        RunState::Restarting => {
            let cause = format!("restarting, {} time(s) so far", container.restart_count());
            return Health::new(HealthStatus::Unhealthy, Probe::Running, cause);
        }
        RunState::Exited | RunState::Dead => {
            return Health::new(HealthStatus::Unhealthy, Probe::Running, ending(container));
        }
        state => {
            return Health::new(HealthStatus::Unhealthy, Probe::Running, state.as_str().to_owned());
        }
    }
    match settings.probe {
        ProbeKind::Running => running(),
        ProbeKind::Engine => by_engine(container).unwrap_or_else(|| {
            Health::new(
                HealthStatus::Unhealthy,
                Probe::Engine,
                "HEALTH_PROBE is engine, but the container has no HEALTHCHECK",
            )
        }),
        ProbeKind::Http => match by_http(container, settings, endpoint).await {
            Ok(verdict) => verdict,
            Err(no_route) => Health::new(HealthStatus::Unhealthy, Probe::Http, no_route),
        },
        ProbeKind::Auto => {
            if let Some(verdict) = by_engine(container) {
                return verdict;
            }
            match by_http(container, settings, endpoint).await {
                Ok(verdict) => verdict,
                Err(no_route) => Health::new(
                    HealthStatus::Healthy,
                    Probe::Running,
                    format!("running; {no_route}"),
                ),
            }
        }
    }
}

/// How a container's last life ended, in a few words.
pub fn ending(container: &Inspected) -> String {
    let mut text = format!("exited with code {}", container.exit_code());
    if container.oom_killed() {
        text.push_str(", killed for memory");
    }
    let error = container.error();
    if !error.is_empty() && !is_abandoned_start(error) {
        text.push_str(": ");
        text.push_str(error);
    }
    text
}

fn running() -> Health {
    Health::new(HealthStatus::Healthy, Probe::Running, "running")
}

fn by_engine(container: &Inspected) -> Option<Health> {
    let health = container.health()?;
    let verdict = match health.status {
        HealthcheckStatus::Healthy => {
            Health::new(HealthStatus::Healthy, Probe::Engine, "its HEALTHCHECK passes")
        }
        HealthcheckStatus::Starting => Health::new(
            HealthStatus::Starting,
            Probe::Engine,
            "its HEALTHCHECK has not passed yet",
        ),
        HealthcheckStatus::Unhealthy => Health::new(
            HealthStatus::Unhealthy,
            Probe::Engine,
            format!(
                "its HEALTHCHECK failed {} time(s): {}",
                health.failing_streak,
                first_line(&health.last_output)
            ),
        ),
    };
    Some(verdict)
}

fn first_line(text: &str) -> String {
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(200)
        .collect()
}

/// `Err`: there is no way there from here, in words.
async fn by_http(
    container: &Inspected,
    settings: &HealthSettings,
    endpoint: &impl HealthEndpoint,
) -> Result<Health, String> {
    let addresses = match container.network_mode() {
        "host" => Vec::from_iter(endpoint.host_address()),
        _ => container.addresses(),
    };
    if addresses.is_empty() {
        return Err("it has no address that could be asked".to_owned());
    }
    let mut no_route = String::new();
    for address in addresses {
        let address = SocketAddr::new(address, settings.port);
        let url = format!("http://{address}{}", settings.path);
        let verdict = match endpoint.get(address, &settings.path).await {
            HttpOutcome::Answered(status @ 200..=299) => {
                (HealthStatus::Healthy, format!("{url} answers {status}"))
            }
            HttpOutcome::Answered(status) => (HealthStatus::Unhealthy, format!("{url} answers {status}")),
            HttpOutcome::Refused => (HealthStatus::Unhealthy, format!("nothing listens at {url}")),
            HttpOutcome::Broken(problem) => (HealthStatus::Unhealthy, format!("{url}: {problem}")),
            HttpOutcome::NoRoute(problem) => {
                no_route = format!("{url} cannot be reached from here ({problem})");
                continue;
            }
        };
        return Ok(Health::new(verdict.0, Probe::Http, verdict.1));
    }
    Err(no_route)
}

/// How long a connection to a health endpoint may take; a longer silence means that there is no way.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the whole answer may take.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
