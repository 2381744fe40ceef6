//! Names: unique, valid, and changed by a rename.

use delegate_upgrader::container::RunState;
use delegate_upgrader::engine::{Engine, EngineError};

use super::lab::Lab;
use super::steps::{assert_conflict, created, created_of, started_of};
use crate::twin::Behaviour;

pub async fn a_name_is_a_mutex<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    let (name, body) = (lab.name("mutex"), lab.body(&image));
    let create = || lab.engine().create(&name, None, &body);
    let (one, two) = tokio::join!(create(), create());
    let (won, lost) = if one.is_ok() { (one, two) } else { (two, one) };
    won.expect("one of two creates");
    assert_conflict(&lost);
    assert_conflict(&create().await);
}

pub async fn a_rename_goes_by_id_and_keeps_the_id<L: Lab>(lab: &L) {
    let id = started_of(lab, "before", Behaviour::default()).await;
    let name = lab.name("after.draining-1700000000");
    lab.engine().rename(&id, &name).await.expect("rename");
    let seen = lab.engine().inspect(&id).await.expect("inspect");
    assert_eq!((seen.id(), seen.name()), (id, name.as_str()));
    assert_eq!(seen.state(), RunState::Running);
}

pub async fn a_rename_to_a_taken_name_is_a_conflict<L: Lab>(lab: &L) {
    let one = created_of(lab, "one", Behaviour::default()).await;
    created_of(lab, "two", Behaviour::default()).await;
    assert_conflict(&lab.engine().rename(&one, &lab.name("two")).await);
    let seen = lab.engine().inspect(&one).await.expect("inspect");
    assert_eq!(seen.name(), lab.name("one"));
}

pub async fn a_rename_frees_the_old_name<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    let body = lab.body(&image);
    let old = created(lab, "delegate", &body).await;
    let new = created(lab, "delegate.candidate", &body).await;
    lab.engine()
        .rename(&old, &lab.name("delegate.draining-1"))
        .await
        .expect("rename the old one");
    lab.engine()
        .rename(&new, &lab.name("delegate"))
        .await
        .expect("rename the new one");
    let seen = lab.engine().inspect(&new).await.expect("inspect");
    assert_eq!(seen.name(), lab.name("delegate"));
}

pub async fn a_rename_to_its_own_name_is_refused_but_not_a_conflict<L: Lab>(lab: &L) {
    let id = created_of(lab, "same", Behaviour::default()).await;
    let outcome = lab.engine().rename(&id, &lab.name("same")).await;
    assert!(matches!(outcome, Err(EngineError::Refused { .. })), "{outcome:?}");
}

pub async fn an_invalid_name_is_refused<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    let outcome = lab.engine().create("no/name", None, &lab.body(&image)).await;
    assert!(
        matches!(outcome, Err(EngineError::Refused { status: 400, .. })),
        "{outcome:?}"
    );
}
