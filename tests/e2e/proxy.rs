//! What may stand between the upgrader and the engine.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use delegate_upgrader::engine::{RIGHTS, Right};

/// A proxy in front of the engine's socket that has no patience.
pub(crate) struct Proxy {
    socket: PathBuf,
    calls: Arc<Mutex<Vec<String>>>,
    refused: Arc<Mutex<Vec<String>>>,
    _directory: tempfile::TempDir,
}

impl Proxy {
    /// Cuts every connection that is older than that.
    pub(crate) fn that_cuts_after(limit: Duration) -> Self {
        Self::start(move |client| {
            let engine = UnixStream::connect(engine()).expect("the engine");
            let ends = [&client, &engine].map(|end| end.try_clone().expect("clone"));
            relay(
                client.try_clone().expect("clone"),
                engine.try_clone().expect("clone"),
            );
            relay(engine, client);
            thread::spawn(move || {
                thread::sleep(limit);
                for end in ends {
                    let _ = end.shutdown(Shutdown::Both);
                }
            });
        })
    }

    /// Lets through the calls of the documented list that this one takes, and answers 403 to all others, as socket
    /// proxies do.
    pub(crate) fn that_allows(takes: impl Fn(&Right) -> bool + Send + 'static) -> Self {
        let [calls, refused]: [Arc<Mutex<Vec<String>>>; 2] = Default::default();
        let (made, refusals) = (Arc::clone(&calls), Arc::clone(&refused));
        let mut proxy = Self::start(move |client| {
            let mut client = BufReader::new(client);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && client.read_line(&mut head).is_ok_and(|count| count > 0) {}
            let call = head.split(' ').take(2).collect::<Vec<_>>().join(" ");
            made.lock().expect("the calls").push(call.clone());
            let allowed = RIGHTS
                .iter()
                .any(|right| takes(right) && is_call_of(&call, right));
            if !allowed {
                refusals.lock().expect("the refusals").push(call);
                let answer =
                    "HTTP/1.1 403 Forbidden\r\nContent-Length: 9\r\nConnection: close\r\n\r\nForbidden";
                let _ = client.get_mut().write_all(answer.as_bytes());
                return;
            }
            // One call a connection, so that each is looked at.
            let head = head.replacen("\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1);
            let mut engine = UnixStream::connect(engine()).expect("the engine");
            let body = client.buffer().to_vec();
            if engine.write_all(&[head.as_bytes(), &body].concat()).is_err() {
                return;
            }
            let client = client.into_inner();
            relay(
                client.try_clone().expect("clone"),
                engine.try_clone().expect("clone"),
            );
            relay(engine, client);
        });
        proxy.calls = calls;
        proxy.refused = refused;
        proxy
    }

    /// The calls that change something, `GET` and `HEAD` left out.
    pub(crate) fn writes(&self) -> Vec<String> {
        let calls = self.calls.lock().expect("the calls");
        let reads = |call: &&String| call.starts_with("GET ") || call.starts_with("HEAD ");
        calls.iter().filter(|call| !reads(call)).cloned().collect()
    }

    /// The calls that were answered with 403.
    pub(crate) fn refused(&self) -> Vec<String> {
        self.refused.lock().expect("the refusals").clone()
    }

    /// Takes every connection and never answers.
    pub(crate) fn that_never_answers() -> Self {
        let mut held = Vec::new();
        Self::start(move |client| held.push(client))
    }

    fn start(mut meet: impl FnMut(UnixStream) + Send + 'static) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("docker.sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                meet(client);
            }
        });
        Self {
            socket,
            calls: Arc::default(),
            refused: Arc::default(),
            _directory: directory,
        }
    }

    /// Its address, as `DOCKER_HOST` has it.
    pub(crate) fn host(&self) -> String {
        format!("unix://{}", self.socket.display())
    }
}

/// Whether `GET /v1.41/images/a/b:1/json?x=1` is a call of `GET /images/{name}/json`. An image's name has any number of
/// segments.
fn is_call_of(call: &str, right: &Right) -> bool {
    let Some((method, target)) = call.split_once(' ') else {
        return false;
    };
    let path = target.split('?').next().unwrap_or_default();
    let mut segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    if segments.first().is_some_and(|first| first.starts_with("v1.")) {
        segments.remove(0);
    }
    let pattern: Vec<&str> = right
        .path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .collect();
    let Some(name) = pattern.iter().position(|segment| *segment == "{name}") else {
        let same = |(segment, wanted): (&&str, &&str)| segment == wanted || *wanted == "{id}";
        return method == right.method
            && segments.len() == pattern.len()
            && segments.iter().zip(&pattern).all(same);
    };
    let behind = &pattern[name + 1..];
    method == right.method
        && segments.len() > name + behind.len()
        && segments[..name] == pattern[..name]
        && segments.ends_with(behind)
}

/// The path of the engine's socket.
fn engine() -> PathBuf {
    let host = std::env::var("DOCKER_HOST").expect("DOCKER_HOST");
    PathBuf::from(host.strip_prefix("unix://").expect("a unix socket"))
}

fn relay(mut from: UnixStream, mut to: UnixStream) {
    thread::spawn(move || {
        let mut bytes = [0; 8192];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
}
