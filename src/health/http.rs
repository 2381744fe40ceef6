//! The HTTP way to a delegate's health endpoint.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};

use crate::health::{ANSWER_TIMEOUT, CONNECT_TIMEOUT, HealthEndpoint, HttpOutcome};
use crate::net::{causes, innermost, tls_without_roots};
use crate::text::duration;

/// Asks delegates over plain HTTP, never through a proxy.
#[derive(Clone, Debug)]
pub struct HttpEndpoint {
    client: reqwest::Client,
    host_address: Option<IpAddr>,
}

impl HttpEndpoint {
    /// `host_address` is where the host's own network is reached from here.
    pub fn new(host_address: Option<IpAddr>) -> Result<Self, reqwest::Error> {
        Ok(Self {
            client: plain_client()?,
            host_address,
        })
    }
}

/// A client for plain HTTP on this host or its bridges: no proxy, no redirects, nothing kept open.
pub fn plain_client() -> Result<reqwest::Client, reqwest::Error> {
    let builder = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .pool_max_idle_per_host(0)
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(ANSWER_TIMEOUT);
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

/// A host that is there refuses at once; silence while connecting means that there is no way from here.
fn outcome(error: &reqwest::Error) -> HttpOutcome {
    let io = causes(error).find_map(|cause| Some(cause.downcast_ref::<std::io::Error>()?.kind()));
    if io == Some(ErrorKind::ConnectionRefused) {
        return HttpOutcome::Refused;
    }
    let words = innermost(error);
    match io {
        _ if error.is_connect() && error.is_timeout() => {
            HttpOutcome::NoRoute("no answer to the connection".to_owned())
        }
        Some(ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable) => HttpOutcome::NoRoute(words),
        _ if error.is_timeout() => {
            HttpOutcome::Broken(format!("no answer within {}", duration::text(ANSWER_TIMEOUT)))
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
    async fn every_way_an_endpoint_can_answer_is_told_apart() {
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
