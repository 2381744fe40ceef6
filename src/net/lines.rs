//! Splits a stream of bytes into lines. The memory that this takes is limited, whatever a server sends.

/// The line that has not ended yet.
#[derive(Debug)]
pub(crate) struct Lines {
    longest: usize,
    line: Vec<u8>,
    is_cut: bool,
}

impl Lines {
    /// Starts with nothing. Of a longer line, only that many bytes are kept.
    pub(crate) fn of_at_most(longest: usize) -> Self {
        Self {
            longest,
            line: Vec::new(),
            is_cut: false,
        }
    }

    /// Reads the next chunk, and passes on each complete line with its line break, and whether it is cut.
    pub(crate) fn read(&mut self, chunk: &[u8], mut take: impl FnMut(&[u8], bool)) {
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            let room = self.longest.saturating_sub(self.line.len()).min(piece.len());
            let (kept, lost) = piece.split_at(room);
            self.line.extend_from_slice(kept);
            self.is_cut |= !lost.is_empty();
            if piece.ends_with(b"\n") {
                self.end(&mut take);
            }
        }
    }

    /// Passes on the rest, which has no line break, if there is any.
    pub(crate) fn end(&mut self, mut take: impl FnMut(&[u8], bool)) {
        if !self.line.is_empty() {
            take(&self.line, self.is_cut);
        }
        self.line.clear();
        self.is_cut = false;
    }

    /// Whether the line that has not ended yet is cut.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }
}
