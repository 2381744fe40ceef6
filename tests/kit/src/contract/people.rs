//! The effects of an operator's commands: kills, pauses, restarts, changed settings and networks, removed images.

use std::time::Duration;

use delegate_upgrader::container::{ContainerId, RunState};
use delegate_upgrader::engine::Engine;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::lab::Lab;
use super::steps::{
    LONG, assert_conflict, assert_not_found, created, ended, image_id_of, seconds, started, started_of,
    state_of, until, until_exited, until_gone,
};
use crate::twin::{Behaviour, OperatorAction};

async fn by_hand<L: Lab>(lab: &L, action: OperatorAction) {
    let what = format!("{action:?}");
    lab.by_hand(action)
        .await
        .unwrap_or_else(|error| panic!("{what}: {error}"));
}

async fn refused<L: Lab>(lab: &L, action: OperatorAction) {
    let what = format!("{action:?}");
    lab.by_hand(action)
        .await
        .expect_err(&format!("{what} is refused"));
}

/// A container that comes back after each end, and is past its first moments.
async fn always<L: Lab>(lab: &L, name: &str, behaviour: Behaviour) -> ContainerId {
    let image = lab.image(behaviour).await;
    let mut body = lab.body(&image);
    body["HostConfig"]["RestartPolicy"] = json!({ "Name": "always" });
    let id = started(lab, name, &body).await;
    sleep(seconds(1)).await;
    id
}

pub async fn a_kill_is_final<L: Lab>(lab: &L) {
    let id = always(lab, "killed", Behaviour::drains(seconds(20))).await;
    let name = lab.name("killed");
    by_hand(lab, OperatorAction::Kill(name.clone())).await;
    assert_eq!(until_exited(lab, &id).await.exit_code(), 137);
    sleep(seconds(2)).await;
    assert_eq!(
        state_of(lab, &id).await,
        RunState::Exited,
        "its policy does not bring it back"
    );
    refused(lab, OperatorAction::Kill(name.clone())).await;
    by_hand(lab, OperatorAction::Start(name)).await;
    assert_eq!(state_of(lab, &id).await, RunState::Running);
}

pub async fn a_restart_is_a_new_life_of_the_same_container<L: Lab>(lab: &L) {
    let id = always(lab, "restarted", Behaviour::default()).await;
    let first = lab.engine().inspect(&id).await.expect("inspect").started_at();
    by_hand(lab, OperatorAction::Restart(lab.name("restarted"))).await;
    let seen = lab.engine().inspect(&id).await.expect("inspect");
    assert_eq!((seen.state(), seen.restart_count()), (RunState::Running, 0));
    assert!(seen.started_at() > first);
    // A restart starts a stopped container.
    by_hand(lab, OperatorAction::Stop(lab.name("restarted"))).await;
    until_exited(lab, &id).await;
    by_hand(lab, OperatorAction::Restart(lab.name("restarted"))).await;
    assert_eq!(state_of(lab, &id).await, RunState::Running);
}

pub async fn paused_container_is_up_and_can_be_resumed<L: Lab>(lab: &L) {
    let id = started_of(lab, "paused", Behaviour::default()).await;
    let name = lab.name("paused");
    let first = lab.engine().inspect(&id).await.expect("inspect").started_at();
    by_hand(lab, OperatorAction::Pause(name.clone())).await;
    assert_eq!(state_of(lab, &id).await, RunState::Paused);
    refused(lab, OperatorAction::Pause(name.clone())).await;
    assert_conflict(&lab.engine().start(&id).await);
    assert_conflict(&lab.engine().remove(&id).await);
    lab.engine()
        .rename(&id, &lab.name("frozen"))
        .await
        .expect("rename");
    by_hand(lab, OperatorAction::Unpause(lab.name("frozen"))).await;
    let seen = lab.engine().inspect(&id).await.expect("inspect");
    assert_eq!((seen.state(), seen.started_at()), (RunState::Running, first));
    refused(lab, OperatorAction::Unpause(lab.name("frozen"))).await;
}

pub async fn a_paused_container_drains_when_asked_to_stop<L: Lab>(lab: &L) {
    let id = started_of(lab, "paused", Behaviour::drains(seconds(2))).await;
    by_hand(lab, OperatorAction::Pause(lab.name("paused"))).await;
    let begun = Instant::now();
    assert_eq!(ended(lab, &id, LONG).await.exit_code(), 0);
    assert!(begun.elapsed() >= seconds(2), "after {:?}", begun.elapsed());
}

pub async fn a_container_paused_while_it_drains_is_killed_at_its_deadline<L: Lab>(lab: &L) {
    let id = started_of(lab, "paused", Behaviour::drains(seconds(60))).await;
    lab.engine().stop(&id, seconds(12)).await.expect("stop");
    by_hand(lab, OperatorAction::Pause(lab.name("paused"))).await;
    assert_eq!(until_exited(lab, &id).await.exit_code(), 137);
}

pub async fn a_paused_container_can_be_killed_and_removed_by_force<L: Lab>(lab: &L) {
    let id = started_of(lab, "one", Behaviour::default()).await;
    by_hand(lab, OperatorAction::Pause(lab.name("one"))).await;
    by_hand(lab, OperatorAction::Kill(lab.name("one"))).await;
    assert_eq!(until_exited(lab, &id).await.exit_code(), 137);
    let id = started_of(lab, "two", Behaviour::default()).await;
    by_hand(lab, OperatorAction::Pause(lab.name("two"))).await;
    by_hand(lab, OperatorAction::Remove(lab.name("two"))).await;
    until_gone(lab, &id).await;
}

pub async fn changed_settings_are_read_back_without_a_restart<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    let mut body = lab.body(&image);
    body["HostConfig"]["Memory"] = json!(134_217_728_u64);
    let id = started(lab, "set", &body).await;
    let first = lab.engine().inspect(&id).await.expect("inspect").started_at();
    by_hand(lab, OperatorAction::SetMemory(lab.name("set"), 100_663_296)).await;
    by_hand(
        lab,
        OperatorAction::SetRestartPolicy(lab.name("set"), "always".to_owned()),
    )
    .await;
    let seen = lab.engine().inspect(&id).await.expect("inspect");
    assert_eq!(seen.document()["HostConfig"]["Memory"], json!(100_663_296_u64));
    assert_eq!(seen.restart_policy_text(), "always");
    assert_eq!((seen.state(), seen.started_at()), (RunState::Running, first));
}

pub async fn connecting_and_disconnecting_a_network_changes_the_addresses<L: Lab>(lab: &L) {
    let id = started_of(lab, "member", Behaviour::default()).await;
    let (name, network) = (lab.name("member"), lab.network().await);
    let addresses = async || {
        let seen = lab.engine().inspect(&id).await.expect("inspect");
        (seen.is_in(&network), seen.addresses().len())
    };
    refused(lab, OperatorAction::Disconnect(name.clone(), network.clone())).await;
    by_hand(lab, OperatorAction::Connect(name.clone(), network.clone())).await;
    assert_eq!(addresses().await, (true, 2));
    by_hand(lab, OperatorAction::Disconnect(name.clone(), network.clone())).await;
    assert_eq!(addresses().await, (false, 1));
    // The same for an ended container.
    ended(lab, &id, Duration::ZERO).await;
    by_hand(lab, OperatorAction::Connect(name.clone(), network.clone())).await;
    lab.engine().start(&id).await.expect("start");
    assert_eq!(addresses().await, (true, 2));
}

pub async fn a_disconnected_network_stays_disconnected_in_the_next_life<L: Lab>(lab: &L) {
    let id = started_of(lab, "member", Behaviour::default()).await;
    let (name, network) = (lab.name("member"), lab.network().await);
    by_hand(lab, OperatorAction::Connect(name.clone(), network.clone())).await;
    by_hand(lab, OperatorAction::Disconnect(name.clone(), "bridge".to_owned())).await;
    by_hand(lab, OperatorAction::Restart(name)).await;
    let seen = until(lab, &id, "running", |seen| seen.state() == RunState::Running).await;
    assert!(
        !seen.is_in("bridge") && seen.is_in(&network),
        "{}",
        seen.document()["NetworkSettings"]
    );
}

pub async fn a_forced_removal_only_untags_a_running_image<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    let image_id = image_id_of(lab, &image).await;
    let id = started(lab, "user", &lab.body(&image)).await;
    refused(lab, OperatorAction::RemoveImage(image_id.as_str().to_owned())).await;
    by_hand(lab, OperatorAction::RemoveImage(image.clone())).await;
    assert_not_found(&lab.engine().inspect_image(&image).await);
    assert_eq!(image_id_of(lab, image_id.as_str()).await, image_id);
    let seen = lab.engine().inspect(&id).await.expect("inspect");
    assert_eq!(
        (seen.state(), seen.image_reference()),
        (RunState::Running, image.as_str())
    );
}

pub async fn a_forced_removal_removes_the_image_of_a_stopped_container<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    let image_id = image_id_of(lab, &image).await;
    let id = created(lab, "user", &lab.body(&image)).await;
    by_hand(lab, OperatorAction::RemoveImage(image)).await;
    assert_not_found(&lab.engine().inspect_image(image_id.as_str()).await);
    assert_eq!(
        lab.engine().inspect(&id).await.expect("inspect").image_id(),
        image_id
    );
    // The container still has everything that it needs.
    lab.engine().start(&id).await.expect("start");
    assert_eq!(state_of(lab, &id).await, RunState::Running);
}

pub async fn a_tag_moves_to_the_newly_tagged_image<L: Lab>(lab: &L) {
    let (one, two) = (
        lab.image(Behaviour::default()).await,
        lab.image(Behaviour::drains(seconds(1))).await,
    );
    let (first, second) = (image_id_of(lab, &one).await, image_id_of(lab, &two).await);
    by_hand(lab, OperatorAction::Tag(two.clone(), one.clone())).await;
    assert_eq!(image_id_of(lab, &one).await, second);
    assert_eq!(image_id_of(lab, &two).await, second);
    assert_eq!(image_id_of(lab, first.as_str()).await, first);
}

/// A requested restart leads to another life, whatever happens to the previous one meanwhile.
pub async fn a_container_that_ends_during_its_restart_is_started_again<L: Lab>(lab: &L) {
    let lives_again = async |base: &str, act: fn(String) -> OperatorAction| {
        let id = started_of(lab, base, Behaviour::ignores_stop()).await;
        let first = lab.engine().inspect(&id).await.expect("inspect").started_at();
        lab.engine().restart(&id, seconds(12)).await.expect("restart");
        by_hand(lab, act(lab.name(base))).await;
        until(lab, &id, "in another life", |seen| {
            seen.state() == RunState::Running && seen.started_at() > first
        })
        .await;
    };
    tokio::join!(
        lives_again("killed-again", OperatorAction::Kill),
        lives_again("ended-again", OperatorAction::Stop),
        lives_again("paused-again", OperatorAction::Pause),
    );
}
