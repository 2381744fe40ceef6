//! A process that updates a service is killed at a call, and the next run finishes the update.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kit::lab::{CRASHES, Upgrader, V1, V2, image, kill_at_each_point};

use crate::proxy::{Proxy, Treatment};
use crate::swarm::Service;

const WAYS: [Treatment; 2] = [Treatment::KilledBefore, Treatment::KilledAfter];

/// Whether a call counts, by its method.
type Counted = fn(&str) -> bool;

/// On a busy machine, Swarm notices the end of a task only after some seconds.
fn upgrader(service: &Service, published: &str) -> Upgrader {
    let upgrader = service.upgrader(published);
    if published == CRASHES {
        upgrader.with("UPGRADE_HEALTHY_TIME", "8s")
    } else {
        upgrader
    }
}

/// Runs until it is killed at this counted call. Returns whether it reached that call.
fn killed_at(service: &Service, published: &str, counted: Counted, point: usize, how: Treatment) -> bool {
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let proxy = Proxy::that_treats(move |method, _| {
        if counted(method) && count.fetch_add(1, Ordering::SeqCst) == point {
            how
        } else {
            Treatment::LetThrough
        }
    });
    let host = proxy.host();
    upgrader(service, published)
        .with("DOCKER_HOST", &host)
        .run(&["once"]);
    assert!(Path::new(host.trim_start_matches("unix://")).exists());
    made.load(Ordering::SeqCst) > point
}

/// Kills at each point of an upgrade from one image to the other, back again, and so on.
fn an_upgrade(counted: Counted) {
    let service = Service::with_replicas("swarm-kills", 1);
    let (mut wanted, mut other) = (V2, V1);
    let kills = kill_at_each_point(WAYS, |point, how| {
        let is_killed = killed_at(&service, wanted, counted, point, how);
        let run = upgrader(&service, wanted).run(&["once"]);
        assert_eq!(run.code, Some(0), "point {point}: {}", run.text);
        assert_eq!(service.running(), [image(wanted)], "point {point}: {}", run.text);
        assert!(service.image().starts_with(&image(wanted)));
        assert_eq!(service.label("attempt-image"), Some(service.image()));
        assert_eq!(service.label("failed-image"), None);
        std::mem::swap(&mut wanted, &mut other);
        is_killed
    });
    assert!(kills > 3);
}

/// Kills at each point of an update that fails.
fn a_failure(counted: Counted) {
    let service = Service::with_replicas("swarm-kills-failure", 1);
    let before = service.image();
    let kills = kill_at_each_point(WAYS, |point, how| {
        let is_killed = killed_at(&service, CRASHES, counted, point, how);
        let run = upgrader(&service, CRASHES).run(&["once"]);
        assert_eq!(run.code, Some(1), "point {point}: {}", run.text);
        assert_eq!(service.image(), before, "point {point}: {}", run.text);
        service.will_run(&[V1]);
        let failed = service.label("failed-image").expect("it is in quarantine");
        assert!(failed.starts_with(&image(CRASHES)), "{failed}");
        service.forget("failed-image");
        is_killed
    });
    assert!(kills > 3);
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn finishes_an_upgrade_killed_at_any_write() {
    an_upgrade(|method| method != "GET");
}

#[test]
#[ignore = "needs an engine of its own: make swarm"]
fn undoes_a_failed_update_killed_at_any_write() {
    a_failure(|method| method != "GET");
}

/// The same at every call. `make swarm` runs it.
#[test]
#[ignore = "it takes a quarter of an hour: make swarm runs it"]
fn finishes_upgrade_killed_at_any_call() {
    an_upgrade(|_| true);
}

#[test]
#[ignore = "it takes half an hour: make swarm runs it"]
fn undoes_a_failed_update_killed_at_any_call() {
    a_failure(|_| true);
}
