//! The proxy between an upgrader and the engine: it names and counts the calls, and treats one of them specially.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::call::{Call, Cast, STRANGER};
use crate::story::Story;
use kit::lab::wire::{Message, Wire};

/// The treatment of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// The upgrader is killed before the engine receives the call.
    KillBefore,
    /// The upgrader is killed when the engine has answered, before it gets the answer.
    KillAfter,
    /// The connection is cut before the engine receives the call.
    CutBefore,
    /// The engine does it; the connection is cut instead of an answer.
    LostAnswer,
    /// The call is answered with 500; the engine does not receive it.
    ErrorBefore,
    /// The engine does it, but the answer is a 500.
    ErrorAfter,
    /// The call and every later one of its kind are answered with 500, until the matrix ends that.
    ErrorStays,
    /// The call is held before the engine receives it, until the engine is gone.
    HoldBefore,
    /// The call is held when the engine has answered, until the engine is gone.
    HoldAfter,
}

impl Fault {
    /// The faults of points that are tried alone.
    pub(crate) const SINGLE: [Self; 7] = [
        Self::KillBefore,
        Self::KillAfter,
        Self::CutBefore,
        Self::LostAnswer,
        Self::ErrorBefore,
        Self::ErrorAfter,
        Self::ErrorStays,
    ];

    /// Whether the engine refused the call, as far as the upgrader can know.
    pub(crate) fn is_refusal(self) -> bool {
        matches!(self, Self::ErrorBefore | Self::ErrorAfter | Self::ErrorStays)
    }

    /// Whether the engine does not receive the call.
    pub(crate) fn is_before(self) -> bool {
        matches!(
            self,
            Self::KillBefore | Self::CutBefore | Self::ErrorBefore | Self::ErrorStays | Self::HoldBefore
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KillBefore => "kill-before",
            Self::KillAfter => "kill-after",
            Self::CutBefore => "cut-before",
            Self::LostAnswer => "lost-answer",
            Self::ErrorBefore => "error-before",
            Self::ErrorAfter => "error-after",
            Self::ErrorStays => "error-stays",
            Self::HoldBefore => "before",
            Self::HoldAfter => "after",
        })
    }
}

/// A fault at one call.
#[derive(Clone, Debug)]
pub(crate) struct Trap {
    /// The call as a clean upgrade has it: `07-stop-old`, `07+list`.
    pub(crate) point: String,
    /// For a write, the number of earlier calls of the same name. A candidate that crashes is renamed before or after it is
    /// stopped, depending on the moment; so this identifies a write, and not its number.
    pub(crate) same_before: usize,
    pub(crate) fault: Fault,
}

impl Trap {
    /// Whether this is the call. `same_before` is as above.
    fn is_at(&self, label: &str, write: bool, same_before: usize) -> bool {
        if write {
            self.is_like(label) && self.same_before == same_before
        } else {
            self.point == label
        }
    }

    /// Whether the trap is about calls of this name, whenever they are made.
    fn is_like(&self, label: &str) -> bool {
        unnumbered(&self.point) == unnumbered(label)
    }
}

/// `07-stop-old` → `-stop-old`.
pub(crate) fn unnumbered(label: &str) -> &str {
    label.trim_start_matches(|c: char| c.is_ascii_digit())
}

/// A proxy at a socket of its own. Ends when dropped.
pub(crate) struct Proxy {
    pub(crate) shared: Arc<Shared>,
    pub(crate) socket: PathBuf,
    server: JoinHandle<()>,
}

/// The state that a proxy's connections share with the owner of the upgrader's process.
pub(crate) struct Shared {
    engine: PathBuf,
    story: Arc<Story>,
    state: Mutex<State>,
    /// Asks for the upgrader's death.
    pub(crate) kill: Notify,
    /// Reports that the upgrader is dead.
    pub(crate) dead: Notify,
    /// Whether the call of the trap is being held.
    pub(crate) held: watch::Sender<bool>,
    /// Releases the held call.
    pub(crate) released: watch::Sender<bool>,
}

struct State {
    cast: Cast,
    trap: Option<Trap>,
    sprung: bool,
    mended: bool,
    writes: usize,
    seen: Vec<(String, bool)>,
    trespasses: Vec<String>,
}

impl Proxy {
    pub(crate) fn start(
        socket: PathBuf,
        engine: &Path,
        story: &Arc<Story>,
        cast: Cast,
        trap: Option<Trap>,
    ) -> io::Result<Self> {
        let listener = UnixListener::bind(&socket)?;
        let shared = Arc::new(Shared {
            engine: engine.to_owned(),
            story: Arc::clone(story),
            state: Mutex::new(State {
                cast,
                trap,
                sprung: false,
                mended: false,
                writes: 0,
                seen: Vec::new(),
                trespasses: Vec::new(),
            }),
            kill: Notify::new(),
            dead: Notify::new(),
            held: watch::Sender::new(false),
            released: watch::Sender::new(false),
        });
        let server = tokio::spawn(serve(listener, Arc::clone(&shared)));
        Ok(Self {
            shared,
            socket,
            server,
        })
    }

    /// The distinct calls so far in their order, and whether each is a write.
    pub(crate) fn seen(&self) -> Vec<(String, bool)> {
        self.shared.state().seen.clone()
    }

    /// Whether the call of the trap was made.
    pub(crate) fn sprung(&self) -> bool {
        self.shared.state().sprung
    }

    /// Ends a lasting fault; `false` if there is none.
    pub(crate) fn mend(&self) -> bool {
        let mut state = self.shared.state();
        let stays = state
            .trap
            .as_ref()
            .is_some_and(|trap| trap.fault == Fault::ErrorStays);
        let mends = stays && state.sprung && !state.mended;
        state.mended |= mends;
        mends
    }

    /// Writes to containers that do not belong to this delegate.
    pub(crate) fn trespasses(&self) -> Vec<String> {
        self.shared.state().trespasses.clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.server.abort();
        let _ = std::fs::remove_file(&self.socket);
    }
}

async fn serve(listener: UnixListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => drop(connections.spawn(pass(client, Arc::clone(&shared)))),
                Err(error) => shared.story.tell(format_args!("the proxy cannot accept: {error}")),
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Passes on all requests of a connection. An error ends it, as it would without a proxy.
async fn pass(client: UnixStream, shared: Arc<Shared>) {
    let mut client = Wire::new(client);
    while let Ok(Some(request)) = client.request().await {
        let (label, fault) = shared.arrives(&request);
        let quiet = label.contains(STRANGER);
        if !quiet {
            let line = format!("{} {}", request.method(), request.target());
            shared.story.tell(format_args!("> {label}  {line}"));
        }
        if let Some(fault) = fault {
            shared.story.tell(format_args!("! {fault}"));
        }
        let continues = match fault {
            Some(fault) if fault.is_before() => shared.instead(fault, &mut client).await,
            fault => {
                let answer = shared.forward(&mut client, &request).await;
                match &answer {
                    Some(answer) if !quiet => {
                        shared.story.tell(format_args!("< {label}  {}", answer.status()));
                    }
                    Some(_) => {}
                    None => shared.story.tell(format_args!("< {label}  given up")),
                }
                match (fault, answer) {
                    (Some(fault), _) => shared.instead(fault, &mut client).await,
                    (None, Some(answer)) => client.send(&answer.bytes).await.is_ok(),
                    (None, None) => false,
                }
            }
        };
        if !continues {
            return;
        }
    }
}

impl Shared {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with the state")
    }

    /// Names a call by the writes before it, and returns its fault, if any.
    fn arrives(&self, request: &Message) -> (String, Option<Fault>) {
        let mut state = self.state();
        let Call {
            name,
            write,
            container,
        } = state.cast.call(request.method(), request.target());
        if write {
            state.writes += 1;
            if let Some(container) = container.filter(|_| name.contains(STRANGER)) {
                state.trespasses.push(format!("{name} ({container})"));
            }
        }
        let sign = if write { '-' } else { '+' };
        let label = format!("{:02}{sign}{name}", state.writes);
        let is_same = |(seen, _): &&(String, bool)| unnumbered(seen) == unnumbered(&label);
        let same_before = state.seen.iter().filter(is_same).count();
        if !state.seen.iter().any(|(seen, _)| *seen == label) {
            state.seen.push((label.clone(), write));
        }
        let fault = state.trap.as_ref().and_then(|trap| {
            let again = trap.fault == Fault::ErrorStays && !state.mended && trap.is_like(&label);
            let at = trap.is_at(&label, write, same_before);
            (if state.sprung { again } else { at }).then_some(trap.fault)
        });
        state.sprung |= fault.is_some();
        (label, fault)
    }

    /// The engine's answer; `None` if either end went away first.
    async fn forward(&self, client: &mut Wire, request: &Message) -> Option<Message> {
        // A sent request arrives, even if the sender has gone meanwhile.
        let mut engine = Wire::connect(&self.engine).await.ok()?;
        engine.send(&request.bytes).await.ok()?;
        let answer = tokio::select! {
            answer = engine.answer(request.method()) => answer.ok()?,
            () = client.gone() => return None,
        };
        if let Some((_, query)) = request.target().split_once("/containers/create?")
            && let Some(id) = answer.json().get("Id").and_then(|id| id.as_str())
            && let Some(name) = query.split('&').find_map(|pair| pair.strip_prefix("name="))
        {
            self.state().cast.note(name, id);
        }
        Some(answer)
    }

    /// The upgrader's answer in place of the engine's. `true` if the connection stays open.
    async fn instead(&self, fault: Fault, client: &mut Wire) -> bool {
        match fault {
            Fault::CutBefore | Fault::LostAnswer => false,
            Fault::KillBefore | Fault::KillAfter => {
                self.kill.notify_one();
                self.dead.notified().await;
                false
            }
            Fault::ErrorBefore | Fault::ErrorAfter | Fault::ErrorStays => {
                let body = r#"{"message":"the matrix had this fail"}"#;
                let answer = format!(
                    "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
                client.send(answer.as_bytes()).await.is_ok()
            }
            Fault::HoldBefore | Fault::HoldAfter => {
                self.held.send_replace(true);
                let mut released = self.released.subscribe();
                tokio::select! {
                    _ = released.wait_for(|released| *released) => {}
                    () = client.gone() => self.story.tell("the upgrader did not wait for what is held"),
                }
                false
            }
        }
    }
}
