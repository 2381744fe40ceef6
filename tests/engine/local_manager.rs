//! The local Manager as a separate process.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use kit::lab::{PATIENCE, Upgrader, eventually, expect, static_binary};

pub(crate) const ACCOUNT: &str = "acct-TEST_000000000000";
pub(crate) const KEY: &str = "000102030405060708090a0b0c0d0e0f";
/// A revoked token that the Manager knows.
pub(crate) const REVOKED: &str = "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff";

/// Ends with the test.
pub(crate) struct LocalManager {
    server: Child,
    log: tempfile::NamedTempFile,
    /// `host:port`.
    address: String,
}

impl LocalManager {
    pub(crate) fn that_publishes(reference: &str) -> Self {
        let log = tempfile::NamedTempFile::new().expect("a file for the log");
        let output: File = log.reopen().expect("the log");
        let server = Command::new(static_binary("manager"))
            .args(["serve", "--listen", "127.0.0.1:0", "--account", ACCOUNT])
            .args([
                "--token",
                KEY,
                "--revoked-token",
                REVOKED,
                "--published",
                reference,
            ])
            .stdin(Stdio::null())
            .stdout(output)
            .spawn()
            .expect("the Manager starts");
        let mut manager = Self {
            server,
            log,
            address: String::new(),
        };
        eventually("the Manager listens", PATIENCE, || {
            let log = manager.log();
            let address = log
                .strip_prefix("listening on ")
                .and_then(|rest| rest.split_once(','));
            manager.address = address.map(|(address, _)| address.to_owned()).unwrap_or_default();
            !manager.address.is_empty()
        });
        manager
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The same upgrader with this Manager.
    pub(crate) fn of(&self, upgrader: Upgrader) -> Upgrader {
        upgrader
            .without("PUBLISHED_IMAGE")
            .with("ACCOUNT_ID", ACCOUNT)
            .with("UPGRADER_TOKEN", KEY)
            .with("MANAGER_HOST_AND_PORT", &self.url())
    }

    pub(crate) fn publish(&self, reference: &str) {
        expect(Command::new(static_binary("manager")).args(["publish", "--at", &self.url(), reference]));
    }

    /// Sets its answer from now on, in the format of `/local/fault`.
    pub(crate) fn answers(&self, fault: &serde_json::Value) {
        let body = fault.to_string();
        let request = format!(
            "PUT /local/fault HTTP/1.1\r\nHost: manager\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address).expect("the Manager");
        stream.write_all(request.as_bytes()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    }

    /// A line for each request, with its endpoint.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap_or_default()
    }
}

impl Drop for LocalManager {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
