//! The log lines that wait to be written. A separate thread writes them, so that an output that nobody reads, such as a
//! full pipe or a log driver that blocks, does not hold up anything else.

use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::sync::lock;

/// How many bytes may wait, in addition to those being written. A single line is accepted whatever its length.
const LIMIT: usize = 64 << 10;

/// The thread only formats one line and writes, so a small stack is enough.
const STACK: usize = 256 << 10;

/// Clones share the lines.
#[derive(Clone, Default)]
pub(super) struct Queue(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<u8>,
    /// The number of lines in `waiting`.
    lines: u64,
    is_writing: bool,
    /// How many lines were dropped since the thread last took the waiting ones.
    newly_dropped: u64,
    /// How many lines were dropped or refused by the output since the start.
    dropped: u64,
}

impl Queue {
    /// Makes a queue whose thread writes to `output`. After lines were dropped, the thread calls `tell` with their
    /// number. `tell` may log.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(super) fn start(
        output: impl Write + Send + 'static,
        tell: impl Fn(u64) + Send + 'static,
    ) -> io::Result<Self> {
        let queue = Self::default();
        let thread = queue.clone();
        std::thread::Builder::new()
            .name("log".to_owned())
            .stack_size(STACK)
            .spawn(move || thread.write_all(output, tell))?;
        Ok(queue)
    }

    fn write_all(&self, mut output: impl Write, tell: impl Fn(u64)) {
        loop {
            let is_idle = |state: &mut State| state.waiting.is_empty();
            let waited = self.0.changed.wait_while(lock(&self.0.state), is_idle);
            let mut state = waited.unwrap_or_else(PoisonError::into_inner);
            let text = mem::take(&mut state.waiting);
            let lines = mem::take(&mut state.lines);
            let dropped = mem::take(&mut state.newly_dropped);
            state.is_writing = true;
            drop(state);
            if dropped > 0 {
                // The message goes first in the empty queue, so it appears at the place of the missing lines.
                tell(dropped);
            }
            let written = output.write_all(&text).and_then(|()| output.flush());
            let mut state = lock(&self.0.state);
            if written.is_err() {
                state.dropped += lines;
            }
            state.is_writing = false;
            drop(state);
            self.0.changed.notify_all();
        }
    }

    /// Adds a line, or drops it. Once a line is dropped, so are all others until the thread has taken the waiting ones.
    pub(super) fn push(&self, line: &[u8]) {
        let mut state = lock(&self.0.state);
        let fits = state.waiting.is_empty() || state.waiting.len() + line.len() <= LIMIT;
        if state.newly_dropped > 0 || !fits {
            state.newly_dropped += 1;
            state.dropped += 1;
            return;
        }
        state.waiting.extend_from_slice(line);
        state.lines += 1;
        drop(state);
        self.0.changed.notify_all();
    }

    /// How many lines were not written since the start.
    pub(super) fn dropped(&self) -> u64 {
        lock(&self.0.state).dropped
    }

    /// Waits until all lines are written, but no longer than this.
    pub(super) fn flush(&self, limit: Duration) {
        let is_busy = |state: &mut State| state.is_writing || !state.waiting.is_empty();
        // The caller does not need to know whether it was in time.
        let _ = self
            .0
            .changed
            .wait_timeout_while(lock(&self.0.state), limit, is_busy);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Instant;

    use super::*;

    /// An output that writes once for each permit, and without limit once the sender of permits is gone.
    struct Slow {
        permits: Receiver<()>,
        written: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.permits.recv();
            self.written.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn slow() -> (Queue, Sender<()>, Arc<Mutex<Vec<u8>>>) {
        let (sender, permits) = channel();
        let written = Arc::new(Mutex::new(Vec::new()));
        let output = Slow {
            permits,
            written: Arc::clone(&written),
        };
        let teller = Arc::new(Mutex::new(Queue::default()));
        let told = Arc::clone(&teller);
        let tell = move |dropped| {
            let queue = told.lock().unwrap().clone();
            queue.push(format!("{dropped} dropped\n").as_bytes());
        };
        let queue = Queue::start(output, tell).unwrap();
        *teller.lock().unwrap() = queue.clone();
        (queue, sender, written)
    }

    #[test]
    fn blocked_output_never_delays_callers_and_counts_dropped_lines() {
        const LINES: u64 = 20_000;
        let (queue, permits, written) = slow();
        let begun = Instant::now();
        queue.push(b"line 0\n");
        while !lock(&queue.0.state).is_writing {
            std::thread::sleep(Duration::from_millis(1));
        }
        for number in 1..LINES {
            queue.push(format!("line {number}\n").as_bytes());
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        assert!(lock(&queue.0.state).waiting.len() <= LIMIT);
        let dropped = queue.dropped();
        assert!(dropped > 0 && dropped < LINES, "{dropped}");
        drop(permits);
        queue.flush(Duration::from_secs(10));
        queue.push(b"later\n");
        queue.flush(Duration::from_secs(10));
        let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        let mut expected: Vec<String> = (0..LINES - dropped)
            .map(|number| format!("line {number}"))
            .collect();
        expected.extend([format!("{dropped} dropped"), "later".to_owned()]);
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
        assert_eq!(queue.dropped(), dropped);
    }

    #[test]
    fn shutdown_waits_for_last_line_within_a_limit() {
        let (queue, permits, written) = slow();
        queue.push(b"last words\n");
        let begun = Instant::now();
        queue.flush(Duration::from_millis(200));
        let took = begun.elapsed();
        assert!(
            (200..2_000).contains(&took.as_millis()) && written.lock().unwrap().is_empty(),
            "{took:?}"
        );
        permits.send(()).unwrap();
        queue.flush(Duration::from_secs(60));
        assert!(begun.elapsed() < Duration::from_secs(30));
        assert_eq!(*written.lock().unwrap(), b"last words\n");
    }

    #[test]
    fn takes_line_of_any_length_into_empty_queue() {
        let (queue, permits, written) = slow();
        queue.push(&vec![b'x'; LIMIT * 2]);
        drop(permits);
        queue.flush(Duration::from_secs(60));
        assert_eq!((written.lock().unwrap().len(), queue.dropped()), (LIMIT * 2, 0));
    }

    #[test]
    fn lines_that_the_output_refuses_count_as_dropped() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let queue = Queue::start(Closed, |_| panic!("nothing was dropped for want of room")).unwrap();
        queue.push(b"one\n");
        queue.push(b"two\n");
        queue.flush(Duration::from_secs(60));
        assert_eq!(queue.dropped(), 2);
    }
}
