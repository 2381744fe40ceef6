//! What may stand between the upgrader and the engine.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// A proxy in front of the engine's socket that has no patience.
pub(crate) struct Proxy {
    socket: PathBuf,
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
            _directory: directory,
        }
    }

    /// Its address, as `DOCKER_HOST` has it.
    pub(crate) fn host(&self) -> String {
        format!("unix://{}", self.socket.display())
    }
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
