//! `serve`: from the command line to a Manager that listens.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::admin::Database;
use crate::service::{Clock, Manager, Settings};

/// The image that a lab publishes for upgraders by default.
const LAB_UPGRADER: &str = "harness/upgrader:latest";

#[derive(Args)]
pub(crate) struct Serve {
    /// Address and port to listen on; port 0 takes a free one and prints it
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    // Not flattened: clap would not see that `serve` is meant where the command is left out.
    /// The SQLite file of all that the Manager knows [env: MANAGER_DATABASE]
    #[arg(long)]
    database: Option<PathBuf>,
    /// The one account this Manager knows; a database keeps it from its first start on
    #[arg(long)]
    account: Option<String>,
    /// Without a database: a delegate token, 32 hex digits or the base64 of those; may be given several times
    #[arg(long = "token")]
    tokens: Vec<String>,
    /// Without a database: a delegate token that was revoked
    #[arg(long = "revoked-token")]
    revoked_tokens: Vec<String>,
    /// Without a database: an API key
    #[arg(long = "api-key")]
    api_keys: Vec<String>,
    /// Without a database: the delegate image that is published at first
    #[arg(long)]
    published: Option<String>,
    /// Without a database: the upgrader image that is published
    #[arg(long)]
    published_upgrader: Option<String>,
    /// A path in front of the protocol's own, such as /gratis
    #[arg(long, default_value = "")]
    prefix: String,
}

impl Serve {
    pub(crate) async fn run(self) -> Result<(), String> {
        let listen = self.listen;
        let manager = Manager::new(&self.settings()?)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;
        let listener = TcpListener::bind(listen)
            .await
            .map_err(|error| format!("cannot listen on {listen}: {error}"))?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let summary = manager.summary()?;
        println!("listening on {address}, {summary}");

        let served = axum::serve(listener, manager.router());
        tokio::select! {
            served = served.into_future() => served.map_err(|error| error.to_string())?,
            // Not graceful on purpose: an answer that is being delayed shall not delay the exit.
            _ = terminate.recv() => println!("terminated"),
            _ = interrupt.recv() => println!("interrupted"),
        }
        Ok(())
    }

    fn settings(self) -> Result<Settings, String> {
        let database = Database::from(self.database).path();
        let for_memory = [
            ("--token", !self.tokens.is_empty(), "manager token create"),
            (
                "--revoked-token",
                !self.revoked_tokens.is_empty(),
                "manager token revoke",
            ),
            ("--api-key", !self.api_keys.is_empty(), "manager key create"),
            ("--published", self.published.is_some(), "manager publish"),
            (
                "--published-upgrader",
                self.published_upgrader.is_some(),
                "manager publish --upgrader",
            ),
        ];
        if database.is_some()
            && let Some((flag, _, instead)) = for_memory.iter().find(|(_, given, _)| *given)
        {
            return Err(format!(
                "{flag} is for a Manager without a database; with one, `{instead}` writes it there"
            ));
        }
        if database.is_none()
            && (self.account.is_none() || self.tokens.is_empty() || self.published.is_none())
        {
            return Err(
                "--database is needed, or --account, --token and --published for one that keeps nothing; see --help"
                    .to_owned(),
            );
        }
        let published_upgrader = match &database {
            None => self.published_upgrader.unwrap_or_else(|| LAB_UPGRADER.to_owned()),
            Some(_) => String::new(),
        };
        Ok(Settings {
            account: self.account.unwrap_or_default(),
            database,
            tokens: self.tokens,
            revoked_tokens: self.revoked_tokens,
            api_keys: self.api_keys,
            published: self.published.unwrap_or_default(),
            published_upgrader,
            prefix: self.prefix,
            print: true,
            clock: Clock::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        serve: Serve,
    }

    fn settings(line: &str) -> Result<Settings, String> {
        let words = std::iter::once("manager").chain(line.split_whitespace());
        Line::try_parse_from(words).unwrap().serve.settings()
    }

    #[test]
    fn what_is_for_memory_and_what_for_a_database_is_told_apart() {
        for (line, words) in [
            ("", "--database is needed"),
            ("--account a --published x:1", "--token"),
            ("--database d --published x:1", "manager publish"),
            ("--database d --token 00", "manager token create"),
            ("--database d --api-key hunter2", "manager key create"),
        ] {
            let error = settings(line).err().unwrap();
            assert!(
                error.contains(words) && !error.contains("hunter2"),
                "{line}: {error}"
            );
        }
        let lab = settings("--account a --token t --published x:1").unwrap();
        assert_eq!(
            (lab.database, lab.published_upgrader.as_str()),
            (None, LAB_UPGRADER)
        );
        let site = settings("--database d --account a").unwrap();
        assert_eq!(site.database.as_deref(), Some(std::path::Path::new("d")));
    }
}
