//! The daemon's HTTP server, over real sockets.

mod liveness;

use std::net::SocketAddr;

use chrono::Utc;
use delegate_upgrader::status::liveness::Liveness;
use delegate_upgrader::status::{Mode, Publisher, Status, server};
use tokio::net::TcpListener;
use tokio::sync::watch;

/// A server that runs.
struct Server {
    address: SocketAddr,
    liveness: Liveness,
    _publisher: Publisher,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (publisher, reader) = watch::channel(Status::new(Mode::Upgrade, "@hourly", Utc::now()));
        let liveness = Liveness::default();
        tokio::spawn(server::serve(listener, reader, liveness.clone()));
        Self {
            address,
            liveness,
            _publisher: publisher,
        }
    }

    /// The status of an answer, and its text.
    async fn get(&self, path: &str) -> (u16, String) {
        let client = delegate_upgrader::health::http::plain_client().unwrap();
        let url = format!("http://{}{path}", self.address);
        let answer = client.get(url).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }
}
