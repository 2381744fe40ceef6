//! The format of a log line. Every value in it, whatever its origin, is written as [`Foreign`].

use std::fmt::{Debug, Write as _};

use chrono::{SecondsFormat, Utc};
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

use crate::config::LogFormat;
use crate::text::{Foreign, json};

/// The format of lines.
pub(super) struct Line {
    format: LogFormat,
    /// Whether lines are for the journal: they start with a priority (sd-daemon(3)) such as `<4>`, instead of the time.
    is_journal: bool,
    has_colour: bool,
}

impl Line {
    pub(super) fn of(format: LogFormat, is_journal: bool, has_colour: bool) -> Self {
        let has_colour = has_colour && !is_journal && format == LogFormat::Text;
        Self {
            format,
            is_journal,
            has_colour,
        }
    }

    /// The line for an event.
    pub(super) fn text(&self, event: &Event<'_>) -> String {
        let level = *event.metadata().level();
        let time = Utc::now().to_rfc3339_opts(SecondsFormat::Micros, true);
        let mut values = Values {
            is_json: self.format == LogFormat::Json,
            message: String::new(),
            fields: String::new(),
        };
        event.record(&mut values);
        let Values { message, fields, .. } = values;
        let (priority, number) = match level {
            Level::ERROR => (3, 31),
            Level::WARN => (4, 33),
            Level::INFO => (6, 32),
            Level::DEBUG => (7, 34),
            Level::TRACE => (7, 35),
        };
        let mut line = String::new();
        if self.is_journal {
            let _ = write!(line, "<{priority}>");
        }
        let _ = match self.format {
            LogFormat::Json => write!(
                line,
                "{{\"timestamp\":\"{time}\",\"level\":\"{level}\"{message}{fields}}}"
            ),
            LogFormat::Text if self.is_journal => write!(line, "{message}{fields}"),
            LogFormat::Text if self.has_colour => write!(
                line,
                "\x1b[2m{time}\x1b[0m \x1b[{number}m{level:>5}\x1b[0m {message}{fields}"
            ),
            LogFormat::Text => write!(line, "{time} {level:>5} {message}{fields}"),
        };
        line
    }
}

/// The values of an event, as the line shows them.
struct Values {
    is_json: bool,
    message: String,
    fields: String,
}

impl Values {
    fn add(&mut self, field: &Field, value: &str) {
        let (name, is_message) = (field.name(), field.name() == "message");
        let slot = if is_message {
            &mut self.message
        } else {
            &mut self.fields
        };
        let _ = match (self.is_json, is_message) {
            (true, _) => write!(slot, ",\"{name}\":{value}"),
            (false, true) => write!(slot, "{}", Foreign(value)),
            (false, false) => write!(slot, " {name}={}", Foreign(value)),
        };
    }

    fn add_text(&mut self, field: &Field, text: &str) {
        if self.is_json {
            self.add(field, &json::string(text));
        } else {
            self.add(field, text);
        }
    }
}

impl Visit for Values {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add_text(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if self.is_json || field.name() == "message" {
            self.add_text(field, value);
        } else {
            self.add(field, &format!("{value:?}"));
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, &value.to_string());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, &value.to_string());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, &value.to_string());
    }
}
