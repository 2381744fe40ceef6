//! A delegate that lives in another container's network, or is linked to one, and that one stops in the middle.

use std::sync::Arc;

use delegate_upgrader::container::{ContainerId, RunState};
use serde_json::{Value, json};
use tokio::sync::Notify;

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

/// The one run of a process. The companion stops right before call `k` has its effect; `None` where there is no such
/// call, else whether that one asks a container to stop.
async fn stopped_at(host: &Host, k: usize) -> Option<bool> {
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
        host.twin
            .by_hand(OperatorAction::Stop("companion".to_owned()))
            .unwrap();
        // At once: it has no tasks.
        host.twin.crash(&host.find("companion").id, 0);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = stop => {}
        _ = host.once(NEW) => {}
    }
    host.twin.clear_faults();
    let calls = host.twin.calls();
    calls.get(k).map(|call| call.operation == Operation::Stop)
}

/// The companion stopped at call `k`, was away for a while, and came back; `false` where there is no such call.
async fn is_survived_at(change: Change, k: usize) -> bool {
    let (host, old) = host(change);
    let Some(is_stop) = stopped_at(&host, k).await else {
        return false;
    };
    let calls = host.twin.calls();
    let context = format!(
        "{:?} {:?} {:?}",
        calls[k],
        calls[k + 1..].first(),
        host.containers()
    );
    let has_successor = host
        .containers()
        .iter()
        .any(|(_, state, image)| image == NEW && *state == RunState::Running);
    let is_late = |index: usize| index > k || (index == k && !is_stop);
    let asked = calls
        .iter()
        .find(|call| call.operation == Operation::Stop && call.id.as_ref() == Some(&old));
    assert!(
        has_successor || !asked.is_some_and(|asked| is_late(asked.index)),
        "asked to stop all the same: {context}"
    );
    tokio::time::sleep(DRAIN * 2).await;
    let back = OperatorAction::Restart("companion".to_owned());
    host.twin.by_hand(back).unwrap();
    // The first run goes on with what was begun, the second one begins anew; none blames the image.
    let mut upgrader = host.upgrader(NEW);
    for _ in 0..2 {
        host.scheduled_run(&mut upgrader).await;
    }
    assert_eq!(host.names(), ["companion", "dd"], "{context}");
    let now = host.find("dd");
    assert_eq!(
        (now.image.as_str(), now.state),
        (NEW, RunState::Running),
        "{context}"
    );
    true
}

async fn assert_survived_at_every_call(change: Change) {
    let mut k = 0;
    while is_survived_at(change, k).await {
        k += 1;
    }
    assert!(k > 100, "{k}");
}

#[tokio::test(start_paused = true)]
async fn whoever_uses_the_network_of_a_container_that_stops_is_not_asked_to_stop() {
    assert_survived_at_every_call(in_its_network).await;
}

#[tokio::test(start_paused = true)]
async fn an_rm_delegate_in_the_network_of_a_container_that_stops_is_not_asked_to_stop() {
    assert_survived_at_every_call(fleeting_in_its_network).await;
}

#[tokio::test(start_paused = true)]
async fn no_image_is_blamed_for_a_link_to_a_container_that_stops() {
    assert_survived_at_every_call(linked).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_is_linked_to_a_container_that_stops_is_not_asked_to_stop() {
    assert_survived_at_every_call(linked_and_stop_first).await;
}
