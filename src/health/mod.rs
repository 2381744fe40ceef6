//! Finds out the health of a delegate.

mod exec;
pub mod http;
mod work;

use std::fmt;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::Serialize;
use strum::{IntoStaticStr, VariantNames};

use crate::config::{self, HealthSettings, ProbeKind};
use crate::container::{Inspected, LISTEN_ADDR_VARIABLE, RunState};
use crate::engine::is_abandoned_start;
use crate::text::redact::Redactor;
use crate::text::shortened;

pub use crate::container::HealthStatus;
pub use exec::{ExecProbe, NOT_EXECUTED, Unfinished};
pub use work::{Work, WorkReader};

/// The start of the detail for a container that runs while its endpoint cannot be reached.
const UNREACHED: &str = "running; ";

/// The most characters of a command's output to show.
const MAX_OUTPUT: usize = 200;

/// A delegate's health, and which probe found it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The outcome.
    pub status: HealthStatus,
    /// The probe that found the outcome.
    pub probe: Probe,
    /// A short description of the result, such as `http://172.17.0.2:3460/api/health answers 200`.
    pub detail: String,
    /// The number of failed checks: the engine's own count for a HEALTHCHECK, one for a wrong answer, and zero if the
    /// container was not asked or not reached.
    pub failed_checks: u64,
}

/// The way in which a container's health is found out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
#[serde(rename_all = "lowercase")]
pub enum Probe {
    /// The engine runs the container's HEALTHCHECK.
    Engine,
    /// `GET /api/health` on the delegate's own port.
    Http,
    /// A command in the container.
    Exec,
    /// The engine's report that the container is running, if no other probe reaches it.
    #[default]
    Running,
}

impl Probe {
    /// Returns the word for logs, JSON and metric labels.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl Health {
    pub(crate) fn healthy(probe: Probe, detail: impl Into<String>) -> Self {
        Self::new(HealthStatus::Healthy, probe, detail)
    }

    pub(crate) fn unhealthy(probe: Probe, detail: impl Into<String>) -> Self {
        Self::new(HealthStatus::Unhealthy, probe, detail)
    }

    fn new(status: HealthStatus, probe: Probe, detail: impl Into<String>) -> Self {
        Self {
            status,
            probe,
            detail: detail.into(),
            failed_checks: 0,
        }
    }

    pub(crate) fn with_failed_checks(self, failed_checks: u64) -> Self {
        Self {
            failed_checks,
            ..self
        }
    }

    /// Whether the container works.
    pub fn is_healthy(&self) -> bool {
        self.status == HealthStatus::Healthy
    }

    /// Whether a healthy result only means that it runs, although the settings ask for more, which proves little.
    pub fn is_weak(&self) -> bool {
        self.probe == Probe::Running && self.is_healthy() && self.detail.starts_with(UNREACHED)
    }

    /// Whether the endpoint answered as a delegate does: as healthy, or with 503.
    pub(crate) fn is_a_delegates(&self) -> bool {
        self.is_healthy() || self.detail.ends_with("answers 503")
    }

    /// Whether the container was checked. A container that is paused, stopping or has ended is not checked.
    pub fn is_of_a_check(&self) -> bool {
        self.probe != Probe::Running || self.is_healthy()
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status.as_str(), self.detail)
    }
}

/// The outcome of a `GET` of a health endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpOutcome {
    /// The endpoint answered with this status.
    Answered(u16),
    /// The host refused the connection, since nothing listens on the port.
    Refused,
    /// The connection was made, but no valid answer came.
    Broken(String),
    /// The host cannot be reached from here, because of its network or a firewall.
    NoRoute(String),
}

/// A client for the delegates' own endpoints.
pub trait HealthEndpoint: Send + Sync + 'static {
    /// Sends one request.
    fn get(&self, address: SocketAddr, path: &str) -> impl Future<Output = HttpOutcome> + Send;

    /// Reads how much work the delegate at this address reports. `None` if it reports nothing.
    fn work(&self, address: SocketAddr) -> impl Future<Output = Option<Work>> + Send;

    /// Returns the address for reaching a delegate in the host's network from here, or `None` if there is none.
    fn host_address(&self) -> Option<IpAddr>;
}

/// The possible addresses of a container's health endpoint, with the path to request and the kind of probe.
#[derive(Clone, Debug)]
pub struct Addresses {
    sockets: Vec<SocketAddr>,
    path: &'static str,
    probe: ProbeKind,
}

/// A question that only the container itself can answer.
pub enum Question {
    /// A request to its health endpoint.
    Http(Addresses),
    /// A command in the container.
    Exec(ExecProbe),
}

/// Returns the health in a container's document as `Err`, or as `Ok` a question for it if the settings or a missing
/// HEALTHCHECK require one. `host` is the address of delegates in the host's network: see [`HealthEndpoint::host_address`].
pub fn question(
    container: &Inspected,
    settings: &HealthSettings,
    host: Option<IpAddr>,
) -> Result<Question, Health> {
    let down = match container.state() {
        RunState::Running => None,
        RunState::Restarting => Some(format!("restarting, {} so far", times(container.restart_count()))),
        RunState::Exited | RunState::Dead => Some(ending(container)),
        state => Some(state.as_str().to_owned()),
    };
    if let Some(detail) = down {
        return Err(Health::unhealthy(Probe::Running, detail));
    }
    match (settings.probe, by_engine(container)) {
        (ProbeKind::Running, _) => Err(Health::healthy(Probe::Running, "running")),
        (ProbeKind::Engine, None) => Err(Health::unhealthy(
            Probe::Engine,
            "HEALTH_PROBE is engine, but the container has no HEALTHCHECK",
        )),
        (ProbeKind::Engine | ProbeKind::Auto, Some(health)) => Err(health),
        (ProbeKind::Exec, _) => Ok(Question::Exec(ExecProbe::new(container, &settings.command))),
        (ProbeKind::Http, _) | (ProbeKind::Auto, None) => Ok(ask_http(container, settings, host)),
    }
}

fn ask_http(container: &Inspected, settings: &HealthSettings, host: Option<IpAddr>) -> Question {
    Question::Http(Addresses {
        sockets: sockets(container, settings, host),
        path: settings.path,
        probe: settings.probe,
    })
}

/// Does the same for an upgrader, which reports by itself whether it is ready. A HEALTHCHECK shows only that it is alive.
/// The upgrader listens on the address in its environment, or else on this upgrader's address.
pub fn readiness(
    container: &Inspected,
    listen: SocketAddr,
    host: Option<IpAddr>,
) -> Result<Question, Health> {
    let own = container.env(LISTEN_ADDR_VARIABLE);
    let listen = own
        .and_then(|own| config::listen_address(own).ok())
        .unwrap_or(listen);
    let can_be_reached = !listen.ip().is_loopback();
    let settings = |probe| HealthSettings {
        interval: Duration::ZERO,
        probe,
        port: listen.port(),
        path: "/readyz",
        command: Vec::new(),
    };
    let shown = match container.health_status() {
        Some(_) => ProbeKind::Engine,
        None => ProbeKind::Running,
    };
    match question(container, &settings(shown), host) {
        Err(health) if health.is_healthy() && can_be_reached => {
            Ok(ask_http(container, &settings(ProbeKind::Auto), host))
        }
        other => other,
    }
}

/// The health of this upgrader. Once it has observed the host it is ready, so it needs no request.
pub fn of_itself() -> Health {
    Health::new(HealthStatus::Healthy, Probe::Running, "it observes the host")
}

/// The health of a running helper of an upgrader. The helper's name shows whether it has observed the host.
pub fn of_helper(is_ready: bool) -> Health {
    let (status, detail) = if is_ready {
        (HealthStatus::Healthy, "the helper says that it is ready")
    } else {
        (HealthStatus::Starting, "the helper has not said that it is ready")
    };
    Health::new(status, Probe::Running, detail)
}

/// Returns the command that proves a candidate whose endpoint cannot be reached, since a new image that merely runs proves
/// little. `None` if the settings ask for one probe only.
pub fn fallback(container: &Inspected, settings: &HealthSettings) -> Option<ExecProbe> {
    let is_auto = settings.probe == ProbeKind::Auto;
    is_auto.then(|| ExecProbe::new(container, &settings.command))
}

impl Question {
    /// Returns the health before the first answer.
    pub(crate) fn unanswered(&self) -> Health {
        let (probe, detail) = match self {
            Self::Http(addresses) => (Probe::Http, addresses.unanswered()),
            Self::Exec(_) => (Probe::Exec, "the health command has not ended yet".to_owned()),
        };
        Health::new(HealthStatus::Starting, probe, detail)
    }
}

/// Returns the possible addresses of a running container's own endpoints. For `host`, see [`question`].
pub fn sockets(container: &Inspected, settings: &HealthSettings, host: Option<IpAddr>) -> Vec<SocketAddr> {
    let addresses = match container.network_mode() {
        _ if container.state() != RunState::Running => Vec::new(),
        "host" => Vec::from_iter(host),
        _ => container.addresses(),
    };
    let addresses = addresses.into_iter();
    addresses
        .map(|address| SocketAddr::new(address, settings.port))
        .collect()
}

impl Addresses {
    /// Asks one address after the other until one can be reached.
    pub async fn ask(&self, endpoint: &impl HealthEndpoint) -> Health {
        let mut no_route = "it has no IP address".to_owned();
        for address in &self.sockets {
            let url = self.url(address);
            let (status, detail) = match endpoint.get(*address, self.path).await {
                HttpOutcome::Answered(code @ 200..=299) => {
                    (HealthStatus::Healthy, format!("{url} answers {code}"))
                }
                HttpOutcome::Answered(code) => (HealthStatus::Unhealthy, format!("{url} answers {code}")),
                HttpOutcome::Refused => (HealthStatus::Unhealthy, format!("nothing listens on {url}")),
                HttpOutcome::Broken(problem) => (HealthStatus::Unhealthy, format!("{url}: {problem}")),
                HttpOutcome::NoRoute(problem) => {
                    no_route = format!("{url} is unreachable from here ({problem})");
                    continue;
                }
            };
            let failed = u64::from(status == HealthStatus::Unhealthy);
            return Health::new(status, Probe::Http, detail).with_failed_checks(failed);
        }
        match self.probe {
            ProbeKind::Http => Health::unhealthy(Probe::Http, no_route),
            _ => Health::healthy(Probe::Running, format!("{UNREACHED}{no_route}")),
        }
    }

    fn unanswered(&self) -> String {
        let urls: Vec<String> = self.sockets.iter().map(|address| self.url(address)).collect();
        format!("{} has not answered yet", urls.join(" or "))
    }

    fn url(&self, address: &SocketAddr) -> String {
        format!("http://{address}{}", self.path)
    }
}

/// Describes briefly how a container's last run ended, without the values of its environment.
pub fn ending(container: &Inspected) -> String {
    let mut text = format!("exited with code {}", container.exit_code());
    if container.oom_killed() {
        text.push_str(", out of memory");
    }
    let error = container.error();
    if !error.is_empty() && !is_abandoned_start(error) {
        text.push_str(": ");
        text.push_str(&Redactor::new(container.environment()).line(error));
    }
    text
}

fn by_engine(container: &Inspected) -> Option<Health> {
    Some(match container.health_status()? {
        HealthStatus::Healthy => Health::healthy(Probe::Engine, "its HEALTHCHECK passes"),
        HealthStatus::Starting => Health::new(
            HealthStatus::Starting,
            Probe::Engine,
            "its HEALTHCHECK has not passed yet",
        ),
        HealthStatus::Unhealthy => {
            let redactor = Redactor::new(container.environment());
            let output = container.health_log(1).next().map(|(_, output)| output);
            let first_line = output
                .and_then(|output| output.lines().next())
                .unwrap_or_default();
            let failures = container.failing_streak();
            let detail = format!(
                "its HEALTHCHECK failed {}: {}",
                times(failures),
                shortened(&redactor.line(first_line), MAX_OUTPUT)
            );
            Health::unhealthy(Probe::Engine, detail).with_failed_checks(failures)
        }
    })
}

fn times(count: u64) -> String {
    if count == 1 {
        "once".to_owned()
    } else {
        format!("{count} times")
    }
}
