//! Notifications to systemd if the daemon is a service of `Type=notify`: that it is ready, how the delegates are, and
//! that its loop is alive.

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

/// How many notifications are sent in the time within which systemd expects one.
const PER_LIMIT: u32 = 3;
/// Characters of a problem that the status line has room for.
const LONGEST_PROBLEM: usize = 200;

/// Why the last reload was rejected, until one succeeds: the start of the status line.
static REJECTION: Mutex<String> = Mutex::new(String::new());

/// Shows in the status line why a reload was rejected; empty once one has succeeded.
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

/// The notifications to systemd.
pub(crate) enum State {
    Status(String),
    /// After a reload with new settings, sent by [`report`] after the first observation.
    Ready,
    Alive,
    /// The daemon reads its settings again, until it is ready.
    Reloading,
    Stopping,
}

/// Notifies systemd of the daemon for as long as this is polled. It ends at once if systemd does not listen.
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
        // After too long without a notification, systemd kills and restarts the daemon.
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

/// Notifies systemd. The socket may be full, so this waits on another thread.
pub(crate) async fn notify(state: State) {
    if !is_listening() {
        return;
    }
    let notified = spawn_blocking(move || match &state {
        // Another line would be another notification.
        State::Status(line) => sd_notify::notify(&[NotifyState::Status(&Foreign(line).to_string())]),
        State::Ready => sd_notify::notify(&[NotifyState::Ready]),
        State::Alive => sd_notify::notify(&[NotifyState::Watchdog]),
        // With the time, as `Type=notify-reload` wants it.
        State::Reloading => sd_notify::notify(&[NotifyState::Reloading, NotifyState::monotonic_usec_now()?]),
        State::Stopping => sd_notify::notify(&[NotifyState::Stopping]),
    });
    if let Ok(Err(error)) = notified.await {
        debug!(%error, "cannot notify systemd");
    }
}
