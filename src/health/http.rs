//! The client of the delegates' health endpoints.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::{HealthEndpoint, HttpOutcome};
use crate::net::{causes, innermost, tls_without_roots};
use crate::text::duration;

/// How long a connection may take. A host that is there answers or refuses sooner.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a request may take, its answer included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Asks delegates over plain HTTP, never through a proxy.
#[derive(Clone, Debug)]
pub struct HttpEndpoint {
    client: reqwest::Client,
    host_address: Option<IpAddr>,
}

impl HttpEndpoint {
    /// `host_address`: see [`host_address`](crate::host::host_address).
    pub fn new(host_address: Option<IpAddr>) -> Result<Self, reqwest::Error> {
        Ok(Self {
            client: plain_client()?,
            host_address,
        })
    }
}

/// A client for plain HTTP on this host or its bridges: without a proxy, redirects or idle connections.
pub fn plain_client() -> Result<reqwest::Client, reqwest::Error> {
    let builder = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .pool_max_idle_per_host(0)
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(REQUEST_TIMEOUT);
    // Plain HTTP needs no certificates, and a minimal image may have none.
    match tls_without_roots() {
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

    fn host_address(&self) -> Option<IpAddr> {
        self.host_address
    }
}

/// A host that is there refuses at once; a connection that times out means that it cannot be reached from here.
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    async fn serving(answer: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 1024];
                let _ = stream.read(&mut request).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        address
    }

    #[tokio::test]
    async fn every_answer_of_an_endpoint_has_its_outcome() {
        let endpoint = HttpEndpoint::new(None).unwrap();
        let ok = serving("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        assert_eq!(endpoint.get(ok, "/api/health").await, HttpOutcome::Answered(200));
        let moved =
            serving("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n").await;
        assert_eq!(
            endpoint.get(moved, "/api/health").await,
            HttpOutcome::Answered(302)
        );
        let garbage = serving("what?\r\n\r\n").await;
        assert!(matches!(endpoint.get(garbage, "/").await, HttpOutcome::Broken(_)));
        let closed = {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            listener.local_addr().unwrap()
        };
        assert_eq!(endpoint.get(closed, "/").await, HttpOutcome::Refused);
    }
}
