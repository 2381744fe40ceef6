//! A local Manager: what a Harness Manager answers an upgrader, for sites without a way to one, for labs and for tests.
//!
//! It decrypts and checks the token that comes with each request, answers in the Manager's envelope, and prints one
//! line per request. Which image is published, the overrides of it, tokens and API keys can be changed while it runs.
//!
//! # A site
//!
//! With `--database` (or the variable `MANAGER_DATABASE`) all it knows is in one SQLite file, and the administrator's
//! commands work on the same file, whether it runs or not:
//!
//! ```text
//! manager serve --database manager.db --account my-account --listen 0.0.0.0:8080
//! manager publish --database manager.db registry.example/harness/delegate:26.02.88404
//! manager token create --database manager.db docker-hosts
//! manager delegates --database manager.db
//! manager audit --database manager.db
//! ```
//!
//! The file holds the delegate tokens, since they open the requests: it is made for its owner only. Of API keys there
//! are digests.
//!
//! # A lab
//!
//! Without a database it keeps in memory what you tell it at start and over HTTP:
//!
//! ```text
//! cargo run --package local-manager -- serve --listen 127.0.0.1:8080 \
//!     --account my-account --token 000102030405060708090a0b0c0d0e0f --published harness/delegate:26.01.1
//!
//! cargo run --package local-manager -- publish --at http://127.0.0.1:8080 harness/delegate:26.02.1
//! cargo run --package local-manager -- publish --at http://127.0.0.1:8080 --delegate blue harness/delegate:26.03.1
//! ```
//!
//! `serve` is what it does without a command. An upgrader is pointed at it with `MANAGER_HOST_AND_PORT=http://…:8080`,
//! the same `ACCOUNT_ID` and the same token as `UPGRADER_TOKEN`.
//!
//! # Requests
//!
//! | request | who | what |
//! |---|---|---|
//! | `GET /api/upgrade-check/delegate-v2`, `delegate`, `upgrader` | a delegate token | the image; `delegate-v2` also notes that an upgrader is at work |
//! | `GET /ng/api/delegate-setup/latest-supported-version` | an API key | the published version |
//! | `GET`, `PUT /ng/api/delegate-setup/override-delegate-tag` | an API key | overrides of the image |
//! | `DELETE /ng/api/delegate-setup/delete-delegate-override` | an API key | ends one |
//! | `POST /ng/api/delegate-setup/listDelegates` | an API key | delegates, their versions, whether they are upgraded |
//! | `GET /ng/api/delegate-setup/audit-trail` | an API key | who changed what, and when; not a call of Harness's |
//!
//! # Control of a lab
//!
//! Everyone who can reach the port can use everything under `/local/`: **it asks no one who they are**. It is there only
//! without a database. Listen on a loopback address or in a lab, nowhere else.
//!
//! | request | body | effect |
//! |---|---|---|
//! | `PUT /local/published` | `{"imageTag": "harness/delegate:26.02.1"}` | published for every delegate |
//! | | `{"imageTag": "…", "delegateGroupName": "blue"}` | published for that delegate; `"imageTag": null` ends it |
//! | `GET /local/published` | | what is published |
//! | `PUT /local/fault` | `{"status": 503, "times": 2}` | the next two upgrade checks get this answer, from any host |
//! | | more fields, all optional: `code`, `message`, `body`, `headers`, `delayMs` | with `delayMs` alone: the right answer, late |
//! | `DELETE /local/fault` | | ends the fault |
//! | `GET /local/requests` | | every question so far: when, what, the answer |
//! | `DELETE /local/requests` | | forget them |

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program says what it does"
)]

mod admin;
mod publish;
mod serve;
mod service;
mod tables;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use chrono::{DateTime, Utc};
use clap::{Parser, Subcommand};

/// A local Manager that speaks the upgrade-check protocol of a Harness Manager.
#[derive(Parser)]
#[command(name = "manager", args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Option<serve::Serve>,
}

#[derive(Subcommand)]
enum Command {
    /// Answer upgraders until SIGTERM or SIGINT (the default)
    Serve(serve::Serve),
    /// Publish an image: in a database, or at a running Manager of a lab
    Publish(publish::Publish),
    /// Delegate tokens, which upgraders ask with
    #[command(subcommand)]
    Token(admin::Token),
    /// API keys, for the REST beside the upgrade check
    #[command(subcommand)]
    Key(admin::Key),
    /// Another image than the published one, for a scope or for the delegates there that have some tags
    #[command(subcommand)]
    Override(admin::Override),
    /// The delegates, their versions, and whether an upgrader looks after them
    Delegates(admin::Delegates),
    /// The audit trail: who changed overrides, tokens and delegates, and which delegates were upgraded
    Audit(admin::Audit),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Arguments { command, serve } = Arguments::parse();
    let result = match command.or(serve.map(Command::Serve)) {
        Some(Command::Serve(serve)) => serve.run().await.map(|()| String::new()),
        Some(other) => other.administer(chrono::Utc::now()),
        None => Err("nothing to do; see --help".to_owned()),
    };
    match result {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("manager: {reason}");
            ExitCode::FAILURE
        }
    }
}

impl Command {
    /// Runs a command that soon ends, and returns what it has to say.
    fn administer(&self, now: DateTime<Utc>) -> Result<String, String> {
        match self {
            Self::Serve(_) => Err("serve runs until it is stopped".to_owned()),
            Self::Publish(publish) => publish.run(now),
            Self::Token(token) => token.run(now),
            Self::Key(key) => key.run(now),
            Self::Override(wish) => wish.run(now),
            Self::Delegates(delegates) => delegates.run(now),
            Self::Audit(audit) => audit.run(),
        }
    }
}
