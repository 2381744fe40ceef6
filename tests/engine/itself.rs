//! The upgrader replaces its own container on a real engine: which of the two serves meanwhile, which one is left, and
//! how the exchange ends when either of them is killed at any call.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::proxy::{Proxy, Treatment};
use kit::lab::engine::engine_socket;
use kit::lab::{
    self, Lab, PATIENCE, V1, V2, WITH_HEALTHCHECK, docker, env, eventually, expect, image, inspect, logs,
    project, running,
};

pub(crate) const FIRST: &str = "1.0.0";
pub(crate) const SECOND: &str = "1.1.0";
/// It ends at once.
pub(crate) const CRASHES: &str = "1.2.0";
/// It lives, but never sees an engine.
const NEVER_READY: &str = "1.3.0";
/// It works, but its HEALTHCHECK says that it does not.
const UNHEALTHY: &str = "1.4.0";
/// Settings that shorten the times of an upgrader that replaces itself.
pub(crate) const SHORT: [&str; 4] = [
    "SCHEDULE=*/5 * * * * *",
    "UPGRADE_HEALTHY_TIME=2s",
    "UPGRADE_HEALTHY_DEADLINE=2m",
    "HEALTH_INTERVAL=1s",
];
/// Limits how long a bad image is tried; a good one has that much time on a busy machine.
const SOON_REJECTED: [&str; 2] = ["--env", "UPGRADE_HEALTHY_DEADLINE=30s"];
/// A look may find an upgrader that is just ending and miss the one that has just started, and a busy machine may answer
/// late. The duration of a look says nothing more, so the test counts looks instead of time.
const MOST_MISSES: usize = 4;

pub(crate) fn upgrader_image(version: &str) -> String {
    format!("{}/harness/upgrader:{version}", env("LAB_REGISTRY"))
}

/// Builds the images once, and leaves only the first on the engine; the registry has the others.
pub(crate) fn build() {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        let first = upgrader_image(FIRST);
        expect(Command::new(project().join("tests/lab/upgrader-image")).arg(&first));
        docker(&["push", "--quiet", &first]);
        let nothing = tempfile::tempdir().expect("a directory");
        for (version, change) in [
            (SECOND, "LABEL version=1.1.0"),
            (
                CRASHES,
                r#"ENTRYPOINT ["/delegate-upgrader", "config", "--nonsense"]"#,
            ),
            (NEVER_READY, "ENV DOCKER_HOST=unix:///nowhere.sock"),
            (
                UNHEALTHY,
                r#"HEALTHCHECK --interval=1s CMD ["/delegate-upgrader", "config", "--nonsense"]"#,
            ),
        ] {
            let tag = upgrader_image(version);
            lab::build(&tag, &format!("FROM {first}\n{change}\n"), nothing.path(), &[]);
            docker(&["push", "--quiet", &tag]);
            docker(&["rmi", &tag]);
        }
    });
}

/// Starts an upgrader in a container of this test. It wants to run that version and reaches the engine by this socket.
/// The engine starts it again when it ends, unless it has `--rm`.
pub(crate) fn run(lab: &Lab, wanted: &str, socket: &str, arguments: &[&str]) -> String {
    build();
    run_towards(lab, &upgrader_image(wanted), socket, arguments)
}

/// The same with any image. Variables among the arguments replace the short times of the same name.
fn run_towards(lab: &Lab, wanted: &str, socket: &str, arguments: &[&str]) -> String {
    build();
    let socket = format!("{socket}:/var/run/docker.sock");
    let workload = format!("UPGRADER_WORKLOAD_NAME={}", lab.name);
    let published = format!("PUBLISHED_IMAGE={}", image(V2));
    let wanted = format!("SELF_UPGRADE={wanted}");
    let first = upgrader_image(FIRST);
    let mut all = vec![
        // Each check costs the engine as much as the start of a container.
        "--health-interval",
        "2s",
        "--volume",
        &socket,
        "--env",
        &workload,
        "--env",
        &published,
        "--env",
        &wanted,
    ];
    for variable in SHORT {
        let name = variable.split_inclusive('=').next().unwrap_or_default();
        if !arguments.iter().any(|argument| argument.starts_with(name)) {
            all.extend(["--env", variable]);
        }
    }
    if !arguments.contains(&"--rm") {
        all.extend(["--restart", "unless-stopped"]);
    }
    all.extend(arguments);
    all.push(&first);
    lab.container("upgrader", &all)
}

/// Whether the container of that name runs that version; between two renames no container has the name.
pub(crate) fn runs(name: &str, version: &str) -> bool {
    let rows = running("name", &format!("^/{name}$"));
    rows.first()
        .is_some_and(|(_, image, _)| *image == upgrader_image(version))
}

/// The status and the body of an answer, if one comes.
fn get(address: &str, path: &str) -> Option<(u16, String)> {
    let socket = format!("{address}:9464").parse().ok()?;
    // A container that has just ended does not refuse the connection.
    let mut stream = TcpStream::connect_timeout(&socket, Duration::from_millis(200)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let code = answer.split(' ').nth(1)?.parse().ok()?;
    let body = answer.split_once("\r\n\r\n")?.1.to_owned();
    Some((code, body))
}

/// The addresses of the running containers whose names match.
fn addresses(name: &str) -> Vec<String> {
    let rows = running("name", name).into_iter();
    rows.filter_map(|(_, _, address)| address).collect()
}

/// Asks all upgraders of a test continuously whether they are alive.
pub(crate) struct Watch {
    ends: Arc<AtomicBool>,
    /// The longest series of looks that found no live upgrader, with the findings of each.
    watcher: thread::JoinHandle<Vec<String>>,
}

impl Watch {
    /// Begins once the first one is alive.
    pub(crate) fn begin(lab: &Lab) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let (end, named) = (Arc::clone(&ends), format!("^/{}-upgrader", lab.name));
        // The findings, if none is alive.
        let look = move || {
            let begun = Instant::now();
            let ask = |address: String| {
                let code = get(&address, "/livez").map(|(code, _)| code);
                (address, code)
            };
            let found: Vec<_> = addresses(&named).into_iter().map(ask).collect();
            let is_one = found.iter().any(|(_, code)| *code == Some(200));
            (!is_one).then(|| format!("{found:?} in {:?}", begun.elapsed()))
        };
        eventually("one is alive", PATIENCE, || look().is_none());
        let watcher = thread::spawn(move || {
            let (mut misses, mut most) = (Vec::new(), Vec::new());
            while !end.load(Ordering::Relaxed) {
                match look() {
                    Some(miss) => misses.push(miss),
                    None => misses.clear(),
                }
                if misses.len() > most.len() {
                    most.clone_from(&misses);
                }
                thread::sleep(Duration::from_millis(100));
            }
            most
        });
        Self { ends, watcher }
    }

    pub(crate) fn found_one_at_every_moment(self, upgrader: &str) {
        self.ends.store(true, Ordering::Relaxed);
        let misses = self.watcher.join().expect("the watch");
        assert!(
            misses.len() <= MOST_MISSES,
            "looks in a row that found no upgrader alive: {misses:#?}\n{}",
            logs(upgrader)
        );
    }
}

/// The settings that a successor may not change.
pub(crate) fn settings(document: &Value) -> Value {
    let mut host = document["HostConfig"].clone();
    // The engine fills in the first two when it starts a container; a successor has a label instead of the last.
    for field in ["ContainerIDFile", "Annotations", "AutoRemove"] {
        host.as_object_mut().expect("an object").remove(field);
    }
    serde_json::json!([
        host,
        document["Config"]["Env"],
        document["Config"]["Healthcheck"],
        document["Mounts"]
    ])
}

/// The status of the upgrader with this name; null between two renames.
pub(crate) fn status(name: &str) -> Value {
    let addresses = addresses(&format!("^/{name}$"));
    let answer = addresses.first().and_then(|address| get(address, "/status"));
    let json = answer.and_then(|(_, body)| serde_json::from_str(&body).ok());
    json.unwrap_or_default()
}

#[test]
fn one_upgrader_is_always_in_service_during_a_takeover() {
    let lab = Lab::new("itself");
    let delegate = lab.delegate("1", V1, &["--restart", "unless-stopped"]);
    let upgrader = run(&lab, SECOND, &engine_socket(), &[]);
    let before = settings(&inspect(&upgrader));
    let watch = Watch::begin(&lab);
    eventually("it has replaced itself", PATIENCE, || runs(&upgrader, SECOND));
    eventually("only the new one is left", PATIENCE, || {
        lab.names() == ["1", "upgrader"]
    });
    watch.found_one_at_every_moment(&upgrader);
    assert_eq!(settings(&inspect(&upgrader)), before);
    assert_eq!(
        docker(&["inspect", "--format", "{{.Config.Image}}", &delegate]),
        image(V2)
    );
    // The new upgrader reports it, and continues with the delegates.
    eventually("it is reported", PATIENCE, || {
        let events = &status(&upgrader)["events"];
        events
            .as_array()
            .is_some_and(|events| events.iter().any(|event| event["action"] == "self_upgraded"))
    });
    let status = status(&upgrader);
    assert_eq!(status["report"]["upgrader"]["reason"], "up_to_date", "{status}");
    assert_eq!(
        status["report"]["delegates"].as_array().map(Vec::len),
        Some(1),
        "{status}"
    );
}

/// Waits until that image is rejected and in quarantine.
pub(crate) fn is_rejected(lab: &Lab, upgrader: &str) {
    eventually("the bad one is rejected", PATIENCE, || {
        lab.names() == ["upgrader", "upgrader.failed-1"] && runs(upgrader, FIRST)
    });
    eventually("its image is in quarantine", PATIENCE, || {
        status(upgrader)["report"]["upgrader"]["reason"] == "quarantined"
    });
}

#[test]
fn bad_image_leaves_the_old_upgrader_in_charge() {
    for bad in [CRASHES, NEVER_READY] {
        let lab = Lab::new(&format!("itself-bad-{bad}"));
        let upgrader = run(&lab, bad, &engine_socket(), &SOON_REJECTED);
        let first = inspect(&upgrader);
        let watch = Watch::begin(&lab);
        is_rejected(&lab, &upgrader);
        watch.found_one_at_every_moment(&upgrader);
        let now = inspect(&upgrader);
        assert_eq!(now["Id"], first["Id"]);
        assert_eq!(now["State"]["StartedAt"], first["State"]["StartedAt"]);
    }
}

/// A delegate's image, set by mistake: its container is healthy but not an upgrader, so it does not take the name.
#[test]
fn image_that_is_not_an_upgrader_is_rejected() {
    for has_port in [false, true] {
        let lab = Lab::new(&format!("itself-delegate-{has_port}"));
        let port = own_port();
        let port = port.iter().map(String::as_str).filter(|_| has_port);
        let options: Vec<&str> = port.chain(SOON_REJECTED).collect();
        let upgrader = run_towards(&lab, &image(WITH_HEALTHCHECK), &engine_socket(), &options);
        let first = inspect(&upgrader);
        let begun = Instant::now();
        is_rejected(&lab, &upgrader);
        assert!(begun.elapsed() > Duration::from_secs(30), "it had its time");
        let now = inspect(&upgrader);
        assert_eq!(now["Id"], first["Id"]);
        assert_eq!(
            now["State"]["StartedAt"], first["State"]["StartedAt"],
            "has_port={has_port}"
        );
    }
}

/// However the old upgrader ends, the candidate takes over the rest.
#[test]
fn the_candidate_takes_over_when_the_old_upgrader_is_stopped() {
    for action in [["stop", "--time=5"], ["kill", "--signal=KILL"], ["rm", "--force"]] {
        let lab = Lab::new(&format!("itself-{}", action[0]));
        let slow = [
            "--env",
            "UPGRADE_HEALTHY_TIME=20s",
            "--env",
            "UPGRADE_HEALTHY_DEADLINE=60s",
        ];
        let upgrader = run(&lab, SECOND, &engine_socket(), &slow);
        let candidate = format!("{upgrader}.candidate");
        eventually("the new one is alive", PATIENCE, || {
            !addresses(&format!("^/{candidate}$")).is_empty()
        });
        let id = inspect(&candidate)["Id"].clone();
        // By then the candidate has looked around.
        thread::sleep(Duration::from_secs(3));
        docker(&[action[0], action[1], &upgrader]);
        eventually("the new one has the name", PATIENCE, || runs(&upgrader, SECOND));
        eventually("only the new one is left", PATIENCE, || {
            lab.names() == ["upgrader"]
        });
        assert_eq!(inspect(&upgrader)["Id"], id, "{action:?}");
        eventually("it acts", PATIENCE, || {
            status(&upgrader)["report"]["upgrader"]["reason"] == "up_to_date"
        });
    }
}

/// A port of the host that nothing else has.
pub(crate) fn own_port() -> [String; 2] {
    let port = kit::lab::servers::free_port();
    ["--publish".to_owned(), format!("127.0.0.1:{port}:9464")]
}

/// Two upgraders at once would need the same port, or the same network.
#[test]
fn a_helper_makes_the_exchange_where_two_cannot_run_at_once() {
    let listen = format!("LISTEN_ADDR=127.0.0.1:{}", kit::lab::servers::free_port());
    let ways = [
        own_port().to_vec(),
        ["--network", "host", "--env", &listen]
            .map(str::to_owned)
            .to_vec(),
    ];
    for (way, arguments) in ways.iter().enumerate() {
        let lab = Lab::new(&format!("itself-helper-{way}"));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let upgrader = run(&lab, SECOND, &engine_socket(), &arguments);
        let before = settings(&inspect(&upgrader));
        eventually("it has replaced itself", PATIENCE, || runs(&upgrader, SECOND));
        eventually("only the new one is left", PATIENCE, || {
            lab.names() == ["upgrader"]
        });
        assert_eq!(settings(&inspect(&upgrader)), before);
        let log = logs(&upgrader);
        assert!(
            log.contains("this upgrader acts on this host from now on"),
            "{log}"
        );
    }
    // If the engine chooses the port, two upgraders get different ones.
    let lab = Lab::new("itself-any-port");
    let upgrader = run(&lab, SECOND, &engine_socket(), &["--publish", "9464"]);
    eventually("it has replaced itself", PATIENCE, || runs(&upgrader, SECOND));
    assert!(!logs(&upgrader).contains("helper"), "{}", logs(&upgrader));
}

/// Two of these images fail in the helper, so the old upgrader never stops. The third fails when it has the port, and the
/// helper brings the old upgrader back.
#[test]
fn a_bad_image_keeps_the_old_upgrader_even_if_two_cannot_run_at_once() {
    for bad in [CRASHES, NEVER_READY, UNHEALTHY] {
        let lab = Lab::new(&format!("itself-helper-bad-{bad}"));
        let port = own_port();
        let options: Vec<&str> = port.iter().map(String::as_str).chain(SOON_REJECTED).collect();
        let upgrader = run(&lab, bad, &engine_socket(), &options);
        let first = inspect(&upgrader);
        is_rejected(&lab, &upgrader);
        let now = inspect(&upgrader);
        assert_eq!(now["Id"], first["Id"]);
        assert_eq!(settings(&now), settings(&first));
        let has_stopped = now["State"]["StartedAt"] != first["State"]["StartedAt"];
        assert_eq!(has_stopped, bad == UNHEALTHY, "{bad}");
    }
}

/// Whether a call counts, by its method.
type Counted = fn(&str) -> bool;

/// Kills the process that makes the counted call of this number, before the call reaches the engine or after its answer.
/// Returns the calls, and the story if it went wrong.
fn killed_at(
    has_port: bool,
    is_counted: Counted,
    point: usize,
    is_after: bool,
) -> (Vec<String>, Option<String>) {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let lab = Lab::new(&format!("itself-kill-{number}"));
    let begun = AtomicBool::new(false);
    let count = AtomicUsize::new(0);
    let calls = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&calls);
    let proxy = Proxy::that_treats(move |method, path| {
        if method == "POST" && path.ends_with("/containers/create") {
            begun.store(true, Ordering::Relaxed);
        }
        if !begun.load(Ordering::Relaxed) || !is_counted(method) {
            return Treatment::LetThrough;
        }
        told.lock().expect("the calls").push(format!("{method} {path}"));
        match (count.fetch_add(1, Ordering::Relaxed) == point, is_after) {
            (false, _) => Treatment::LetThrough,
            (true, false) => Treatment::KilledBefore,
            (true, true) => Treatment::KilledAfter,
        }
    });
    let port = own_port();
    let port: Vec<&str> = port.iter().map(String::as_str).filter(|_| has_port).collect();
    let upgrader = run(&lab, SECOND, &proxy.host().replace("unix://", ""), &port);
    let limit = Instant::now() + PATIENCE;
    let is_done = || runs(&upgrader, SECOND) && lab.names() == ["upgrader"];
    while !is_done() && Instant::now() < limit {
        thread::sleep(Duration::from_millis(200));
    }
    // If the story went wrong, there may be no container of that name.
    let is_itself =
        is_done() && inspect(&upgrader)["HostConfig"]["RestartPolicy"]["Name"] == "unless-stopped";
    let story = (!is_itself).then(|| {
        let containers = docker(&[
            "ps",
            "--all",
            "--no-trunc",
            "--filter",
            &format!("name=^/{}-", lab.name),
        ]);
        let each = lab.names().into_iter().map(|name| {
            let name = format!("{}-{name}", lab.name);
            format!("{name}: {}\n{}", inspect(&name)["State"], logs(&name))
        });
        format!("{containers}\n{}", each.collect::<Vec<_>>().join("\n"))
    });
    let calls = calls.lock().expect("the calls").clone();
    (calls, story)
}

/// Tries the points of an exchange, three at once: either all of them, or before and after each call in turn.
fn try_points(has_port: bool, is_counted: Counted, are_all: bool) {
    // An engine can bear three exchanges at once besides other tests.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let clean = clean(has_port, is_counted).len();
    let points: Vec<(usize, bool)> = (0..clean)
        .flat_map(|call| [(call, false), (call, true)])
        .filter(|(call, is_after)| are_all || is_after == &(call % 2 == 1))
        .collect();
    let total = points.len();
    let (points, failed) = (Mutex::new(points), Mutex::new(Vec::new()));
    // It depends on the clock how many times the last upgrader looks before all is done.
    let unmade = AtomicUsize::new(0);
    let work = || {
        while let Some((point, is_after)) = { points.lock().expect("the points").pop() } {
            let (calls, story) = killed_at(has_port, is_counted, point, is_after);
            let when = if is_after { "after" } else { "before" };
            let call = calls.get(point).cloned();
            if call.is_none() && story.is_none() {
                eprintln!("killed {when} call {point}: it was not made");
                unmade.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let call = call.unwrap_or_default();
            let outcome = if story.is_some() { "FAILED" } else { "passed" };
            eprintln!("killed {when} call {point}, {call}: {outcome}");
            if let Some(story) = story {
                failed
                    .lock()
                    .expect("the failures")
                    .push(format!("{when} {point} {call}\n{story}"));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner().expect("the failures");
    assert!(
        failed.is_empty(),
        "{} of {total} failed:\n{}",
        failed.len(),
        failed.join("\n\n")
    );
    let unmade = unmade.into_inner();
    assert!(unmade * 10 <= total, "{unmade} of {total} calls were not made");
    eprintln!("{} of {total} passed, and {unmade} were not made", total - unmade);
}

/// The calls of an exchange in which the test kills no process.
fn clean(has_port: bool, is_counted: Counted) -> Vec<String> {
    let (calls, story) = killed_at(has_port, is_counted, usize::MAX, false);
    assert_eq!(story, None);
    let last = calls.iter().rposition(|call| call.starts_with("DELETE /"));
    calls[..=last.expect("the old one goes")].to_vec()
}

/// Kills either of the two at each call that changes something.
#[test]
fn exchange_survives_a_kill_at_any_write() {
    try_points(false, |method| method != "GET", false);
}

/// The same, with a helper.
#[test]
fn helper_finishes_the_exchange_of_an_upgrader_killed_at_any_write() {
    try_points(true, |method| method != "GET", false);
}

/// The same at every call, which takes some minutes. `make self-upgrade` runs it.
#[test]
#[ignore = "it takes minutes: make self-upgrade runs it"]
fn finishes_exchange_killed_at_any_call() {
    try_points(false, |_| true, true);
}

/// The same, with a helper.
#[test]
#[ignore = "it takes minutes: make self-upgrade runs it"]
fn helper_finishes_exchange_killed_at_any_call() {
    try_points(true, |_| true, true);
}
