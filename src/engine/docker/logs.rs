//! Extracts the last lines of a container's log from the engine's stream, which has one of two formats.

use std::collections::VecDeque;

/// The size of a frame's header: the number of the stream, three zero bytes, and the length of the payload.
const HEADER: usize = 8;
/// The most bytes of a line to keep. [`CUT`] replaces the rest.
const MAX_LINE: usize = 64 * 1024;
/// Marks a line that was cut.
const CUT: &str = "…";

/// Collects the last lines of both streams, in the order in which the lines ended, without the frames around them. A
/// container with a terminal has a single stream without frames.
pub(super) struct Tail {
    keep: usize,
    lines: VecDeque<String>,
    form: Form,
    stdout: Line,
    stderr: Line,
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

/// A line that has not ended yet.
#[derive(Default)]
struct Line {
    bytes: Vec<u8>,
    is_cut: bool,
}

impl Tail {
    /// Creates a tail that keeps this many lines.
    pub(super) fn new(keep: usize) -> Self {
        Self {
            keep,
            lines: VecDeque::new(),
            form: Form::Unknown(Vec::new()),
            stdout: Line::default(),
            stderr: Line::default(),
        }
    }

    /// Reads the next chunk of the stream.
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
        for piece in text.split_inclusive(|byte| *byte == b'\n') {
            let line = if is_stderr {
                &mut self.stderr
            } else {
                &mut self.stdout
            };
            line.extend(piece);
            if piece.ends_with(b"\n") {
                let line = line.end();
                self.push(line);
            }
        }
    }

    fn push(&mut self, line: String) {
        self.lines.push_back(line);
        if self.lines.len() > self.keep {
            self.lines.pop_front();
        }
    }

    /// Returns the lines that were kept, including lines that have not ended yet.
    pub(super) fn text(mut self) -> String {
        self.recognise();
        let is_plain = matches!(self.form, Form::Plain);
        for mut line in [std::mem::take(&mut self.stdout), std::mem::take(&mut self.stderr)] {
            if !line.bytes.is_empty() {
                if !is_plain && !line.is_cut {
                    line.bytes.push(b'\n');
                }
                self.push(line.end());
            }
        }
        self.lines.into_iter().collect()
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

impl Line {
    fn extend(&mut self, piece: &[u8]) {
        let room = MAX_LINE.saturating_sub(self.bytes.len());
        if piece.len() > room {
            self.is_cut = true;
        }
        let (kept, _) = piece.split_at(piece.len().min(room));
        self.bytes.extend_from_slice(kept);
    }

    /// Returns the line, or the part of it that was kept, and starts the next one.
    fn end(&mut self) -> String {
        let Self { bytes, is_cut } = std::mem::take(self);
        let mut line = String::from_utf8_lossy(&bytes).into_owned();
        if is_cut {
            line.push_str(CUT);
            line.push('\n');
        }
        line
    }
}

/// Adds bytes to a header until it is complete, and returns the rest of the chunk.
fn fill<'a>(header: &mut Vec<u8>, chunk: &'a [u8]) -> &'a [u8] {
    let missing = HEADER.saturating_sub(header.len()).min(chunk.len());
    let (now, rest) = chunk.split_at(missing);
    header.extend_from_slice(now);
    rest
}
