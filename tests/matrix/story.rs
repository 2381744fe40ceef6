//! The events of one point, line by line, kept if it ended badly.

use std::fmt::Display;
use std::sync::Mutex;
use std::time::Instant;

/// The story of one point.
pub(crate) struct Story {
    begin: Instant,
    lines: Mutex<Vec<String>>,
}

impl Story {
    pub(crate) fn new() -> Self {
        Self {
            begin: Instant::now(),
            lines: Mutex::default(),
        }
    }

    pub(crate) fn tell(&self, what: impl Display) {
        let seconds = self.begin.elapsed().as_secs_f64();
        let mut lines = self.lines.lock().expect("no teller panics");
        lines.push(format!("{seconds:8.3}  {what}"));
    }

    pub(crate) fn text(&self) -> String {
        self.lines.lock().expect("no teller panics").join("\n")
    }
}
