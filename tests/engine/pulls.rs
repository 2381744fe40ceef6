//! Slow pulls: a relay between the engine and the registry can be slow, or stall.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::proxy::Proxy;
use kit::lab::{Lab, PATIENCE, V1, V2, build, docker, env, image, image_of, life};

const MIB: u64 = 1024 * 1024;

/// Relays to the registry from another port.
struct Relay {
    /// `127.0.0.1:port`: engines require no TLS for it.
    address: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Bytes per second towards the engine; 0 means no limit.
    speed: AtomicU64,
    /// Large layers stall from now on.
    stands_still: AtomicBool,
    /// `GET /v2/…`
    asked: Mutex<Vec<String>>,
}

impl Relay {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address").to_string();
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for engine in listener.incoming().flatten() {
                let registry = TcpStream::connect(env("LAB_REGISTRY")).expect("the registry");
                let ends = (
                    engine.try_clone().expect("clone"),
                    registry.try_clone().expect("clone"),
                );
                let (there, back) = (Arc::clone(&shared), Arc::clone(&shared));
                thread::spawn(move || there.requests(engine, registry));
                thread::spawn(move || back.answers(ends.1, ends.0));
            }
        });
        Self { address, state }
    }

    /// The blobs that were requested since the last call.
    fn blobs(&self) -> Vec<String> {
        let asked = std::mem::take(&mut *self.state.asked.lock().expect("the requests"));
        asked
            .into_iter()
            .filter(|line| line.contains("/blobs/"))
            .collect()
    }
}

impl State {
    fn requests(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = [0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..count]);
            let lines = text.lines().filter_map(|line| line.strip_suffix(" HTTP/1.1"));
            let lines: Vec<String> = lines.map(str::to_owned).collect();
            self.asked.lock().expect("the requests").extend(lines);
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    }

    fn answers(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = [0; 16 * 1024];
        let mut passed = 0;
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            // The first layer passes completely, and so does a quarter of the second.
            while self.stands_still.load(Ordering::Relaxed) && passed > 6 * MIB {
                thread::sleep(Duration::from_millis(100));
            }
            let size = u64::try_from(count).expect("a size");
            passed += size;
            let speed = self.speed.load(Ordering::Relaxed);
            if let Some(pause) = (size * 1_000_000).checked_div(speed) {
                thread::sleep(Duration::from_micros(pause));
            }
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    }
}

/// Publishes an image with layers of random data of these sizes, in MiB. Returns its name by way of the relay.
fn publish(relay: &Relay, version: &str, layers: &[u64]) -> String {
    let context = tempfile::tempdir().expect("a directory");
    let mut lines = format!("FROM {}\n", image(V2));
    for (number, size) in layers.iter().enumerate() {
        let random = fs::File::open("/dev/urandom").expect("random data");
        let mut file = fs::File::create(context.path().join(format!("layer{number}"))).expect("a file");
        std::io::copy(&mut random.take(size * MIB), &mut file).expect("random data");
        let _ = writeln!(lines, "COPY layer{number} /");
    }
    let name = image(version);
    build(&name, &lines, context.path(), &[]);
    docker(&["push", "--quiet", &name]);
    docker(&["rmi", &name]);
    format!("{}/harness/delegate:{version}", relay.address)
}

/// `current_bytes` and `total_bytes` of each line of progress.
fn progress(log: &str) -> Vec<(u64, u64)> {
    let number = |line: &str, name: &str| -> u64 {
        let rest = line.split_once(name).expect("a size").1;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().expect("a number")
    };
    log.lines()
        .filter(|line| line.contains("current_bytes="))
        .map(|line| (number(line, "current_bytes="), number(line, "total_bytes=")))
        .collect()
}

#[test]
fn a_slow_pull_logs_progress_and_is_shared_by_all_delegates() {
    let lab = Lab::new("slow-pull");
    let relay = Relay::start();
    relay.state.speed.store(MIB / 2, Ordering::Relaxed);
    let published = publish(&relay, "26.21.10021", &[24]);
    let other = format!("{}-other", lab.name);
    let variable = format!("DELEGATE_NAME={other}");
    let mut names = ["1", "2"].map(|suffix| lab.delegate(suffix, V1, &[])).to_vec();
    names.extend(["3", "4"].map(|suffix| lab.container(suffix, &["--env", &variable, &image(V1)])));
    let engine = Proxy::with_rules(|_, _| true);
    let run = lab
        .upgrader(V2)
        .with("PUBLISHED_IMAGE", &published)
        .with("UPGRADER_WORKLOAD_NAME", &format!("{},{other}", lab.name))
        .with("DOCKER_HOST", &engine.host())
        .run(&["once"])
        .ended(0);
    for name in &names {
        assert_eq!(image_of(name), published, "{}", run.text);
    }
    let pulls = engine.asked();
    let pulls: Vec<&String> = pulls
        .iter()
        .filter(|call| call.ends_with("/images/create"))
        .collect();
    assert_eq!(pulls.len(), 1, "{pulls:?}\n{}", run.text);
    let mut blobs = relay.blobs();
    let asked = blobs.len();
    blobs.sort();
    blobs.dedup();
    assert!(
        asked >= 2 && blobs.len() == asked,
        "each is fetched once: {blobs:?}"
    );

    // 24 MiB at half a MiB a second are 48 seconds, or more.
    let lines = run.text.lines().filter(|line| line.contains("current_bytes="));
    println!("{}", lines.collect::<Vec<_>>().join("\n"));
    let told = progress(&run.text);
    assert!(!told.is_empty(), "{told:?}\n{}", run.text);
    assert!(told.windows(2).all(|pair| pair[0].0 < pair[1].0), "{told:?}");
    assert!(
        told.iter().all(|(current, total)| *current > MIB
            && current <= total
            && *total >= 24 * MIB
            && *total < 26 * MIB),
        "{told:?}"
    );
    for name in names {
        docker(&["rm", "--force", &name]);
    }
    docker(&["rmi", &published]);
}

/// The upgrader gives up a pull after two minutes without a byte, so this takes longer than that.
#[test]
fn a_stalled_pull_is_abandoned_and_retried_at_a_later_tick() {
    let lab = Lab::new("stalled-pull");
    let relay = Relay::start();
    relay.state.stands_still.store(true, Ordering::Relaxed);
    let published = publish(&relay, "26.22.10022", &[2, 24]);
    let name = lab.delegate("1", V1, &[]);
    let before = life(&name);
    let daemon = lab
        .upgrader(V2)
        .with("PUBLISHED_IMAGE", &published)
        .with("SCHEDULE", "*/15 * * * * *")
        .start();
    let begun = daemon.time_of(&format!("pulling {published}"), PATIENCE);
    let given_up = daemon.time_of("cannot pull ", PATIENCE);
    let took = (given_up - begun).as_seconds_f64();
    let log = daemon.log();
    assert!(took >= 119.0, "{took} s:\n{log}");
    let told = format!(
        "nothing arrived for 2m; check that the engine can reach {}",
        relay.address
    );
    assert!(log.contains(&told), "{told} is not in:\n{log}");
    let pulling = format!("INFO pulling {published}");
    let until_then = log.lines().take_while(|line| !line.contains("cannot pull "));
    let steps = until_then.filter(|line| line.contains(&pulling) && !line.contains("reason="));
    assert_eq!(steps.count(), 1, "{log}");
    assert_eq!((life(&name), lab.names()), (before, vec!["1".to_owned()]));
    let first = relay.blobs();

    relay.state.stands_still.store(false, Ordering::Relaxed);
    daemon.says("replaced; the old container is gone", PATIENCE);
    let again = relay.blobs();
    println!(
        "blobs at first:\n{}\nand then:\n{}",
        first.join("\n"),
        again.join("\n")
    );
    assert_eq!(image_of(&name), published);
    drop(daemon);
    docker(&["rm", "--force", &name]);
    docker(&["rmi", &published]);
}
