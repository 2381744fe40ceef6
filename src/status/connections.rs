//! The connections of the status server. Nobody who opens them, on purpose or not, takes from the rest of the program what
//! it needs: file descriptors, memory and time.

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

/// How many are open at once. A further one takes the place of the oldest, which is most likely idle: an answer is ready
/// at once, and then the connection is closed.
const MAX_OPEN: usize = 32;
/// How long a request may take to arrive.
const REQUEST: Duration = Duration::from_secs(5);
/// How long a connection may last, its answer included.
const CONNECTION: Duration = Duration::from_secs(10);
/// How large a request may be, in bytes.
const REQUEST_SIZE: usize = 16 << 10;
/// How long to wait where no connection can be taken, such as without a file descriptor left.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers each request, until the task is dropped.
pub(super) async fn serve<L, A>(listener: L, answer: A) -> Infallible
where
    L: Borrow<TcpListener>,
    A: Fn(&Request<Incoming>) -> Response<String> + Clone + Send + Sync + 'static,
{
    let mut open = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.borrow().accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        open.retain(|connection: &tokio::task::JoinHandle<()>| !connection.is_finished());
        if open.len() >= MAX_OPEN
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
            // It has closed its socket then.
            let _ = oldest.await;
        }
        open.push_back(tokio::spawn(converse(stream, answer.clone())));
    }
}

/// One request and its answer. If either fails, nobody is there to be told.
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
