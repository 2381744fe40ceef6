//! The upgrader replaces its own container.

use std::time::Duration;

use delegate_upgrader::container::{Role, RunState, label};
use delegate_upgrader::reconcile::controller::Controller as _;
use kit::twin::{Behaviour, Happened, Operation, OperatorAction};
use serde_json::{Value, json};

use super::host::{HOUR, Host, NEW, OLD, OWN_LISTENER, auto_remove, image};
use super::upgraders::{
    EXCHANGE, FIRST, NAME, SECOND, World, assert_at_rest, assert_one_always_ran, cannot_run_twice, ready,
    vanishes_and_cannot_run_twice,
};

const EVERY_ONE: fn(Role) -> bool = |_| true;
/// The image fails when it has the port.
const ONLY_THE_HELPER: fn(Role) -> bool = |role| matches!(role, Role::Helper { .. });

fn never_ready() -> Behaviour {
    let port = OWN_LISTENER.port();
    Behaviour {
        port,
        ..Behaviour::never_healthy()
    }
}

/// The reason that the upgrader reports about itself.
fn reason(world: &World) -> &'static str {
    let own = world.report(NAME).upgrader.expect("a row of its own");
    own.reason.as_str()
}

#[tokio::test(start_paused = true)]
async fn an_upgrader_candidate_proves_itself_and_takes_the_name() {
    let mut world = World::new(ready());
    world.host.run("dd");
    let first = world.host.find(NAME).id;
    // The delegate comes first: no new upgrader is created while the delegate's candidate proves itself.
    world.run_for(Duration::from_secs(20)).await;
    assert_eq!(world.host.find("dd.candidate").state, RunState::Running);
    assert_eq!(world.states().len(), 1, "{:?}", world.states());
    world.run_for(HOUR / 2).await;
    assert_at_rest(&world, SECOND, "");
    let second = world.host.find(NAME).id;
    assert_ne!(second, first);
    assert_eq!(
        world.host.find("dd").image,
        NEW,
        "a delegate is upgraded all the same"
    );
    assert_eq!(world.report(NAME).delegates.len(), 1);
    assert_eq!(reason(&world), "up_to_date");
    let took_the_name = world.host.twin.writes().into_iter();
    let took_the_name =
        took_the_name.filter(|call| call.operation == Operation::Rename && call.detail == NAME);
    let by: Vec<_> = took_the_name
        .map(|call| world.clients[&call.client].clone())
        .collect();
    assert_eq!(by, [second]);
    // An upgrader has no tasks, so it does not get a delegate's hour.
    let stops = world.host.writes_on(first.as_str()).into_iter();
    let stops = stops.filter(|call| call.operation == Operation::Stop);
    assert_eq!(stops.map(|call| call.detail).collect::<Vec<_>>(), ["10s"]);
}

/// Work that came up meanwhile waits for the schedule.
#[tokio::test(start_paused = true)]
async fn a_new_upgrader_starts_no_run_when_it_takes_over() {
    let mut world = World::new(ready());
    world.run_for(Duration::from_secs(15)).await;
    world.host.run("dd");
    world.run_for(Duration::from_secs(85)).await;
    assert_at_rest(&world, SECOND, "");
    assert_eq!(world.host.find("dd").image, OLD, "no run was due");
    world.run_for(Duration::from_secs(150)).await;
    assert_eq!(world.host.find("dd").image, NEW);
}

/// An answer that arrives while another upgrader acts wakes the loop once.
#[tokio::test(start_paused = true)]
async fn an_answer_wakes_an_upgrader_on_standby_once() {
    let mut world = World::new(ready());
    while !world
        .states()
        .iter()
        .any(|(_, state, image)| state == "running" && image == SECOND)
    {
        world.run_for(Duration::from_secs(1)).await;
    }
    let candidate = world.host.find("upgrader.candidate").id;
    let mut upgrader = world.host.instance(NEW, Some((candidate, 0)));
    upgrader.check_in();
    for _ in 0..2 {
        upgrader.reconcile().await.unwrap();
        assert!(upgrader.stands_by());
        let _ = tokio::time::timeout(Duration::from_secs(1), upgrader.answered()).await;
    }
    let woken = tokio::time::timeout(Duration::from_secs(1), upgrader.answered()).await;
    assert!(woken.is_err(), "nothing was asked since");
}

/// An image whose entry point does not exist.
fn without_a_program() -> Behaviour {
    ready().refused(r#"OCI runtime create failed: exec: "/upgrader": executable file not found"#)
}

/// The old one stays, or vanishes when it stops. A helper runs the new image first, so most bad images show early.
#[tokio::test(start_paused = true)]
async fn rejects_a_bad_upgrader_and_keeps_the_old_one() {
    for change in [
        |_: &mut Value| (),
        cannot_run_twice,
        auto_remove,
        vanishes_and_cannot_run_twice,
    ] {
        for (bad, acts) in [
            (Behaviour::exits(Duration::from_secs(2), 1), EVERY_ONE),
            (never_ready(), ONLY_THE_HELPER),
            (without_a_program(), EVERY_ONE),
        ] {
            let is_never_ready = bad.exits.is_none() && bad.start_error.is_none();
            let mut world = World::with(bad, change);
            world.acts = acts;
            let first = world.host.find(NAME);
            let lives = |world: &World| {
                let events = world.host.events_of(&first.id);
                events
                    .iter()
                    .filter(|event| event.what == Happened::Started)
                    .count()
            };
            world.run_for(HOUR / 2).await;
            assert_at_rest(&world, FIRST, "bad");
            assert_eq!(reason(&world), "quarantined");
            let stops = is_never_ready && world.single_instance;
            assert_eq!(lives(&world), 1 + usize::from(stops && !world.auto_remove));
            assert_eq!(
                world.host.find(NAME).id == first.id,
                !(stops && world.auto_remove)
            );
            if !stops {
                assert_one_always_ran(&world);
            }
        }
    }
}

/// The same if a helper makes the exchange.
#[tokio::test(start_paused = true)]
async fn rejects_an_impostor_upgrader_if_two_cannot_run_at_once() {
    let mut world = World::with(ready(), cannot_run_twice);
    world.acts = |_| false;
    let first = world.host.find(NAME).id;
    world.run_for(HOUR / 2).await;
    assert_at_rest(&world, FIRST, "an impostor");
    assert_eq!(world.host.find(NAME).id, first);
    assert_eq!(reason(&world), "quarantined");
}

/// Whatever happens to the old one while the new one proves itself, the new one takes over.
#[tokio::test(start_paused = true)]
async fn the_candidate_takes_over_if_the_old_one_is_stopped_killed_or_removed() {
    let acts = [OperatorAction::Stop, OperatorAction::Kill, OperatorAction::Remove];
    for act in acts {
        for seconds in 12..30 {
            let mut world = World::new(ready());
            world.run_for(Duration::from_secs(seconds)).await;
            let old = world.states().into_iter().find(|(.., image)| image == FIRST);
            let running = world
                .states()
                .into_iter()
                .filter(|(_, state, _)| state == "running");
            if running.count() < 2 {
                continue;
            }
            let context = format!("after {seconds} s: {:?}", world.states());
            let (old, ..) = old.unwrap();
            world.host.by_hand(act, &old);
            world.run_for(EXCHANGE).await;
            assert_at_rest(&world, SECOND, &context);
            assert_one_always_ran(&world);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_helper_makes_the_exchange_where_two_cannot_run_at_once() {
    let mut world = World::with(ready(), cannot_run_twice);
    let first = world.host.find(NAME).id;
    world.run_for(EXCHANGE).await;
    assert_at_rest(&world, SECOND, "host network");
    assert_ne!(world.host.find(NAME).id, first);
    assert_one_always_ran(&world);
    assert_eq!(reason(&world), "up_to_date");
    let events = world.host.twin.events();
    assert!(events.iter().any(|event| event.name == "upgrader.helper-ready"));
}

/// The owner's label requires it.
#[tokio::test(start_paused = true)]
async fn reports_required_start_first_that_is_impossible() {
    let mut world = World::with(ready(), |body| {
        cannot_run_twice(body);
        body["Labels"][label::UPDATE_ORDER] = json!("start-first");
    });
    world.run_for(Duration::from_secs(600)).await;
    assert_at_rest(&world, FIRST, "host network");
    assert_eq!(reason(&world), "cannot_start_first");
}

#[tokio::test(start_paused = true)]
async fn an_upgrader_with_rm_replaces_itself_in_memory() {
    for change in [auto_remove, vanishes_and_cannot_run_twice] {
        let mut world = World::with(ready(), change);
        let first = world.host.find(NAME).id;
        world.run_for(EXCHANGE).await;
        assert_at_rest(&world, SECOND, "--rm");
        assert_ne!(world.host.find(NAME).id, first);
        assert_one_always_ran(&world);
        assert_eq!(reason(&world), "up_to_date");
    }
}

/// A service has no container, but it has a version.
#[tokio::test(start_paused = true)]
async fn a_service_reports_a_newer_version() {
    let mut host = Host::new();
    for (published, is_newer) in [("team/upgrader:99.1.0", true), ("team/upgrader:0.0.1", false)] {
        host.manager.published_upgrader = Some(image(published));
        let mut service = host.upgrader(NEW);
        service.check_in();
        service.answered().await;
        service.reconcile().await.unwrap();
        let known = service.upgrader_image().expect("an answer");
        assert_eq!(known.published, published);
        assert_eq!(known.newer_version_available, is_newer);
        let image = concat!("docker.io/team/upgrader:", env!("CARGO_PKG_VERSION"));
        assert_eq!(known.image, image);
    }
}
