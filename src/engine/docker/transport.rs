//! The connections to an engine.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bollard::BollardRequest;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hyper::body::Incoming;
use hyper::header::{HeaderValue, USER_AGENT};
use hyper::{Response, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixStream;
use tokio::sync::Notify;
use tokio::time::timeout;
use tower::{Service as _, service_fn};

use crate::engine::EngineHost;
use crate::net::dns::Resolver;
use crate::net::{self, tls};

/// After this time without data, the kernel asks over TCP whether the engine's host is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Sends a request, and returns the answer with its body still unread.
pub(super) type Transport =
    Arc<dyn Fn(BollardRequest) -> BoxFuture<'static, Result<Response<Incoming>, Error>> + Send + Sync>;

tokio::task_local! {
    /// Notified once the connection of this task's request is established.
    static CONNECTED: Arc<Notify>;
}

fn note_connection() {
    let _ = CONNECTED.try_with(|connected| connected.notify_one());
}

/// Waits for the answer to a call, but no longer than this after its connection was established: by then the request is on its way.
pub(super) async fn once_sent<T>(call: impl Future<Output = T>, wait: Duration) -> Option<T> {
    let connected = Arc::new(Notify::new());
    let mut call = pin!(CONNECTED.scope(Arc::clone(&connected), call));
    tokio::select! {
        answer = &mut call => Some(answer),
        () = connected.notified() => timeout(wait, call).await.ok(),
    }
}

/// Returns the transport to this engine, and the URL that its requests start with. Opens no socket yet. Fails if a TLS file
/// cannot be used.
pub(super) fn to(host: &EngineHost) -> Result<(Transport, String), String> {
    Ok(match host {
        EngineHost::Unix(path) => {
            let path = path.clone();
            let socket = service_fn(move |_: Uri| {
                let path = path.clone();
                async {
                    let stream = UnixStream::connect(path).await.map(TokioIo::new);
                    note_connection();
                    stream
                }
                .boxed()
            });
            (over(socket), "http://docker".to_owned())
        }
        EngineHost::Tcp { address, tls } => {
            let (scheme, tls) = match tls {
                Some(directory) => ("https", tls::of_docker(directory)?),
                None => ("http", tls::without_roots()?),
            };
            let resolver = service_fn(async |name: Name| {
                let found = Resolver::default().addresses(name.as_str()).await?;
                Ok::<_, String>(found.into_iter().map(|ip| SocketAddr::new(ip, 0)))
            });
            let mut tcp = HttpConnector::new_with_resolver(resolver);
            tcp.enforce_http(false);
            tcp.set_nodelay(true);
            tcp.set_keepalive(Some(KEEP_ALIVE));
            tcp.set_keepalive_interval(Some(KEEP_ALIVE));
            let https = HttpsConnector::from((tcp, tls));
            let connector = service_fn(move |uri: Uri| {
                let connected = https.clone().call(uri);
                connected.inspect(|_| note_connection()).boxed()
            });
            (over(connector), format!("{scheme}://{address}"))
        }
    })
}

/// Opens a new connection for each request: after a restart of the engine, a create on an old one would fail unsent.
fn over(connector: impl Connect + Clone + Send + Sync + 'static) -> Transport {
    let client = Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(0)
        .build(connector);
    Arc::new(move |mut request| {
        let name = HeaderValue::from_static(net::client::USER_AGENT);
        request.headers_mut().insert(USER_AGENT, name);
        client.request(request).boxed()
    })
}
