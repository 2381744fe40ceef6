//! The steps that the rules share: containers in a rule's initial state, and polls for the expected state.

use std::time::Duration;

use delegate_upgrader::container::{ContainerId, ImageId, Inspected, RunState};
use delegate_upgrader::engine::{Engine, EngineError};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::lab::Lab;
pub(super) use crate::lab::PATIENCE;
use crate::twin::Behaviour;

/// A grace that no check waits for.
pub(super) const LONG: Duration = Duration::from_secs(600);

/// Within this time a request reaches a busy engine. The engine's client itself waits longer.
pub(super) const SOON: Duration = Duration::from_millis(900);

pub(super) const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// An id that no engine assigns.
pub(super) fn nobody() -> ContainerId {
    ContainerId::new("0123456789abcdef".repeat(4))
}

pub(super) async fn created<L: Lab>(lab: &L, name: &str, body: &Value) -> ContainerId {
    lab.engine()
        .create(&lab.name(name), None, body)
        .await
        .expect("create")
}

pub(super) async fn created_of<L: Lab>(lab: &L, name: &str, behaviour: Behaviour) -> ContainerId {
    let image = lab.image(behaviour).await;
    created(lab, name, &lab.body(&image)).await
}

/// A container that has just started.
pub(super) async fn started<L: Lab>(lab: &L, name: &str, body: &Value) -> ContainerId {
    let id = created(lab, name, body).await;
    lab.engine().start(&id).await.expect("start");
    id
}

/// A running container that is past its first moments: a process that has not set its traps yet does not drain.
pub(super) async fn started_of<L: Lab>(lab: &L, name: &str, behaviour: Behaviour) -> ContainerId {
    let image = lab.image(behaviour).await;
    let id = started(lab, name, &lab.body(&image)).await;
    sleep(seconds(1)).await;
    id
}

/// Polls a container until the condition holds; `what` names it in the failure.
pub(super) async fn until<L: Lab>(
    lab: &L,
    id: &ContainerId,
    what: &str,
    so: impl Fn(&Inspected) -> bool,
) -> Inspected {
    let begun = Instant::now();
    loop {
        let seen = lab.engine().inspect(id).await.expect("inspect");
        if so(&seen) {
            return seen;
        }
        let state = &seen.document()["State"];
        assert!(
            begun.elapsed() < PATIENCE,
            "not {what} within {PATIENCE:?}: {state}"
        );
        sleep(Duration::from_millis(50)).await;
    }
}

pub(super) async fn until_exited<L: Lab>(lab: &L, id: &ContainerId) -> Inspected {
    until(lab, id, "exited", |seen| seen.state() == RunState::Exited).await
}

/// Stops a container, and waits for its end: on a busy machine the call returns before it.
pub(super) async fn ended<L: Lab>(lab: &L, id: &ContainerId, grace: Duration) -> Inspected {
    lab.engine().stop(id, grace).await.expect("stop");
    until_exited(lab, id).await
}

pub(super) async fn until_gone<L: Lab>(lab: &L, id: &ContainerId) {
    let begun = Instant::now();
    while lab.engine().inspect(id).await.is_ok() {
        assert!(begun.elapsed() < PATIENCE, "{id} is still there");
        sleep(Duration::from_millis(50)).await;
    }
}

pub(super) async fn state_of<L: Lab>(lab: &L, id: &ContainerId) -> RunState {
    lab.engine().inspect(id).await.expect("inspect").state()
}

pub(super) async fn image_id_of<L: Lab>(lab: &L, reference: &str) -> ImageId {
    let document = lab
        .engine()
        .inspect_image(reference)
        .await
        .expect("inspect image");
    ImageId::new(document["Id"].as_str().expect("the image's Id"))
}

pub(super) fn assert_not_found<T: std::fmt::Debug>(outcome: &Result<T, EngineError>) {
    assert!(matches!(outcome, Err(EngineError::NotFound(_))), "{outcome:?}");
}

pub(super) fn assert_conflict<T: std::fmt::Debug>(outcome: &Result<T, EngineError>) {
    assert!(matches!(outcome, Err(EngineError::Conflict(_))), "{outcome:?}");
}
