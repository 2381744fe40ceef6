//! What happens to a delegate is seen at once, however rarely it is looked at.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::daemon::{address, get};
use crate::proxy::Proxy;
use kit::lab::{Daemon, Lab, Signal, WITH_HEALTHCHECK, docker, eventually, inspect};

const PATIENCE: Duration = Duration::from_secs(60);
/// A second for the upgrader, and as much for a busy machine.
const SOON: Duration = Duration::from_secs(2);

/// Waits until the status shows the delegates so; how long that took.
fn seen(daemon: &Daemon, what: &str, is_so: impl Fn(&Value) -> bool) -> Duration {
    let (begun, url) = (
        Instant::now(),
        format!("http://{}/status", address(&daemon.log())),
    );
    eventually(what, PATIENCE, || {
        let status: Value = serde_json::from_str(&get(&url).1).expect("JSON");
        is_so(&status["report"]["delegates"])
    });
    begun.elapsed()
}

#[test]
fn what_happens_to_a_delegate_is_seen_within_a_second() {
    let lab = Lab::new("watching");
    let name = lab.delegate("1", WITH_HEALTHCHECK, &["--env", "UNHEALTHY_AFTER_SECONDS=15"]);
    let daemon = lab
        .upgrader(WITH_HEALTHCHECK)
        .with("HEALTH_INTERVAL", "1h")
        .start();
    daemon.says("delegate is healthy", PATIENCE);
    eventually("its HEALTHCHECK fails", PATIENCE, || {
        inspect(&name)["State"]["Health"]["Status"] == "unhealthy"
    });
    let health = |expected: &'static str| move |delegates: &Value| delegates[0]["health"] == expected;
    let renamed = format!("{name}-renamed");
    let mut took = vec![seen(&daemon, "it is unhealthy", health("unhealthy"))];
    docker(&["restart", "--time", "1", &name]);
    took.push(seen(&daemon, "it is healthy again", |delegates| {
        delegates[0]["health"] != "unhealthy"
    }));
    docker(&["pause", &name]);
    let reason = |expected: &'static str| move |delegates: &Value| delegates[0]["reason"] == expected;
    took.push(seen(&daemon, "it is paused", |delegates| {
        delegates[0]["health_detail"] == "paused"
    }));
    docker(&["unpause", &name]);
    docker(&["rename", &name, &renamed]);
    took.push(seen(&daemon, "it has another name", |delegates| {
        delegates[0]["container"] == renamed.as_str()
    }));
    docker(&["stop", "--time", "1", &renamed]);
    took.push(seen(&daemon, "it is stopped", reason("not_running")));
    docker(&["start", &renamed]);
    took.push(seen(&daemon, "it runs", |delegates| {
        delegates[0]["reason"] != "not_running"
    }));
    docker(&["rm", "--force", &renamed]);
    took.push(seen(&daemon, "it is gone", |delegates| {
        delegates.as_array().is_some_and(Vec::is_empty)
    }));
    assert!(took.iter().all(|took| *took < SOON), "{took:?}");
}

/// What a socket proxy refuses is asked for once.
#[test]
fn where_events_are_refused_a_delegate_is_looked_at() {
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
