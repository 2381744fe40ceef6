//! A local Manager: the upgrade-check half of a Harness Manager's protocol, for demos, tests and labs.
//!
//! It decrypts and checks the token that comes with each request, answers in the Manager's envelope, and prints one
//! line per request. Which image is published can be changed while it runs.
//!
//! ```text
//! cargo run --example manager -- serve --listen 127.0.0.1:8080 \
//!     --account my-account --token 000102030405060708090a0b0c0d0e0f --published harness/delegate:26.01.1
//!
//! cargo run --example manager -- publish --at http://127.0.0.1:8080 harness/delegate:26.02.1
//! cargo run --example manager -- publish --at http://127.0.0.1:8080 --delegate blue harness/delegate:26.03.1
//! ```
//!
//! `serve` is what it does without a command. An upgrader is pointed at it with `MANAGER_HOST_AND_PORT=http://…:8080`,
//! the same `ACCOUNT_ID` and the same token as `UPGRADER_TOKEN`.
//!
//! # Control while it runs
//!
//! Everything under `/local/` is for whoever can reach the port: **no one is asked who they are**. Listen on a
//! loopback address or in a lab, nowhere else.
//!
//! | request | body | effect |
//! |---|---|---|
//! | `PUT /local/published` | `{"imageTag": "harness/delegate:26.02.1"}` | published for every delegate |
//! | | `{"imageTag": "…", "delegateGroupName": "blue"}` | published for that delegate; `"imageTag": null` ends it |
//! | `GET /local/published` | | what is published |
//! | `PUT /local/fault` | `{"status": 503, "times": 2}` | the next two questions get this answer, whoever asks |
//! | | more fields, all optional: `code`, `message`, `body`, `headers`, `delayMs` | with `delayMs` alone: the right answer, late |
//! | `DELETE /local/fault` | | no fault any more |
//! | `GET /local/requests` | | every question so far: when, what, the answer |
//! | `DELETE /local/requests` | | forget them |

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program says what it does"
)]

mod publish;
mod service;

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use service::{Manager, Settings};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// A local Manager that speaks the upgrade-check protocol of a Harness Manager.
#[derive(Parser)]
#[command(name = "manager", args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Option<Serve>,
}

#[derive(Subcommand)]
enum Command {
    /// Answer upgraders until SIGTERM or SIGINT (the default)
    Serve(Serve),
    /// Publish an image at a running local Manager
    Publish(publish::Publish),
}

#[derive(Args)]
struct Serve {
    /// Address and port to listen on; port 0 takes a free one and prints it
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// The one account this Manager knows
    #[arg(long)]
    account: String,
    /// Its delegate token: 32 hex digits, or the base64 of those; may be given several times
    #[arg(long = "token", required = true)]
    tokens: Vec<String>,
    /// A delegate token that was revoked
    #[arg(long = "revoked-token")]
    revoked_tokens: Vec<String>,
    /// The delegate image that is published at first
    #[arg(long)]
    published: String,
    /// The upgrader image that is published
    #[arg(long, default_value = "harness/upgrader:latest")]
    published_upgrader: String,
    /// A path in front of the protocol's own, such as /gratis
    #[arg(long, default_value = "")]
    prefix: String,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Arguments { command, serve } = Arguments::parse();
    let result = match (command, serve) {
        (Some(Command::Publish(publish)), _) => publish.run(),
        (Some(Command::Serve(serve)), _) | (None, Some(serve)) => serve.run().await,
        (None, None) => Err("nothing to do; see --help".to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("manager: {reason}");
            ExitCode::FAILURE
        }
    }
}

impl Serve {
    async fn run(self) -> Result<(), String> {
        let manager = Manager::new(Settings {
            account: self.account,
            tokens: self.tokens,
            revoked_tokens: self.revoked_tokens,
            published: self.published,
            published_upgrader: self.published_upgrader,
            prefix: self.prefix,
            print: true,
        })?;
        let mut terminate = signal(SignalKind::terminate()).map_err(|error| error.to_string())?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(|error| error.to_string())?;
        let listener = TcpListener::bind(self.listen)
            .await
            .map_err(|error| format!("cannot listen on {}: {error}", self.listen))?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        println!("listening on {address}, {}", manager.summary());

        let served = axum::serve(listener, manager.router());
        tokio::select! {
            served = served.into_future() => served.map_err(|error| error.to_string())?,
            // Not graceful on purpose: an answer that is being delayed shall not delay the exit.
            _ = terminate.recv() => println!("terminated"),
            _ = interrupt.recv() => println!("interrupted"),
        }
        Ok(())
    }
}
