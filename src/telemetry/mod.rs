//! Logging to standard output. It limits what libraries log, and how much may wait to be written.

mod journal;
mod line;
mod queue;

use std::io::{Write as _, stderr, stdout};
use std::sync::OnceLock;
use std::time::Duration;

use tracing::error;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::LogSettings;
use crate::text::has_colour;
use journal::is_journal;
use line::Line;
use queue::Queue;

/// How long the process waits at its end for the last lines to be written.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// There is one queue for the process, as there is one subscriber.
static QUEUE: OnceLock<Queue> = OnceLock::new();

/// Starts logging. Only this crate logs at the configured level, and all others at warnings at most: the debug lines of
/// HTTP and engine libraries contain whole requests, including tokens.
///
/// With `beside_json`, logs to standard error, since standard output is for JSON. `NO_COLOR` turns colour off.
pub fn start(settings: &LogSettings, beside_json: bool) {
    let level = settings.level;
    let targets = Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_target("delegate_upgrader", level);
    let stream = std::env::var("JOURNAL_STREAM").ok();
    let is_journal = is_journal(stream.as_deref(), &stdout());
    if !beside_json && let Ok(queue) = Queue::start(stdout(), tell) {
        let _ = QUEUE.set(queue);
    }
    let log = Log {
        line: Line::of(settings.format, is_journal, !beside_json && has_colour()),
        beside_json,
    };
    // In tests, a second start in the same process has no effect.
    let _ = tracing_subscriber::registry()
        .with(log.with_filter(targets))
        .try_init();
}

/// Writes the lines of this process.
struct Log {
    line: Line,
    beside_json: bool,
}

impl<S: Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let line = self.line.text(event);
        if self.beside_json {
            let _ = writeln!(stderr(), "{line}");
        } else {
            print_line(&line);
        }
    }
}

/// Writes a line to standard output through the queue, in order with the log lines. Without a thread for the queue, the calling
/// thread writes.
pub fn print_line(line: &str) {
    let line = format!("{line}\n");
    match QUEUE.get() {
        Some(queue) => queue.push(line.as_bytes()),
        None => {
            let _ = stdout().write_all(line.as_bytes());
        }
    }
}

fn tell(lines: u64) {
    let were = if lines == 1 { "line was" } else { "lines were" };
    // Log an error, so that no `LOG_LEVEL` hides it.
    error!("{lines} log {were} dropped because nobody read standard output");
}

/// How many log lines were dropped since the start.
pub fn dropped_lines() -> u64 {
    QUEUE.get().map_or(0, Queue::dropped)
}

/// Waits until the log is written, but for at most half a second. Call it at the end of the process.
pub fn finish() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(LAST_WORDS);
    }
}
