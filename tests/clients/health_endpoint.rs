//! The client of the delegates' health endpoints.

use std::net::SocketAddr;

use delegate_upgrader::health::http::HttpEndpoint;
use delegate_upgrader::health::{HealthEndpoint as _, HttpOutcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

async fn serving(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 1024];
            let length = stream.read(&mut request).await.unwrap_or_default();
            let request = String::from_utf8_lossy(&request[..length]);
            assert!(request.contains("user-agent: delegate-upgrader/"), "{request}");
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
