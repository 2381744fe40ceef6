//! Enough of tar for an image's only layer, or for copying a file: small files, and links to them.

/// An archive under construction.
#[derive(Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    /// The modification time of its files, in seconds since 1970.
    written: u64,
}

impl Archive {
    /// An archive whose files have this modification time, in seconds since 1970.
    pub(super) fn of(written: u64) -> Self {
        Self {
            bytes: Vec::new(),
            written,
        }
    }

    /// Adds an executable file.
    pub(super) fn file(&mut self, path: &str, content: &[u8]) {
        self.header(path, b'0', content.len(), "");
        self.bytes.extend_from_slice(content);
        self.bytes.resize(self.bytes.len().next_multiple_of(512), 0);
    }

    /// Adds a symbolic link.
    pub(super) fn link(&mut self, path: &str, target: &str) {
        self.header(path, b'2', 0, target);
    }

    /// The finished archive.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len() + 1024, 0);
        self.bytes
    }

    fn header(&mut self, path: &str, kind: u8, size: usize, target: &str) {
        let mut header = [0_u8; 512];
        let mut put = |at: usize, text: &[u8]| header[at..at + text.len()].copy_from_slice(text);
        put(0, path.as_bytes());
        put(100, b"0000755\0");
        put(108, b"0000000\0");
        put(116, b"0000000\0");
        put(124, format!("{size:011o}\0").as_bytes());
        put(136, format!("{:011o}\0", self.written).as_bytes());
        // The checksum counts its own field as blanks.
        put(148, b"        ");
        put(156, &[kind]);
        put(157, target.as_bytes());
        put(257, b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.bytes.extend_from_slice(&header);
    }
}
