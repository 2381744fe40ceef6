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
    /// The lines of stdout and stderr that have not ended yet.
    outputs: [Lines; 2],
}

struct Kept {
    most: usize,
    lines: VecDeque<String>,
}

/// The format of the stream, and the reader's position in it.
enum Form {
    /// Engines before API 1.42 do not announce the format, but no text starts with the bytes of a header.
    Unknown(Vec<u8>),
    Plain,
    /// Inside a header, of which these bytes have arrived.
    Header(Vec<u8>),
    /// Inside a frame with this many bytes left.
    Frame {
        is_stderr: bool,
        left: usize,
    },
}

impl Tail {
    pub(super) fn new(keep: usize) -> Self {
        Self {
            kept: Kept {
                most: keep,
                lines: VecDeque::new(),
            },
            form: Form::Unknown(Vec::new()),
            outputs: [(); 2].map(|()| Lines::of_at_most(MAX_LINE)),
        }
    }

    pub(super) fn read(&mut self, mut chunk: &[u8]) {
        while !chunk.is_empty() {
            chunk = self.read_some(chunk);
        }
    }

    /// Reads the start of a chunk and returns the rest.
    fn read_some<'a>(&mut self, chunk: &'a [u8]) -> &'a [u8] {
        match &mut self.form {
            Form::Unknown(begun) => {
                let rest = fill(begun, chunk);
                if begun.len() == HEADER {
                    self.recognise();
                }
                rest
            }
            Form::Plain => {
                self.print(false, chunk);
                &[]
            }
            Form::Header(begun) => {
                let rest = fill(begun, chunk);
                if let Some(frame) = Form::frame(begun) {
                    self.form = frame;
                }
                rest
            }
            Form::Frame { is_stderr, left } => {
                let (is_stderr, now) = (*is_stderr, chunk.len().min(*left));
                *left -= now;
                if *left == 0 {
                    self.form = Form::Header(Vec::new());
                }
                let (frame, rest) = chunk.split_at(now);
                self.print(is_stderr, frame);
                rest
            }
        }
    }

    /// Determines the format from the bytes read so far.
    fn recognise(&mut self) {
        if let Form::Unknown(begun) = &mut self.form {
            let begun = std::mem::take(begun);
            self.form = Form::frame(&begun).unwrap_or(Form::Plain);
            if matches!(self.form, Form::Plain) {
                self.print(false, &begun);
            }
        }
    }

    fn print(&mut self, is_stderr: bool, text: &[u8]) {
        let output = &mut self.outputs[usize::from(is_stderr)];
        output.read(text, |line, is_cut| self.kept.push(line, is_cut, ""));
    }

    /// Returns the lines that were kept, including lines that have not ended yet.
    pub(super) fn text(mut self) -> String {
        self.recognise();
        let line_break = if matches!(self.form, Form::Plain) {
            ""
        } else {
            "\n"
        };
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

impl Form {
    /// Returns the state after a complete header, or `None` if the bytes are not a header. A frame may be empty.
    fn frame(header: &[u8]) -> Option<Self> {
        let [stream @ 0..=2, 0, 0, 0, length @ ..] = header else {
            return None;
        };
        let left = u32::from_be_bytes(length.try_into().ok()?);
        Some(match usize::try_from(left).ok()? {
            0 => Self::Header(Vec::new()),
            left => Self::Frame {
                is_stderr: *stream == 2,
                left,
            },
        })
    }
}

/// Adds bytes to a header until it is complete, and returns the rest of the chunk.
fn fill<'a>(header: &mut Vec<u8>, chunk: &'a [u8]) -> &'a [u8] {
    let missing = HEADER.saturating_sub(header.len()).min(chunk.len());
    let (now, rest) = chunk.split_at(missing);
    header.extend_from_slice(now);
    rest
}
