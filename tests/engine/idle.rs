//! A delegate on the host's network is replaced at a moment when it has no task to finish.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use kit::lab::{Lab, PATIENCE, V1, V2, eventually, follow, image, image_of, inspect};

/// How long its task takes.
const TASK: Duration = Duration::from_secs(60);
/// Longer than a restart takes here, and shorter than the rest of the task or of the drain.
const RESTART: chrono::TimeDelta = chrono::TimeDelta::seconds(15);

/// Gives a task to the delegate that listens on that port of the host; returns its answer.
fn give_task(port: u16, seconds: u64) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let request = format!("POST /task/{seconds} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it is so");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it is so");
    answer
}

fn started_at(name: &str) -> DateTime<Utc> {
    inspect(name)["State"]["StartedAt"]
        .as_str()
        .expect("it is so")
        .parse()
        .expect("it is so")
}

/// A delegate on the host's network.
fn on_the_host(lab: &Lab, port: u16, environment: &[&str]) -> String {
    let variable = format!("PORT={port}");
    let environment = environment.iter().flat_map(|variable| ["--env", variable]);
    let mut arguments = vec!["--network", "host", "--env", &variable];
    arguments.extend(environment);
    let name = lab.delegate("1", V1, &arguments);
    let listens = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    eventually("it listens", PATIENCE, listens);
    name
}

#[test]
fn stop_first_gap_equals_a_restart() {
    let lab = Lab::new("idle-task");
    let name = on_the_host(&lab, 43_465, &[]);
    let log = follow(&name);
    assert!(give_task(43_465, TASK.as_secs()).contains("202"));
    let begin = Instant::now();
    let daemon = lab
        .upgrader(V2)
        .with("RUN_ON_START", "true")
        .with("HEALTH_PORT", "43465")
        .start();
    daemon.says("waiting until it has no task to finish", PATIENCE);
    daemon.says("it has 1 task", PATIENCE);
    daemon.says("the old container is gone", TASK + PATIENCE);
    assert!(begin.elapsed() > Duration::from_secs(58), "{:?}", begin.elapsed());
    assert_eq!((lab.names(), image_of(&name)), (vec!["1".to_owned()], image(V2)));
    let text = log.end();
    assert!(text.contains("drained in full"), "{text}");
    let asked = daemon.time_of("asked", PATIENCE);
    let gap = started_at(&name) - asked;
    assert!(gap < RESTART, "{gap}: {}", daemon.log());
}
