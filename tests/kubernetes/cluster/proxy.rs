//! A proxy between the program and the API server: it counts requests, and kills the program at one of them.
//!
//! `kubectl proxy` speaks TLS with the upgrader's account, so the program itself speaks plain HTTP.

use std::io::{BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use kit::lab::servers::Server;
use kit::lab::wire::Message;

/// The time at which the program is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kill {
    /// Before the request reaches the API server.
    Before,
    /// Once the API server has answered.
    After,
}

pub(crate) struct Proxy {
    /// `kubectl proxy`, which ends with this proxy.
    upstream: Server,
    address: String,
    requests: Arc<AtomicUsize>,
    point: Arc<Mutex<Option<(usize, Kill)>>>,
    victim: Arc<Mutex<Option<Child>>>,
}

impl Proxy {
    pub(crate) fn new(kubeconfig: &Path) -> Self {
        let upstream = Server::start(|_, port| {
            let mut command = Command::new("kubectl");
            command
                .arg("proxy")
                .args(["--port", &port.to_string()])
                .args(["--kubeconfig", &kubeconfig.to_string_lossy()]);
            command
        });
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let proxy = Self {
            address: format!("http://{}", listener.local_addr().expect("an address")),
            requests: Arc::default(),
            point: Arc::default(),
            victim: Arc::default(),
            upstream,
        };
        let to = proxy.upstream.address();
        let (requests, point, victim) = (
            Arc::clone(&proxy.requests),
            Arc::clone(&proxy.point),
            Arc::clone(&proxy.victim),
        );
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (to, requests) = (to.clone(), Arc::clone(&requests));
                let (point, victim) = (Arc::clone(&point), Arc::clone(&victim));
                std::thread::spawn(move || {
                    let _ = serve(stream, &to, &requests, &point, &victim);
                });
            }
        });
        proxy
    }

    /// A kubeconfig for the way through this proxy.
    pub(crate) fn kubeconfig(&self) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: x\nclusters: [{{name: x, cluster: {{server: \"{}\"}}}}]\n\
             users: [{{name: x, user: {{}}}}]\ncontexts: [{{name: x, context: {{cluster: x, user: x}}}}]\n",
            self.address
        )
    }

    /// Kills the program at this request, counted from 0. Returns whether the program reached it.
    pub(crate) fn kill_at(&self, at: usize, how: Kill, start: impl FnOnce() -> Child) -> bool {
        self.requests.store(0, Ordering::SeqCst);
        *self.point.lock().expect("the point") = Some((at, how));
        *self.victim.lock().expect("the victim") = Some(start());
        loop {
            let mut victim = self.victim.lock().expect("the victim");
            let ended = victim.as_mut().map(|child| child.try_wait().expect("a process"));
            if !matches!(ended, Some(None)) {
                break;
            }
            drop(victim);
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        *self.point.lock().expect("the point") = None;
        self.requests.load(Ordering::SeqCst) > at
    }
}

/// Serves one request; the answer ends with the connection.
fn serve(
    mut stream: TcpStream,
    to: &str,
    requests: &AtomicUsize,
    point: &Mutex<Option<(usize, Kill)>>,
    victim: &Mutex<Option<Child>>,
) -> std::io::Result<()> {
    let Some(request) = Message::read(&mut BufReader::new(&stream)) else {
        return Ok(());
    };
    let closing = b"\r\nconnection: close\r\n";
    let first = request
        .bytes
        .iter()
        .position(|byte| *byte == b'\r')
        .unwrap_or_default();
    let request = [&request.bytes[..first], closing, &request.bytes[first + 2..]].concat();
    let number = requests.fetch_add(1, Ordering::SeqCst);
    let kill = point
        .lock()
        .expect("the point")
        .filter(|(at, _)| *at == number)
        .map(|(_, how)| how);
    let end = || {
        if let Some(child) = victim.lock().expect("the victim").as_mut() {
            let _ = child.kill();
        }
    };
    if kill == Some(Kill::Before) {
        end();
        return Ok(());
    }
    let mut upstream = TcpStream::connect(to)?;
    upstream.write_all(&request)?;
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer)?;
    if kill == Some(Kill::After) {
        end();
        return Ok(());
    }
    stream.write_all(&answer)
}
