//! The client: publishes an image at a running local Manager, so that nobody needs curl.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use clap::Args;
use serde_json::json;

const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Args)]
pub(crate) struct Publish {
    /// Where the local Manager listens
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    at: String,
    /// Only for the delegates of this name
    #[arg(long)]
    delegate: Option<String>,
    /// The image to publish
    image: String,
}

impl Publish {
    pub(crate) fn run(&self) -> Result<(), String> {
        let body = json!({ "imageTag": self.image, "delegateGroupName": self.delegate }).to_string();
        let address = self
            .at
            .strip_prefix("http://")
            .map(|rest| rest.trim_end_matches('/'))
            .filter(|address| address.contains(':') && !address.contains('/'))
            .ok_or_else(|| format!("--at {:?} is not http://host:port", self.at))?;
        let answer =
            put(address, "/local/published", &body).map_err(|error| format!("{address}: {error}"))?;
        let status = answer.lines().next().unwrap_or_default();
        if status.split(' ').nth(1) != Some("200") {
            let reason = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body).trim();
            return Err(format!("{address} answered {status}: {reason}"));
        }
        let whom = self
            .delegate
            .as_ref()
            .map(|name| format!(" for {name}"))
            .unwrap_or_default();
        println!("published {}{whom}", self.image);
        Ok(())
    }
}

fn put(address: &str, path: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    write!(
        stream,
        "PUT {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
