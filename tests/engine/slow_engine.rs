//! An engine, or a proxy in front of it, that accepts a call and never answers, or not completely.

#![allow(
    clippy::print_stdout,
    reason = "the times are for whoever reads the log of the tests"
)]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::proxy::{Proxy, Treatment};
use super::slow_answers::{address, status};
use kit::lab::{Lab, STOP_TIME, Signal, Upgrader, V1, eventually};

/// For one step on a busy machine, including a call of ten seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// How the proxy treats calls whose path contains these words, until it is set again.
#[derive(Clone)]
struct Faulty(Arc<Mutex<Option<(String, Treatment)>>>);

impl Faulty {
    fn proxy() -> (Self, Proxy) {
        let faulty = Self(Arc::default());
        let told = faulty.clone();
        let proxy = Proxy::that_treats(move |_, path| {
            let fault = told.0.lock().expect("the fault").clone();
            match fault {
                Some((words, treatment)) if path.contains(&words) => treatment,
                _ => Treatment::LetThrough,
            }
        });
        (faulty, proxy)
    }

    fn set(&self, words: &str, treatment: Treatment) {
        *self.0.lock().expect("the fault") = Some((words.to_owned(), treatment));
    }

    fn end(&self) {
        *self.0.lock().expect("the fault") = None;
    }
}

/// The health and the reason of one container.
fn seen(upgrader: &Upgrader, address: &str, name: &str) -> (String, String) {
    let rows = status(upgrader, address).into_iter();
    let mut rows = rows.filter(|(container, ..)| container == name);
    rows.next()
        .map(|(_, health, reason)| (health, reason))
        .unwrap_or_default()
}

#[test]
fn reports_silent_or_truncating_engine_and_recovers() {
    let lab = Lab::new("engine-hangs");
    let (faulty, proxy) = Faulty::proxy();
    let name = lab.delegate("1", V1, &[]);
    let upgrader = lab.upgrader(V1).with("DOCKER_HOST", &proxy.host());
    let mut daemon = upgrader.start();
    let address = address(&daemon);
    let is_healthy = || seen(&upgrader, &address, &name).0 == "healthy";
    eventually("it is reported", PATIENCE, is_healthy);
    let get = |path: &str| kit::lab::wire::ask(&format!("http://{address}{path}"));
    for (words, treatment) in [
        ("/", Treatment::Silence),
        ("/containers/json", Treatment::Silence),
        ("/containers/json", Treatment::Halved),
        ("/", Treatment::Halved),
    ] {
        faulty.set(words, treatment);
        let begun = Instant::now();
        let is_reported = || get("/readyz").0 == 503;
        eventually("the engine is reported", PATIENCE, is_reported);
        println!(
            "{words} reported after {:.1} s: {}",
            begun.elapsed().as_secs_f64(),
            get("/readyz").1
        );
        assert_eq!(get("/livez").0, 200);
        faulty.end();
        eventually("the engine is found again", PATIENCE, || get("/readyz").0 == 200);
        eventually("the delegate is reported", PATIENCE, is_healthy);
    }
    faulty.set("/", Treatment::Halved);
    upgrader.run(&["plan"]).ended(69);
    let (code, took) = daemon.signal(Signal::TERM);
    assert_eq!(code, Some(0), "{}", daemon.log());
    assert!(took < STOP_TIME, "{took:?}");
}
