//! Empty named volumes, in which an engine remembers the facts that hold replacements back.

use std::collections::BTreeMap;

use chrono::{TimeDelta, Utc};
use delegate_upgrader::container::{ContainerId, ImageId, Request};
use delegate_upgrader::engine::{Engine, Volume};
use delegate_upgrader::host::hold::{Rejected, note_first_seen, note_rejection, pause, read_records, resume};

use super::lab::Lab;

fn volume(name: &str, value: &str) -> Volume {
    Volume {
        name: name.to_owned(),
        labels: BTreeMap::from([("contract.example/volumes".to_owned(), value.to_owned())]),
    }
}

pub async fn volumes_are_found_by_label_and_keep_their_labels<L: Lab>(lab: &L) {
    let engine = lab.engine();
    let found = || engine.volumes("contract.example/volumes");
    engine
        .remove_volume("contract-volume")
        .await
        .expect("none is there");
    assert_eq!(found().await.expect("list"), []);
    let first = volume("contract-volume", "1");
    engine.create_volume(&first).await.expect("create");
    assert_eq!(found().await.expect("list"), std::slice::from_ref(&first));
    // If it is created again, it keeps its labels.
    engine
        .create_volume(&volume("contract-volume", "2"))
        .await
        .expect("create again");
    assert_eq!(found().await.expect("list"), [first]);
    assert_eq!(engine.volumes("contract.example/other").await.expect("list"), []);
    engine.remove_volume("contract-volume").await.expect("remove");
    assert_eq!(found().await.expect("list"), []);
}

pub async fn the_engine_stores_pauses_and_when_images_were_first_seen<L: Lab>(lab: &L) {
    let engine = lab.engine();
    let records = || async { read_records(engine).await.expect("read") };
    let now = Utc::now();
    let ada = Request::new(Some("ada"), Some("a fix"));
    let resumed = async |at| resume(engine, None, at, &ada).await.expect("resume");
    resumed(now).await;
    assert!(!resumed(now).await, "it was not paused");
    pause(engine, None, now, None, &ada).await.expect("pause");
    assert_eq!(records().await.pause("dd").map(|pause| pause.until), Some(None));
    // Another pause replaces it.
    let until = now + TimeDelta::hours(1);
    pause(engine, None, now + TimeDelta::seconds(1), Some(until), &ada)
        .await
        .expect("pause");
    let read = records().await.pause("dd").and_then(|pause| pause.until);
    assert_eq!(read.map(|until| until.timestamp()), Some(until.timestamp()));
    let end = now + TimeDelta::seconds(2);
    assert!(resumed(end).await);
    let mut all = records().await.pauses;
    all.retain(|pause| pause.delegate.is_none());
    let [over] = &all[..] else {
        panic!("a record says who ended it")
    };
    assert!(!over.lasts(end) && over.request == ada, "{over:?}");
    assert!(!resumed(end).await);
    // If it is noted again, the first time counts; images that were seen long ago are forgotten.
    let image = "contract.example/image:1";
    let long_ago = now - TimeDelta::days(91);
    note_first_seen(engine, "contract.example/old:1", long_ago)
        .await
        .expect("note");
    note_first_seen(engine, image, now).await.expect("note");
    note_first_seen(engine, image, until).await.expect("note");
    let seen = records().await;
    assert_eq!(
        seen.first_seen(image).map(|seen| seen.timestamp()),
        Some(now.timestamp())
    );
    assert_eq!(seen.first_seen("contract.example/old:1"), None);
}

pub async fn an_engine_remembers_rejections_and_counts_those_of_one_image<L: Lab>(lab: &L) {
    let engine = lab.engine();
    let now = Utc::now();
    let image = ("contract.example/image:1".into(), ImageId::new("sha256:1"));
    let note = |candidate: &str, delegate: &str, hours_ago: i64| {
        let (id, at) = (ContainerId::new(candidate), now - TimeDelta::hours(hours_ago));
        let rejected = Rejected::new(&id, delegate, (&image.0, &image.1), 1, at);
        note_rejection(engine, rejected, |attempt| TimeDelta::hours(attempt.into()))
    };
    // The last one is noted twice, and the first one is from long ago.
    for (candidate, delegate, hours_ago) in [
        ("f00", "other", 91 * 24),
        ("f01", "dd", 2),
        ("f02", "dd", 1),
        ("f02", "dd", 0),
    ] {
        note(candidate, delegate, hours_ago).await.expect("note");
    }
    let records = read_records(engine).await.expect("read");
    assert_eq!(records.rejected_of("other"), []);
    let rejected = records.rejected_of("dd");
    let [rejected] = &rejected[..] else {
        panic!("{rejected:?}")
    };
    assert_eq!((rejected.attempt, &rejected.image_id), (2, &image.1));
    assert_eq!(rejected.until - rejected.since, TimeDelta::hours(2));
    assert_eq!((now - rejected.since).num_minutes(), 60);
    engine
        .remove_volume("delegate-upgrader.rejected-f02")
        .await
        .expect("remove");
}

pub async fn an_engine_reports_a_stable_host_identity<L: Lab>(lab: &L) {
    let engine = lab.engine();
    let identity = engine.identity().await.expect("identity");
    assert!(!identity.trim().is_empty());
    assert_eq!(engine.identity().await.expect("identity"), identity, "it stays");
}
