//! An engine, or a proxy in front of it, that takes a call and never answers, or not to the end.

#![allow(
    clippy::print_stdout,
    reason = "the times are for whoever reads the log of the tests"
)]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::proxy::{Proxy, Treatment};
use super::slow_answers::{address, status};
use kit::lab::{Lab, Signal, Upgrader, V1, V2, docker, eventually, image, image_of, inspect};

/// For one thing to happen on a busy machine, a call of ten seconds included.
const PATIENCE: Duration = Duration::from_secs(30);
const UPGRADE: Duration = Duration::from_secs(120);

/// What becomes of calls whose path has these words, until it is set anew.
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
fn one_that_hangs_is_named_while_the_others_are_watched_and_replaced() {
    let lab = Lab::new("inspect-hangs");
    let (faulty, proxy) = Faulty::proxy();
    let [hangs, works] = ["1", "2"].map(|suffix| lab.delegate(suffix, V1, &[]));
    let id = inspect(&hangs)["Id"].as_str().expect("an id").to_owned();
    faulty.set(&format!("/containers/{id}/json"), Treatment::Silence);
    let upgrader = lab
        .upgrader(V2)
        .with("DOCKER_HOST", &proxy.host())
        .with("RUN_ON_START", "true")
        .with("HEALTH_INTERVAL", "1s");
    let begun = Instant::now();
    let daemon = upgrader.start();
    let address = address(&daemon);
    eventually("the other one is reported", PATIENCE, || {
        seen(&upgrader, &address, &works).0 == "healthy"
    });
    println!("reported after {:.1} s", begun.elapsed().as_secs_f64());
    daemon.says("replaced; the old container is gone", UPGRADE);
    assert_eq!(image_of(&works), image(V2));
    println!("replaced after {:.1} s", begun.elapsed().as_secs_f64());
    let begun = Instant::now();
    docker(&["pause", &works]);
    eventually("its lost health is reported", PATIENCE, || {
        seen(&upgrader, &address, &works).0 == "unhealthy"
    });
    docker(&["unpause", &works]);
    println!(
        "lost health reported after {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    assert_eq!(image_of(&hangs), image(V1));
    let named = format!("cannot inspect container; skipping it container=\"{hangs}\"");
    assert!(daemon.log().contains(&named), "{}", daemon.log());
    faulty.end();
    eventually("it is reported too", PATIENCE, || {
        seen(&upgrader, &address, &hangs).0 == "healthy"
    });
    // From now on it is known to be a delegate.
    faulty.set(&format!("/containers/{id}/json"), Treatment::Silence);
    eventually("that it hangs is reported", PATIENCE, || {
        seen(&upgrader, &address, &hangs).1 == "engine_error"
    });
}

#[test]
fn an_engine_that_falls_silent_or_answers_by_halves_is_reported_and_found_again() {
    let lab = Lab::new("engine-hangs");
    let (faulty, proxy) = Faulty::proxy();
    let name = lab.delegate("1", V1, &[]);
    let upgrader = lab.upgrader(V1).with("DOCKER_HOST", &proxy.host());
    let mut daemon = upgrader.start();
    let address = address(&daemon);
    let is_healthy = || seen(&upgrader, &address, &name).0 == "healthy";
    eventually("it is reported", PATIENCE, is_healthy);
    let get = |path: &str| crate::daemon::get(&format!("http://{address}{path}"));
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
    let plan = upgrader.run(&["plan"]);
    assert_eq!(plan.code, Some(69), "{}", plan.text);
    let (code, took) = daemon.signal(Signal::TERM);
    assert_eq!(code, Some(0), "{}", daemon.log());
    assert!(took < Duration::from_secs(3), "{took:?}");
}
