//! Images that somebody removes by force: `docker rmi -f`, as clean-up jobs do.

use std::time::Duration;

use delegate_upgrader::container::{ImageId, RunState};
use delegate_upgrader::reconcile::upgrade_run::Mode;

use crate::rollout::host::{DRAIN, Host, NEW, OLD, auto_remove, good, host_network, row};
use kit::twin::{Behaviour, Fault, Operation, OperatorAction};

fn is_there(host: &Host, image: &ImageId) -> bool {
    host.twin.images().contains(image)
}

#[tokio::test(start_paused = true)]
async fn the_new_image_is_removed_while_the_old_container_drains() {
    for is_auto_remove in [false, true] {
        let host = Host::new();
        let image = host.publish(NEW, good());
        let old = host.run_with("dd", |body| {
            host_network(body);
            if is_auto_remove {
                auto_remove(body);
            }
        });
        let mut upgrader = host.upgrader(NEW);
        upgrader.start_run(Mode::Upgrade);
        assert!(host.go_on(&mut upgrader, DRAIN / 2).await.is_none());
        host.twin.force_remove_image(&image);
        let report = host.finish(&mut upgrader).await;
        let dd = row(&report, "dd");
        assert_eq!(dd.reason.as_str(), "inconclusive", "{report:?}");
        assert!(
            dd.message
                .contains("the image was removed from this host meanwhile"),
            "{}",
            dd.message
        );
        let (told, ended, _) = host.end_of(&old).unwrap();
        assert_eq!(ended - told, DRAIN);
        assert_eq!(host.names(), ["dd"]);
        assert_eq!(
            (host.find("dd").image.as_str(), host.find("dd").state),
            (OLD, RunState::Running)
        );
        assert_eq!(host.auto_remove("dd"), is_auto_remove);
        // The next run pulls it again.
        let report = host.scheduled_run(&mut upgrader).await;
        assert!(!report.has_failures(), "{report:?}");
        assert!(is_there(&host, &image));
        assert_eq!(
            (host.names(), host.find("dd").image.as_str()),
            (vec!["dd".to_owned()], NEW)
        );
    }
}

/// The candidate cannot start any more, and what is to come back instead follows its original until that vanishes.
#[tokio::test(start_paused = true)]
async fn the_new_image_is_removed_and_the_draining_one_with_auto_remove_is_changed() {
    let host = Host::new();
    let image = host.publish(NEW, good());
    let old = host.run_with("dd", |body| {
        host_network(body);
        auto_remove(body);
    });
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    assert!(host.go_on(&mut upgrader, DRAIN / 4).await.is_none());
    host.twin.force_remove_image(&image);
    assert!(host.go_on(&mut upgrader, DRAIN / 4).await.is_none());
    for bytes in [3_000_000_000, 4_000_000_000] {
        let id = old.as_str().to_owned();
        host.twin.by_hand(OperatorAction::SetMemory(id, bytes)).unwrap();
        assert!(host.go_on(&mut upgrader, DRAIN / 8).await.is_none());
    }
    host.finish(&mut upgrader).await;
    let (told, ended, _) = host.end_of(&old).unwrap();
    assert_eq!(ended - told, DRAIN);
    let dd = host.find("dd");
    assert_eq!((host.names(), dd.image.as_str()), (vec!["dd".to_owned()], OLD));
    let document = host.twin.document("dd").unwrap();
    assert_eq!(document["HostConfig"]["Memory"], 4_000_000_000_u64);
    assert!(host.auto_remove("dd"));
}

#[tokio::test(start_paused = true)]
async fn the_new_image_is_removed_between_create_and_start() {
    for change in [|_: &mut _| (), auto_remove, host_network] {
        let host = Host::new();
        let image = host.publish(NEW, good());
        host.run_with("aa", change);
        host.run("bb");
        // The engine has a bad moment, and somebody tidies up before it is over.
        host.twin.set_faults(|call| match call.operation {
            Operation::Start if call.subject.ends_with("candidate") => Fault::Refuse(503),
            _ => Fault::None,
        });
        let mut upgrader = host.upgrader(NEW);
        upgrader.start_run(Mode::Upgrade);
        assert!(
            host.go_on(&mut upgrader, DRAIN + Duration::from_secs(1))
                .await
                .is_none()
        );
        host.twin.force_remove_image(&image);
        host.twin.clear_faults();
        let report = host.finish(&mut upgrader).await;
        assert_eq!(row(&report, "aa").reason.as_str(), "inconclusive", "{report:?}");
        assert_eq!(host.names(), ["aa", "bb"]);
        let report = host.once(NEW).await;
        assert!(!report.has_failures(), "{report:?}");
        assert_eq!(host.find("aa").image, NEW);
        assert_eq!(host.find("bb").image, NEW);
    }
}

/// Between two lives it loses its policy before its name. Its candidate's label remembers that, also for another process.
#[tokio::test(start_paused = true)]
async fn the_old_image_is_removed_after_a_crashing_one_was_stopped() {
    let host = Host::new();
    host.twin
        .set_behaviour(OLD, &Behaviour::exits(Duration::from_secs(5), 2));
    host.run_with("aa", host_network);
    let document = host.twin.document("aa").unwrap();
    let image = document["Image"].as_str().map(ImageId::new).unwrap();
    host.publish(NEW, good());
    // By then there is a minute between two lives, of five seconds each.
    tokio::time::sleep(Duration::from_secs(600)).await;
    for _ in 0..10 {
        if host.find("aa").state != RunState::Restarting {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
    assert_eq!(host.find("aa").state, RunState::Restarting);
    // The process ends while it waits for the answer.
    host.twin.set_faults(|call| match call.operation {
        Operation::Stop => Fault::HangAfter,
        _ => Fault::None,
    });
    let mut upgrader = host.upgrader(NEW);
    upgrader.start_run(Mode::Upgrade);
    let work = host.go_on(&mut upgrader, Duration::from_secs(300));
    let ended = tokio::time::timeout(Duration::from_secs(30), work).await;
    assert!(ended.is_err(), "{ended:?}");
    drop(upgrader);
    host.twin.clear_faults();
    assert_eq!(host.names(), ["aa", "aa.candidate"]);
    assert_eq!(policy_of(&host, "aa"), "no");
    assert_eq!(host.find("aa.candidate").state, RunState::Created);
    host.twin.force_remove_image(&image);
    let report = host.once(NEW).await;
    assert!(!report.has_failures(), "{report:?}");
    assert_eq!(host.names(), ["aa"]);
    assert_eq!(host.find("aa").image, NEW);
    assert_ne!(policy_of(&host, "aa"), "no");
}

fn policy_of(host: &Host, name: &str) -> String {
    let document = host.twin.document(name).unwrap();
    let policy = document["HostConfig"]["RestartPolicy"]["Name"].as_str();
    policy.unwrap_or_default().to_owned()
}

#[tokio::test(start_paused = true)]
async fn the_image_of_the_delegate_itself_is_removed() {
    let host = Host::new();
    let id = host.run("dd");
    let image = host.twin.document("dd").unwrap()["Image"]
        .as_str()
        .map(ImageId::new)
        .unwrap();
    let removed = host.twin.force_remove_image(&image);
    let mut upgrader = host.upgrader(NEW);
    let planned = upgrader.plan(|_| ()).await.unwrap();
    let report = host.scheduled_run(&mut upgrader).await;
    let dd = row(&report, "dd");
    assert_eq!(
        (dd.reason.as_str(), dd.cause.as_deref()),
        ("obstacle", Some("image_removed"))
    );
    assert_eq!(planned[0].message, dd.message, "plan and run agree");
    assert!(
        dd.message
            .ends_with(&format!("run docker pull {OLD}, or recreate the delegate")),
        "{}",
        dd.message
    );
    assert_eq!(host.writes_on("dd"), []);
    assert!(
        !host
            .twin
            .writes()
            .iter()
            .any(|call| call.operation == Operation::Pull)
    );
    // As the line says.
    host.twin.add_image(OLD, removed);
    assert!(!host.scheduled_run(&mut upgrader).await.has_failures());
    assert_ne!(host.find("dd").id, id);
}
