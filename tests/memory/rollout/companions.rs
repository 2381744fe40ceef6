//! A delegate lives in another container's network, or is linked to one, and that container stops in the middle.

use std::sync::Arc;

use delegate_upgrader::container::{ContainerId, RunState};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::faults::stride;
use super::host::{DRAIN, Host, NEW, OLD, auto_remove, published_port};
use kit::twin::{Fault, Operation, OperatorAction};

type Change = fn(&mut Value, &ContainerId);

fn in_its_network(body: &mut Value, companion: &ContainerId) {
    body["HostConfig"]["NetworkMode"] = json!(format!("container:{}", companion.as_str()));
}

fn linked(body: &mut Value, _: &ContainerId) {
    body["HostConfig"]["Links"] = json!(["companion:db"]);
}

fn linked_and_stop_first(body: &mut Value, companion: &ContainerId) {
    linked(body, companion);
    published_port(body);
}

fn fleeting_in_its_network(body: &mut Value, companion: &ContainerId) {
    in_its_network(body, companion);
    auto_remove(body);
}

fn host(change: Change) -> (Host, ContainerId) {
    let host = Host::new();
    let companion = host.twin.run("companion", &json!({ "Image": OLD }));
    let old = host.run_with("dd", |body| change(body, &companion));
    (host, old)
}

/// One run of a process. The companion stops right before call `k` takes effect; `false` if there are fewer calls.
async fn stopped_at(host: &Host, k: usize) -> bool {
    let reached = Arc::new(Notify::new());
    let reach = Arc::clone(&reached);
    host.twin.set_faults(move |call| {
        if call.index == k {
            reach.notify_one();
        }
        Fault::None
    });
    let stop = async {
        reached.notified().await;
        host.by_hand(OperatorAction::Stop, "companion");
        // It ends at once, since it has no tasks.
        host.twin.crash(&host.find("companion").id, 0);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = stop => {}
        _ = host.once(NEW) => {}
    }
    host.twin.clear_faults();
    host.twin.calls().len() > k
}

/// The companion stops at call `k`, is away for a while, and comes back; `false` if there are fewer calls.
async fn is_survived_at(change: Change, k: usize) -> bool {
    let (host, old) = host(change);
    if !stopped_at(&host, k).await {
        return false;
    }
    let calls = host.twin.calls();
    let containers = host.containers();
    let context = format!("{:?} {:?} {containers:?}", calls[k], calls[k + 1..].first());
    let mut successors = containers.iter();
    let has_successor = successors.any(|(_, state, image)| image == NEW && *state == RunState::Running);
    // The list of the next observation shows that it stopped.
    let mut later = calls
        .iter()
        .skip(k)
        .skip_while(|call| call.operation != Operation::Containers);
    let is_asked = later.any(|call| call.operation == Operation::Stop && call.id.as_ref() == Some(&old));
    assert!(
        has_successor || !is_asked,
        "asked to stop all the same: {context}"
    );
    tokio::time::sleep(DRAIN * 2).await;
    host.by_hand(OperatorAction::Restart, "companion");
    // The first run finishes the replacement, the second one starts over; neither blames the image.
    let mut upgrader = host.upgrader(NEW);
    for _ in 0..2 {
        host.scheduled_run(&mut upgrader).await;
    }
    host.by_hand(OperatorAction::Remove, "companion");
    host.assert_settled_on("dd", NEW, &context);
    true
}

async fn assert_survived_at_every_call(change: Change) {
    let mut k = 0;
    while is_survived_at(change, k).await {
        k += stride(3);
    }
    assert!(k > 100, "{k}");
}

#[tokio::test(start_paused = true)]
async fn keeps_delegate_in_the_network_of_a_stopping_container() {
    assert_survived_at_every_call(in_its_network).await;
}

#[tokio::test(start_paused = true)]
async fn does_not_stop_an_rm_delegate_in_the_network_of_a_container_that_stops() {
    assert_survived_at_every_call(fleeting_in_its_network).await;
}

#[tokio::test(start_paused = true)]
async fn a_link_to_a_stopping_container_does_not_blame_the_image() {
    assert_survived_at_every_call(linked).await;
}

#[tokio::test(start_paused = true)]
async fn does_not_stop_a_delegate_that_is_linked_to_a_container_that_stops() {
    assert_survived_at_every_call(linked_and_stop_first).await;
}
