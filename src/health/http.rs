//! The client for the delegates' own endpoints, which serve their health and their metrics.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::{HealthEndpoint, HttpOutcome, Work, WorkReader};
use crate::net::client::USER_AGENT;
use crate::net::{causes, innermost, tls};
use crate::text::duration;

/// The time limit for a connection. A reachable host accepts or refuses sooner.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The time limit for a request, including its answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The path under which a delegate serves its metrics.
const METRICS_PATH: &str = "/api/metrics";
/// The most bytes of metrics to read. A larger answer does not come from a delegate.
const MAX_METRICS: usize = 8 << 20;

/// Sends requests to delegates over plain HTTP, never through a proxy.
#[derive(Clone, Debug)]
pub struct HttpEndpoint {
    client: reqwest::Client,
    host_address: Option<IpAddr>,
}

impl HttpEndpoint {
    /// Creates the client. For `host_address`, see [`host_address`](crate::host::host_address).
    pub fn new(host_address: Option<IpAddr>) -> Result<Self, reqwest::Error> {
        Ok(Self {
            client: plain_client()?,
            host_address,
        })
    }
}

/// Creates a client for plain HTTP on this host or its bridges, without a proxy, redirects or idle connections.
pub fn plain_client() -> Result<reqwest::Client, reqwest::Error> {
    let builder = reqwest::Client::builder()
        .user_agent(USER_AGENT)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .pool_max_idle_per_host(0)
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(REQUEST_TIMEOUT);
    // Plain HTTP needs no certificates, and a minimal image may have none.
    match tls::without_roots() {
        Ok(tls) => builder.tls_backend_preconfigured(tls).build(),
        Err(_) => builder.build(),
    }
}

impl HealthEndpoint for HttpEndpoint {
    async fn get(&self, address: SocketAddr, path: &str) -> HttpOutcome {
        match self.client.get(format!("http://{address}{path}")).send().await {
            Ok(answer) => HttpOutcome::Answered(answer.status().as_u16()),
            Err(error) => outcome(&error),
        }
    }

    async fn work(&self, address: SocketAddr) -> Option<Work> {
        let url = format!("http://{address}{METRICS_PATH}");
        let mut answer = self.client.get(url).send().await.ok()?;
        if !answer.status().is_success() {
            return None;
        }
        let (mut reader, mut length) = (WorkReader::default(), 0);
        while let Some(bytes) = answer.chunk().await.ok()? {
            length += bytes.len();
            if length > MAX_METRICS {
                return None;
            }
            reader.feed(&bytes);
        }
        reader.finish()
    }

    fn host_address(&self) -> Option<IpAddr> {
        self.host_address
    }
}

/// Classifies an error. A reachable host refuses at once; if the connection times out, the host cannot be reached from here.
fn outcome(error: &reqwest::Error) -> HttpOutcome {
    let io = causes(error).find_map(|cause| Some(cause.downcast_ref::<std::io::Error>()?.kind()));
    if io == Some(ErrorKind::ConnectionRefused) {
        return HttpOutcome::Refused;
    }
    let words = innermost(error);
    match io {
        _ if error.is_connect() && error.is_timeout() => {
            HttpOutcome::NoRoute("connection timed out".to_owned())
        }
        Some(ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable) => HttpOutcome::NoRoute(words),
        _ if error.is_timeout() => {
            HttpOutcome::Broken(format!("no answer within {}", duration::text(REQUEST_TIMEOUT)))
        }
        _ => HttpOutcome::Broken(words),
    }
}
