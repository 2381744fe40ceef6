//! Changes of a delegate are noticed at once, however rarely it is checked.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::daemon::address;
use crate::proxy::Proxy;
use kit::lab::wire::get;
use kit::lab::{Daemon, Lab, PATIENCE, Signal, WITH_HEALTHCHECK, docker, eventually, inspect};

/// For the quickest change: a second for the upgrader, and five for a busy machine. A look in progress delays the others.
const SOON: Duration = Duration::from_secs(6);
/// A machine may freeze meanwhile. Without events, the change would show up at the next check, after an hour.
const LATEST: Duration = Duration::from_secs(60);

/// Waits until the status shows the delegates this way; returns how long that took.
fn seen(daemon: &Daemon, what: &str, is_so: impl Fn(&Value) -> bool) -> Duration {
    let (begun, url) = (
        Instant::now(),
        format!("http://{}/status", address(&daemon.log())),
    );
    eventually(what, PATIENCE, || {
        let status: Value = serde_json::from_str(&get(&url)).expect("JSON");
        is_so(&status["report"]["delegates"])
    });
    begun.elapsed()
}

#[test]
fn a_delegate_change_is_noticed_within_a_second() {
    let lab = Lab::new("watching");
    let name = lab.delegate("1", WITH_HEALTHCHECK, &["--env", "UNHEALTHY_AFTER_SECONDS=30"]);
    let daemon = lab
        .upgrader(WITH_HEALTHCHECK)
        .with("HEALTH_INTERVAL", "1h")
        .start();
    daemon.says("delegate is healthy", PATIENCE);
    eventually("its HEALTHCHECK fails", PATIENCE, || {
        inspect(&name)["State"]["Health"]["Status"] == "unhealthy"
    });
    let row = |delegates: &Value, name: &str| {
        let mut delegates = delegates.as_array().expect("delegates").iter();
        delegates.find(|delegate| delegate["container"] == name).cloned()
    };
    let of = |name: &str, field: &'static str, value: &'static str| {
        let name = name.to_owned();
        move |delegates: &Value| row(delegates, &name).is_some_and(|delegate| delegate[field] == value)
    };
    let healthy = |name: &str| {
        eventually("its HEALTHCHECK passes", PATIENCE, || {
            inspect(name)["State"]["Health"]["Status"] == "healthy"
        });
        seen(&daemon, "it is healthy", of(name, "health", "healthy"))
    };
    let renamed = format!("{name}-renamed");
    let unhealthy = seen(&daemon, "it is unhealthy", of(&name, "health", "unhealthy"));
    docker(&["restart", "--time", "1", &name]);
    let restarted = healthy(&name);
    docker(&["pause", &name]);
    let paused = seen(&daemon, "it is paused", of(&name, "health_detail", "paused"));
    docker(&["unpause", &name]);
    docker(&["rename", &name, &renamed]);
    let has_its_name = seen(&daemon, "it has its name", |all| row(all, &renamed).is_some());
    docker(&["stop", "--time", "1", &renamed]);
    let stopped = seen(&daemon, "it is stopped", of(&renamed, "reason", "not_running"));
    docker(&["start", &renamed]);
    let started = healthy(&renamed);
    docker(&["rm", "--force", &renamed]);
    let gone = seen(&daemon, "it is gone", |all| row(all, &renamed).is_none());
    let mut took = [unhealthy, restarted, paused, has_its_name, stopped, started, gone];
    took.sort();
    assert!(took[0] < SOON && took[took.len() - 1] < LATEST, "{took:?}");
}

/// If a socket proxy refuses the events, the next check shows the change.
#[test]
fn delegates_are_polled_if_events_are_refused() {
    let lab = Lab::new("unwatched");
    let name = lab.delegate("1", WITH_HEALTHCHECK, &[]);
    let proxy = Proxy::with_rules(|_, path| !path.ends_with("/events"));
    let mut daemon = lab
        .upgrader(WITH_HEALTHCHECK)
        .with("DOCKER_HOST", &proxy.host())
        .with("HEALTH_INTERVAL", "5s")
        .start();
    daemon.says("delegate is healthy", PATIENCE);
    daemon.says("the engine's events are not permitted", PATIENCE);
    docker(&["stop", "--time", "1", &name]);
    seen(&daemon, "it is stopped", |delegates| {
        delegates[0]["reason"] == "not_running"
    });
    daemon.signal(Signal::TERM);
}
