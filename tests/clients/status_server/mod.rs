//! The daemon's HTTP server, over real sockets.

mod connections;
mod hosts;
mod liveness;

use std::net::SocketAddr;

use chrono::Utc;
use delegate_upgrader::status::hosts::Hosts;
use delegate_upgrader::status::liveness::Liveness;
use delegate_upgrader::status::{Mode, Publisher, Status, server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::daemon::get;

/// A running server.
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
        let server = server::Server {
            status: reader,
            liveness: liveness.clone(),
            hosts: Hosts::new(["Upgrader.example.com".to_owned()]),
        };
        tokio::spawn(server.serve(listener.into()));
        Self {
            address,
            liveness,
            _publisher: publisher,
        }
    }

    async fn get(&self, path: &str) -> (u16, String) {
        get(&self.address.to_string(), path).await.unwrap()
    }

    /// Everything that the server answers to these bytes, until it closes the connection.
    async fn send(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // A server that has read enough resets the connection.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }
}
