//! Enough of HTTP/1.1 over a unix socket for a proxy that counts calls, and for requests to the engine past it: whole
//! messages in their original bytes. It is also enough for a test's own server, and to read the pages of a daemon.

use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

/// One end of a connection.
pub struct Wire {
    stream: UnixStream,
    /// Bytes that have arrived and are not read yet.
    buffer: Vec<u8>,
}

/// A request or an answer.
pub struct Message {
    /// The original bytes, head and body.
    pub bytes: Vec<u8>,
    head: String,
    pub body: Vec<u8>,
}

impl Message {
    /// The next request of a blocking client; `None` if it has no more.
    pub fn read(from: &mut impl io::BufRead) -> Option<Self> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            from.read_line(&mut head).ok().filter(|count| *count > 0)?;
        }
        let mut message = Self {
            bytes: head.clone().into_bytes(),
            head,
            body: Vec::new(),
        };
        let length = message.header("content-length").map_or(Ok(0), str::parse);
        message.body = vec![0; length.ok()?];
        from.read_exact(&mut message.body).ok()?;
        message.bytes.extend(&message.body);
        Some(message)
    }

    /// The first line's words.
    fn word(&self, index: usize) -> &str {
        let line = self.head.lines().next().unwrap_or_default();
        line.split(' ').nth(index).unwrap_or_default()
    }

    pub fn method(&self) -> &str {
        self.word(0)
    }

    /// Path and query.
    pub fn target(&self) -> &str {
        self.word(1)
    }

    pub fn status(&self) -> u16 {
        self.word(1).parse().unwrap_or_default()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = fields.find(|(field, _)| field.eq_ignore_ascii_case(name))?;
        Some(value.trim())
    }
}

impl Wire {
    pub fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    pub async fn connect(socket: &Path) -> io::Result<Self> {
        Ok(Self::new(UnixStream::connect(socket).await?))
    }

    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// The next request; `None` if the client has no more.
    pub async fn request(&mut self) -> io::Result<Option<Message>> {
        match self.head().await? {
            Some(mut message) => {
                self.body(&mut message, false).await?;
                Ok(Some(message))
            }
            None => Ok(None),
        }
    }

    /// The answer to a request.
    pub async fn answer(&mut self, method: &str) -> io::Result<Message> {
        let Some(mut message) = self.head().await? else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        if method != "HEAD" && !matches!(message.status(), 204 | 304) {
            self.body(&mut message, true).await?;
        }
        Ok(message)
    }

    /// Completes when the other end has gone. Safe to drop: bytes that arrive meanwhile are kept.
    pub async fn gone(&mut self) {
        while matches!(self.fill().await, Ok(count) if count > 0) {}
    }

    async fn fill(&mut self) -> io::Result<usize> {
        self.stream.read_buf(&mut self.buffer).await
    }

    async fn head(&mut self) -> io::Result<Option<Message>> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                let bytes: Vec<u8> = self.buffer.drain(..end + 4).collect();
                let head = String::from_utf8_lossy(&bytes).into_owned();
                let body = Vec::new();
                return Ok(Some(Message { bytes, head, body }));
            }
            match self.fill().await? {
                0 if self.buffer.is_empty() => return Ok(None),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                _ => {}
            }
        }
    }

    async fn body(&mut self, message: &mut Message, to_the_end: bool) -> io::Result<()> {
        let chunked = message
            .header("transfer-encoding")
            .is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"));
        let length = message
            .header("content-length")
            .and_then(|length| length.parse().ok());
        match length {
            _ if chunked => loop {
                let line = self.line(message).await?;
                let size = line.split(';').next().unwrap_or_default().trim();
                let size = usize::from_str_radix(size, 16)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                if size == 0 {
                    // Trailers end with an empty line.
                    while !self.line(message).await?.is_empty() {}
                    return Ok(());
                }
                let chunk = self.exactly(size).await?;
                message.bytes.extend(&chunk);
                message.body.extend(chunk);
                self.line(message).await?;
            },
            Some(length) => {
                message.body = self.exactly(length).await?;
                message.bytes.extend(&message.body);
            }
            None if to_the_end => {
                while self.fill().await? > 0 {}
                message.body = std::mem::take(&mut self.buffer);
                message.bytes.extend(&message.body);
            }
            None => {}
        }
        Ok(())
    }

    /// A line without its end.
    async fn line(&mut self, message: &mut Message) -> io::Result<String> {
        let end = loop {
            match find(&self.buffer, b"\r\n") {
                Some(end) => break end,
                None if self.fill().await? == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                None => {}
            }
        };
        let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
        message.bytes.extend(&line);
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    async fn exactly(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < count {
            if self.fill().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.buffer.drain(..count).collect())
    }
}

fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes.windows(pattern.len()).position(|window| window == pattern)
}

/// The body of the answer of a server without TLS at this URL, which must be a success.
pub fn get(url: &str) -> String {
    let (status, body) = ask(url);
    assert_eq!(status, 200, "{url}: {body}");
    body
}

/// Status and body of the answer of a server without TLS at this URL. A bare Debian has no program for that.
pub fn ask(url: &str) -> (u16, String) {
    let rest = url.strip_prefix("http://").expect("plain HTTP");
    let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("{url}: {error}"));
    let limit = Some(Duration::from_secs(30));
    stream.set_read_timeout(limit).expect("a limit");
    exchange(&mut stream, address, path).unwrap_or_else(|error| panic!("{url}: {error}"))
}

/// Status and body of the answer to a request.
pub(super) fn exchange(
    stream: &mut (impl io::Read + io::Write),
    host: &str,
    path: &str,
) -> io::Result<(u16, String)> {
    // With the older version, the answer has no chunks, and ends with the connection.
    write!(stream, "GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
    status.zip(body).ok_or_else(|| io::ErrorKind::InvalidData.into())
}
