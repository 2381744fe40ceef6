//! Proxies that may stand between the upgrader and the engine.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use delegate_upgrader::engine::{API_CALLS, ApiCall};
use kit::lab::engine::engine_socket;

type Calls = Arc<Mutex<Vec<String>>>;

const FORBIDDEN: &str = "HTTP/1.1 403 Forbidden\r\nContent-Type: text/html\r\nContent-Length: 58\r\nConnection: close\r\n\r\n\
                         <html><body><h1>403 Forbidden</h1>\nBy rule.\n</body></html>";

const BROKEN: &str = "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nContent-Length: 41\r\nConnection: close\r\n\r\n\
                      {\"message\":\"transport endpoint is gone\"}\n";

/// How the proxy treats a call.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Treatment {
    LetThrough,
    /// It is let through, and cut off after a second.
    Cut,
    /// It is answered with 403.
    Refused,
    /// The engine fails: the call is answered with 500.
    Broken,
    /// It is never answered.
    Silence,
    /// Only the first half of the engine's answer is sent.
    Halved,
    /// The process that makes the call is killed before the call reaches the engine.
    KilledBefore,
    /// The process that makes the call is killed once the engine has answered.
    KilledAfter,
    /// It is let through, and the answer is kept.
    Remembered,
    /// It gets the answer that was kept last.
    Repeated,
}

/// The refused calls, except the list of Swarm services: if that is refused, the upgrader assumes no services.
pub(crate) fn without_services(refused: Vec<String>) -> Vec<String> {
    let is_other = |call: &String| !call.contains("/services");
    refused.into_iter().filter(is_other).collect()
}

/// A proxy in front of the engine's socket.
pub(crate) struct Proxy {
    socket: PathBuf,
    asked: Calls,
    refused: Calls,
    _directory: tempfile::TempDir,
}

impl Proxy {
    /// Lets through the documented calls that the predicate accepts, and answers 403 to others, as socket proxies do.
    pub(crate) fn that_allows(takes: impl Fn(&ApiCall) -> bool + Send + 'static) -> Self {
        Self::with_rules(move |method, path| {
            API_CALLS
                .iter()
                .any(|call| takes(call) && is_call_of(method, path, call))
        })
    }

    /// Lets through the calls whose method and path are allowed, and answers 403 to all others, with a page like haproxy's.
    pub(crate) fn with_rules(allows: impl Fn(&str, &str) -> bool + Send + 'static) -> Self {
        Self::that_treats(move |method, path| {
            if allows(method, path) {
                Treatment::LetThrough
            } else {
                Treatment::Refused
            }
        })
    }

    /// Treats each call as this function decides from its method and path.
    pub(crate) fn that_treats(treatment: impl Fn(&str, &str) -> Treatment + Send + 'static) -> Self {
        let (asked, refused) = (Calls::default(), Calls::default());
        let (told, refusals) = (Arc::clone(&asked), Arc::clone(&refused));
        let turn = Mutex::new((treatment, Vec::new(), Vec::new()));
        let mut proxy = Self::start(move |client| {
            let mut client = BufReader::new(client);
            let mut head = String::new();
            // A client may open a connection, and then ask through another one that becomes free first, or end.
            while !head.ends_with("\r\n\r\n") {
                if !client.read_line(&mut head).is_ok_and(|count| count > 0) {
                    return;
                }
            }
            // One call at a time.
            let mut turn = turn.lock().expect("no call failed");
            let (treatment, held, kept) = &mut *turn;
            let mut words = head.split([' ', '?']);
            let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            let call = format!("{method} {path}");
            told.lock().expect("the calls").push(call.clone());
            let treatment = treatment(method, path);
            match treatment {
                Treatment::LetThrough
                | Treatment::Cut
                | Treatment::Halved
                | Treatment::KilledAfter
                | Treatment::Remembered => {}
                Treatment::Repeated => {
                    let _ = client.get_mut().write_all(kept);
                    return;
                }
                Treatment::KilledBefore => {
                    kit::lab::kill_peer(client.get_ref());
                    return;
                }
                Treatment::Broken => {
                    let _ = client.get_mut().write_all(BROKEN.as_bytes());
                    return;
                }
                Treatment::Silence => return held.push(client.into_inner()),
                Treatment::Refused => {
                    refusals.lock().expect("the refusals").push(call);
                    let _ = client.get_mut().write_all(FORBIDDEN.as_bytes());
                    return;
                }
            }
            // One call per connection, so that each call is checked.
            let head = head.replacen("\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1);
            let mut engine = UnixStream::connect(engine_socket()).expect("the engine");
            let body = client.buffer().to_vec();
            if engine.write_all(&[head.as_bytes(), &body].concat()).is_err() {
                return;
            }
            let mut client = client.into_inner();
            if treatment == Treatment::KilledAfter {
                let mut answer = Vec::new();
                // The events' answer never ends.
                let limit = if head.contains("/events") { 1 } else { u64::MAX };
                let _ = engine.take(limit).read_to_end(&mut answer);
                return kit::lab::kill_peer(&client);
            }
            if treatment == Treatment::Remembered {
                kept.clear();
                let _ = engine.read_to_end(kept);
                let _ = client.write_all(kept);
                return;
            }
            if treatment == Treatment::Halved {
                let mut answer = Vec::new();
                let _ = engine.read_to_end(&mut answer);
                let _ = client.write_all(&answer[..answer.len() / 2]);
                return held.push(client);
            }
            let ends = [&client, &engine].map(|end| end.try_clone().expect("clone"));
            relay(
                client.try_clone().expect("clone"),
                engine.try_clone().expect("clone"),
            );
            relay(engine, client);
            if treatment == Treatment::Cut {
                drop(turn);
                thread::sleep(Duration::from_secs(1));
                for end in ends {
                    let _ = end.shutdown(Shutdown::Both);
                }
            }
        });
        (proxy.asked, proxy.refused) = (asked, refused);
        proxy
    }

    /// All calls, without their queries.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("the calls").clone()
    }

    /// The calls that change something, `GET` and `HEAD` left out.
    pub(crate) fn writes(&self) -> Vec<String> {
        let mut calls = self.asked();
        calls.retain(|call| !call.starts_with("GET ") && !call.starts_with("HEAD "));
        calls
    }

    /// The calls that were answered with 403.
    pub(crate) fn refused(&self) -> Vec<String> {
        self.refused.lock().expect("the refusals").clone()
    }

    /// Takes every connection and never answers.
    pub(crate) fn that_never_answers() -> Self {
        Self::that_treats(|_, _| Treatment::Silence)
    }

    fn start(meet: impl Fn(UnixStream) + Send + Sync + 'static) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("docker.sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let meet = Arc::new(meet);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let meet = Arc::clone(&meet);
                thread::spawn(move || meet(client));
            }
        });
        Self {
            socket,
            asked: Calls::default(),
            refused: Calls::default(),
            _directory: directory,
        }
    }

    /// Its address in the form of `DOCKER_HOST`.
    pub(crate) fn host(&self) -> String {
        format!("unix://{}", self.socket.display())
    }
}

/// Whether `GET` of `/v1.41/images/a/b:1/json` is a call of `GET /images/{name}/json`: a name has any number of segments.
fn is_call_of(method: &str, path: &str, call: &ApiCall) -> bool {
    let mut segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    if segments.first().is_some_and(|first| first.starts_with("v1.")) {
        segments.remove(0);
    }
    let pattern: Vec<&str> = call
        .path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .collect();
    let Some(name) = pattern.iter().position(|segment| *segment == "{name}") else {
        let same = |(segment, wanted): (&&str, &&str)| segment == wanted || *wanted == "{id}";
        return method == call.method
            && segments.len() == pattern.len()
            && segments.iter().zip(&pattern).all(same);
    };
    let behind = &pattern[name + 1..];
    method == call.method
        && segments.len() > name + behind.len()
        && segments[..name] == pattern[..name]
        && segments.ends_with(behind)
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

/// A process that ends may close a connection before it makes a call, which must not hold up the calls of others.
#[test]
fn ignores_a_connection_without_a_call() {
    let proxy = Proxy::that_treats(|_, _| Treatment::KilledAfter);
    let mut client = UnixStream::connect(&proxy.socket).expect("the proxy");
    client.shutdown(Shutdown::Write).expect("its end");
    client
        .set_read_timeout(Some(kit::lab::PATIENCE))
        .expect("a limit");
    assert_eq!(client.read(&mut [0]).expect("the proxy ends it too"), 0);
    assert_eq!(proxy.asked(), Vec::<String>::new());
}
