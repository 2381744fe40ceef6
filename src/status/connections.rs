//! The connections of the status server. Limits keep its clients from using up the file descriptors, memory and time
//! that the rest of the program needs.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

/// How many connections may be open at once. One more replaces the oldest, which is most likely idle: answers are
/// immediate, and each closes its connection.
const MAX_OPEN: usize = 32;
/// How long a request may take to arrive.
const REQUEST: Duration = Duration::from_secs(5);
/// How long a connection may last, including its answer.
const CONNECTION: Duration = Duration::from_secs(10);
/// How large a request may be, in bytes.
const REQUEST_SIZE: usize = 16 << 10;
/// How long to wait after a connection could not be accepted, for example for lack of a file descriptor.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers each request, until the task is dropped.
pub(super) async fn serve<A>(listener: Arc<TcpListener>, answer: A) -> Infallible
where
    A: Fn(&Request<Incoming>) -> Response<String> + Clone + Send + Sync + 'static,
{
    let mut open = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        open.retain(|connection: &tokio::task::JoinHandle<()>| !connection.is_finished());
        if open.len() >= MAX_OPEN
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
            // Wait until the task has closed its socket.
            let _ = oldest.await;
        }
        open.push_back(tokio::spawn(converse(stream, answer.clone())));
    }
}

/// Serves one request. Failures are ignored, since the client is gone and cannot be notified.
async fn converse<A>(stream: TcpStream, answer: A)
where
    A: Fn(&Request<Incoming>) -> Response<String>,
{
    let service = service_fn(|request| {
        let answer = answer(&request);
        async move { Ok::<_, Infallible>(answer) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST)
        .max_buf_size(REQUEST_SIZE)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let _ = timeout(CONNECTION, connection).await;
}
