//! The fidelity matrix: every option of a container, through a whole upgrade on a real engine. Run with
//! `make fidelity`.
//!
//! ```text
//! FIDELITY='mount volume' tests/lab/run cargo test --test fidelity
//! ```
//!
//! `FIDELITY` is `all`, or parts of rows' titles, all of which must match; without it nothing is tried.
//! `FIDELITY_JOBS` is the number of rows tried at once.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot continue has failed, and this one prints its own results"
)]

mod images;
mod podman;
mod row;
mod surroundings;
mod table;
mod tally;
mod trial;

use std::env;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use surroundings::Surroundings;
use tally::Tally;

/// The number of rows tried at once, by default.
const JOBS: usize = 8;

fn main() -> ExitCode {
    let selection = env::var("FIDELITY").unwrap_or_default();
    if selection.is_empty() || env::args().any(|argument| argument == "--list") {
        println!("fidelity: nothing is tried unless asked for; `make fidelity` does");
        return ExitCode::SUCCESS;
    }
    let mut parts: Vec<&str> = selection.split_whitespace().collect();
    parts.retain(|part| *part != "all");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(fidelity(&parts))
}

async fn fidelity(parts: &[&str]) -> ExitCode {
    let around = Arc::new(Surroundings::make().await);
    let begin = Instant::now();
    let jobs = env::var("FIDELITY_JOBS").ok().and_then(|jobs| jobs.parse().ok());
    let slots = Arc::new(Semaphore::new(jobs.unwrap_or(JOBS)));
    let mut rows = table::rows(&around);
    rows.retain(|row| parts.iter().all(|part| row.title.contains(part)));
    println!("fidelity: {} rows on engine {}", rows.len(), around.version);
    let mut running = JoinSet::new();
    for (number, row) in rows.into_iter().enumerate() {
        let (around, slots) = (Arc::clone(&around), Arc::clone(&slots));
        running.spawn(async move {
            let _slot = slots.acquire().await;
            let tried = trial::try_row(&row, number, &around).await;
            (row, tried)
        });
    }
    let mut tally = Tally::default();
    let mut broken = false;
    while let Some(ended) = running.join_next().await {
        match ended {
            Ok((row, tried)) => tally.count(&row, tried, around.is_podman),
            Err(error) => {
                println!("broken    {error}");
                broken = true;
            }
        }
    }
    around.clear().await;
    let well = tally.print(&around, parts.is_empty(), begin.elapsed());
    if well && !broken {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
