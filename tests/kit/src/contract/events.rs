//! What an engine tells of what happened to its containers.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use delegate_upgrader::container::{ContainerId, RunState};
use delegate_upgrader::engine::{Engine, EventKind, HostEvent};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::lab::Lab;
use super::steps::{
    LONG, PATIENCE, created, created_of, seconds, started_of, state_of, until_exited, until_gone,
};
use crate::twin::{Behaviour, OperatorAction};

/// What happened to a container since its creation: how often it was started, and how often a signal was sent to it
/// after its last start.
async fn told<L: Lab>(lab: &L, id: &ContainerId) -> (usize, usize) {
    let events = lab
        .engine()
        .events(chrono::DateTime::UNIX_EPOCH)
        .await
        .expect("events");
    let mut its_own = events.into_iter().filter(|event| event.id == *id).peekable();
    let name = its_own.peek().map(|event| event.name.clone());
    assert!(name.is_some_and(|name| !name.is_empty()), "it was created");
    its_own.fold((0, 0), |(starts, signals), event| match event.kind {
        EventKind::Started => (starts + 1, 0),
        EventKind::Signalled { signal } => {
            assert!(signal == "15" || signal == "9", "{signal}");
            (starts, signals + 1)
        }
        EventKind::Renamed | EventKind::Disconnected | EventKind::Other => (starts, signals),
    })
}

/// Nothing else tells the one from the other once both are gone.
pub async fn a_start_that_was_refused_is_told_and_a_removal_before_it_is_none<L: Lab>(lab: &L) {
    let broken = Behaviour {
        start_error: Some("no such program".to_owned()),
        ..Behaviour::default()
    };
    let image = lab.image(broken).await;
    let mut body = lab.body(&image);
    body["HostConfig"]["AutoRemove"] = json!(true);
    let refused = created(lab, "refused", &body).await;
    let engine = lab.engine();
    engine
        .start(&refused)
        .await
        .expect_err("there is no such program");
    until_gone(lab, &refused).await;
    let removed = created(lab, "rm-early", &body).await;
    let by_hand = OperatorAction::Remove(removed.as_str().to_owned());
    lab.by_hand(by_hand).await.expect("rm -f");
    until_gone(lab, &removed).await;
    let events = engine.events(chrono::DateTime::UNIX_EPOCH).await.expect("events");
    let disconnected = |id: &ContainerId| {
        let of_it = |event: &&HostEvent| event.id == *id && event.kind == EventKind::Disconnected;
        events.iter().filter(of_it).count()
    };
    assert_eq!(
        (disconnected(&refused), disconnected(&removed)),
        (1, 0),
        "{events:#?}"
    );
}

pub async fn a_signal_by_request_is_told_and_an_end_without_one_too<L: Lab>(lab: &L) {
    let named = |id: &ContainerId| id.as_str().to_owned();
    let ended = started_of(lab, "ends", Behaviour::exits(Duration::from_secs(2), 0)).await;
    assert_eq!(told(lab, &ended).await, (1, 0));
    until_exited(lab, &ended).await;
    assert_eq!(told(lab, &ended).await, (1, 0), "it ended by itself");
    for act in [OperatorAction::Stop as fn(String) -> _, OperatorAction::Kill] {
        let id = started_of(lab, "stopped", Behaviour::default()).await;
        lab.by_hand(act(named(&id))).await.expect("a command");
        until_exited(lab, &id).await;
        let (starts, signals) = told(lab, &id).await;
        assert!(starts == 1 && signals >= 1, "{starts} {signals}");
        lab.by_hand(OperatorAction::Remove(named(&id))).await.expect("rm");
    }
    let removed = started_of(lab, "removed", Behaviour::default()).await;
    lab.by_hand(OperatorAction::Remove(named(&removed)))
        .await
        .expect("rm -f");
    until_gone(lab, &removed).await;
    assert_eq!(told(lab, &removed).await.0, 1);
    assert!(told(lab, &removed).await.1 >= 1);
    let again = started_of(lab, "restarted", Behaviour::default()).await;
    lab.by_hand(OperatorAction::Restart(named(&again)))
        .await
        .expect("restart");
    assert_eq!(told(lab, &again).await, (2, 0));
    // One that drains goes on for a while: the signal is told when it is sent.
    let drains = started_of(lab, "drains", Behaviour::drains(2 * PATIENCE)).await;
    lab.engine().stop(&drains, LONG).await.expect("stop");
    let begun = Instant::now();
    while told(lab, &drains).await.1 == 0 {
        assert!(begun.elapsed() < PATIENCE, "no signal");
        sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(told(lab, &drains).await.0, 1);
    assert_eq!(state_of(lab, &drains).await, RunState::Running);
}

pub async fn a_change_of_a_container_is_told_as_it_happens<L: Lab>(lab: &L) {
    let id = created_of(lab, "watched", Behaviour::default()).await;
    let named = id.as_str().to_owned();
    let told = Mutex::new(0);
    let tell = |of: &ContainerId| {
        if *of == id {
            *told.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        }
    };
    let act = async |act: OperatorAction| {
        *told.lock().unwrap_or_else(PoisonError::into_inner) = 0;
        lab.by_hand(act).await.expect("a command");
    };
    let is_told = async |patience: Duration| {
        let begun = Instant::now();
        while *told.lock().unwrap_or_else(PoisonError::into_inner) == 0 && begun.elapsed() < patience {
            sleep(Duration::from_millis(50)).await;
        }
        begun.elapsed() < patience
    };
    let acts = async {
        // The watch begins with this future, and nothing shows when the engine knows of it.
        for number in 1.. {
            assert!(number < 30, "a rename is never told");
            act(OperatorAction::Rename(
                named.clone(),
                lab.name(&format!("renamed{number}")),
            ))
            .await;
            if is_told(seconds(1)).await {
                break;
            }
        }
        for next in [
            OperatorAction::Start,
            OperatorAction::Kill,
            OperatorAction::Remove,
        ] {
            let next = next(named.clone());
            let what = format!("{next:?}");
            act(next).await;
            assert!(is_told(PATIENCE).await, "{what}");
        }
    };
    tokio::select! {
        ended = lab.engine().watch(tell) => panic!("nothing is told any more: {ended:?}"),
        () = acts => {}
    }
}
