//! An engine's reports about itself and its list, and its answers for objects that it does not have.

use std::time::Duration;

use delegate_upgrader::container::{ContainerId, ImageId, RunState, label};
use delegate_upgrader::engine::Engine;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::lab::Lab;
use super::steps::{PATIENCE, assert_not_found, created, nobody, seconds};
use crate::twin::Behaviour;

pub async fn the_engine_reports_its_version<L: Lab>(lab: &L) {
    let info = lab.engine().info().await.expect("info");
    assert_eq!(info.os, "linux");
    assert!(info.api.major == 1 && info.api.minor >= 40, "{}", info.api);
    assert!(
        !info.version.is_empty() && !info.architecture.is_empty(),
        "{info:?}"
    );
}

pub async fn the_engine_reports_where_it_stores_images_and_their_size<L: Lab>(lab: &L) {
    let storage = lab.engine().storage().await.expect("info");
    assert!(storage.root.is_absolute(), "{storage:?}");
    assert!(!storage.driver.is_empty(), "{storage:?}");
    let image = lab.image(Behaviour::default()).await;
    let document = lab.engine().inspect_image(&image).await.expect("inspect image");
    assert!(
        document["Size"].as_u64().is_some_and(|size| size > 0),
        "{document}"
    );
}

pub async fn the_list_includes_stopped_and_created_containers<L: Lab>(lab: &L) {
    let image = lab.image(Behaviour::default()).await;
    let mut body = lab.body(&image);
    body["Labels"]["io.example.colour"] = json!("green");
    body["Labels"][label::NAME] = json!("blue");
    let fresh = created(lab, "fresh", &body).await;
    let running = created(lab, "running", &body).await;
    let stopped = created(lab, "stopped", &body).await;
    for id in [&running, &stopped] {
        lab.engine().start(id).await.expect("start");
    }
    sleep(seconds(1)).await;
    lab.engine().stop(&stopped, seconds(10)).await.expect("stop");
    let listed = async |id: &ContainerId| {
        let rows = lab.engine().containers().await.expect("list");
        rows.into_iter().find(|row| row.id == *id).expect("listed")
    };
    for (id, name, state) in [
        (fresh, "fresh", RunState::Created),
        (running, "running", RunState::Running),
        (stopped, "stopped", RunState::Exited),
    ] {
        let row = listed(&id).await;
        assert_eq!(row.name, lab.name(name));
        assert_eq!(row.labels.get(label::NAME).map(String::as_str), Some("blue"));
        assert_eq!(row.labels.get("io.example.colour"), None);
        // The state may be a moment late; nothing depends on that.
        let begun = Instant::now();
        while listed(&id).await.state != state {
            assert!(begun.elapsed() < PATIENCE, "{name} is not listed as {state:?}");
            sleep(Duration::from_millis(50)).await;
        }
    }
}

pub async fn a_missing_container_or_image_is_not_found<L: Lab>(lab: &L) {
    let engine = lab.engine();
    assert_not_found(&engine.inspect(&nobody()).await);
    assert_not_found(&engine.start(&nobody()).await);
    assert_not_found(&engine.stop(&nobody(), Duration::ZERO).await);
    assert_not_found(&engine.restart(&nobody(), Duration::ZERO).await);
    assert_not_found(&engine.rename(&nobody(), &lab.name("nobody")).await);
    assert_not_found(
        &engine
            .set_restart_policy(&nobody(), &json!({ "Name": "no" }))
            .await,
    );
    assert_not_found(&engine.inspect_image("contract/nothing:1").await);
    engine.remove(&nobody()).await.expect("gone already");
    engine
        .remove_image(&ImageId::new(format!("sha256:{}", nobody().as_str())))
        .await
        .expect("gone already");
}
