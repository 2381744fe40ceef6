//! Logging to standard output, with a cap on what libraries log.

use std::io::IsTerminal;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{LogFormat, LogSettings};

/// Starts logging. Only this crate logs at the configured level, everything else at warnings at most: the debug lines
/// of HTTP and engine libraries hold whole requests, tokens included.
pub fn start(settings: &LogSettings) {
    let level = LevelFilter::from_level(settings.level.into());
    let targets = Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_target("delegate_upgrader", level);
    let layer = tracing_subscriber::fmt::layer().with_target(false);
    let layer = match settings.format {
        LogFormat::Text => layer.with_ansi(std::io::stdout().is_terminal()).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    // In tests, a second start in one process keeps the first.
    let _ = tracing_subscriber::registry()
        .with(layer.with_filter(targets))
        .try_init();
}
