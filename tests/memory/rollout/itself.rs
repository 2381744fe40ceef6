//! The upgrader replaces its own container.

use std::time::Duration;

use delegate_upgrader::container::{RunState, label};
use kit::twin::{Behaviour, Operation};
use serde_json::json;

use super::host::{HOUR, Host, NEW, OLD, OWN_LISTENER, auto_remove};
use super::upgraders::{
    EXCHANGE, FIRST, NAME, SECOND, World, assert_at_rest, assert_one_always_ran, cannot_run_twice, ready,
    vanishes_and_cannot_run_twice,
};

#[tokio::test(start_paused = true)]
async fn the_new_one_proves_itself_beside_the_old_one_and_takes_over() {
    let mut world = World::new(ready());
    world.host.run("dd");
    let first = world.host.find(NAME).id;
    // The delegate comes first: while its new one proves itself, there is no new upgrader.
    world.run_for(Duration::from_secs(20)).await;
    assert_eq!(world.host.find("dd.candidate").state, RunState::Running);
    assert_eq!(world.states().len(), 1, "{:?}", world.states());
    world.run_for(HOUR / 2).await;
    let states = world.states();
    assert_eq!(
        states,
        [(NAME.to_owned(), "running".to_owned(), SECOND.to_owned())]
    );
    assert_ne!(world.host.find(NAME).id, first);
    assert_eq!(
        world.host.find("dd").image,
        NEW,
        "a delegate is upgraded all the same"
    );
    assert_eq!(world.host.restart_policy(NAME), "unless-stopped");
    let report = world.report(NAME);
    assert_eq!(report.delegates.len(), 1, "{report:?}");
    let own = report.upgrader.expect("a row of its own");
    assert_eq!(own.reason.as_str(), "up_to_date", "{}", own.message);
    assert_at_rest(&world, SECOND, "");
}

/// It has no tasks, so that it is not given the hour that a delegate has for its own.
#[tokio::test(start_paused = true)]
async fn the_old_one_is_killed_soon_if_it_does_not_end() {
    let mut world = World::new(ready());
    let first = world.host.find(NAME).id;
    world.run_for(HOUR / 2).await;
    assert_at_rest(&world, SECOND, "");
    let calls = world.host.writes_on(first.as_str()).into_iter();
    let stops = calls.filter(|call| call.operation == Operation::Stop);
    let graces: Vec<String> = stops.map(|call| call.detail).collect();
    assert_eq!(graces, ["10s"]);
}

/// What came meanwhile waits for the schedule.
#[tokio::test(start_paused = true)]
async fn the_new_one_begins_no_run_when_it_takes_over() {
    let mut world = World::new(ready());
    world.run_for(Duration::from_secs(15)).await;
    world.host.run("dd");
    world.run_for(Duration::from_secs(85)).await;
    assert_at_rest(&world, SECOND, "");
    assert_eq!(world.host.find("dd").image, OLD, "no run was due");
    world.run_for(Duration::from_secs(150)).await;
    assert_eq!(world.host.find("dd").image, NEW);
}

/// One that is not ready is given up; the old one stays, and tries it again later and later.
#[tokio::test(start_paused = true)]
async fn a_bad_one_is_rejected_and_the_old_one_stays() {
    for bad in [
        Behaviour::exits(Duration::from_secs(2), 1),
        Behaviour {
            port: OWN_LISTENER.port(),
            ..Behaviour::never_healthy()
        },
    ] {
        let mut world = World::new(bad);
        let first = world.host.find(NAME).id;
        world.run_for(HOUR / 2).await;
        assert_at_rest(&world, FIRST, "bad");
        assert_eq!(world.host.find(NAME).id, first);
        let own = world.report(NAME).upgrader.expect("a row of its own");
        assert_eq!(own.reason.as_str(), "quarantined", "{}", own.message);
    }
}

#[tokio::test(start_paused = true)]
async fn where_two_cannot_run_at_once_a_helper_makes_the_exchange() {
    let mut world = World::with(ready(), cannot_run_twice);
    let first = world.host.find(NAME).id;
    world.run_for(EXCHANGE).await;
    assert_at_rest(&world, SECOND, "host network");
    assert_ne!(world.host.find(NAME).id, first);
    let own = world.report(NAME).upgrader.expect("a row of its own");
    assert_eq!(own.reason.as_str(), "up_to_date", "{}", own.message);
    let events = world.host.twin.events();
    let names: Vec<&String> = events.iter().map(|event| &event.name).collect();
    let names: Vec<_> = names
        .into_iter()
        .filter(|name| name.contains(".helper"))
        .collect();
    assert!(
        names.iter().any(|name| name.ends_with(".helper-ready")),
        "{names:?}"
    );
}

/// A label of the owner.
#[tokio::test(start_paused = true)]
async fn an_owner_who_wants_two_side_by_side_hears_why_that_cannot_be() {
    let mut world = World::with(ready(), |body| {
        cannot_run_twice(body);
        body["Labels"][label::STRATEGY] = json!("start-first");
    });
    world.run_for(Duration::from_secs(600)).await;
    assert_at_rest(&world, FIRST, "host network");
    let own = world.report(NAME).upgrader.expect("a row of its own");
    assert_eq!(own.reason.as_str(), "cannot_start_first", "{}", own.message);
}

/// The helper has the new image, too, so most bad ones show before the old one has stopped.
#[tokio::test(start_paused = true)]
async fn a_bad_one_is_rejected_by_its_helper_s_end_before_the_old_one_stops() {
    let mut world = World::with(Behaviour::exits(Duration::from_secs(2), 1), cannot_run_twice);
    let first = world.host.find(NAME);
    let began = world.host.twin.document(first.id.as_str()).unwrap()["State"]["StartedAt"].clone();
    world.run_for(HOUR / 2).await;
    assert_at_rest(&world, FIRST, "it exits");
    let now = world.host.twin.document(NAME).unwrap();
    assert_eq!(
        (&now["Id"], &now["State"]["StartedAt"]),
        (&json!(first.id.as_str()), &began)
    );
    let own = world.report(NAME).upgrader.expect("a row of its own");
    assert_eq!(own.reason.as_str(), "quarantined", "{}", own.message);
}

/// One that only fails where it has the port: the helper brings the old one back.
#[tokio::test(start_paused = true)]
async fn a_bad_one_whose_helper_is_ready_ends_with_the_old_one_in_charge() {
    let never = Behaviour {
        port: OWN_LISTENER.port(),
        ..Behaviour::never_healthy()
    };
    let mut world = World::with(never, cannot_run_twice);
    let first = world.host.find(NAME).id;
    world.run_for(HOUR / 2).await;
    assert_at_rest(&world, FIRST, "never ready");
    assert_eq!(world.host.find(NAME).id, first);
    let own = world.report(NAME).upgrader.expect("a row of its own");
    assert_eq!(own.reason.as_str(), "quarantined", "{}", own.message);
}

/// A service has no container, but is of a version.
#[tokio::test(start_paused = true)]
async fn a_service_reports_a_newer_version() {
    let mut host = Host::new();
    for (published, is_newer) in [("team/upgrader:99.1.0", true), ("team/upgrader:0.0.1", false)] {
        host.published_upgrader = Some(published);
        let mut service = host.upgrader(NEW);
        service.check_in();
        tokio::time::sleep(Duration::from_secs(1)).await;
        service.check_in();
        let known = service.upgrader_image().expect("an answer");
        assert_eq!(
            (known.published.as_str(), known.newer_version_available),
            (published, is_newer)
        );
        assert_eq!(
            known.image,
            concat!("docker.io/team/upgrader:", env!("CARGO_PKG_VERSION"))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_vanishes_by_stopping_replaces_itself_as_well() {
    for change in [auto_remove, vanishes_and_cannot_run_twice] {
        let mut world = World::with(ready(), change);
        let first = world.host.find(NAME).id;
        world.run_for(EXCHANGE).await;
        assert_at_rest(&world, SECOND, "--rm");
        assert_ne!(world.host.find(NAME).id, first);
        assert_one_always_ran(&world);
        let own = world.report(NAME).upgrader.expect("a row of its own");
        assert_eq!(own.reason.as_str(), "up_to_date", "{}", own.message);
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_vanishes_by_stopping_outlives_a_bad_one() {
    for bad in [
        Behaviour::exits(Duration::from_secs(2), 1),
        Behaviour {
            port: OWN_LISTENER.port(),
            ..Behaviour::never_healthy()
        },
    ] {
        for change in [auto_remove, vanishes_and_cannot_run_twice] {
            let mut world = World::with(bad.clone(), change);
            world.run_for(HOUR / 2).await;
            assert_at_rest(&world, FIRST, "bad, --rm");
            assert_one_always_ran(&world);
            let own = world.report(NAME).upgrader.expect("a row of its own");
            assert_eq!(own.reason.as_str(), "quarantined", "{}", own.message);
        }
    }
}
