//! Notifies systemd if the daemon is a service of `Type=notify`: that it is ready, how the delegates are, and that its
//! loop is alive.

use std::env;
use std::future::pending;
use std::sync::Mutex;

use chrono::Utc;
use sd_notify::NotifyState;
use tokio::task::spawn_blocking;
use tracing::debug;

use crate::status::Reader;
use crate::status::liveness::Liveness;
use crate::status::view::Headline;
use crate::sync::lock;
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
    lock(&REJECTION).clone_from(&start);
    if !start.is_empty() {
        notify(NotifyState::Status(&(start + "keeping the previous settings"))).await;
    }
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
            let line = format!("{}{}", lock(&REJECTION), Headline::of(&status, Utc::now()).text);
            (line, status.report.is_some())
        };
        if line != last {
            notify(NotifyState::Status(&line)).await;
            last = line;
        }
        if has_observed && !is_ready {
            is_ready = true;
            notify(NotifyState::Ready).await;
        }
        // Without these notifications, systemd kills and restarts the daemon after a while.
        if interval.is_some() && liveness.problem().is_none() {
            notify(NotifyState::Watchdog).await;
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
pub(crate) async fn notify(state: NotifyState<'_>) {
    if !is_listening() {
        return;
    }
    // A line break would start another notification.
    let mut text = Foreign(&state.to_string()).to_string();
    if matches!(state, NotifyState::Reloading)
        && let Ok(time) = NotifyState::monotonic_usec_now()
    {
        // `Type=notify-reload` requires it.
        text = format!("{text}\n{time}");
    }
    let notified = spawn_blocking(move || sd_notify::notify(&[NotifyState::Custom(&text)]));
    if let Ok(Err(error)) = notified.await {
        debug!(%error, "cannot notify systemd");
    }
}
