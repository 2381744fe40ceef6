//! A test delegate: to an upgrader it looks like a Harness delegate, and it misbehaves on demand.
//!
//! It serves `/api/health` and `/api/metrics` on port 3460. On SIGTERM it finishes its tasks, which takes
//! `DRAIN_SECONDS`, says so, and exits with 0; nothing but SIGKILL shortens that. Environment
//! variables and the lines of `/behaviour` in its image say what it does. The file wins, so that version 2 of
//! an image can misbehave in a container whose environment did not change:
//!
//! | variable | default | meaning |
//! |---|---|---|
//! | `VERSION` | `unknown` | told at start |
//! | `PORT` | `3460` | of the HTTP server |
//! | `START_SECONDS` | `0` | healthy only after this |
//! | `HEALTH` | – | `never`, or `flap`: healthy and unhealthy in turns |
//! | `FLAP_SECONDS` | `5` | the length of a turn |
//! | `UNHEALTHY_AFTER_SECONDS` | – | healthy only until this |
//! | `TASKS` | `0` | how many tasks it says that it executes, until SIGTERM and `DRAIN_SECONDS` longer |
//! | `DRAIN_SECONDS` | `0` | from SIGTERM to the exit |
//! | `CRASH_AFTER_SECONDS` | – | exit 1 after this |
//! | `MANAGER` | – | `host:port`: healthy only while `GET /` there, with `DELEGATE_TOKEN` as `Authorization`, answers 200 |
//! | `IGNORE_SIGTERM` | `false` | SIGTERM changes nothing |
//!
//! `POST /task/30` gives it a task of 30 seconds. It takes none once it was asked to stop, and exits when all are done.
//!
//! `delegate healthcheck` asks the running one, for an image with a HEALTHCHECK.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "its log is what it prints"
)]

mod behaviour;

use std::future::pending;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{env, fs, io};

use behaviour::Behaviour;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// A request or an answer that takes longer than this is given up.
const PATIENCE: Duration = Duration::from_secs(5);
/// A request's head beyond this is not read.
const HEAD_LIMIT: usize = 8 * 1024;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let behaviour = match told() {
        Ok(behaviour) => behaviour,
        Err(problem) => {
            eprintln!("delegate: {problem}");
            return ExitCode::from(2);
        }
    };
    let outcome = match env::args().nth(1).as_deref() {
        None => serve(behaviour).await,
        Some("healthcheck") => healthcheck(behaviour.port).await,
        Some(other) => {
            eprintln!("delegate: {other}: healthcheck, or nothing, is accepted");
            return ExitCode::from(2);
        }
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("delegate: {error}");
        ExitCode::FAILURE
    })
}

/// The behaviour that the image and the environment tell.
fn told() -> Result<Behaviour, String> {
    let baked = match fs::read_to_string("/behaviour") {
        Ok(text) => behaviour::parse_file(&text).map_err(|problem| format!("/behaviour: {problem}"))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(format!("/behaviour: {error}")),
    };
    Behaviour::read(|key| {
        let line = baked.iter().rev().find(|(name, _)| name == key);
        line.map(|(_, value)| value.clone())
            .or_else(|| env::var(key).ok())
    })
}

/// The state that a connection needs to answer.
struct State {
    behaviour: Behaviour,
    name: String,
    started: Instant,
    draining: AtomicBool,
    /// Whether the Manager accepts its token.
    accepted: AtomicBool,
    /// How many tasks it was given that are not done.
    tasks: watch::Sender<u64>,
}

impl State {
    fn is_healthy(&self) -> bool {
        self.accepted.load(Ordering::Relaxed) && self.behaviour.healthy_at(self.started.elapsed())
    }
}

async fn serve(behaviour: Behaviour) -> io::Result<ExitCode> {
    // As PID 1 a process has no default handlers, and a signal before this line would be lost.
    let stop = Stop::listen()?;
    let state = Arc::new(State {
        name: env::var("DELEGATE_NAME").unwrap_or_else(|_| "(no DELEGATE_NAME)".into()),
        started: Instant::now(),
        draining: AtomicBool::new(false),
        accepted: AtomicBool::new(behaviour.manager.is_none()),
        tasks: watch::Sender::new(0),
        behaviour,
    });
    println!("delegate: {}, version {}", state.name, state.behaviour.version);
    let port = state.behaviour.port;
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))
        .await
        .map_err(|error| io::Error::new(error.kind(), format!("port {port}: {error}")))?;
    tokio::spawn(accept(listener, Arc::clone(&state)));
    tokio::spawn(poll(Arc::clone(&state)));
    tokio::select! {
        code = crash(state.behaviour.crash_after) => Ok(code),
        code = drained(stop, &state) => Ok(code),
    }
}

async fn crash(after: Option<Duration>) -> ExitCode {
    match after {
        Some(after) => sleep(after).await,
        None => pending().await,
    }
    println!("delegate: crashing");
    ExitCode::FAILURE
}

/// Waits for the signal to stop, then for the tasks to end. It reports signals in between, which change nothing.
async fn drained(mut stop: Stop, state: &State) -> ExitCode {
    loop {
        let name = stop.recv().await;
        if !state.behaviour.ignore_sigterm {
            println!(
                "delegate: {name}, draining {} s",
                state.behaviour.drain.as_secs_f64()
            );
            break;
        }
        println!("delegate: {name}, ignored");
    }
    state.draining.store(true, Ordering::Relaxed);
    let end = async {
        sleep(state.behaviour.drain).await;
        // The sender lives as long as the process.
        let _ = state.tasks.subscribe().wait_for(|tasks| *tasks == 0).await;
    };
    tokio::pin!(end);
    loop {
        tokio::select! {
            () = &mut end => break,
            name = stop.recv() => println!("delegate: {name} again, still draining"),
        }
    }
    println!("delegate: drained in full");
    ExitCode::SUCCESS
}

/// The signals that ask a process to end.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn recv(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let state = Arc::clone(&state);
                tokio::spawn(timeout(PATIENCE, async move { answer(stream, state).await }));
            }
            // Out of file descriptors, for one: the loop must not spin.
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Shows its token to the Manager, again and again.
async fn poll(state: Arc<State>) {
    let Some(manager) = &state.behaviour.manager else {
        return;
    };
    let token = env::var("DELEGATE_TOKEN").unwrap_or_default();
    let request =
        format!("GET / HTTP/1.1\r\nHost: {manager}\r\nAuthorization: {token}\r\nConnection: close\r\n\r\n");
    loop {
        let asked = async {
            let mut stream = TcpStream::connect(manager).await?;
            stream.write_all(request.as_bytes()).await?;
            read_head(&mut stream).await
        };
        let is_accepted =
            matches!(timeout(PATIENCE, asked).await, Ok(Ok(head)) if head.split(' ').nth(1) == Some("200"));
        if state.accepted.swap(is_accepted, Ordering::Relaxed) != is_accepted {
            println!(
                "delegate: its token is {}",
                if is_accepted { "accepted" } else { "refused" }
            );
        }
        sleep(Duration::from_millis(500)).await;
    }
}

/// Reads one request and answers it; the connection is closed after it.
async fn answer(mut stream: TcpStream, state: Arc<State>) -> io::Result<()> {
    let head = read_head(&mut stream).await?;
    let (status, body) = match head.split(' ').take(2).collect::<Vec<_>>()[..] {
        ["GET", "/api/health"] if state.is_healthy() => (
            "200 OK",
            r#"{"status":"SUCCESS","data":"healthy","metaData":null,"correlationId":null}"#.into(),
        ),
        ["GET", "/api/health"] => (
            "503 Service Unavailable",
            r#"{"status":"ERROR","code":"GENERAL_ERROR","message":"Delegate is not healthy"}"#.into(),
        ),
        ["GET", "/api/metrics"] => ("200 OK", metrics(&state)),
        ["POST", path] if let Some(task) = task(path) => {
            if state.draining.load(Ordering::Relaxed) {
                ("503 Service Unavailable", "no new tasks\n".into())
            } else {
                execute(task, Arc::clone(&state));
                ("202 Accepted", String::new())
            }
        }
        _ => ("404 Not Found", String::new()),
    };
    let length = body.len();
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

/// How long the task takes that is given at this path.
fn task(path: &str) -> Option<Duration> {
    let seconds: f64 = path.strip_prefix("/task/")?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Executes a task beside everything else.
fn execute(task: Duration, state: Arc<State>) {
    state.tasks.send_modify(|tasks| *tasks += 1);
    tokio::spawn(async move {
        sleep(task).await;
        state.tasks.send_modify(|tasks| *tasks -= 1);
    });
}

fn metrics(state: &State) -> String {
    let is_draining = state.draining.load(Ordering::Relaxed);
    let always = state.behaviour.tasks.max(u64::from(is_draining));
    let tasks = always + *state.tasks.borrow();
    let connected = u8::from(state.is_healthy());
    let gauge = |name: &str, value: u64| {
        let metric = format!("io_harness_custom_metric_{name}");
        let name = &state.name;
        format!("# TYPE {metric} gauge\n{metric}{{delegate_name=\"{name}\",}} {value}.0\n")
    };
    gauge("tasks_currently_executing", tasks) + &gauge("delegate_connected", connected.into())
}

/// The request up to the empty line, or as much of it as there is.
async fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::with_capacity(512);
    while head.len() < HEAD_LIMIT && !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if stream.read_buf(&mut head).await? == 0 {
            break;
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

async fn healthcheck(port: u16) -> io::Result<ExitCode> {
    let ask = async {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream
            .write_all(b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .await?;
        let head = read_head(&mut stream).await?;
        Ok(head.split(' ').nth(1) == Some("200"))
    };
    match timeout(PATIENCE, ask).await {
        Ok(Ok(true)) => Ok(ExitCode::SUCCESS),
        Ok(Ok(false)) => Err(io::Error::other("not healthy")),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}
