//! Reads a delegate's work from its metrics, which are Prometheus text.

use crate::net::lines::Lines;

/// The gauge for the number of tasks that the delegate executes.
const TASKS: &str = "io_harness_custom_metric_tasks_currently_executing";
/// The gauge that is 1 while the delegate is connected to the Manager.
const CONNECTED: &str = "io_harness_custom_metric_delegate_connected";
/// The most bytes of a line to keep. Lines of these gauges have about eighty bytes; longer lines belong to other metrics.
const MAX_LINE: usize = 1024;

/// The work that a delegate reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The number of tasks that it executes.
    pub tasks: u64,
    /// Whether the delegate reports a connection to the Manager.
    pub is_connected: Option<bool>,
}

/// Reads the metrics of a delegate piece by piece, since there may be thousands of other metrics.
#[derive(Debug)]
pub struct WorkReader {
    lines: Lines,
    tasks: Option<f64>,
    connected: Option<f64>,
}

impl Default for WorkReader {
    fn default() -> Self {
        Self {
            lines: Lines::of_at_most(MAX_LINE),
            tasks: None,
            connected: None,
        }
    }
}

impl WorkReader {
    /// Reads the next bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.lines.read(bytes, |line, is_cut| {
            let Some(line) = std::str::from_utf8(line).ok().filter(|_| !is_cut) else {
                return;
            };
            if let Some(value) = value_of(line, TASKS) {
                *self.tasks.get_or_insert(0.0) += value;
            } else if let Some(value) = value_of(line, CONNECTED) {
                *self.connected.get_or_insert(0.0) += value;
            }
        });
    }

    /// Returns the work that was read, or `None` without a number of tasks.
    pub fn finish(mut self) -> Option<Work> {
        // The last line may lack its end.
        self.feed(b"\n");
        Some(Work {
            tasks: count(self.tasks?)?,
            is_connected: self.connected.map(|connected| connected > 0.0),
        })
    }
}

/// Returns the value of a sample line, `name{label="value",} 1.0 1700000000000`, if the line belongs to this metric.
fn value_of(line: &str, name: &str) -> Option<f64> {
    let rest = line.trim().strip_prefix(name)?;
    let rest = if rest.starts_with('{') {
        // A label's value may contain a brace.
        rest.rsplit_once('}')?.1
    } else {
        rest
    };
    let value = rest.strip_prefix([' ', '\t'])?.split_whitespace().next()?;
    value.parse().ok()
}

/// Converts a gauge to a count, or returns `None` if the value is not a count.
fn count(value: f64) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a fraction of a task is rounded up, and the range is checked"
    )]
    (0.0..=1e9).contains(&value).then(|| value.ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Work> {
        let mut reader = WorkReader::default();
        reader.feed(text.as_bytes());
        reader.finish()
    }

    #[test]
    fn a_delegates_metrics_show_its_current_work() {
        let text = "# HELP io_harness_custom_metric_tasks_currently_executing Generated\n\
            # TYPE io_harness_custom_metric_tasks_currently_executing gauge\n\
            io_harness_custom_metric_tasks_currently_executing{delegate_name=\"a } b\",} 3.0\n\
            io_harness_custom_metric_tasks_currently_executing_max 9.0\n\
            io_harness_custom_metric_delegate_connected{delegate_name=\"d\",} 1.0 1700000000000\n";
        let work = Work {
            tasks: 3,
            is_connected: Some(true),
        };
        assert_eq!(read(text), Some(work));
        // The result depends neither on the pieces nor on a line break at the end.
        for at in 0..text.len() - 1 {
            let (first, second) = text.trim_end().as_bytes().split_at(at);
            let mut reader = WorkReader::default();
            reader.feed(first);
            reader.feed(second);
            assert_eq!(reader.finish(), Some(work), "{at}");
        }
    }

    #[test]
    fn adds_series_of_one_gauge() {
        let series = |label: &str, tasks: u8| format!("{TASKS}{{type=\"{label}\"}} {tasks}\n");
        let text = series("shell", 2) + &series("helm", 1);
        assert_eq!(
            read(&text),
            Some(Work {
                tasks: 3,
                is_connected: None
            })
        );
    }

    #[test]
    fn anything_but_a_task_count_is_unknown() {
        for text in [
            String::new(),
            "<html>not found</html>".to_owned(),
            format!("{CONNECTED} 1.0\n"),
            format!("{TASKS} NaN\n"),
            format!("{TASKS} -1\n"),
            format!("{TASKS} +Inf\n"),
            format!("{TASKS} many\n"),
            format!("{TASKS}\n"),
            format!("{TASKS}{{unclosed=\"1\" 2.0\n"),
            format!("{TASKS}{} 1.0\n", " ".repeat(MAX_LINE)),
        ] {
            assert_eq!(read(&text), None, "{text}");
        }
    }
}
