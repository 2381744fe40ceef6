//! The format of a log line.

use std::fmt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{Format, Full, Json, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::config::LogFormat;

/// A line. It is one type for all looks, since each type of a layer takes 20 kB of the binary.
pub(super) struct Line {
    /// Whether it starts with its priority, as the journal reads it (sd-daemon(3)): `<4>` is a warning.
    has_priority: bool,
    look: Look,
}

enum Look {
    /// Words for people.
    Text(Format<Full>),
    /// Without time and level, which the journal has.
    Bare(Format<Full, ()>),
    /// One JSON object.
    Json(Format<Json>),
}

impl Line {
    pub(super) fn of(format: LogFormat, is_journal: bool) -> Self {
        let line = Format::default().with_target(false);
        let look = match format {
            LogFormat::Text if is_journal => Look::Bare(line.with_level(false).without_time()),
            LogFormat::Text => Look::Text(line),
            LogFormat::Json => Look::Json(line.json().flatten_event(true)),
        };
        Self {
            has_priority: is_journal,
            look,
        }
    }
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if self.has_priority {
            let priority = match *event.metadata().level() {
                Level::ERROR => 3,
                Level::WARN => 4,
                Level::INFO => 6,
                _ => 7,
            };
            write!(writer, "<{priority}>")?;
        }
        match &self.look {
            Look::Text(line) => line.format_event(context, writer, event),
            Look::Bare(line) => line.format_event(context, writer, event),
            Look::Json(line) => line.format_event(context, writer, event),
        }
    }
}
