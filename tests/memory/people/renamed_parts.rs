//! Candidates that were given up, and the helpers of a replacement, which somebody renames.

use std::time::Duration;

use delegate_upgrader::engine::Engine as _;
use delegate_upgrader::reconcile::upgrade_run::Mode;
use serde_json::{Value, json};

use super::renames::{KEPT, draining, one, rename, running, upgrade_for};
use crate::rollout::host::{DRAIN, HOUR, Host, NEW, OLD, auto_remove, good, host_network, row};
use kit::twin::{Behaviour, Happened, OperatorAction};

/// They stay theirs, and are not taken for the candidate that somebody removed.
#[tokio::test(start_paused = true)]
async fn the_helpers_of_one_with_auto_remove() {
    for part in ["dd.standby", "dd.attempt"] {
        let host = Host::new();
        let change = |body: &mut Value| {
            host_network(body);
            auto_remove(body);
        };
        let (_, mut upgrader) = upgrade_for(&host, change, DRAIN / 2).await;
        rename(&host, part, KEPT);
        let kept = host.find(KEPT).id;
        let gone = OperatorAction::Remove("dd.candidate".to_owned());
        host.twin.by_hand(gone).unwrap();
        let before = host.events_of(&kept).len();
        host.finish(&mut upgrader).await;
        host.once(NEW).await;
        assert_eq!(running(&host), one("dd", NEW), "{part}");
        assert_eq!(host.names(), ["dd", KEPT]);
        let events = &host.events_of(&kept)[before..];
        assert!(events.is_empty(), "{part} {events:?}");
    }
}

/// One that somebody kept of an earlier attempt is theirs when the next one fails.
#[tokio::test(start_paused = true)]
async fn a_candidate_of_an_earlier_attempt() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    let old = host.run_with("dd", host_network);
    let kept = json!({ "Image": OLD, "Env": ["DELEGATE_NAME=docker-delegate"], "Labels": {
        "io.delegate-upgrader.name": "dd",
        "io.delegate-upgrader.replaces": old.as_str(),
        "io.delegate-upgrader.release": "1",
        "io.delegate-upgrader.previous-restart-policy": "unless-stopped",
    } });
    let kept = host.twin.create(KEPT, None, &kept).await.unwrap();
    let report = host.once(NEW).await;
    assert_eq!(row(&report, "dd").reason.as_str(), "rejected", "{report:?}");
    assert_eq!(running(&host), one("dd", OLD));
    assert_eq!(host.names(), ["dd", "dd.failed-1", KEPT]);
    assert_eq!(host.events_of(&kept).len(), 1);
}

/// A marker could not run, and no image is judged or published for it.
#[tokio::test(start_paused = true)]
async fn a_marker_that_somebody_kept_is_no_delegate() {
    let host = Host::new();
    host.publish(NEW, Behaviour::never_healthy());
    host.run_with("dd", auto_remove);
    host.once(NEW).await;
    rename(&host, "dd.failed-1", KEPT);
    let by_hand = OperatorAction::Restart(KEPT.to_owned());
    host.twin.by_hand(by_hand).unwrap();
    let report = host.once(NEW).await;
    let names: Vec<&str> = report
        .delegates
        .iter()
        .map(|delegate| delegate.container.as_str())
        .collect();
    assert_eq!(names, ["dd"]);
    assert_eq!(host.writes_on(KEPT), []);
}

/// It was asked to stop, which without a policy to lose only this process knows: it is no candidate again.
#[tokio::test(start_paused = true)]
async fn a_withdrawn_candidate_with_auto_remove() {
    let host = Host::new();
    host.publish(
        NEW,
        Behaviour {
            ready_after: Duration::from_secs(5),
            ..Behaviour::drains(HOUR / 2)
        },
    );
    let (old, mut upgrader) = upgrade_for(&host, auto_remove, Duration::from_secs(9)).await;
    let candidate = host.find("dd.candidate").id;
    host.twin.by_hand(OperatorAction::Pause("dd".to_owned())).unwrap();
    host.go_on(&mut upgrader, Duration::from_secs(20)).await;
    host.twin
        .by_hand(OperatorAction::Unpause("dd".to_owned()))
        .unwrap();
    let names = host.names();
    let withdrawn = names.iter().find(|name| name.contains("withdrawn"));
    rename(&host, withdrawn.unwrap_or_else(|| panic!("{names:?}")), KEPT);
    host.finish(&mut upgrader).await;
    host.go_on(&mut upgrader, HOUR).await;
    let given = host.events_of(&candidate).into_iter();
    let given =
        given.filter(|event| event.name == "dd.candidate" && matches!(event.what, Happened::Renamed { .. }));
    assert_eq!(given.count(), 0);
    assert_eq!(
        (host.names(), host.find("dd").id),
        (vec!["dd".to_owned(), KEPT.to_owned()], old)
    );
}

/// It was asked to stop and has lost its policy: it is no candidate again for the old one that still drains.
#[tokio::test(start_paused = true)]
async fn a_withdrawn_candidate_while_the_old_one_drains() {
    let host = Host::new();
    let drains = Behaviour::drains(HOUR / 2);
    host.twin.add_image(OLD, host.twin.image(drains.clone()));
    host.publish(NEW, Behaviour { port: 4000, ..drains });
    let (old, mut upgrader) = upgrade_for(&host, host_network, Duration::from_secs(30)).await;
    let candidate = host.find("dd.candidate").id;
    let id = candidate.as_str();
    for act in [OperatorAction::Start, OperatorAction::Pause] {
        host.twin.by_hand(act(id.to_owned())).unwrap();
    }
    assert!(host.go_on(&mut upgrader, DRAIN / 2).await.is_none());
    let names = host.names();
    let withdrawn = names.iter().find(|name| name.contains("withdrawn"));
    rename(&host, withdrawn.unwrap_or_else(|| panic!("{names:?}")), KEPT);
    let before = host.events_of(&candidate).len();
    host.finish(&mut upgrader).await;
    let events = &host.events_of(&candidate)[before..];
    let renamed = events
        .iter()
        .any(|event| matches!(event.what, Happened::Renamed { .. }));
    assert!(!renamed, "{events:?}");
    assert_eq!(
        (host.names(), host.find("dd").id),
        (vec!["dd".to_owned(), KEPT.to_owned()], old)
    );
}

/// Another upgrader asked it to stop, and the one that withdraws its successor knows nothing of that.
#[tokio::test(start_paused = true)]
async fn the_old_one_of_a_successor_that_another_upgrader_withdraws() {
    let host = Host::new();
    host.publish(NEW, good());
    let (old, _) = upgrade_for(&host, |_| {}, Duration::from_secs(30)).await;
    rename(&host, &draining(&host), KEPT);
    host.twin.by_hand(OperatorAction::Kill("dd".to_owned())).unwrap();
    let mut another = host.upgrader(NEW);
    another.start_run(Mode::Upgrade);
    host.finish(&mut another).await;
    assert_eq!(
        (host.find(KEPT).id, running(&host)),
        (old.clone(), one(KEPT, OLD))
    );
    assert_eq!(host.restart_policy(KEPT), "unless-stopped");
    tokio::time::sleep(2 * DRAIN).await;
    assert_eq!(running(&host), one(KEPT, OLD));
}
