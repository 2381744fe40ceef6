//! A server that sends whatever bytes a test wants, right or wrong.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The reaction to a request once it was read.
#[derive(Clone)]
pub enum Reply {
    /// These bytes, then close.
    Bytes(Vec<u8>),
    /// These bytes, then the same chunk again and again until the client stops reading.
    Endless(Vec<u8>, Vec<u8>),
    /// These bytes, and then single blanks, twenty per second.
    Drips(Vec<u8>),
    /// These bytes, then nothing, with the connection left open.
    Hang(Vec<u8>),
    /// An answer that is made from the request.
    From(Arc<dyn Fn(&str) -> String + Send + Sync>),
}

impl Reply {
    pub fn made_by(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self::From(Arc::new(answer))
    }
}

/// A server that answers each request with the next reply, and repeats the last one forever.
pub struct RawServer {
    pub url: String,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    requests: Vec<String>,
    bytes_sent: usize,
}

impl RawServer {
    pub async fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, replies.clone(), Arc::clone(&shared)));
            }
        });
        Self { url, seen }
    }

    /// Every request's head, in order.
    pub fn requests(&self) -> Vec<String> {
        self.seen.lock().unwrap().requests.clone()
    }

    pub fn bytes_sent(&self) -> usize {
        self.seen.lock().unwrap().bytes_sent
    }
}

async fn serve(mut stream: TcpStream, replies: Vec<Reply>, seen: Arc<Mutex<Seen>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let number = {
        let mut seen = seen.lock().unwrap();
        seen.requests.push(head.clone());
        seen.requests.len() - 1
    };
    match replies.get(number).or(replies.last()).unwrap() {
        Reply::Bytes(bytes) => {
            let _ = stream.write_all(bytes).await;
        }
        Reply::Endless(bytes, chunk) => {
            let _ = stream.write_all(bytes).await;
            while stream.write_all(chunk).await.is_ok() {
                seen.lock().unwrap().bytes_sent += chunk.len();
            }
        }
        Reply::Drips(bytes) => {
            let _ = stream.write_all(bytes).await;
            while stream.write_all(b" ").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Reply::Hang(bytes) => {
            let _ = stream.write_all(bytes).await;
            // Until the client closes.
            let _ = stream.read_u8().await;
        }
        Reply::From(answer) => {
            let _ = stream.write_all(answer(&head).as_bytes()).await;
        }
    }
    let _ = stream.shutdown().await;
}

/// A whole answer with the necessary headers.
pub fn answer(status: u16, headers: &str, body: &str) -> Reply {
    Reply::Bytes(answer_text(status, headers, body).into_bytes())
}

pub fn answer_text(status: u16, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} Whatever\r\nContent-Length: {}\r\nConnection: close\r\n{headers}\r\n{body}",
        body.len()
    )
}

/// The right answer.
pub fn published(image: &str) -> Reply {
    let body = format!(
        r#"{{"metaData":{{}},"resource":{{"imageTag":"{image}","shouldUpgrade":true}},"responseMessages":[]}}"#
    );
    answer(200, "Content-Type: application/json\r\n", &body)
}
