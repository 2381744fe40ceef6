//! Notifies systemd if the daemon is a service of `Type=notify`: that it is ready, how the delegates are, and that its
//! loop is alive.

use std::env;
use std::future::pending;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::Utc;
use sd_notify::NotifyState;
use tokio::task::spawn_blocking;
use tracing::debug;

use crate::status::Reader;
use crate::status::liveness::Liveness;
use crate::status::view::Headline;
use crate::text::{Foreign, one_line};

/// How many notifications are sent during the time within which systemd expects one.
const PER_LIMIT: u32 = 3;
/// How many characters of a problem fit in the status line.
const LONGEST_PROBLEM: usize = 200;

/// The start of the status line: why the last reload was rejected. Empty once a reload succeeds.
static REJECTION: Mutex<String> = Mutex::new(String::new());

/// Shows in the status line why a reload was rejected; an empty `problem` removes it.
pub(crate) async fn show_rejection(problem: &str) {
    let start = match problem {
        "" => String::new(),
        problem => format!("reload rejected: {}; ", one_line(problem, LONGEST_PROBLEM)),
    };
    rejection().clone_from(&start);
    if !start.is_empty() {
        notify(State::Status(start + "keeping the previous settings")).await;
    }
}

fn rejection() -> MutexGuard<'static, String> {
    REJECTION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A notification to systemd.
pub(crate) enum State {
    Status(String),
    /// After the start, and after a reload with new settings, [`report`] sends it once there is an observation.
    Ready,
    Alive,
    /// The daemon is reading its settings again. This state lasts until `Ready`.
    Reloading,
    Stopping,
}

/// Keeps systemd informed about the daemon for as long as this is polled. Ends at once if systemd does not listen.
pub(crate) async fn report(mut status: Reader, liveness: Liveness) {
    if !is_listening() {
        return;
    }
    let interval = sd_notify::watchdog_enabled().map(|limit| limit / PER_LIMIT);
    let mut last = String::new();
    let mut is_ready = false;
    loop {
        let (line, has_observed) = {
            let status = status.borrow_and_update();
            let line = format!("{}{}", rejection(), Headline::of(&status, Utc::now()).text);
            (line, status.report.is_some())
        };
        if line != last {
            last.clone_from(&line);
            notify(State::Status(line)).await;
        }
        if has_observed && !is_ready {
            is_ready = true;
            notify(State::Ready).await;
        }
        // Without these notifications, systemd kills and restarts the daemon after a while.
        if interval.is_some() && liveness.problem().is_none() {
            notify(State::Alive).await;
        }
        let pause = async {
            match interval {
                Some(interval) => tokio::time::sleep(interval).await,
                None => pending().await,
            }
        };
        tokio::select! {
            changed = status.changed() => if changed.is_err() { return },
            () = pause => {}
        }
    }
}

fn is_listening() -> bool {
    env::var_os("NOTIFY_SOCKET").is_some()
}

/// Notifies systemd. This may block while the socket is full, so it runs on another thread.
pub(crate) async fn notify(state: State) {
    if !is_listening() {
        return;
    }
    let notified = spawn_blocking(move || match &state {
        // A line break would start another notification.
        State::Status(line) => sd_notify::notify(&[NotifyState::Status(&Foreign(line).to_string())]),
        State::Ready => sd_notify::notify(&[NotifyState::Ready]),
        State::Alive => sd_notify::notify(&[NotifyState::Watchdog]),
        // `Type=notify-reload` requires the time.
        State::Reloading => sd_notify::notify(&[NotifyState::Reloading, NotifyState::monotonic_usec_now()?]),
        State::Stopping => sd_notify::notify(&[NotifyState::Stopping]),
    });
    if let Ok(Err(error)) = notified.await {
        debug!(%error, "cannot notify systemd");
    }
}
