//! `publish`: in a database, or at a running Manager of a lab, so that nobody needs curl.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use chrono::{DateTime, Utc};
use clap::Args;
use serde_json::json;

use crate::admin::Database;
use crate::service::resolve::{check_image, delegate_image};
use crate::service::scope::Scope;

const TIMEOUT: Duration = Duration::from_secs(10);
const USUAL_ADDRESS: &str = "http://127.0.0.1:8080";

#[derive(Args)]
pub(crate) struct Publish {
    #[command(flatten)]
    database: Database,
    /// Where a Manager of a lab listens [default without a database: http://127.0.0.1:8080]
    #[arg(long, conflicts_with = "database")]
    at: Option<String>,
    /// In a lab: only for the delegates of this name
    #[arg(long, conflicts_with = "database")]
    delegate: Option<String>,
    /// In a database: the image is the upgrader's own
    #[arg(long, conflicts_with_all = ["at", "delegate"])]
    upgrader: bool,
    /// The image to publish
    image: String,
}

impl Publish {
    pub(crate) fn run(&self, now: DateTime<Utc>) -> Result<String, String> {
        // The command line goes before the environment.
        let wants_lab = self.at.is_some() || self.delegate.is_some();
        match self.database.path() {
            Some(_) if !wants_lab => self.publish_in_database(now),
            None if self.upgrader => Err(
                "--upgrader publishes in a database: give --database; in a lab use `serve --published-upgrader`"
                    .to_owned(),
            ),
            _ => self.publish_at(self.at.as_deref().unwrap_or(USUAL_ADDRESS)),
        }
    }

    fn publish_in_database(&self, now: DateTime<Utc>) -> Result<String, String> {
        let (image, whom) = if self.upgrader {
            check_image(&self.image)?;
            (self.image.clone(), " as the upgrader")
        } else {
            (delegate_image(&self.image)?, "")
        };
        self.database.change("publish", &Scope::Account, now, |store| {
            if self.upgrader {
                store.publish_upgrader(&image)?;
            } else {
                store.publish(&image, now.timestamp())?;
            }
            Ok((format!("{image}{whom}"), format!("published {image}{whom}\n")))
        })
    }

    fn publish_at(&self, at: &str) -> Result<String, String> {
        let body = json!({ "imageTag": self.image, "delegateGroupName": self.delegate }).to_string();
        let address = at
            .strip_prefix("http://")
            .map(|rest| rest.trim_end_matches('/'))
            .filter(|address| address.contains(':') && !address.contains('/'))
            .ok_or_else(|| format!("--at {at:?} is not http://host:port"))?;
        let answer =
            put(address, "/local/published", &body).map_err(|error| format!("{address}: {error}"))?;
        let status = answer.lines().next().unwrap_or_default();
        match status.split(' ').nth(1) {
            Some("200") => {}
            Some("404") => {
                return Err(format!(
                    "{address} takes no images over HTTP: with a database it is `manager publish --database FILE IMAGE`"
                ));
            }
            _ => {
                let reason = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body).trim();
                return Err(format!("{address} answered {status}: {reason}"));
            }
        }
        let whom = self
            .delegate
            .as_ref()
            .map(|name| format!(" for {name}"))
            .unwrap_or_default();
        Ok(format!("published {}{whom}\n", self.image))
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
