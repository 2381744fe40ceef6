//! The client of the delegates' health endpoints.

use std::net::SocketAddr;

use delegate_upgrader::health::http::HttpEndpoint;
use delegate_upgrader::health::{HealthEndpoint as _, HttpOutcome};
use kit::manager::{RawServer, Reply};
use tokio::net::TcpListener;

/// The outcome of an endpoint with this answer.
async fn outcome(answer: &str) -> HttpOutcome {
    let server = RawServer::start(vec![Reply::Bytes(answer.into())]).await;
    let address: SocketAddr = server.url.trim_start_matches("http://").parse().unwrap();
    let outcome = HttpEndpoint::new(None).unwrap().get(address, "/api/health").await;
    let head = server.requests().remove(0);
    assert!(head.contains("user-agent: delegate-upgrader/"), "{head}");
    outcome
}

#[tokio::test]
async fn every_health_endpoint_response_maps_to_an_outcome() {
    let ok = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(outcome(ok).await, HttpOutcome::Answered(200));
    let moved = "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(outcome(moved).await, HttpOutcome::Answered(302));
    assert!(matches!(outcome("what?\r\n\r\n").await, HttpOutcome::Broken(_)));
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let endpoint = HttpEndpoint::new(None).unwrap();
    assert_eq!(endpoint.get(closed, "/").await, HttpOutcome::Refused);
}
