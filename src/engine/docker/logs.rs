//! Extracts the last lines of a container's log from the engine's stream, which has one of two formats.

use std::collections::VecDeque;

use crate::net::lines::Lines;

/// The size of a frame's header: the number of the stream, three zero bytes, and the length of the payload.
const HEADER: usize = 8;
/// The most bytes of a line to keep. [`CUT`] replaces the rest.
const MAX_LINE: usize = 64 * 1024;
/// The end of a line that was cut.
const CUT: &str = "…\n";

/// Collects the last lines of both streams, in the order in which the lines ended, without the frames around them. A
/// container with a terminal has a single stream without frames.
pub(super) struct Tail {
    kept: Kept,
    form: Form,
    /// The beginning of a header.
    header: Vec<u8>,
    /// The rest of the frame, in bytes.
    left: usize,
    is_stderr: bool,
    /// The lines of stdout and stderr that have not ended yet.
    outputs: [Lines; 2],
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// Engines before API 1.42 do not announce the format, but no text starts with the bytes of a header.
    Unknown,
    Plain,
    Framed,
}

struct Kept {
    most: usize,
    lines: VecDeque<String>,
}

impl Tail {
    pub(super) fn new(keep: usize) -> Self {
        Self {
            kept: Kept {
                most: keep,
                lines: VecDeque::new(),
            },
            form: Form::Unknown,
            header: Vec::new(),
            left: 0,
            is_stderr: false,
            outputs: [(); 2].map(|()| Lines::of_at_most(MAX_LINE)),
        }
    }

    pub(super) fn read(&mut self, mut chunk: &[u8]) {
        while !chunk.is_empty() {
            let is_header = self.form != Form::Plain && self.left == 0;
            let most = match self.form {
                Form::Plain => chunk.len(),
                _ if is_header => HEADER.saturating_sub(self.header.len()),
                _ => self.left,
            };
            let (now, rest) = chunk.split_at(most.min(chunk.len()));
            chunk = rest;
            if !is_header {
                self.left = self.left.saturating_sub(now.len());
                self.print(now);
                continue;
            }
            self.header.extend_from_slice(now);
            if self.header.len() == HEADER {
                self.end_header();
            }
        }
    }

    /// Begins the frame after a header. Other bytes are printed with all that follows: they are a text without frames.
    fn end_header(&mut self) {
        let header = std::mem::take(&mut self.header);
        if let [stream @ 0..=2, 0, 0, 0, a, b, c, d] = *header {
            self.form = Form::Framed;
            self.is_stderr = stream == 2;
            self.left = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        } else {
            self.form = Form::Plain;
            self.is_stderr = false;
            self.print(&header);
        }
    }

    fn print(&mut self, text: &[u8]) {
        let output = &mut self.outputs[usize::from(self.is_stderr)];
        output.read(text, |line, is_cut| self.kept.push(line, is_cut, ""));
    }

    /// Returns the lines that were kept, including lines that have not ended yet.
    pub(super) fn text(mut self) -> String {
        if self.form == Form::Unknown {
            self.end_header();
        }
        let line_break = if self.form == Form::Plain { "" } else { "\n" };
        for mut output in self.outputs {
            output.end(|line, is_cut| self.kept.push(line, is_cut, line_break));
        }
        self.kept.lines.into_iter().collect()
    }
}

impl Kept {
    /// Keeps a line, with this end if it is not cut.
    fn push(&mut self, line: &[u8], is_cut: bool, end: &str) {
        let end = if is_cut { CUT } else { end };
        let line = String::from_utf8_lossy(line);
        self.lines.push_back(format!("{line}{end}"));
        if self.lines.len() > self.most {
            self.lines.pop_front();
        }
    }
}
